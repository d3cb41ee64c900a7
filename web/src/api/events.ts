/** Server-sent events as the answer to a POST, which `EventSource` can't read. */

import { callHeaders, failed, Problem, throwProblem } from "./client";

export interface ServerEvent {
  event: string;
  data: unknown;
}

/** Sends `body` and yields the events of the answer, in order. An `error` event is thrown. */
export async function* events(url: string, body: unknown, signal?: AbortSignal): AsyncGenerator<ServerEvent> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream", ...callHeaders() },
      body: JSON.stringify(body),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    throw failed(error);
  }
  if (!response.ok || !response.body) await throwProblem(response);
  // A server that has no events for this call answers with the whole.
  if (!(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
    yield { event: "done", data: await response.json() };
    return;
  }
  const parser = new EventParser();
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw failed(error);
      });
      if (done) return;
      for (const event of parser.push(value)) {
        if (event.event === "error") throw errorOf(event.data);
        yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

function errorOf(data: unknown): Problem {
  const object = typeof data === "object" && data !== null ? (data as Record<string, unknown>) : {};
  const message = typeof object["error"] === "string" ? object["error"] : "The answer broke off.";
  return new Problem(500, message, object["upgrade"] === true);
}

/** Cuts a text that arrives in pieces into events. */
export class EventParser {
  #rest = "";

  push(piece: string): ServerEvent[] {
    this.#rest += piece.replaceAll("\r\n", "\n");
    const found: ServerEvent[] = [];
    for (;;) {
      const end = this.#rest.indexOf("\n\n");
      if (end < 0) return found;
      const block = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + 2);
      let event = "message";
      const data: string[] = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length === 0) continue;
      const text = data.join("\n");
      try {
        found.push({ event, data: JSON.parse(text) });
      } catch {
        found.push({ event, data: text });
      }
    }
  }
}
