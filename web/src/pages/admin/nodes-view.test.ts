import { expect, test } from "vitest";
import { lookOf } from "./nodes-view";

const well = { is_responding: true, is_draining: false, is_paused: false, failing: [] as string[], models: [{ name: "whisper-base", bytes: 1, is_running: true }] };

test("a process looks as the worst of what is true of it", () => {
  expect(lookOf(well)).toBe("works");
  expect(lookOf({ ...well, failing: ["disk"] })).toBe("trouble");
  expect(lookOf({ ...well, is_paused: true })).toBe("trouble");
  expect(lookOf({ ...well, models: [{ name: "whisper-base", bytes: 1, is_running: false }] })).toBe("trouble");
  expect(lookOf({ ...well, is_draining: true, failing: ["disk"] })).toBe("draining");
  expect(lookOf({ ...well, is_responding: false, is_draining: true })).toBe("silent");
});
