import { expect, test } from "vitest";
import { momentOf, pieces, placeOf } from "./highlight";

test("highlights count characters, not code units", () => {
  expect(pieces("🎙 the budget", [{ start: 6, end: 12 }])).toEqual([
    { text: "🎙 the ", marked: false },
    { text: "budget", marked: true },
  ]);
});

test("highlights in any order, overlapping or outside the text lose no character", () => {
  const found = pieces("abcdef", [{ start: 4, end: 99 }, { start: 1, end: 3 }, { start: 2, end: 3 }, { start: 2, end: 2 }, { start: 50, end: 60 }]);
  expect(found.map((piece) => piece.text).join("")).toBe("abcdef");
  expect(found.filter((piece) => piece.marked).map((piece) => piece.text)).toEqual(["bc", "ef"]);
  expect(pieces("", [{ start: 0, end: 3 }])).toEqual([]);
  expect(pieces("abc", [])).toEqual([{ text: "abc", marked: false }]);
});

test("a hit goes to the segment of its first word", () => {
  expect(momentOf({ start_time: 10, highlights: [{ start: 40, start_time: 31 }, { start: 5, start_time: 12.5 }] })).toBe(12.5);
  expect(momentOf({ start_time: 10, highlights: [] })).toBe(10);
  expect(placeOf(7, 12.3456)).toBe("/t/7?at=12.35");
});
