import { describe, expect, it } from "vitest";
import { everyDay, labelled, ticks } from "./chart";

describe("everyDay", () => {
  const today = new Date("2025-03-02T23:59:00Z");

  it("fills days without use and ends today in UTC", () => {
    const days = everyDay([{ date: "2025-02-28", transcripts: 2, duration_seconds: 90, words: 30 }], 4, today);
    expect(days.map((day) => day.date)).toEqual(["2025-02-27", "2025-02-28", "2025-03-01", "2025-03-02"]);
    expect(days[1]).toEqual({ date: "2025-02-28", minutes: 1.5, transcripts: 2, words: 30 });
    expect(days[3]).toEqual({ date: "2025-03-02", minutes: 0, transcripts: 0, words: 0 });
  });

  it("leaves out what is before the period", () => {
    const days = everyDay([{ date: "2024-01-01", transcripts: 2, duration_seconds: 90, words: 30 }], 7, today);
    expect(days).toHaveLength(7);
    expect(days.every((day) => day.transcripts === 0)).toBe(true);
  });
});

describe("ticks", () => {
  it("are round and reach the highest value", () => {
    expect(ticks(0)).toEqual([0, 1]);
    expect(ticks(0.2)).toEqual([0, 1]);
    expect(ticks(1)).toEqual([0, 1]);
    expect(ticks(3)).toEqual([0, 1, 2, 3]);
    expect(ticks(97)).toEqual([0, 50, 100]);
    expect(ticks(2600)).toEqual([0, 1000, 2000, 3000]);
    for (const most of [5, 17, 60, 99, 101, 12345, 9.5]) {
      const found = ticks(most);
      expect(found.at(-1)).toBeGreaterThanOrEqual(most);
      expect(found.length).toBeLessThanOrEqual(7);
      expect(new Set(found).size).toBe(found.length);
    }
  });

  it("survive what is no number", () => {
    expect(ticks(Number.NaN)).toEqual([0, 1]);
    expect(ticks(Number.POSITIVE_INFINITY)).toEqual([0, 1]);
  });
});

describe("labelled", () => {
  it("has the last day and no more than there is room for", () => {
    expect(labelled(7, 7)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(labelled(30, 5)).toEqual([5, 11, 17, 23, 29]);
    expect(labelled(90, 4).length).toBeLessThanOrEqual(4);
    expect(labelled(90, 0)).toEqual([89]);
    expect(labelled(0, 5)).toEqual([]);
  });
});
