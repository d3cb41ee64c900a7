/** Recordings on their way: sent one after another, followed until their text is there. Outlives the page that began it. */

import { effect, signal } from "@preact/signals";
import { api, isAbort, Problem, unwrap, type Schema } from "../../api/client";
import { forget, IN_PARTS_FROM, sendInParts } from "../../api/resumable";
import { upload } from "../../api/upload";
import { startTexts } from "../../i18n/start";
import { session } from "../../session";

export interface Options {
  language: string;
  model: string;
  diarize: boolean;
  identify: boolean;
  translate: boolean;
  hotwords: string;
}

export type Result = Schema<"TranscriptionResult">;
export type Phase = "waiting" | "uploading" | "checking" | "queued" | "processing" | "done" | "failed" | "cancelled";

export interface Item {
  key: number;
  name: string;
  size: number;
  phase: Phase;
  sent: number;
  /** Percent of the sound that was decoded; null where nobody tells. */
  progress: number | null;
  place: number | null;
  interrupted: boolean;
  error: unknown;
  /** Its transcript, where an account keeps it. */
  id: number | null;
  /** Its text, where nobody keeps it, and what there is of it so far where somebody does. */
  segments: Schema<"Segment">[];
  result: Result | null;
}

interface Work {
  file: File;
  options: Options;
  abort: AbortController;
  /** The same for every try, so that a recording that arrived twice is made and paid once. */
  idempotencyKey: string;
}

/** All recordings of this visit, newest first. */
export const items = signal<Item[]>([]);

const work = new Map<number, Work>();
let next = 1;
let isSending = false;

function change(key: number, values: Partial<Item>): void {
  items.value = items.value.map((item) => (item.key === key ? { ...item, ...values } : item));
}

const find = (key: number) => items.value.find((item) => item.key === key);

/** Whether a recording would be lost if the page were closed now. */
export function isBusy(): boolean {
  return items.value.some((item) => item.phase === "waiting" || item.phase === "uploading" || item.phase === "checking");
}

/** Adds recordings to those that wait. */
export function add(files: Iterable<File>, options: Options): void {
  for (const file of files) {
    const key = next++;
    const item: Item = {
      key,
      name: file.name,
      size: file.size,
      phase: "waiting",
      sent: 0,
      progress: null,
      place: null,
      interrupted: false,
      error: null,
      id: null,
      segments: [],
      result: null,
    };
    items.value = [item, ...items.value];
    work.set(key, { file, options, abort: new AbortController(), idempotencyKey: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` });
    if (file.size === 0) change(key, { phase: "failed", error: new Problem(400, startTexts().emptyFile) });
  }
  void sendAll();
}

/** Stops a recording; what was made of it is deleted. */
export function cancel(key: number): void {
  const item = find(key);
  work.get(key)?.abort.abort();
  change(key, { phase: "cancelled" });
  if (item?.id) void api.DELETE("/v1/transcripts/{id}", { params: { path: { id: item.id } } });
}

export function remove(key: number): void {
  work.delete(key);
  items.value = items.value.filter((item) => item.key !== key);
}

export function retry(key: number): void {
  const task = work.get(key);
  if (!task) return;
  task.abort = new AbortController();
  task.idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  change(key, { phase: "waiting", sent: 0, progress: null, error: null, id: null, segments: [], result: null });
  void sendAll();
}

async function sendAll(): Promise<void> {
  if (isSending) return;
  isSending = true;
  try {
    for (;;) {
      const item = items.value.findLast((candidate) => candidate.phase === "waiting");
      const task = item && work.get(item.key);
      if (!item || !task) return;
      await sendOne(item.key, task).catch((error: unknown) => {
        if (isAbort(error)) change(item.key, { phase: "cancelled" });
        else change(item.key, { phase: "failed", error });
      });
    }
  } finally {
    isSending = false;
  }
}

/** The form of a recording, or of one that was sent in parts before. */
function formOf(task: Work, uploaded: number | null): FormData {
  const form = new FormData();
  const { options } = task;
  // Fields before the file: the server knows what it is for before it arrives.
  if (options.language !== "auto") form.set("language", options.language);
  if (options.model) form.set("model", options.model);
  form.set("diarize", String(options.diarize));
  if (options.identify) form.set("identify", "true");
  if (options.translate) form.set("translate", "true");
  if (options.hotwords.trim()) form.set("hotwords", options.hotwords.trim());
  if (uploaded !== null) form.set("upload", String(uploaded));
  else form.set("file", task.file, task.file.name);
  return form;
}

/** Sends a recording, again after a broken connection: waits of 1, 2, 4, … seconds. */
async function sendOne(key: number, task: Work): Promise<void> {
  const isKept = session.value?.signed_in === true;
  let uploaded: number | null = null;
  if (isKept && task.file.size >= IN_PARTS_FROM) {
    change(key, { phase: "uploading", sent: 0 });
    uploaded = await sendInParts(task.file, {
      signal: task.abort.signal,
      onProgress: (sent) => change(key, { sent }),
      onBroken: (interrupted) => change(key, { interrupted }),
      pause: (seconds) => pause(seconds, task.abort.signal),
    });
  }
  for (let attempt = 0; ; attempt += 1) {
    try {
      if (uploaded === null) change(key, { phase: "uploading", sent: 0 });
      else change(key, { phase: "checking" });
      const answer = await upload<Result | Schema<"Accepted">>("/v1/transcribe", formOf(task, uploaded), {
        signal: task.abort.signal,
        headers: { ...(isKept ? { Prefer: "respond-async", "Idempotency-Key": task.idempotencyKey } : {}) },
        onProgress: (sent, total) => {
          if (uploaded === null) change(key, { sent: Math.min(sent, total), interrupted: false });
        },
        onSent: () => change(key, { phase: isKept ? "checking" : "processing", interrupted: false }),
      });
      if (answer.status === 202 && "status_url" in answer.body) {
        change(key, { phase: "queued", id: answer.body.id, interrupted: false });
        if (uploaded !== null) forget(task.file);
        // Others are sent meanwhile.
        void follow(key, answer.body.id, task.abort.signal);
      } else {
        const result = answer.body as Result;
        change(key, { phase: "done", result, segments: result.segments ?? [] });
      }
      return;
    } catch (error) {
      const isLost = error instanceof Problem && error.status === 0;
      // Without an account a repeat would be counted again.
      if (!isLost || !isKept || attempt >= 8) throw error;
      change(key, { interrupted: true });
      await pause(Math.min(60, 2 ** attempt), task.abort.signal);
    }
  }
}

/** Follows a transcript until it is there. */
async function follow(key: number, id: number, signal: AbortSignal): Promise<void> {
  const params = { params: { path: { id } }, signal };
  for (let round = 0; ; round += 1) {
    try {
      const state = await unwrap(api.GET("/v1/transcripts/{id}/status", params));
      if (state.status === "completed") {
        change(key, { phase: "done", progress: 100 });
        const detail = await unwrap(api.GET("/v1/transcripts/{id}", params));
        change(key, { segments: detail.segments ?? [] });
        return;
      }
      if (state.status === "failed") {
        change(key, { phase: "failed", error: new Problem(500, state.error ?? startTexts().failed) });
        return;
      }
      change(key, { phase: state.status, progress: state.progress, place: state.queue_position ?? null, interrupted: false });
      if (state.status === "processing") {
        const detail = await unwrap(api.GET("/v1/transcripts/{id}", params));
        const segments = detail.segments ?? [];
        if (segments.length) change(key, { segments });
      }
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      if (error instanceof Problem && error.status === 404) {
        change(key, { phase: "cancelled" });
        return;
      }
      // The server may be away for a moment: it goes on with what it has.
      change(key, { interrupted: true });
    }
    try {
      await pause(round < 20 ? 1 : 3, signal);
    } catch {
      return;
    }
  }
}

function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("cancelled", "AbortError"));
    }, { once: true });
  });
}

// The browser asks before a page that still sends is closed.
effect(() => {
  window.onbeforeunload = isBusy() ? (event) => event.preventDefault() : null;
});
