import { expect, it } from "vitest";
import { toSrt, toText } from "./export";
import { withLine, type Line, type Paragraph } from "./transcript";

function paragraphs(...lines: [number, number, string, (number | null)?][]): Paragraph[] {
  return lines
    .map(([start, end, text, speaker = null], id): Line => ({ id, part: 0, start, end, text, speaker }))
    .reduce<Paragraph[]>((all, line) => withLine(all, line), []);
}

const named = (speaker: number) => `Speaker ${speaker + 1}`;

it("writes a text with its speakers", () => {
  const all = paragraphs([0, 1, "Good", 0], [1, 2, "morning.", 0], [2, 3, "Hello.", 1]);
  expect(toText(all, named)).toBe("Speaker 1: Good morning.\n\nSpeaker 2: Hello.\n");
  expect(toText(paragraphs([0, 1, "Alone."]), named)).toBe("Alone.\n");
  expect(toText([], named)).toBe("");
});

it("writes subtitles of two lines that do not overlap", () => {
  const all = paragraphs(
    [0.5, 2, "It was the best of times,"],
    [2, 3.5, "it was the worst of times,"],
    [3.5, 5, "it was the age of wisdom."],
    [3601.25, 3602, "Much later --> so it is."],
  );
  expect(toSrt(all, named)).toBe(
    [
      "1\n00:00:00,500 --> 00:00:05,000\nIt was the best of times, it was the\nworst of times, it was the age of wisdom.\n",
      "2\n01:00:01,250 --> 01:00:02,000\nMuch later → so it is.\n",
    ].join("\n"),
  );
});

it("cuts what is too long for a subtitle, in proportion", () => {
  const words = Array.from({ length: 60 }, (_, index) => `word${index}`).join(" ");
  const srt = toSrt(paragraphs([0, 30, words]), named);
  const times = [...srt.matchAll(/(\S+) --> (\S+)/g)].map((match) => [match[1], match[2]]);
  expect(times.length).toBeGreaterThan(3);
  expect(times.at(-1)?.[1]).toBe("00:00:30,000");
  for (const row of srt.split("\n")) expect(row.length).toBeLessThanOrEqual(46);
  expect(srt.replaceAll(/^\d+$|^.*-->.*$/gm, " ").split(/\s+/).join(" ").trim()).toBe(words);
});

it("names a speaker where another one begins", () => {
  const all = paragraphs([0, 1, "One.", 0], [1, 2, "Two.", 1], [4, 5, "Still two.", 1]);
  expect(toSrt(all, named).match(/Speaker \d/g)).toEqual(["Speaker 1", "Speaker 2"]);
});
