/** How loud a source is, and whether something is wrong with it: nothing arrives, or it is too loud. */

/** What the AudioWorklet measured over a piece of sound. */
export interface Measure {
  peak: number;
  rms: number;
  /** Samples at the end of the scale. */
  clipped: number;
  seconds: number;
}

export type Warning = "silent" | "clipped";

export interface Level {
  /** From 0 (silence) to 1 (the end of the scale), falling slowly as meters do. */
  value: number;
  /** For how long nothing was heard. */
  silent: number;
  /** For how long the warning of too loud sound still stands. */
  loud: number;
  warning: Warning | null;
}

export const NO_LEVEL: Level = { value: 0, silent: 0, loud: 0, warning: null };

/** Below this (-54 dB) even a quiet room is not heard: the source is off, muted or the wrong one. */
const SILENCE = 0.002;
const SILENT_SECONDS = 5;
/** Single samples at the end of the scale are no harm. */
const CLIPPED_SAMPLES = 3;
const LOUD_SECONDS = 4;
/** The quietest loudness of the meter in dB. */
const FLOOR = -60;
const FALL_PER_SECOND = 0.8;

/** The level after another piece of sound. */
export function heard(before: Level, measure: Measure): Level {
  const decibels = 20 * Math.log10(Math.max(measure.rms, 1e-6));
  const now = Math.min(1, Math.max(0, 1 - decibels / FLOOR));
  const value = Math.max(now, before.value - FALL_PER_SECOND * measure.seconds);
  const silent = measure.peak < SILENCE ? before.silent + measure.seconds : 0;
  const loud = measure.clipped >= CLIPPED_SAMPLES ? LOUD_SECONDS : Math.max(0, before.loud - measure.seconds);
  // A hair of tolerance: tenths of seconds do not add up exactly.
  const warning = loud > 0 ? "clipped" : silent >= SILENT_SECONDS - 0.01 ? "silent" : null;
  return { value, silent, loud, warning };
}

/** The level while a source gives nothing at all, not even silence. */
export function waited(before: Level, seconds: number): Level {
  return heard(before, { peak: 0, rms: 0, clipped: 0, seconds });
}
