/**
 * Word times of an edited text until the server's are loaded: words that stay keep theirs, new ones share the time of those
 * they replace. The server's own (`word_times.rs`) are finer; these only have to light the right words.
 */

import type { Word } from "./model";

const MOST_COMPARISONS = 250_000;

function same(a: string, b: string): boolean {
  return bare(a) === bare(b);
}

function bare(word: string): string {
  return word.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "") || word;
}

/** The words of `text` with times from those of the old text; empty if that had none. */
export function retime(text: string, old: readonly Word[], spoken: { start: number; end: number }): Word[] {
  if (old.length === 0) return [];
  const parts = text.split(/\s+/u).filter(Boolean);
  // Scripts without blanks: the words of the server are shorter than what blanks separate.
  const isUnspaced = old.length > 3 && parts.length * 3 < old.length;
  const fresh = isUnspaced ? cut(text, old) : parts;
  const kept = align(old.map((word) => word.word), fresh);
  const words: Word[] = [];
  let at = 0;
  let next = 0;
  while (at < fresh.length) {
    const match = kept[at];
    if (match !== null && match !== undefined) {
      words.push({ ...(old[match] as Word), word: fresh[at] as string });
      next = match + 1;
      at += 1;
      continue;
    }
    let end = at;
    while (end < fresh.length && kept[end] === null) end += 1;
    const stop = end < fresh.length ? (kept[end] as number) : old.length;
    const from = stop > next ? (old[next] as Word).start : next > 0 ? (old[next - 1] as Word).end : spoken.start;
    const to = stop > next ? (old[stop - 1] as Word).end : stop < old.length ? (old[stop] as Word).start : Math.max(from, spoken.end);
    const step = Math.max(0, to - from) / (end - at);
    for (let n = at; n < end; n += 1) {
      words.push({ word: fresh[n] as string, start: from + step * (n - at), end: from + step * (n - at + 1), confidence: 1 });
    }
    next = stop;
    at = end;
  }
  return words;
}

/** Cuts a text without blanks where its old words stand, the rest by character. */
function cut(text: string, old: readonly Word[]): string[] {
  const pieces: string[] = [];
  let at = 0;
  for (const word of old) {
    const found = text.indexOf(word.word, at);
    if (found < 0 || found - at > 20) continue;
    pieces.push(...Array.from(text.slice(at, found)).filter((piece) => piece.trim()));
    pieces.push(word.word);
    at = found + word.word.length;
  }
  pieces.push(...Array.from(text.slice(at)).filter((piece) => piece.trim()));
  return pieces;
}

/** For each new word the old one that it is; null for those that are new. */
function align(old: readonly string[], fresh: readonly string[]): (number | null)[] {
  const kept: (number | null)[] = fresh.map(() => null);
  let head = 0;
  while (head < old.length && head < fresh.length && same(old[head] as string, fresh[head] as string)) {
    kept[head] = head;
    head += 1;
  }
  let tail = 0;
  while (
    tail < old.length - head &&
    tail < fresh.length - head &&
    same(old[old.length - 1 - tail] as string, fresh[fresh.length - 1 - tail] as string)
  ) {
    kept[fresh.length - 1 - tail] = old.length - 1 - tail;
    tail += 1;
  }
  const rows = old.length - head - tail;
  const columns = fresh.length - head - tail;
  if (rows === 0 || columns === 0 || rows * columns > MOST_COMPARISONS) return kept;
  const a = old.slice(head, head + rows).map(bare);
  const b = fresh.slice(head, head + columns).map(bare);
  const width = columns + 1;
  const longest = new Uint16Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      longest[i * width + j] =
        a[i] === b[j]
          ? (longest[(i + 1) * width + j + 1] as number) + 1
          : Math.max(longest[(i + 1) * width + j] as number, longest[i * width + j + 1] as number);
    }
  }
  for (let i = 0, j = 0; i < rows && j < columns; ) {
    if (a[i] === b[j]) {
      kept[head + j] = head + i;
      i += 1;
      j += 1;
    } else if ((longest[(i + 1) * width + j] as number) >= (longest[i * width + j + 1] as number)) i += 1;
    else j += 1;
  }
  return kept;
}
