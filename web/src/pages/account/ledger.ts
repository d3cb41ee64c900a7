/** Lines of the ledger in plain words. Texts are passed in, so that this can be tested without a browser. */

import type { Schema } from "../../api/client";

export type LedgerEntry = Schema<"LedgerEntry">;

/** What the words are made with. */
export interface LedgerWords {
  kinds: Record<string, string>;
  taken: string;
  /** Notes that the server writes by itself. */
  notes: Record<string, string>;
  paidFor: (work: string) => string;
  job: (id: string) => string;
  again: (id: string) => string;
  transcript: (id: string) => string;
  live: string;
}

/** A piece of what a line is about; `href` where it has a page. */
export interface LedgerPiece {
  text: string;
  href?: string;
}

/** What happened. A kind that this version does not know is shown as the server calls it. */
export function entryName(entry: LedgerEntry, words: LedgerWords): string {
  const work = entry.kind === "charge" ? known(words.notes, entry.note) : undefined;
  if (work) return words.paidFor(work);
  if (entry.kind === "adjust" && entry.amount < 0) return words.taken;
  return known(words.kinds, entry.kind) ?? entry.kind;
}

/** Why, and for what; empty where there is nothing to say. */
export function entryAbout(entry: LedgerEntry, words: LedgerWords): LedgerPiece[] {
  const pieces: LedgerPiece[] = [];
  const note = entry.note.trim();
  const isSaid = entry.kind === "charge" && known(words.notes, note) !== undefined;
  if (note && !isSaid) pieces.push({ text: known(words.notes, note) ?? note });
  const reference = referenceOf(entry.reference ?? "", words);
  if (reference) pieces.push(reference);
  return pieces;
}

/** What a reference names. Those of single calls are random and say nothing to people. */
function referenceOf(reference: string, words: LedgerWords): LedgerPiece | null {
  // A hold that grew has its new total behind a plus; a job that was retried the number of the retry behind a point.
  const [name = ""] = reference.split("+");
  const found = /^(job|transcript):(\d+)(\.\d+)?$/.exec(name);
  const id = found?.[2] ?? "";
  if (found?.[1] === "transcript") return { text: words.transcript(id), href: `/t/${id}` };
  if (found) return { text: found[3] ? words.again(id) : words.job(id) };
  if (name.startsWith("stream:")) return { text: words.live };
  return name === "" || /^(call|beginning):/.test(name) ? null : { text: name };
}

/** Whether a line only sets credits aside for a while or ends that. */
export function isPassing(entry: LedgerEntry): boolean {
  return entry.kind === "hold" || entry.kind === "release";
}

function known(words: Record<string, string>, key: string): string | undefined {
  return Object.hasOwn(words, key) ? words[key] : undefined;
}
