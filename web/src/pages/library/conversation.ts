/** What a conversation with the library consists of, and how the events of an answer change it. */

import type { ServerEvent } from "../../api/events";

export interface Source {
  text: string;
  speaker?: string | null;
  start_time: number;
  transcript_id: number;
  segment_order: number;
}

export interface Turn {
  question: string;
  answer: string;
  sources: Source[];
  /** Null while nobody knows. */
  found: boolean | null;
  model: string;
  status: "running" | "done" | "stopped" | "failed";
  error: unknown;
}

/** A question that was just asked. */
export function asked(question: string): Turn {
  return { question, answer: "", sources: [], found: null, model: "", status: "running", error: null };
}

/** The turn after an event of its answer, and the conversation it belongs to once that is told. */
export function heard(turn: Turn, { event, data }: ServerEvent): { turn: Turn; session?: string } {
  const body = typeof data === "object" && data !== null ? (data as Record<string, unknown>) : {};
  const sources = Array.isArray(body["sources"]) ? (body["sources"] as Source[]) : null;
  switch (event) {
    case "delta":
      return { turn: typeof body["text"] === "string" ? { ...turn, answer: turn.answer + body["text"] } : turn };
    case "sources":
      return { turn: sources ? { ...turn, sources } : turn };
    case "done":
      return {
        turn: {
          ...turn,
          answer: typeof body["answer"] === "string" ? body["answer"] : turn.answer,
          sources: sources ?? turn.sources,
          found: typeof body["found"] === "boolean" ? body["found"] : turn.found,
          model: typeof body["model"] === "string" ? body["model"] : turn.model,
          status: "done",
        },
        ...(typeof body["session_id"] === "string" ? { session: body["session_id"] } : {}),
      };
    default:
      return { turn };
  }
}
