import { expect, test } from "vitest";
import { toSrt, toText, turnsOf } from "./subtitles";

const segments = [
  { start: 0, end: 1.5, text: " Ever tried. ", speaker: "A" },
  { start: 1.5, end: 2, text: "Ever failed.", speaker: "A" },
  { start: 3661.0004, end: 3661.0004, text: "No matter.", speaker: "B" },
  { start: 4000, end: 4001, text: "  ", speaker: "B" },
];
const named = (label: string) => `Speaker ${label}`;

test("cues are numbered, timed to the millisecond, and empty ones left out", () => {
  expect(toSrt(segments, named)).toBe(
    "1\n00:00:00,000 --> 00:00:01,500\nSpeaker A: Ever tried.\n\n2\n00:00:01,500 --> 00:00:02,000\nEver failed.\n\n3\n01:01:01,000 --> 01:01:01,001\nSpeaker B: No matter.\n",
  );
});

test("turns are paragraphs that begin with the name that is shown", () => {
  expect(toText(segments.slice(0, 3), named)).toBe("Speaker A: Ever tried. Ever failed.\n\nSpeaker B: No matter.\n");
  expect(toText([], named)).toBe("");
});

test("one voice that says everything is not named", () => {
  expect(turnsOf(segments.slice(0, 2))).toEqual([{ speaker: "", text: "Ever tried. Ever failed." }]);
  expect(toText(segments.slice(0, 2), named)).toBe("Ever tried. Ever failed.\n");
  expect(toSrt(segments.slice(0, 1), named)).toBe("1\n00:00:00,000 --> 00:00:01,500\nEver tried.\n");
});
