import { expect, test } from "vitest";
import { clipAnswer, clipFault, mixed, peaks, wav, withLength } from "./sound";

const tone = (seconds: number, level: number, rate = 8000) => Float32Array.from({ length: seconds * rate }, (_, at) => Math.sin(at * 0.3) * level);

test("a waveform has the loudest sample of each stretch of any channel", () => {
  const left = Float32Array.from([0.1, -0.5, 0, 0.2]);
  const right = Float32Array.from([0, 0, 0.9, 0]);
  const rounded = peaks([left, right], 2).map((level) => Math.round(level * 10) / 10);
  expect(rounded).toEqual([0.5, 0.9]);
  expect(peaks([], 3)).toEqual([0, 0, 0]);
  expect(peaks([Float32Array.from([2])], 4)).toEqual([1, 1, 1, 1]);
});

test("channels are mixed into one", () => {
  expect([...mixed([Float32Array.from([1, 0]), Float32Array.from([0, 1])])]).toEqual([0.5, 0.5]);
});

test("a WAV file tells its rate and its length", () => {
  const file = wav(Float32Array.from([0, 1, -1, 2]), 48_000);
  const view = new DataView(file.buffer);
  expect(String.fromCharCode(...file.subarray(0, 4))).toBe("RIFF");
  expect([view.getUint32(4, true), view.getUint32(24, true), view.getUint32(40, true)]).toEqual([44, 48_000, 8]);
  expect([view.getInt16(46, true), view.getInt16(48, true), view.getInt16(50, true)]).toEqual([32767, -32767, 32767]);
});

test("a WAV file that was sent as it was made gets its length", () => {
  const whole = wav(tone(0.01, 0.5), 8000);
  const open = whole.slice();
  new DataView(open.buffer).setUint32(4, 0xffffffff, true);
  new DataView(open.buffer).setUint32(40, 0xffffffff, true);
  expect(withLength(open)).toEqual(whole);
  expect(withLength(whole)).toBe(whole);
  const other = new TextEncoder().encode("fLaC".repeat(20));
  expect(withLength(other)).toBe(other);
});

test("a clip has three to ten seconds and is neither clipped nor silent", () => {
  expect(clipFault(tone(5, 0.6), 8000)).toBeNull();
  expect(clipFault(tone(2, 0.6), 8000)).toEqual({ is: "short", seconds: 2 });
  expect(clipFault(tone(10.05, 0.6), 8000)).toBeNull();
  expect(clipFault(tone(11, 0.6), 8000)).toEqual({ is: "long", seconds: 11 });
  expect(clipFault(tone(5, 3).map((sample) => Math.max(-1, Math.min(1, sample))), 8000)).toEqual({ is: "clipped" });
  expect(clipFault(tone(5, 0.001), 8000)).toEqual({ is: "quiet" });
});

test("the server's words about a clip are recognized", () => {
  expect(clipAnswer("the reference clip is 2.0 s long: send 3 to 10 s")).toBe("short");
  expect(clipAnswer("the reference clip is 12.0 s long: send 3 to 10 s")).toBe("long");
  expect(clipAnswer("the reference clip is longer than 10 s: send 3 to 10 s")).toBe("long");
  expect(clipAnswer("the reference clip is clipped: 3.2 % of its samples are at full scale; record it with a lower level")).toBe("clipped");
  expect(clipAnswer("only 1.2 s of the reference clip are speech: 2 s are needed")).toBe("speech");
  expect(clipAnswer("more than one voice was found in the reference clip: send one in which a single person speaks")).toBe("voices");
  expect(clipAnswer("the reference clip can't be read: unknown format")).toBe("unreadable");
  expect(clipAnswer("`reference_audio` is larger than 16 MB: 10 seconds need less")).toBe("large");
  expect(clipAnswer("`consent` is missing: the person who speaks in `reference_audio` agrees")).toBeNull();
  expect(clipAnswer("not enough credits")).toBeNull();
});
