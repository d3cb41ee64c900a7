/** The calls of the panel. Work that takes long is read as events, which tell how far it is. */

import { api, Problem, unwrap } from "../../../api/client";
import { events } from "../../../api/events";
import { loadSession } from "../../../session";
import { panel } from "../../../i18n/panel";
import type { Translation } from "./types";

type Report = (done: number, total: number) => void;

/** Has something made of a transcript: `what` is the last piece of its path. */
export async function make<T>(id: number, what: "summarize" | "analyze" | "generate", body: unknown, signal: AbortSignal, report: Report): Promise<T> {
  for await (const { event, data } of events(`/v1/transcripts/${id}/${what}`, body, signal)) {
    if (event === "progress") {
      const { done, total } = data as { done: number; total: number };
      report(done, total);
    } else if (event === "result" || event === "done") {
      // What was made cost a credit: the account shows it.
      if ((data as { cached?: boolean }).cached !== true) void loadSession();
      return data as T;
    }
  }
  throw new Problem(0, panel().brokeOff);
}

/** Translates a transcript; one that was made before comes at once. */
export async function translate(id: number, language: string, force: boolean, signal: AbortSignal): Promise<Translation> {
  const call = api.POST("/v1/transcripts/{id}/translate", { params: { path: { id } }, body: { target_language: language, force }, signal });
  const made = await unwrap(call);
  if (!made.cached) void loadSession();
  return made;
}

/** Asks a transcript. */
export function ask(id: number) {
  return (question: string, session: string | null, signal: AbortSignal) =>
    events(`/v1/transcripts/${id}/chat`, { question, ...(session ? { session_id: session } : {}), stream: true }, signal);
}
