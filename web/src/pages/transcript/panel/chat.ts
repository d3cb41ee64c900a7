/** A conversation about a transcript: its questions and answers, and the one that is being answered. */

import { signal } from "@preact/signals";
import { isAbort } from "../../../api/client";
import type { ServerEvent } from "../../../api/events";
import type { ChatAnswer, ChatSource } from "./types";

export interface Turn {
  id: number;
  question: string;
  /** The answer in the pieces in which it came: each is heard when it does. */
  parts: string[];
  sources: ChatSource[];
  /** Whether the transcript says it; null while that is not known. */
  found: boolean | null;
  state: "asking" | "answered" | "stopped" | "failed";
  error: unknown;
}

/** The most characters of a question. */
export const LONGEST_QUESTION = 2000;

/** A turn after an event of its stream. */
export function withEvent(turn: Turn, { event, data }: ServerEvent): Turn {
  switch (event) {
    case "delta":
      return { ...turn, parts: [...turn.parts, String((data as { text?: unknown }).text ?? "")] };
    case "sources":
      return { ...turn, sources: (data as { sources?: ChatSource[] }).sources ?? [] };
    case "done": {
      const answer = data as ChatAnswer;
      const said = turn.parts.join("");
      // What was heard stays as it is; the whole comes alone where the server sent no pieces.
      const parts = said.trim() === answer.answer.trim() ? turn.parts : [answer.answer];
      return { ...turn, parts, sources: answer.sources, found: answer.found, state: "answered" };
    }
    default:
      return turn;
  }
}

export class Chat {
  readonly turns = signal<Turn[]>([]);
  readonly draft = signal("");
  #session: string | null = null;
  #abort: AbortController | null = null;
  #next = 1;

  /** Asks, unless a question is being answered. `open` sends the question and yields the events of its answer. */
  async ask(question: string, open: (question: string, session: string | null, signal: AbortSignal) => AsyncIterable<ServerEvent>): Promise<void> {
    const text = question.trim();
    if (!text || this.#abort) return;
    const abort = new AbortController();
    this.#abort = abort;
    const id = this.#next++;
    this.turns.value = [...this.turns.peek(), { id, question: text, parts: [], sources: [], found: null, state: "asking", error: null }];
    try {
      for await (const event of open(text, this.#session, abort.signal)) {
        if (abort.signal.aborted) return;
        this.#change(id, (turn) => withEvent(turn, event));
        if (event.event === "done") this.#session = (event.data as ChatAnswer).session_id;
      }
      this.#change(id, (turn) => (turn.state === "asking" ? { ...turn, state: "failed" } : turn));
    } catch (error) {
      this.#change(id, (turn) => ({ ...turn, state: isAbort(error) ? "stopped" : "failed", error: isAbort(error) ? null : error }));
    } finally {
      if (this.#abort === abort) this.#abort = null;
    }
  }

  /** Brings a stored conversation back, unless one goes on here. */
  restore(session: string, turns: readonly { question: string; answer: string }[]): void {
    if (this.#abort || this.turns.peek().length > 0) return;
    this.#session = session;
    this.turns.value = turns.map(({ question, answer }) => ({ id: this.#next++, question, parts: [answer], sources: [], found: null, state: "answered", error: null }));
  }

  /** Stops the answer that is under way; what was heard of it stays. */
  stop(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.turns.value = this.turns.peek().map((turn) => (turn.state === "asking" ? { ...turn, state: "stopped" } : turn));
  }

  /** Takes back a question that got no answer. */
  drop(id: number): void {
    this.turns.value = this.turns.peek().filter((turn) => turn.id !== id || turn.state === "asking");
  }

  /** Begins anew. */
  clear(): void {
    this.stop();
    this.#session = null;
    this.turns.value = [];
  }

  #change(id: number, change: (turn: Turn) => Turn): void {
    this.turns.value = this.turns.peek().map((turn) => (turn.id === id ? change(turn) : turn));
  }
}
