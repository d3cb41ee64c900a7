/** A transcript as the page reads it: where each word stands in its text, who says what in which turn, and what is said at a moment. */

import type { Schema } from "../../api/client";
import { labelNumber } from "../../ui/labels";

export type Detail = Schema<"TranscriptDetail"> & {
  /** Its entity tag: what a change says that it rests on. */
  version?: string | null;
};
export type Word = Schema<"Word">;

/** Where a word stands in the text of its segment, in UTF-16 units. */
export interface Span {
  from: number;
  to: number;
  start: number;
  end: number;
  confidence: number;
}

/** Finds each word in the text, in order; a word that is not in it is left out. */
export function locate(text: string, words: readonly Word[]): Span[] {
  const spans: Span[] = [];
  let at = 0;
  for (const word of words) {
    if (!word.word) continue;
    const from = text.indexOf(word.word, at);
    // A word that is only found far away is another one of the same name: one missing word must not swallow the rest.
    if (from < 0 || from - at > 40 + word.word.length) continue;
    const to = from + word.word.length;
    spans.push({ from, to, start: word.start, end: word.end, confidence: word.confidence });
    at = to;
  }
  return spans;
}

/** A paragraph: what one speaker says until somebody else does, or until it is long enough to be read. */
export interface Turn {
  /** The index of its first segment. */
  first: number;
  /** The index after its last one. */
  end: number;
  speaker: string | null;
  /** Whether the speaker is another than in the turn before. */
  isNew: boolean;
  start: number;
  /** Characters in it, by which its height is guessed before it is drawn. */
  length: number;
}

interface Said {
  start: number;
  end: number;
  text: string;
  speaker?: string | null;
}

const READABLE = 600;
const LONGEST = 1500;
const PAUSE = 3;

/** Groups segments into turns. Long ones are cut at the end of a sentence, so that each has its time and is drawn on its own. */
export function turnsOf(segments: readonly Said[]): Turn[] {
  const turns: Turn[] = [];
  let current: Turn | null = null;
  for (const [index, segment] of segments.entries()) {
    const speaker = segment.speaker ?? null;
    const before = index > 0 ? segments[index - 1] : undefined;
    const isOther: boolean = current !== null && current.speaker !== speaker;
    const ends = before ? /[.!?…。！？؟۔]["'”’»)\]]*$/u.test(before.text) : false;
    const isLong = current !== null && ((current.length > READABLE && ends) || current.length > LONGEST);
    const isPause = before !== undefined && current !== null && current.length > 200 && segment.start - before.end > PAUSE;
    if (!current || isOther || isLong || isPause) {
      current = { first: index, end: index, speaker, isNew: !current || isOther, start: segment.start, length: 0 };
      turns.push(current);
    }
    current.end = index + 1;
    current.length += segment.text.length + 1;
  }
  return turns;
}

/** Those who speak, in the order in which they begin. */
export function speakersOf(segments: readonly { speaker?: string | null; start: number; end: number }[]): { name: string; seconds: number }[] {
  const found = new Map<string, number>();
  for (const segment of segments) {
    if (segment.speaker) found.set(segment.speaker, (found.get(segment.speaker) ?? 0) + Math.max(0, segment.end - segment.start));
  }
  return [...found].map(([name, seconds]) => ({ name, seconds }));
}

/** The last entry of `starts` (ascending) that is not after `time`; -1 where all are. */
export function lastBefore(starts: ArrayLike<number>, time: number): number {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((starts[middle] as number) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The word that is spoken at a moment, which stays lit through short pauses. */
export function spanAt(spans: readonly Span[], time: number): number {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((spans[middle] as Span).start <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The word at a place of the text; the next one where there is none, the last one at the end. */
export function spanAtOffset(spans: readonly Span[], offset: number): Span | null {
  return spans.find((span) => offset < span.to) ?? spans.at(-1) ?? null;
}

/** Below this a word is worth checking. */
export const UNSURE = 0.5;

const RTL = new Set(["ar", "arc", "ckb", "dv", "fa", "ha-arab", "he", "iw", "ji", "khw", "ks", "ku-arab", "nqo", "ps", "sd", "syr", "ug", "ur", "yi"]);

/** The direction of a text: by the script of its language, else by its letters. */
export function directionOf(language: string): "rtl" | "auto" {
  const code = language.toLowerCase().replace("_", "-");
  if (/-(latn|cyrl)\b/.test(code)) return "auto";
  return RTL.has(code) || RTL.has(code.split("-")[0] ?? "") || /-(arab|hebr|thaa|nkoo|syrc|adlm)\b/.test(code) ? "rtl" : "auto";
}

/** A text as a segment may have it: on one line, without blanks around it. Narrow and fixed blanks, which French needs, stay. */
export function tidy(text: string): string {
  return text.replaceAll(/[ \t\r\n\v\f\u2028\u2029]+/g, " ").replaceAll(/[\u0000-\u001f\u007f]/g, "").trim();
}

/** Words in a text, as people count them: scripts without blanks by character. */
export function countWords(text: string): number {
  let count = 0;
  for (const part of text.split(/\s+/u)) {
    if (!/[\p{L}\p{N}]/u.test(part)) continue;
    const unspaced = part.match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/gu);
    count += unspaced ? unspaced.length : 1;
  }
  return count;
}

/** `?at=`: seconds, where it is a moment. */
export function momentOf(value: string | null): number | null {
  if (value === null || value.trim() === "") return null;
  const seconds = Number(value);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : null;
}

/** As many bars as there is room for: each as high as the loudest part of its time. */
export function resample(peaks: readonly number[], bars: number): number[] {
  return Array.from({ length: bars }, (_, bar) => {
    const from = Math.floor((bar * peaks.length) / bars);
    const to = Math.max(from + 1, Math.floor(((bar + 1) * peaks.length) / bars));
    let most = 0;
    for (let n = from; n < to && n < peaks.length; n += 1) most = Math.max(most, peaks[n] as number);
    return most;
  });
}

/**
 * What the server is told of names: by speaker the name that was typed, empty for none. One without a name whose shown name
 * another was given gets it, too, so that both are one.
 */
export function namings(speakers: readonly string[], typed: Readonly<Record<string, string>>, shown: (speaker: string) => string): Record<string, string> {
  const names: Record<string, string> = {};
  const wanted = new Set(speakers.map((speaker) => (typed[speaker] ?? "").trim()).filter(Boolean));
  for (const speaker of speakers) {
    const name = (typed[speaker] ?? "").trim();
    const isLabel = labelNumber(speaker) !== null;
    if (name) {
      if (name !== speaker) names[speaker] = name;
    } else if (!isLabel) names[speaker] = "";
    else if (wanted.has(shown(speaker))) names[speaker] = shown(speaker);
  }
  return names;
}
