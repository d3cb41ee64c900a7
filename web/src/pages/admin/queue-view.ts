/** Jobs of the queue in plain words. Texts are passed in, so that this can be tested without a browser. */

import type { Schema } from "../../api/client";

export type Job = Schema<"QueueJob">;

/** What the words are made with. */
export interface JobWords {
  kinds: Record<string, string>;
  errors: Record<string, string>;
  needs: Record<string, string>;
  needsModel: (name: string) => string;
}

/** What a job does. */
export function jobName(job: Pick<Job, "kind">, words: JobWords): string {
  return known(words.kinds, job.kind) ?? job.kind;
}

/** What a worker needs for it: `model:whisper-tiny`, `capability:identify`. */
export function needNames(job: Pick<Job, "needs">, words: JobWords): string[] {
  return job.needs.map((need) => {
    const [, kind, name = ""] = /^(model|capability):(.+)$/s.exec(need) ?? [];
    return kind === "model" ? words.needsModel(name) : (known(words.needs, name) ?? need);
  });
}

/** Why it failed, or its last attempt did: in words, and what the server noted. */
export function faultOf(job: Pick<Job, "error_kind" | "error">, words: JobWords): { words: string; detail: string } | null {
  if (job.error_kind == null && job.error == null) return null;
  const kind = job.error_kind ?? "";
  return { words: known(words.errors, kind) ?? kind, detail: job.error ?? "" };
}

function known(words: Record<string, string>, key: string): string | undefined {
  return Object.hasOwn(words, key) ? words[key] : undefined;
}
