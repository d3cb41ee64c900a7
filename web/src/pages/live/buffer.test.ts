import { describe, expect, it } from "vitest";
import { RATE, SoundBuffer } from "./buffer";

function numbered(from: number, count: number): Int16Array {
  return Int16Array.from({ length: count }, (_, index) => (from + index) % 30_000);
}

describe("SoundBuffer", () => {
  it("gives back any part of what it still has", () => {
    const buffer = new SoundBuffer(1);
    let at = 0;
    for (const size of [1600, 1, 7777, 1600, 9000, 3333]) {
      buffer.push(numbered(at, size));
      at += size;
    }
    expect([buffer.start, buffer.end]).toEqual([at - RATE, at]);
    expect(buffer.read(buffer.start, RATE)).toEqual(numbered(buffer.start, RATE));
    expect(buffer.read(at - 100, 1000)).toEqual(numbered(at - 100, 100));
    expect(buffer.read(at, 10)).toHaveLength(0);
    expect(() => buffer.read(buffer.start - 1, 10)).toThrow(RangeError);
  });

  it("takes more at once than it can keep", () => {
    const buffer = new SoundBuffer(1);
    buffer.push(numbered(0, 100));
    buffer.push(numbered(100, 40_000));
    expect([buffer.start, buffer.end]).toEqual([40_100 - RATE, 40_100]);
    expect(buffer.read(40_000, 100)).toEqual(numbered(40_000, 100));
    expect(buffer.read(buffer.start, 5)).toEqual(numbered(buffer.start, 5));
  });
});
