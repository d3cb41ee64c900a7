import { describe, expect, it } from "vitest";
import { RATE, Resampler, toPcm } from "../../../public/audio/resampler.js";

/** Two seconds of a tone. */
function tone(frequency: number, rate: number): Float32Array {
  return Float32Array.from({ length: 2 * rate }, (_, index) => Math.sin((2 * Math.PI * frequency * index) / rate));
}

/** How loud the middle is, in dB against a full tone. */
function loudness(samples: Float32Array): number {
  const middle = samples.subarray(samples.length / 4, (samples.length * 3) / 4);
  const power = middle.reduce((sum, sample) => sum + sample * sample, 0) / middle.length;
  return 10 * Math.log10(2 * power + 1e-30);
}

function through(input: Float32Array, rate: number, size = 128): Float32Array {
  const resampler = new Resampler(rate);
  const pieces: Float32Array[] = [];
  for (let at = 0; at < input.length; at += size) pieces.push(resampler.push(input.subarray(at, at + size)));
  pieces.push(resampler.flush());
  const all = new Float32Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

describe.each([22_050, 32_000, 44_100, 48_000, 96_000])("from %i Hz", (rate) => {
  it("keeps what speech is made of within half a decibel", () => {
    for (const frequency of [80, 300, 1000, 3000, 5000, 7000]) {
      expect(Math.abs(loudness(through(tone(frequency, rate), rate))), `${frequency} Hz`).toBeLessThan(0.5);
    }
  });

  it("suppresses what would be folded back by 60 dB", () => {
    for (const frequency of [8050, 9000, 10_500, 12_000, 16_000, 20_000, 40_000].filter((frequency) => frequency < rate / 2)) {
      expect(loudness(through(tone(frequency, rate), rate)), `${frequency} Hz`).toBeLessThan(-60);
    }
  });

  it("gives as many samples as time passes, at the same moments", () => {
    const input = tone(440, rate);
    const output = through(input, rate);
    expect(Math.abs(output.length - 2 * RATE)).toBeLessThan(4);
    for (const index of [4001, 16_002, 27_003]) {
      expect(output[index]).toBeCloseTo(Math.sin((2 * Math.PI * 440 * index) / RATE), 3);
    }
  });
});

it("does not depend on how the sound is cut", () => {
  const input = tone(1000, 44_100).subarray(0, 10_000);
  const whole = through(input, 44_100, input.length);
  for (const size of [1, 7, 128, 441]) expect(through(input, 44_100, size)).toEqual(whole);
});

it("fills up slower sound", () => {
  expect(Math.abs(loudness(through(tone(1000, 8000), 8000)))).toBeLessThan(0.5);
});

it("leaves 16 kHz as it is", () => {
  const input = tone(7900, 16_000);
  expect(through(input, 16_000)).toEqual(input);
});

it("cuts what is too loud instead of wrapping it", () => {
  expect([...toPcm(Float32Array.from([0, 0.5, 1, 2, -1, -3]))]).toEqual([0, 16_384, 32_767, 32_767, -32_768, -32_768]);
});
