/**
 * Edits that are not on the server yet: by segment the text it had there and the text it has here. They survive a reload,
 * and meet what other tabs and other machines did to the same segments.
 */

export interface Edit {
  /** The text that the server had when the edit began. */
  base: string;
  text: string;
}

export type Edits = ReadonlyMap<number, Edit>;

/** A segment that was changed here and elsewhere. */
export interface Conflict {
  index: number;
  mine: string;
  theirs: string;
}

/** An edit on top of those before; one that brings the text of the server back is none. */
export function withEdit(edits: Edits, index: number, base: string, text: string): Edits {
  const changed = new Map(edits);
  const before = edits.get(index)?.base ?? base;
  if (before === text) changed.delete(index);
  else changed.set(index, { base: before, text });
  return changed;
}

/** What remains after `sent` was saved: edits that went on meanwhile now rest on what was sent. */
export function afterSaving(edits: Edits, sent: ReadonlyMap<number, string>): Edits {
  const left = new Map<number, Edit>();
  for (const [index, edit] of edits) {
    const saved = sent.get(index);
    if (saved === undefined) left.set(index, edit);
    else if (edit.text !== saved) left.set(index, { base: saved, text: edit.text });
  }
  return left;
}

/** Edits against the texts that the server has now: those that still hold, and those that somebody else was faster with. */
export function reconcile(edits: Edits, server: readonly string[]): { edits: Edits; conflicts: Conflict[] } {
  const holds = new Map<number, Edit>();
  const conflicts: Conflict[] = [];
  for (const [index, edit] of edits) {
    const there = server[index];
    if (there === undefined || there === edit.text) continue;
    if (there === edit.base) holds.set(index, edit);
    else {
      holds.set(index, { base: there, text: edit.text });
      conflicts.push({ index, mine: edit.text, theirs: there });
    }
  }
  return { edits: holds, conflicts };
}

/** What another tab did to a segment, against what this one has. */
export function meet(mine: Edit | undefined, theirs: string): "take" | "same" | "conflict" {
  if (!mine) return "take";
  return mine.text === theirs ? "same" : "conflict";
}

/** As it is kept in the browser; null where there is nothing to keep. */
export function write(edits: Edits): string | null {
  if (edits.size === 0) return null;
  return JSON.stringify([...edits].map(([index, { base, text }]) => [index, base, text]));
}

/** What was kept; what can't be read is nothing. */
export function read(kept: string | null): Edits {
  const edits = new Map<number, Edit>();
  if (!kept) return edits;
  try {
    const rows: unknown = JSON.parse(kept);
    if (!Array.isArray(rows)) return edits;
    for (const row of rows) {
      if (!Array.isArray(row)) continue;
      const [index, base, text] = row as unknown[];
      if (Number.isInteger(index) && (index as number) >= 0 && typeof base === "string" && typeof text === "string") edits.set(index as number, { base, text });
    }
  } catch {
    // Written by another version, or cut off.
  }
  return edits;
}
