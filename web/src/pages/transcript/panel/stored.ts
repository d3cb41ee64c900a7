/** What the server keeps of a transcript is put on its desk when the page is opened: summaries, analyses, texts, translations and the last conversation. */

import { api, unwrap, type Schema } from "../../../api/client";
import type { Desk } from "./store";
import { FINDINGS, GENERATIONS, STYLES, type Analysis, type Finding, type Generation, type GenerationKind, type Style, type Summary, type Translation } from "./types";

type Listed = Schema<"StoredResult">;
/** A result whose answer has the shape of its kind. */
type Stored = Omit<Schema<"StoredResultDetail">, "answer"> & { answer?: unknown };

/** What of the list the panel can show: each thing once, of the conversations the newest. */
export function shown(results: readonly Listed[]): Listed[] {
  const isKnown = ({ kind, name }: Listed): boolean => {
    if (kind === "summary") return STYLES.includes(name as Style);
    if (kind === "generation") return GENERATIONS.includes(name as GenerationKind);
    if (kind === "analysis") return FINDINGS.includes(name as Finding);
    return true;
  };
  const chat = results.find(({ kind }) => kind === "chat");
  return results.filter((one) => (one.kind === "chat" ? one === chat : isKnown(one)));
}

/** Puts a stored result where the panel shows it, unless there is something newer. */
export function putOn(desk: Desk, of: string, stored: Stored): void {
  const { answer, name } = stored;
  const put = <T>(slot: { state: { peek(): { value: T | null; running: unknown } }; put(of: string, value: T): void }, value: T): boolean => {
    const { value: before, running } = slot.state.peek();
    if (before !== null || running) return false;
    slot.put(of, value);
    return true;
  };
  if (stored.kind === "chat") desk.chat.restore(name, stored.turns ?? []);
  else if (!answer) return;
  else if (stored.kind === "summary") put(desk.summary(name as Style), answer as Summary);
  else if (stored.kind === "analysis") put(desk.analysis(name as Parameters<Desk["analysis"]>[0]), answer as Analysis);
  else if (stored.kind === "translation") put(desk.translation(name), answer as Translation);
  else if (put(desk.generation(name as GenerationKind), answer as Generation)) desk.versions(name as GenerationKind).add(answer as Generation);
}

/** Chooses what was made last where nobody has chosen yet. The list begins with the newest. */
export function choose(desk: Desk, results: readonly Listed[]): void {
  const newest = (kind: Listed["kind"], isOne: (name: string) => boolean = () => true) => results.find((one) => one.kind === kind && isOne(one.name))?.name;
  const isFinding = (name: string) => FINDINGS.includes(name as Finding);
  desk.style.value ??= (newest("summary") as Style | undefined) ?? null;
  desk.language.value ||= newest("translation") ?? "";
  const finding = results.find((one) => (one.kind === "analysis" || one.kind === "generation") && isFinding(one.name));
  if (finding) desk.finding.value = finding.name as Finding;
  const written = newest("generation", (name) => !isFinding(name));
  if (written) desk.kind.value = written as GenerationKind;
}

/** Loads what is stored, once for a desk; without an answer the panel begins empty, and the next page asks again. */
export async function loadStored(id: number, desk: Desk, of: string): Promise<void> {
  if (desk.isLoaded) return;
  desk.isLoaded = true;
  const path = { id };
  try {
    const results = shown((await unwrap(api.GET("/v1/transcripts/{id}/results", { params: { path } }))).results);
    choose(desk, results);
    for (const { id: result } of results) {
      putOn(desk, of, await unwrap(api.GET("/v1/transcripts/{id}/results/{result}", { params: { path: { ...path, result } } })));
    }
  } catch {
    desk.isLoaded = false;
  }
}
