/**
 * Sound of any rate to 16 kHz: a windowed-sinc low pass, evaluated only at the samples that are kept (polyphase).
 * Plain JavaScript, since the AudioWorklet loads it as it is; tested by src/pages/live/resampler.test.ts.
 */

/** What the server takes. */
export const RATE = 16000;

/** Of the lower Nyquist frequency: what lies above the end is suppressed by 70 dB, below the beginning nothing is lost. */
const PASS = 0.9;
const ATTENUATION = 70;

/** Turns blocks of samples of `from` Hz into blocks of `to` Hz; the blocks may have any size. */
export class Resampler {
  constructor(from, to = RATE) {
    const rate = Math.round(from);
    if (!(rate > 0)) throw new RangeError("a rate has to be positive");
    const divisor = gcd(rate, to);
    /** Output sample n lies at input sample n * step / phases. */
    this.phases = to / divisor;
    this.step = rate / divisor;
    this.isSame = rate === to;
    const nyquist = Math.min(rate, to) / 2;
    const stop = nyquist / rate;
    const cutoff = (stop * (1 + PASS)) / 2;
    const width = 2 * Math.PI * stop * (1 - PASS);
    this.half = Math.ceil((ATTENUATION - 8) / (2.285 * width) / 2);
    this.taps = 2 * this.half;
    this.table = this.isSame ? null : coefficients(this.phases, this.half, cutoff);
    /** Samples that later ones still need; silence came before the first. */
    this.rest = new Float32Array(this.half - 1);
    this.phase = 0;
  }

  /** The samples that are complete with these. */
  push(input) {
    if (this.isSame) return Float32Array.from(input);
    const { taps, table, phases, step } = this;
    const buffer = new Float32Array(this.rest.length + input.length);
    buffer.set(this.rest);
    buffer.set(input, this.rest.length);
    const output = new Float32Array(Math.max(0, Math.ceil(((buffer.length - taps + 1) * phases) / step) + 1));
    let count = 0;
    let at = 0;
    let phase = this.phase;
    while (at + taps <= buffer.length) {
      const first = phase * taps;
      let sum = 0;
      for (let tap = 0; tap < taps; tap += 1) sum += table[first + tap] * buffer[at + tap];
      output[count] = sum;
      count += 1;
      phase += step;
      at += Math.floor(phase / phases);
      phase %= phases;
    }
    this.rest = buffer.slice(at);
    this.phase = phase;
    return output.slice(0, count);
  }

  /** The last samples, as if silence followed. */
  flush() {
    return this.isSame ? new Float32Array(0) : this.push(new Float32Array(this.half));
  }
}

/** For each phase the taps of the low pass; each sums to 1, so that a constant stays what it is. */
function coefficients(phases, half, cutoff) {
  const taps = 2 * half;
  const table = new Float32Array(phases * taps);
  const beta = 0.1102 * (ATTENUATION - 8.7);
  const scale = bessel(beta);
  for (let phase = 0; phase < phases; phase += 1) {
    const row = new Float64Array(taps);
    let sum = 0;
    for (let tap = 0; tap < taps; tap += 1) {
      const distance = tap - (half - 1) - phase / phases;
      const inside = 1 - (distance / half) ** 2;
      const window = inside > 0 ? bessel(beta * Math.sqrt(inside)) / scale : 0;
      const angle = 2 * Math.PI * cutoff * distance;
      row[tap] = (angle === 0 ? 1 : Math.sin(angle) / angle) * window;
      sum += row[tap];
    }
    for (let tap = 0; tap < taps; tap += 1) table[phase * taps + tap] = row[tap] / sum;
  }
  return table;
}

/** The modified Bessel function of order 0, for Kaiser's window. */
function bessel(x) {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-12; k += 1) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function gcd(a, b) {
  return b === 0 ? a : gcd(b, a % b);
}

/** Samples from -1 to 1 as 16-bit numbers; what is too loud is cut. */
export function toPcm(samples) {
  const pcm = new Int16Array(samples.length);
  for (let index = 0; index < samples.length; index += 1) {
    pcm[index] = Math.max(-32768, Math.min(32767, Math.round(samples[index] * 32768)));
  }
  return pcm;
}
