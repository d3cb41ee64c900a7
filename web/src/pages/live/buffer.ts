/** The last sound of a session, sent or not: what a broken connection swallowed is sent again from here. */

/** Samples in a second. */
export const RATE = 16_000;

/** Samples by their number since the start; those before `start` are forgotten. */
export class SoundBuffer {
  readonly #ring: Int16Array;
  #end = 0;

  constructor(seconds: number) {
    this.#ring = new Int16Array(seconds * RATE);
  }

  /** The first sample that is still there. */
  get start(): number {
    return Math.max(0, this.#end - this.#ring.length);
  }

  /** One beyond the last sample. */
  get end(): number {
    return this.#end;
  }

  push(samples: Int16Array): void {
    const kept = samples.subarray(Math.max(0, samples.length - this.#ring.length));
    let at = (this.#end + samples.length - kept.length) % this.#ring.length;
    let from = 0;
    while (from < kept.length) {
      const count = Math.min(kept.length - from, this.#ring.length - at);
      this.#ring.set(kept.subarray(from, from + count), at);
      from += count;
      at = (at + count) % this.#ring.length;
    }
    this.#end += samples.length;
  }

  /** At most `count` samples from `from` on; `from` has to be there. */
  read(from: number, count: number): Int16Array {
    if (from < this.start || from > this.#end) throw new RangeError("this sound is not there any more");
    const length = Math.min(count, this.#end - from);
    const samples = new Int16Array(length);
    const at = from % this.#ring.length;
    const first = Math.min(length, this.#ring.length - at);
    samples.set(this.#ring.subarray(at, at + first));
    samples.set(this.#ring.subarray(0, length - first), first);
    return samples;
  }
}
