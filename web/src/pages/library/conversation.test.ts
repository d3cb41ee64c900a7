import { expect, test } from "vitest";
import { asked, heard, type Turn } from "./conversation";

const source = { text: "We agreed.", speaker: null, start_time: 3, transcript_id: 7, segment_order: 1 };

test("an answer grows sentence by sentence and ends with the whole", () => {
  let turn: Turn = asked("What was agreed?");
  let session: string | undefined;
  for (const event of [
    { event: "delta", data: { text: "They agreed" } },
    { event: "delta", data: { text: " on it." } },
    { event: "sources", data: { sources: [source] } },
  ]) {
    ({ turn } = heard(turn, event));
  }
  expect(turn).toMatchObject({ answer: "They agreed on it.", sources: [source], status: "running" });
  ({ turn, session } = heard(turn, { event: "done", data: { answer: "They agreed on it.", found: true, sources: [source], session_id: "s1", model: "m" } }) as { turn: Turn; session: string });
  expect([turn.status, turn.found, turn.model, session]).toEqual(["done", true, "m", "s1"]);
});

test("events that make no sense change nothing", () => {
  const turn = asked("?");
  for (const event of [{ event: "delta", data: null }, { event: "sources", data: { sources: 3 } }, { event: "unknown", data: "x" }]) {
    expect(heard(turn, event).turn).toEqual(turn);
  }
});
