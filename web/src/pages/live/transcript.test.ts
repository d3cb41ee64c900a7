import { describe, expect, it } from "vitest";
import { between, endsSentence, readings, speakersOf, tail, textOf, withLine, withPart, type Line, type Paragraph } from "./transcript";

let next = 0;
function line(start: number, text: string, speaker: number | null = null, part = 0): Line {
  return { id: (next += 1), part, start, end: start + 1, text, speaker };
}

function paragraphs(...lines: Line[]): Paragraph[] {
  return lines.reduce<Paragraph[]>((all, each) => withLine(all, each), []);
}

function texts(all: Paragraph[]): string[] {
  return all.map((paragraph) => textOf(paragraph.lines));
}

describe("paragraphs", () => {
  it("end at a pause, another speaker and another part", () => {
    const all = paragraphs(line(0, "It was the best"), line(1, "of times."), line(6, "After a pause."), line(7, "Really?", 1), line(8, "Later.", 1, 1));
    expect(texts(all)).toEqual(["It was the best of times.", "After a pause.", "Really?", "Later."]);
    expect([all[0]?.start, all[0]?.end]).toEqual([0, 2]);
    expect(speakersOf(all)).toBe(1);
  });

  it("end with a sentence where they get long", () => {
    const long = Array.from({ length: 40 }, (_, index) => line(index, `this is the sentence number ${index}${index % 10 === 9 ? "." : ""}`));
    const all = paragraphs(...long);
    expect(all.length).toBeGreaterThan(1);
    for (const text of texts(all)) expect(endsSentence(text)).toBe(true);
  });

  it("stay the same objects when a line is added behind them", () => {
    const before = paragraphs(line(0, "One."), line(9, "Two."));
    const after = withLine(before, line(10, "More."));
    expect(after[0]).toBe(before[0]);
    expect(after[1]).not.toBe(before[1]);
  });

  it("are replaced for the part that ended", () => {
    const all = paragraphs(line(0, "Old part.", 0, 0), line(5, "One two", 0, 1), line(6, "three.", 0, 1));
    const replaced = withPart(all, 1, [line(5, "One", 0, 1), line(5.5, "two three.", 1, 1)]);
    expect(replaced.map((paragraph) => [paragraph.speaker, textOf(paragraph.lines)])).toEqual([[0, "Old part."], [0, "One"], [1, "two three."]]);
  });
});

it("joins texts as their script does", () => {
  expect(between("one", "two")).toBe(" ");
  expect(between("", "two")).toBe("");
  expect(between("times", ", it")).toBe("");
  expect(between("don", "'t know")).toBe("");
  expect(between("he said", "'yes'")).toBe(" ");
  expect(between("今日は", "いい天気")).toBe("");
  expect(between("おはよう。", "Hark")).toBe("");
  expect(between("안녕", "하세요")).toBe(" ");
  expect(textOf([{ text: "a" }, { text: "b" }])).toBe("a b");
});

it("gives the end of the text", () => {
  const all = paragraphs(line(0, "a".repeat(50)), line(10, "b".repeat(50)), line(20, "c"));
  expect(tail(all, 40).map((each) => each.text[0])).toEqual(["b", "c"]);
  expect(tail(all, 1000)).toHaveLength(3);
  expect(tail([], 10)).toEqual([]);
});

it("is read out in sentences or several words", () => {
  const words = ["It was", "the best", "of times.", "It was", "the worst", "of times and it was the age of wisdom and it was", "the age"];
  const all = paragraphs(...words.map((text, index) => line(index, text)));
  const before = readings(all, false).map((reading) => reading.text);
  expect(before).toEqual(["It was the best of times.", "It was the worst of times and it was the age of wisdom and it was"]);
  expect(readings(all, true).at(-1)?.text).toBe("the age");
  const ids = readings(all, false).map((reading) => reading.id);
  expect(readings(withLine(all, line(8, "of foolishness.")), false).map((reading) => reading.id).slice(0, 2)).toEqual(ids);
});
