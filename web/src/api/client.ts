/**
 * Calls of the API, typed by its OpenAPI document: a field that changes there breaks the build here. The session's cookie
 * signs them, and the CSRF token of `session.ts` those that change something.
 */

import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

/** A schema of the document by its name. */
export type Schema<K extends keyof components["schemas"]> = components["schemas"][K];

/** Why a call failed, in words for its user. */
export class Problem extends Error {
  constructor(
    /** The HTTP status; 0 where the server could not be reached. */
    readonly status: number,
    message: string,
    /** Whether a higher plan would help. */
    readonly upgrade = false,
    /** Seconds until it is worth trying again. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.name = "Problem";
  }
}

let csrf: string | null = null;
let onUnauthorized: (() => void) | null = null;
let unreachable = "The server can't be reached. Check the connection and try again.";

/** Sets what `session.ts` knows: the token that unsafe calls send. */
export function setCsrf(token: string | null): void {
  csrf = token;
}

/** Called when a call with a session answers 401: it has ended. */
export function whenUnauthorized(then: () => void): void {
  onUnauthorized = then;
}

/** The words for a server that can't be reached, in the language of the interface. */
export function setUnreachable(words: string): void {
  unreachable = words;
}

/** Headers that a call by hand has to send: those of an upload or a stream. */
export function callHeaders(): Record<string, string> {
  return csrf ? { "X-CSRF-Token": csrf } : {};
}

/** The typed client. `unwrap` turns its answers into values or a `Problem`. */
export const api = createClient<paths>({
  baseUrl: location.origin,
  // Looked up at each call: tests replace it.
  fetch: (request: Request) => fetch(request),
});

api.use({
  onRequest({ request }) {
    if (csrf && request.method !== "GET" && request.method !== "HEAD") request.headers.set("X-CSRF-Token", csrf);
    return request;
  },
});

/** The value of an answer; throws a `Problem` where it is an error. */
export async function unwrap<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let answer;
  try {
    answer = await call;
  } catch (error) {
    throw failed(error);
  }
  if (answer.error !== undefined || !answer.response.ok) throw problem(answer.response, answer.error);
  return answer.data as T;
}

/** A call that got no answer: cancelled by us, or no connection. */
export function failed(error: unknown): unknown {
  if (error instanceof DOMException && error.name === "AbortError") return error;
  if (error instanceof Problem) return error;
  return new Problem(0, unreachable);
}

/** What an answer that is an error says. Bodies are `{"error": "…"}`, on OpenAI's paths `{"error": {"message": "…"}}`. */
export function problem(response: Pick<Response, "status" | "statusText"> & { headers: { get(name: string): string | null } }, body: unknown): Problem {
  if (response.status === 401) onUnauthorized?.();
  const object = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const error = object["error"];
  const message =
    typeof error === "string" ? error
    : typeof error === "object" && error !== null && typeof (error as Record<string, unknown>)["message"] === "string"
      ? ((error as Record<string, unknown>)["message"] as string)
    : response.statusText || `HTTP ${response.status}`;
  const after = Number.parseFloat(response.headers.get("Retry-After") ?? "");
  return new Problem(response.status, message, object["upgrade"] === true, Number.isFinite(after) ? after : null);
}

/** Reads the body of an answer that is an error, and throws it. */
export async function throwProblem(response: Response): Promise<never> {
  throw problem(response, await response.json().catch(() => null));
}

/** Whether somebody cancelled the call. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** The words of an error for its user. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
