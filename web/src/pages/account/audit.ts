/** Events of the audit log in plain words. Texts and formats are passed in, so that this can be tested without a browser. */

import type { Schema } from "../../api/client";

export type AuditEvent = Schema<"AuditEvent">;

/** What the words are made with. */
export interface AuditWords {
  events: Record<string, string>;
  session: (id: string) => string;
  token: (id: string) => string;
  key: (id: string) => string;
  transcript: (id: string) => string;
  speaker: (id: string) => string;
  job: (id: string) => string;
  model: (name: string) => string;
  others: string;
  ended: (value: number, shown: string) => string;
  recordings: (value: number, shown: string) => string;
  grace: (time: string) => string;
  graceNone: string;
  byYou: string;
  byKey: string;
  byNamedKey: (name: string) => string;
  byOperator: string;
  byAdmin: string;
  byVisitor: string;
}

export interface AuditHelp {
  number: (value: number) => string;
  duration: (seconds: number) => string;
  /** The name of a key by its number, where it is known. */
  keyName?: (id: number) => string | undefined;
}

/** What was done. An event that this version does not know is shown as the server calls it. */
export function eventName(event: AuditEvent, words: AuditWords): string {
  return Object.hasOwn(words.events, event.event) ? (words.events[event.event] as string) : event.event;
}

/** What it was done to, and more about it; empty where there is nothing to say. Numbers of sessions say nothing to their owner. */
export function eventAbout(event: AuditEvent, words: AuditWords, help: AuditHelp, isOwn: boolean): string[] {
  const subject = isOwn && /^session \d+$/.test(event.subject) ? "" : subjectWords(event.subject, words, help);
  return [subject, detailWords(event, words, help)].filter((text) => text !== "");
}

function subjectWords(subject: string, words: AuditWords, help: AuditHelp): string {
  if (subject === "all other sessions") return words.others;
  if (subject.startsWith("model ")) return words.model(subject.slice(6));
  const found = /^(session|token|key|transcript|speaker|job) (\d+)$/.exec(subject);
  if (!found) return subject;
  const id = found[2] as string;
  const kind = found[1] as "session" | "token" | "key" | "transcript" | "speaker" | "job";
  return (kind === "key" && help.keyName?.(Number(id))) || words[kind](id);
}

function detailWords(event: AuditEvent, words: AuditWords, help: AuditHelp): string {
  const grace = /^the secret before ends after (\d+) s$/.exec(event.detail);
  if (grace) return grace[1] === "0" ? words.graceNone : words.grace(help.duration(Number(grace[1])));
  const counted = /^(\d+) (ended|recordings)$/.exec(event.detail);
  if (counted) return words[counted[2] as "ended" | "recordings"](Number(counted[1]), help.number(Number(counted[1])));
  return event.detail;
}

/** Who did it: whoever signs in is a visitor until then. Among the events of all, empty where it was the account that they name. */
export function eventActor(event: AuditEvent, words: AuditWords, help: AuditHelp, isOwn: boolean): string {
  const own = isOwn ? words.byYou : "";
  switch (event.actor) {
    case "account":
      return own;
    case "key": {
      const name = event.key_id == null ? undefined : help.keyName?.(event.key_id);
      return name ? words.byNamedKey(name) : words.byKey;
    }
    case "operator":
      return words.byOperator;
    case "admin":
      return words.byAdmin;
    case "visitor":
      return event.event === "session.refused" || event.event === "password.reset_requested" ? words.byVisitor : own;
    default:
      return event.actor;
  }
}

/** Whether its owner should look at an event twice. */
export function needsAttention(event: AuditEvent): boolean {
  return event.event === "session.refused" || event.event === "password.reset";
}
