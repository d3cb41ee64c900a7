import { expect, test } from "vitest";
import { toSrt, toText } from "./subtitles";

const segments = [
  { start: 0, end: 1.5, text: " Ever tried. ", speaker: "A" },
  { start: 1.5, end: 2, text: "Ever failed.", speaker: "A" },
  { start: 3661.0004, end: 3661.0004, text: "No matter.", speaker: "B" },
  { start: 4000, end: 4001, text: "  ", speaker: "B" },
];

test("cues are numbered, timed to the millisecond, and empty ones left out", () => {
  expect(toSrt(segments)).toBe(
    "1\n00:00:00,000 --> 00:00:01,500\nEver tried.\n\n2\n00:00:01,500 --> 00:00:02,000\nEver failed.\n\n3\n01:01:01,000 --> 01:01:01,001\nNo matter.\n",
  );
});

test("turns are paragraphs", () => {
  expect(toText(segments.slice(0, 3))).toBe("A: Ever tried. Ever failed.\n\nB: No matter.\n");
  expect(toText([])).toBe("");
});
