import { expect, test } from "vitest";
import { fileName, stem, UniqueNames } from "./download";

test("any title becomes a name that every system takes", () => {
  expect(stem("talk.mp3")).toBe("talk");
  expect(stem("v1.5 of the plan")).toBe("v1.5 of the plan");
  expect(stem("../../etc/passwd")).toBe("etc passwd");
  expect(stem("a\u202Egnp.exe")).toBe("a gnp.exe");
  expect(stem("...")).toBe("hark");
  expect(stem("")).toBe("hark");
  expect(stem("CON")).toBe("_CON");
  expect(stem("nul.txt")).toBe("_nul.txt");
  expect(stem("a".repeat(200))).toBe("a".repeat(80));
  // Four bytes each: a name of 80 would be longer than file systems allow.
  expect(stem("🎙".repeat(200))).toBe("🎙".repeat(50));
});

test("what is made from a recording has an ending of its own", () => {
  expect(fileName("talk.wav", "srt")).toBe("talk.srt");
  expect(fileName("Live 19.11.2026, 13.45", "txt")).toBe("Live 19.11.2026, 13.45.txt");
  expect(fileName("talk.mp4", "de.vtt")).toBe("talk.de.vtt");
});

test("names are unique whatever the case or the form of accents", () => {
  const names = new UniqueNames();
  expect(names.name("Talk.mp3", "srt")).toBe("Talk.srt");
  expect(names.name("talk.wav", "srt")).toBe("talk (2).srt");
  expect(names.name("talk (2)", "srt")).toBe("talk (2) (2).srt");
  expect(names.name("caf\u00e9", "srt")).toBe("caf\u00e9.srt");
  expect(names.name("cafe\u0301", "srt")).toBe("cafe\u0301 (2).srt");
});
