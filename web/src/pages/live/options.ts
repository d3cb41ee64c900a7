/** What was chosen the last time, remembered in this browser. */

import type { LiveOptions } from "./session";
import type { SourceKind } from "./source";

export interface Chosen extends LiveOptions {
  kind: SourceKind;
  device: string;
  isRaw: boolean;
  isAloud: boolean;
  /** Whether screen readers are to read new text. */
  isAnnounced: boolean;
}

export const NOTHING_CHOSEN: Chosen = {
  kind: "microphone",
  device: "",
  isRaw: false,
  isAloud: true,
  isAnnounced: true,
  language: "",
  model: "",
  diarize: false,
  translate: false,
};

/** The choice as text; a recording is never remembered. */
export function written(chosen: Chosen): string {
  return JSON.stringify(chosen);
}

/** The choice from a text that anybody may have changed: what is no choice is as if nothing was chosen. */
export function read(text: string | null): Chosen {
  let found: unknown = null;
  try {
    found = JSON.parse(text ?? "null");
  } catch {
    // Not ours.
  }
  const given = typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
  const entries = Object.entries(NOTHING_CHOSEN).map(([name, value]) => [name, typeof given[name] === typeof value ? given[name] : value]);
  const chosen = Object.fromEntries(entries) as unknown as Chosen;
  return ["microphone", "screen", "file"].includes(chosen.kind) ? chosen : { ...chosen, kind: "microphone" };
}
