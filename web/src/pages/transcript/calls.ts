/** The calls that change a transcript. */

import { api, callHeaders, failed, throwProblem, unwrap, type Schema } from "../../api/client";
import type { Detail } from "./model";

/** A transcript with the version that its answer names. */
async function versioned(call: Promise<{ data?: Schema<"TranscriptDetail">; error?: unknown; response: Response }>): Promise<Detail> {
  const detail = await unwrap(call);
  return { ...detail, version: (await call).response.headers.get("ETag") };
}

export async function loadTranscript(id: number, signal?: AbortSignal): Promise<Detail> {
  return versioned(api.GET("/v1/transcripts/{id}", { params: { path: { id } }, ...(signal ? { signal } : {}) }));
}

/** Changes a transcript; with a version only if it still has that (412 otherwise). */
export async function change(id: number, body: Schema<"TranscriptChange">, version?: string | null): Promise<Detail> {
  return versioned(api.PATCH("/v1/transcripts/{id}", { params: { path: { id } }, body, ...(version ? { headers: { "If-Match": version } } : {}) }));
}

/** Saves texts; the new version. The answer is the whole transcript, which nobody needs here: it is not read, as that would stop the typing. */
export async function saveTexts(id: number, segments: { index: number; text: string }[], version: string | null): Promise<string | null> {
  const body = JSON.stringify({ segments });
  let response: Response;
  try {
    response = await fetch(`/v1/transcripts/${id}`, {
      method: "PATCH",
      headers: { "Content-Type": "application/json", ...(version ? { "If-Match": version } : {}), ...callHeaders() },
      body,
      // A page that is left still saves; browsers allow that for small bodies only.
      keepalive: body.length < 50_000,
    });
  } catch (error) {
    throw failed(error);
  }
  if (!response.ok) await throwProblem(response);
  void response.body?.cancel().catch(() => undefined);
  return response.headers.get("ETag");
}

/**
 * Names speakers; an empty name brings the label back. A name may stand for several labels that were made one, of which the
 * server changes one at a time: it is told again until none is left.
 */
export async function nameSpeakers(id: number, names: Record<string, string>): Promise<Detail> {
  const given = new Set(Object.values(names));
  const left = (detail: Detail) => {
    const there = new Set(detail.segments.flatMap((segment) => [segment.speaker, ...(segment.overlapping_speakers ?? [])]));
    return Object.entries(names).filter(([speaker]) => there.has(speaker) && !given.has(speaker));
  };
  let detail = await change(id, { speaker_names: names });
  for (let rest = left(detail), round = 0; rest.length > 0 && round < 30; round += 1, rest = left(detail)) {
    detail = await change(id, { speaker_names: Object.fromEntries(rest) });
  }
  return detail;
}

export async function remove(id: number): Promise<void> {
  await unwrap(api.DELETE("/v1/transcripts/{id}", { params: { path: { id } } }));
}

export async function retryTranscript(id: number): Promise<void> {
  await unwrap(api.POST("/v1/transcripts/{id}/retry", { params: { path: { id } } }));
}
