/**
 * What was made of transcripts and what is being made: kept outside of the components, so that it survives another tab of the
 * panel and another page of the app, and so that nothing is started twice.
 */

import { signal, type Signal } from "@preact/signals";
import { isAbort, type Problem } from "../../../api/client";
import { Chat } from "./chat";
import type { Finding, GenerationKind, Style, Summary, Analysis, Generation, Translation } from "./types";

export interface Running {
  /** When it began, in milliseconds. */
  since: number;
  done: number;
  /** Steps that are known so far; 0 while nothing is known. */
  total: number;
}

export interface SlotState<T> {
  value: T | null;
  /** The text that the value was made of. */
  of: string | null;
  error: unknown;
  running: Running | null;
}

/** Work of which there is one at a time, and its last result. */
export class Slot<T> {
  readonly state: Signal<SlotState<T>> = signal({ value: null, of: null, error: null, running: null });
  #abort: AbortController | null = null;

  /** Begins unless it is under way; what was there before stays until the new one is. */
  async start(of: string, work: (signal: AbortSignal, report: (done: number, total: number) => void) => Promise<T>): Promise<T | null> {
    if (this.#abort) return null;
    const abort = new AbortController();
    this.#abort = abort;
    this.#set({ running: { since: Date.now(), done: 0, total: 0 }, error: null });
    const report = (done: number, total: number) => {
      const { running } = this.state.peek();
      if (running && !abort.signal.aborted) this.#set({ running: { ...running, done, total } });
    };
    try {
      const value = await work(abort.signal, report);
      if (abort.signal.aborted) return null;
      this.#set({ value, of, running: null });
      return value;
    } catch (error) {
      if (!abort.signal.aborted && !isAbort(error)) this.#set({ error, running: null });
      return null;
    } finally {
      if (this.#abort === abort) this.#abort = null;
    }
  }

  /** Ends the work; the server charges nothing for it. */
  cancel(): void {
    this.#abort?.abort();
    this.#abort = null;
    if (this.state.peek().running) this.#set({ running: null });
  }

  /** Keeps a value that was made elsewhere. */
  put(of: string, value: T): void {
    this.#set({ value, of, error: null });
  }

  #set(change: Partial<SlotState<T>>): void {
    this.state.value = { ...this.state.peek(), ...change };
  }
}

/** A generated text, and what its reader made of it. */
export interface Version {
  made: Generation;
  /** The text as it was edited; null while it is as it was made. */
  edited: string | null;
}

/** The versions of one kind of text, the newest last. */
export class Versions {
  readonly all = signal<Version[]>([]);
  readonly shown = signal(0);

  /** Adds a version and shows it; one that is the same as one before is only shown, and `false` says so. */
  add(made: Generation): boolean {
    const same = this.all.peek().findIndex((version) => version.made.result.content === made.result.content);
    if (same >= 0) {
      this.shown.value = same;
      return false;
    }
    this.all.value = [...this.all.peek(), { made, edited: null }];
    this.shown.value = this.all.peek().length - 1;
    return true;
  }

  edit(index: number, text: string | null): void {
    this.all.value = this.all.peek().map((version, at) => (at === index ? { ...version, edited: text === version.made.result.content ? null : text } : version));
  }
}

/** Which tab of the panel is open. */
export type TabId = "summary" | "analysis" | "write" | "translation" | "ask";

/** All about one transcript. */
export class Desk {
  readonly tab = signal<TabId>("summary");
  readonly style = signal<Style | null>(null);
  readonly finding = signal<Finding>("chapter_markers");
  readonly kind = signal<GenerationKind>("blog_post");
  readonly language = signal("");
  readonly chat = new Chat();
  /** Whether what the server keeps is here, or on its way. */
  isLoaded = false;
  readonly #slots = new Map<string, Slot<unknown>>();
  readonly #versions = new Map<GenerationKind, Versions>();

  summary(style: Style): Slot<Summary> {
    return this.#slot(`summary:${style}`);
  }

  analysis(kind: Exclude<Finding, "chapter_markers" | "key_quotes">): Slot<Analysis> {
    return this.#slot(`analysis:${kind}`);
  }

  generation(kind: GenerationKind): Slot<Generation> {
    return this.#slot(`generation:${kind}`);
  }

  translation(language: string): Slot<Translation> {
    return this.#slot(`translation:${language}`);
  }

  versions(kind: GenerationKind): Versions {
    let found = this.#versions.get(kind);
    if (!found) this.#versions.set(kind, (found = new Versions()));
    return found;
  }

  /** Ends all that is under way. */
  close(): void {
    for (const slot of this.#slots.values()) slot.cancel();
    this.chat.stop();
  }

  #slot<T>(name: string): Slot<T> {
    let found = this.#slots.get(name);
    if (!found) this.#slots.set(name, (found = new Slot<unknown>()));
    return found as Slot<T>;
  }
}

const desks = new Map<number, Desk>();
let owner: number | null = null;

/** The desk of a transcript. Another account begins with empty ones. */
export function deskOf(transcript: number, account: number): Desk {
  if (owner !== account) {
    for (const desk of desks.values()) desk.close();
    desks.clear();
    owner = account;
  }
  let desk = desks.get(transcript);
  if (!desk) desks.set(transcript, (desk = new Desk()));
  return desk;
}

/** Tells texts apart: results belong to the text that they were made of. */
export function fingerprint(segments: readonly { text: string; speaker?: string | null }[]): string {
  // Two lanes of 32 bits: a day of speech has a million characters, and big integers would take seconds.
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  const add = (text: string) => {
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      low = Math.imul(low ^ code, 0x01000193);
      high = Math.imul(high ^ (code + at), 0x85ebca6b);
    }
    low = Math.imul(low ^ 0x1f, 0x01000193);
  };
  for (const segment of segments) {
    add(segment.text);
    add(segment.speaker ?? "");
  }
  return `${segments.length}:${(low >>> 0).toString(36)}${(high >>> 0).toString(36)}`;
}

/** Whether an error says that the server lacks the model, rather than that it is busy. */
export function isModelMissing(error: unknown): boolean {
  const problem = error as Problem | null;
  return typeof problem === "object" && problem !== null && problem.status === 503 && problem.retryAfter === null;
}
