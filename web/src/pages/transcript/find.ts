/** Searching in the texts of a transcript, and what replacing makes of them. */

export interface Match {
  /** The segment. */
  index: number;
  from: number;
  to: number;
}

/** What is looked for; null where there is nothing to look for. */
export function pattern(wanted: string, matchCase: boolean): RegExp | null {
  if (!wanted) return null;
  const literal = wanted.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, (character) => (character === "-" ? "\\x2d" : `\\${character}`));
  // A blank in the query stands for any of those in the text.
  const source = literal.replaceAll(/\s+/g, "\\s+");
  return new RegExp(source, matchCase ? "gu" : "giu");
}

/** Every place where it stands, in order. */
export function findAll(texts: readonly string[], wanted: string, matchCase: boolean): Match[] {
  const found: Match[] = [];
  const looked = pattern(wanted, matchCase);
  if (!looked) return found;
  for (const [index, text] of texts.entries()) {
    for (const match of text.matchAll(looked)) {
      if (match[0]) found.push({ index, from: match.index, to: match.index + match[0].length });
    }
  }
  return found;
}

/** A text with one place replaced. */
export function replaceOne(text: string, match: Match, by: string): string {
  return text.slice(0, match.from) + by + text.slice(match.to);
}

/** New texts of all segments in which something is replaced. */
export function replaceAll(texts: readonly string[], matches: readonly Match[], by: string): { index: number; text: string }[] {
  const bySegment = new Map<number, Match[]>();
  for (const match of matches) {
    const known = bySegment.get(match.index);
    if (known) known.push(match);
    else bySegment.set(match.index, [match]);
  }
  return [...bySegment].map(([index, places]) => {
    const text = texts[index] ?? "";
    let whole = "";
    let at = 0;
    for (const place of places) {
      whole += text.slice(at, place.from) + by;
      at = place.to;
    }
    return { index, text: whole + text.slice(at) };
  });
}

/** The match at or after a place, from the beginning again after the last. */
export function nextMatch(matches: readonly Match[], index: number, offset: number): number {
  if (matches.length === 0) return -1;
  const at = matches.findIndex((match) => match.index > index || (match.index === index && match.from >= offset));
  return at < 0 ? 0 : at;
}
