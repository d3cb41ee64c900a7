import { describe, expect, it } from "vitest";
import en from "../../i18n/en/account";
import { eventAbout, eventActor, eventName, needsAttention, type AuditEvent } from "./audit";

const help = { number: String, duration: (seconds: number) => `${seconds / 3600} h`, keyName: (id: number) => (id === 7 ? "laptop" : undefined) };

function event(values: Partial<AuditEvent>): AuditEvent {
  return { id: 1, at: "2025-01-01T00:00:00Z", event: "key.created", actor: "account", subject: "", detail: "", ...values };
}

describe("an event", () => {
  it("has a name, also when it is unknown", () => {
    expect(eventName(event({}), en.audit)).toBe("API key made");
    expect(eventName(event({ event: "moon.landed" }), en.audit)).toBe("moon.landed");
    expect(eventName(event({ event: "constructor" }), en.audit)).toBe("constructor");
  });

  it("says what it is about", () => {
    expect(eventAbout(event({ subject: "key 7" }), en.audit, help, true)).toEqual(["laptop"]);
    expect(eventAbout(event({ subject: "key 8", detail: "the secret before ends after 86400 s" }), en.audit, help, true)).toEqual(["Key 8", "The old secret worked for 24 h more"]);
    expect(eventAbout(event({ subject: "key 8", detail: "the secret before ends after 0 s" }), en.audit, help, true)[1]).toBe("The old secret ended at once");
    expect(eventAbout(event({ subject: "all other sessions", detail: "1 ended" }), en.audit, help, true)).toEqual(["Everywhere else", "1 session ended"]);
    expect(eventAbout(event({ detail: "12 recordings" }), en.audit, help, true)).toEqual(["12 recordings deleted"]);
    expect(eventAbout(event({ subject: "<b>x</b>", detail: "+5: <script>" }), en.audit, help, true)).toEqual(["<b>x</b>", "+5: <script>"]);
    expect(eventAbout(event({}), en.audit, help, true)).toEqual([]);
    expect(eventAbout(event({ subject: "session 5" }), en.audit, help, true)).toEqual([]);
    expect(eventAbout(event({ subject: "session 5" }), en.audit, help, false)).toEqual(["Session 5"]);
  });

  it("says who did it", () => {
    expect(eventActor(event({}), en.audit, help, true)).toBe("You");
    expect(eventActor(event({}), en.audit, help, false)).toBe("");
    expect(eventActor(event({ actor: "key", key_id: 7 }), en.audit, help, true)).toBe("With the key laptop");
    expect(eventActor(event({ actor: "key", key_id: 9 }), en.audit, help, true)).toBe("With an API key");
    expect(eventActor(event({ actor: "key" }), en.audit, help, true)).toBe("With an API key");
    expect(eventActor(event({ actor: "visitor", event: "session.created" }), en.audit, help, true)).toBe("You");
    expect(eventActor(event({ actor: "visitor", event: "session.refused" }), en.audit, help, true)).toBe("Without being signed in");
    expect(eventActor(event({ actor: "robot" }), en.audit, help, true)).toBe("robot");
  });

  it("is marked where somebody else may have tried", () => {
    expect(needsAttention(event({ event: "session.refused" }))).toBe(true);
    expect(needsAttention(event({}))).toBe(false);
  });
});
