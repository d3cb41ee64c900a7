import { expect, test } from "vitest";
import { alarmExponent, baseName, characters, covered, newKey, placeOnLine, powerOfTen, voiceKind, voiceName } from "./facts";

test("the header says what the voice is", () => {
  expect(voiceKind("matched; base=am_adam; similarity=0.46")).toEqual({ is: "matched", base: "am_adam", similarity: 0.46 });
  expect(voiceKind("matched; base=am_adam")).toEqual({ is: "matched", base: "am_adam", similarity: null });
  expect(voiceKind("cloned; model=chatterbox-multilingual")).toEqual({ is: "cloned", model: "chatterbox-multilingual" });
  expect(voiceKind("preset; name=af_heart")).toEqual({ is: "preset", name: "af_heart" });
  expect(voiceKind(null)).toEqual({ is: "unknown" });
});

test("voices have names for people", () => {
  expect([voiceName("af_heart"), voiceName("zm_yunxi"), voiceName("custom")]).toEqual(["Heart", "Yunxi", "Custom"]);
});

test("characters are counted as the server counts them", () => {
  expect(characters("a🎙é")).toBe(3);
  expect(characters("🎙".repeat(2000))).toBe(2000);
});

test("a bound on false alarms is a power of ten", () => {
  expect([alarmExponent(-83.1), alarmExponent(0.5), alarmExponent(Number.NaN)]).toEqual([-83, 0, 0]);
  expect(powerOfTen(-83)).toBe("10⁻⁸³");
});

test("stretches lie on their line, and are counted once", () => {
  expect(placeOnLine(5, 20, 40)).toEqual({ left: 12.5, width: 37.5 });
  expect(placeOnLine(30, 90, 40)).toEqual({ left: 75, width: 25 });
  expect(placeOnLine(1, 2, 0)).toEqual({ left: 0, width: 0 });
  expect(placeOnLine(10, 10, 1000).width).toBe(1);
  expect(covered([{ start: 5, end: 15 }, { start: 0, end: 10 }, { start: 20, end: 25 }])).toBe(20);
});

test("keys are new each time, and endings go", () => {
  expect(newKey()).toMatch(/^[0-9a-f]{32}$/);
  expect(newKey()).not.toBe(newKey());
  expect([baseName("talk.mp3"), baseName("v1.5 plan"), baseName("a.tar.flac")]).toEqual(["talk", "v1.5 plan", "a.tar"]);
});
