/**
 * The AudioWorklet of live sessions: mixes what it hears to one channel, brings it to 16 kHz and posts it in pieces of a
 * tenth of a second, with how loud they were. A message "flush" posts what is left.
 */

import { RATE, Resampler, toPcm } from "./resampler.js";

const PIECE = RATE / 10;
/** From here on a sample counts as cut off. */
const FULL = 0.999;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(sampleRate);
    this.piece = new Float32Array(PIECE);
    this.filled = 0;
    this.reset();
    this.port.onmessage = (event) => {
      if (event.data !== "flush") return;
      this.take(this.resampler.flush());
      this.post(true);
    };
  }

  reset() {
    this.peak = 0;
    this.squares = 0;
    this.heard = 0;
    this.clipped = 0;
  }

  process(inputs) {
    const channels = inputs[0];
    if (!channels || channels.length === 0) return true;
    const length = channels[0].length;
    const mixed = new Float32Array(length);
    for (const channel of channels) {
      for (let index = 0; index < length; index += 1) {
        const sample = channel[index];
        mixed[index] += sample / channels.length;
        if (sample >= FULL || sample <= -FULL) this.clipped += 1;
      }
    }
    for (let index = 0; index < length; index += 1) {
      const loud = Math.abs(mixed[index]);
      if (loud > this.peak) this.peak = loud;
      this.squares += loud * loud;
    }
    this.heard += length;
    this.take(this.resampler.push(mixed));
    return true;
  }

  take(samples) {
    let from = 0;
    while (from < samples.length) {
      const count = Math.min(samples.length - from, PIECE - this.filled);
      this.piece.set(samples.subarray(from, from + count), this.filled);
      this.filled += count;
      from += count;
      if (this.filled === PIECE) this.post(false);
    }
  }

  post(isLast) {
    const pcm = toPcm(this.piece.subarray(0, this.filled));
    const rms = this.heard ? Math.sqrt(this.squares / this.heard) : 0;
    this.port.postMessage({ pcm, peak: this.peak, rms, clipped: this.clipped, isLast }, [pcm.buffer]);
    this.filled = 0;
    this.reset();
  }
}

registerProcessor("hark-capture", Capture);
