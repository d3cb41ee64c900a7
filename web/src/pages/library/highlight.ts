/** A text in pieces, some of which are marked. */

export interface Piece {
  text: string;
  marked: boolean;
}

/** Cuts a text at highlights, whose places count Unicode scalar values; those that overlap, lie outside or are empty do no harm. */
export function pieces(text: string, highlights: readonly { start: number; end: number }[]): Piece[] {
  const characters = [...text];
  const found: Piece[] = [];
  const push = (from: number, to: number, marked: boolean) => {
    if (to > from) found.push({ text: characters.slice(from, to).join(""), marked });
  };
  let at = 0;
  for (const { start, end } of [...highlights].sort((a, b) => a.start - b.start)) {
    const from = Math.min(Math.max(start, at), characters.length);
    const to = Math.min(end, characters.length);
    if (to <= from) continue;
    push(at, from, false);
    push(from, to, true);
    at = to;
  }
  push(at, characters.length, false);
  return found;
}

/** Where to go on listening: where the first word that was found is said, else where the passage begins. */
export function momentOf(hit: { start_time: number; highlights: readonly { start: number; start_time: number }[] }): number {
  const first = hit.highlights.reduce<{ start: number; start_time: number } | null>((best, next) => (best && best.start <= next.start ? best : next), null);
  return first ? first.start_time : hit.start_time;
}

/** The address of a moment of a transcript. */
export function placeOf(id: number, seconds: number): string {
  return `/t/${id}?at=${Math.round(Math.max(0, seconds) * 100) / 100}`;
}
