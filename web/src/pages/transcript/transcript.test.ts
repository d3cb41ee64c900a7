import { describe, expect, it } from "vitest";
import { afterSaving, meet, read, reconcile, withEdit, write, type Edit } from "./drafts";
import { findAll, nextMatch, replaceAll, replaceOne } from "./find";
import { closed, EMPTY, redo, together, typed, undo } from "./history";
import { countWords, directionOf, lastBefore, locate, momentOf, namings, resample, spanAt, spanAtOffset, speakersOf, tidy, turnsOf } from "./model";
import { labelNumber } from "../../ui/labels";
import { retime } from "./retime";

const word = (text: string, start: number, end = start + 0.5, confidence = 0.9) => ({ word: text, start, end, confidence });

describe("where words stand", () => {
  it("finds each once, in order", () => {
    const spans = locate("the cat and the hat", [word("the", 0), word("cat", 1), word("and", 2), word("the", 3), word("hat", 4)]);
    expect(spans.map(({ from, to }) => [from, to])).toEqual([[0, 3], [4, 7], [8, 11], [12, 15], [16, 19]]);
  });

  it("leaves out a word that is not there without losing the others", () => {
    const spans = locate("one three", [word("one", 0), word("two", 1), word("three", 2)]);
    expect(spans.map((span) => span.start)).toEqual([0, 2]);
  });

  it("works without blanks", () => {
    expect(locate("今日は良い", [word("今日", 0), word("は", 1), word("良い", 2)]).map((span) => span.from)).toEqual([0, 2, 3]);
  });

  it("finds the word at a place and at a moment", () => {
    const spans = locate("one two", [word("one", 1), word("two", 2)]);
    expect(spanAtOffset(spans, 3)?.start).toBe(2);
    expect(spanAtOffset(spans, 99)?.start).toBe(2);
    expect(spanAt(spans, 0.5)).toBe(-1);
    expect(spanAt(spans, 1.9)).toBe(0);
    expect(spanAt(spans, 9)).toBe(1);
    expect(lastBefore([0, 1, 1, 2], 1)).toBe(2);
    expect(lastBefore([], 1)).toBe(-1);
  });
});

describe("turns", () => {
  const said = (speaker: string | null, start: number, text = "Yes.") => ({ speaker, start, end: start + 1, text });

  it("begin where another speaks", () => {
    const turns = turnsOf([said("A", 0), said("A", 1), said("B", 2), said(null, 3)]);
    expect(turns.map(({ first, end, speaker, isNew }) => [first, end, speaker, isNew])).toEqual([
      [0, 2, "A", true],
      [2, 3, "B", true],
      [3, 4, null, true],
    ]);
  });

  it("are cut where they are long, at the end of a sentence", () => {
    const long = "word ".repeat(60).trim();
    const turns = turnsOf([said("A", 0, long), said("A", 1, long), said("A", 2, `${long}.`), said("A", 3, long)]);
    expect(turns.map((turn) => turn.end)).toEqual([3, 4]);
    expect(turns[1]?.isNew).toBe(false);
  });

  it("cover every segment once", () => {
    const segments = Array.from({ length: 500 }, (_, n) => said(n % 7 ? "A" : "B", n * 2, "something is said"));
    const turns = turnsOf(segments);
    expect(turns.flatMap((turn) => Array.from({ length: turn.end - turn.first }, (_, n) => turn.first + n))).toEqual(segments.map((_, n) => n));
  });

  it("know who speaks and for how long", () => {
    expect(speakersOf([said("B", 0), said("A", 1), said("B", 2), said(null, 5)])).toEqual([
      { name: "B", seconds: 2 },
      { name: "A", seconds: 1 },
    ]);
    expect(labelNumber("SPEAKER_03")).toBe(4);
    expect(labelNumber("Ann")).toBeNull();
  });
});

describe("names", () => {
  const shown = (speaker: string) => (labelNumber(speaker) === null ? speaker : `Speaker ${labelNumber(speaker)}`);

  it("are told where they changed", () => {
    expect(namings(["SPEAKER_00", "Bob", "Eve"], { SPEAKER_00: " Ann ", Bob: "Bob", Eve: "" }, shown)).toEqual({ SPEAKER_00: "Ann", Eve: "" });
    expect(namings(["Ann", "Bob"], { Ann: "Bob", Bob: "Ann" }, shown)).toEqual({ Ann: "Bob", Bob: "Ann" });
  });

  it("make two speakers one, also where neither has a name yet", () => {
    expect(namings(["SPEAKER_00", "SPEAKER_01"], { SPEAKER_00: "Speaker 2", SPEAKER_01: "" }, shown)).toEqual({ SPEAKER_00: "Speaker 2", SPEAKER_01: "Speaker 2" });
  });
});

describe("texts", () => {
  it("know their direction", () => {
    expect(directionOf("ar")).toBe("rtl");
    expect(directionOf("he-IL")).toBe("rtl");
    expect(directionOf("az_Arab")).toBe("rtl");
    expect(directionOf("ku-Latn")).toBe("auto");
    expect(directionOf("en")).toBe("auto");
    expect(directionOf("auto")).toBe("auto");
  });

  it("are tidied to one line", () => {
    expect(tidy("  a\n b\u0007c ")).toBe("a bc");
    expect(tidy("Quoi\u202f? \u00ab\u00a0oui\u00a0\u00bb")).toBe("Quoi\u202f? \u00ab\u00a0oui\u00a0\u00bb");
    expect(countWords("Hello, world — 今日")).toBe(4);
  });

  it("are jumped to only where the moment is one", () => {
    expect(momentOf("12.5")).toBe(12.5);
    expect([momentOf(null), momentOf(""), momentOf("-1"), momentOf("x"), momentOf("Infinity")]).toEqual([null, null, null, null, null]);
  });
});

describe("times of edited texts", () => {
  const old = [word("We", 0), word("met", 1), word("Bob,", 2), word("then", 3)];
  const spoken = { start: 0, end: 4 };

  it("stay for words that stay", () => {
    expect(retime("we met Bob then", old, spoken).map((w) => [w.word, w.start])).toEqual([["we", 0], ["met", 1], ["Bob", 2], ["then", 3]]);
  });

  it("are shared by words that replace one", () => {
    const words = retime("We met Rob Roy then", old, spoken);
    expect(words.map((w) => w.start)).toEqual([0, 1, 2, 2.25, 3]);
    expect(words[2]?.confidence).toBe(1);
  });

  it("survive that words go, and never run backwards", () => {
    for (const text of ["met then", "", "entirely other words here and more of them", "then We met Bob,", "We we met met Bob, then then"]) {
      const words = retime(text, old, spoken);
      expect(words).toHaveLength(text.split(" ").filter(Boolean).length);
      for (const [n, w] of words.entries()) {
        expect(w.end).toBeGreaterThanOrEqual(w.start);
        if (n) expect(w.start).toBeGreaterThanOrEqual(words[n - 1]?.start ?? 0);
      }
    }
  });

  it("are none where there were none", () => {
    expect(retime("a b", [], spoken)).toEqual([]);
  });

  it("keep words of scripts without blanks", () => {
    const words = retime("今日は悪い日", [word("今日", 0), word("は", 1), word("良い", 2), word("日", 3)], spoken);
    expect(words.map((w) => w.word)).toEqual(["今日", "は", "悪", "い", "日"]);
    expect(words.at(-1)?.start).toBe(3);
  });
});

describe("undo", () => {
  it("takes typing back in one step, and other segments in others", () => {
    let history = typed(EMPTY, { index: 0, before: "a", after: "ab" }, 0);
    history = typed(history, { index: 0, before: "ab", after: "abc" }, 100);
    history = typed(history, { index: 1, before: "x", after: "y" }, 200);
    expect(history.done).toHaveLength(2);
    const first = undo(history);
    expect(first?.texts).toEqual([{ index: 1, text: "x" }]);
    const second = undo(first?.history ?? EMPTY);
    expect(second?.texts).toEqual([{ index: 0, text: "a" }]);
    expect(undo(second?.history ?? EMPTY)).toBeNull();
    expect(redo(second?.history ?? EMPTY)?.texts).toEqual([{ index: 0, text: "abc" }]);
  });

  it("begins a new step after a pause, and after the segment was left", () => {
    let history = typed(EMPTY, { index: 0, before: "a", after: "ab" }, 0);
    history = typed(history, { index: 0, before: "ab", after: "abc" }, 5000);
    expect(history.done).toHaveLength(2);
    history = typed(closed(history), { index: 0, before: "abc", after: "abcd" }, 5001);
    expect(history.done).toHaveLength(3);
  });

  it("takes a replacement everywhere back at once, and typing ends what could be redone", () => {
    const all = together(EMPTY, [{ index: 0, before: "a", after: "b" }, { index: 5, before: "c", after: "d" }, { index: 6, before: "e", after: "e" }], 0);
    const back = undo(all);
    expect(back?.texts).toHaveLength(2);
    expect(typed(back?.history ?? EMPTY, { index: 0, before: "a", after: "z" }, 1).undone).toHaveLength(0);
  });
});

describe("search", () => {
  const texts = ["The cat (a Cat).", "No dogs.", "cat  cat"];

  it("finds with and without case, and takes signs literally", () => {
    expect(findAll(texts, "cat", false)).toHaveLength(4);
    expect(findAll(texts, "Cat", true)).toEqual([{ index: 0, from: 11, to: 14 }]);
    expect(findAll(texts, "(a", false)).toHaveLength(1);
    expect(findAll(["a-b [x] \\d $1"], "a-b [x] \\d $1", true)).toHaveLength(1);
    expect(findAll(texts, "", false)).toEqual([]);
    expect(findAll(texts, "cat cat", false)).toEqual([{ index: 2, from: 0, to: 8 }]);
  });

  it("goes on from a place, and around", () => {
    const matches = findAll(texts, "cat", false);
    expect(nextMatch(matches, 0, 5)).toBe(1);
    expect(nextMatch(matches, 1, 0)).toBe(2);
    expect(nextMatch(matches, 2, 9)).toBe(0);
    expect(nextMatch([], 0, 0)).toBe(-1);
  });

  it("replaces one and all, signs of patterns included", () => {
    const matches = findAll(texts, "cat", false);
    expect(replaceOne(texts[0] ?? "", matches[1] as never, "$&")).toBe("The cat (a $&).");
    expect(replaceAll(texts, matches, "dog")).toEqual([
      { index: 0, text: "The dog (a dog)." },
      { index: 2, text: "dog  dog" },
    ]);
  });
});

describe("unsaved edits", () => {
  const edits = (entries: [number, Edit][]) => new Map(entries);

  it("go when the text is as it was", () => {
    let all = withEdit(new Map(), 3, "a", "b");
    all = withEdit(all, 3, "b", "c");
    expect(all.get(3)).toEqual({ base: "a", text: "c" });
    expect(withEdit(all, 3, "c", "a").size).toBe(0);
  });

  it("that went on while they were saved rest on what was sent", () => {
    const left = afterSaving(edits([[0, { base: "a", text: "abc" }], [1, { base: "x", text: "y" }], [2, { base: "n", text: "m" }]]), new Map([[0, "ab"], [1, "y"]]));
    expect([...left]).toEqual([
      [0, { base: "ab", text: "abc" }],
      [2, { base: "n", text: "m" }],
    ]);
  });

  it("survive a reload, and ask where somebody else was faster", () => {
    const kept = write(edits([[0, { base: "a", text: "b" }], [1, { base: "c", text: "d" }], [2, { base: "e", text: "f" }], [9, { base: "", text: "g" }]]));
    const { edits: held, conflicts } = reconcile(read(kept), ["a", "x", "f"]);
    expect([...held.keys()]).toEqual([0, 1]);
    expect(conflicts).toEqual([{ index: 1, mine: "d", theirs: "x" }]);
    expect(write(new Map())).toBeNull();
    expect([read("{"), read("7"), read('[[1,2],[null,"a","b"],[-1,"a","b"]]')].map((all) => all.size)).toEqual([0, 0, 0]);
  });

  it("of other tabs are taken, unless both changed the same", () => {
    expect(meet(undefined, "x")).toBe("take");
    expect(meet({ base: "a", text: "x" }, "x")).toBe("same");
    expect(meet({ base: "a", text: "y" }, "x")).toBe("conflict");
  });
});

describe("waveform", () => {
  it("takes the loudest of what shares a bar", () => {
    expect(resample([0, 50, 100, 10], 2)).toEqual([50, 100]);
    expect(resample([7], 3)).toEqual([7, 7, 7]);
    expect(resample([], 2)).toEqual([0, 0]);
  });
});
