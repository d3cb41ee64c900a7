/** Sound as numbers: the shape of a waveform, WAV files, and what is wrong with a clip. No browser needed. */

/** The loudest sample of each of `count` equal stretches, 0 to 1. */
export function peaks(channels: readonly Float32Array[], count: number): number[] {
  const length = channels[0]?.length ?? 0;
  const found = new Array<number>(count).fill(0);
  if (length === 0) return found;
  for (let bar = 0; bar < count; bar += 1) {
    const from = Math.floor((bar * length) / count);
    const to = Math.max(from + 1, Math.floor(((bar + 1) * length) / count));
    let loudest = 0;
    for (const samples of channels) {
      for (let at = from; at < to && at < length; at += 1) {
        const level = Math.abs(samples[at] ?? 0);
        if (level > loudest) loudest = level;
      }
    }
    found[bar] = Math.min(1, loudest);
  }
  return found;
}

/** One channel from several. */
export function mixed(channels: readonly Float32Array[]): Float32Array {
  const only = channels[0] ?? new Float32Array();
  if (channels.length < 2) return only;
  const mono = new Float32Array(only.length);
  for (const samples of channels) for (let at = 0; at < mono.length; at += 1) mono[at] = (mono[at] ?? 0) + (samples[at] ?? 0) / channels.length;
  return mono;
}

/** A WAV file of one channel with 16 bits a sample. */
export function wav(samples: Float32Array, rate: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(44 + 2 * samples.length);
  const view = new DataView(bytes.buffer);
  const text = (at: number, word: string) => [...word].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, bytes.length - 8, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, at) => view.setInt16(44 + 2 * at, Math.round(Math.min(1, Math.max(-1, sample)) * 0x7fff), true));
  return bytes;
}

/**
 * Writes the length into a WAV file that was sent as it was made, when nobody knew it; players need it to seek. Files that know
 * their length, or are no WAV, stay as they are.
 */
export function withLength(file: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const name = (at: number) => String.fromCharCode(...file.subarray(at, at + 4));
  if (file.length < 44 || name(0) !== "RIFF" || name(8) !== "WAVE") return file;
  for (let at = 12; at + 8 <= file.length; ) {
    const size = view.getUint32(at + 4, true);
    if (name(at) === "data") {
      const rest = file.length - at - 8;
      if (size !== 0 && size <= rest) return file;
      const whole = file.slice();
      const changed = new DataView(whole.buffer);
      changed.setUint32(4, whole.length - 8, true);
      changed.setUint32(at + 4, rest, true);
      return whole;
    }
    at += 8 + size + (size % 2);
  }
  return file;
}

/** Seconds of a clip that a voice is taken from. */
export const CLIP_SECONDS = { least: 3, most: 10 } as const;
/** By how much the server lets a clip miss its limits. */
const TOLERANCE = 0.1;
/** A sample from here on counts as clipped, and this share of them is too many; both as the server has them. */
const FULL_SCALE = 0.985;
const CLIPPED_SHARE = 0.005;
/** Below this a clip is as good as silent. */
const QUIET = 0.02;

export type ClipFault = { is: "short" | "long"; seconds: number } | { is: "clipped" } | { is: "quiet" };

/** What is wrong with a clip, as far as that can be told before it is sent. */
export function clipFault(samples: Float32Array, rate: number): ClipFault | null {
  const seconds = samples.length / rate;
  if (seconds < CLIP_SECONDS.least - TOLERANCE) return { is: "short", seconds };
  if (seconds > CLIP_SECONDS.most + TOLERANCE) return { is: "long", seconds };
  let loud = 0;
  let loudest = 0;
  for (const sample of samples) {
    const level = Math.abs(sample);
    if (level >= FULL_SCALE) loud += 1;
    if (level > loudest) loudest = level;
  }
  if (loud / samples.length > CLIPPED_SHARE) return { is: "clipped" };
  return loudest < QUIET ? { is: "quiet" } : null;
}

/** What the server says is wrong with a clip. */
export type ClipAnswer = "short" | "long" | "clipped" | "speech" | "voices" | "unreadable" | "large" | "missing" | "other";

/** Whether an error of the server is about the clip, and which. Its messages are English; the page says the known ones in its own words. */
export function clipAnswer(message: string): ClipAnswer | null {
  if (!/reference clip|reference_audio|more than one voice/i.test(message)) return null;
  if (/consent/i.test(message)) return null;
  const length = /reference clip is ([\d.]+) s long/i.exec(message);
  if (length) return Number(length[1]) < CLIP_SECONDS.least ? "short" : "long";
  if (/longer than/i.test(message)) return "long";
  if (/is clipped/i.test(message)) return "clipped";
  if (/are speech/i.test(message)) return "speech";
  if (/more than one voice/i.test(message)) return "voices";
  if (/can't be read/i.test(message)) return "unreadable";
  if (/larger than/i.test(message)) return "large";
  if (/is missing/i.test(message)) return "missing";
  return "other";
}
