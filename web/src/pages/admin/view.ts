/** What `/health` and `/health/ready` say, as one state. */

import type { Schema } from "../../api/client";

export type State = "ok" | "degraded" | "down" | "unreachable";

export interface HealthView {
  state: State;
  /** Null where the server only said that it takes no requests. */
  health: Schema<"Health"> | null;
  /** Each check in the order of the page, and whether it passed. */
  checks: { name: string; passed: boolean }[];
  /** What the server said instead of an answer. */
  trouble: string | null;
}

/** The checks as people look for them: what stops everything first. */
const ORDER = ["database", "integrity", "disk", "recordings", "models"];

/** Joins the two answers. Both are errors while the server goes down; the second is one with `checks` when a check fails. */
export function viewOf(health: { ok: boolean; body: unknown }, ready: { ok: boolean; body: unknown }): HealthView {
  const shown = health.ok && isObject(health.body) ? (health.body as Schema<"Health">) : null;
  const given = isObject(ready.body) && isObject(ready.body["checks"]) ? ready.body["checks"] : {};
  const rank = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  const checks = Object.entries(given)
    .map(([name, result]) => ({ name, passed: result === "ok" }))
    .sort((a, b) => rank(a.name) - rank(b.name) || a.name.localeCompare(b.name));
  const failed = checks.some((check) => !check.passed);
  const state: State = !shown ? "down" : shown.status === "ok" && ready.ok && !failed ? "ok" : shown.status === "draining" ? "down" : "degraded";
  return { state, health: shown, checks, trouble: errorOf(health.body) };
}

/** The same view when no answer came: what is known stays. */
export function unreachable(before: HealthView | null): HealthView {
  return { state: "unreachable", health: before?.health ?? null, checks: before?.checks ?? [], trouble: null };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function errorOf(body: unknown): string | null {
  return isObject(body) && typeof body["error"] === "string" ? body["error"] : null;
}
