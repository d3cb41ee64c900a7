import { expect, it } from "vitest";
import { NOTHING_CHOSEN, read, written } from "./options";

it("remembers a choice", () => {
  const chosen = { ...NOTHING_CHOSEN, kind: "screen" as const, language: "de", diarize: true };
  expect(read(written(chosen))).toEqual(chosen);
});

it("takes nothing that is no choice", () => {
  for (const text of [null, "", "null", "[]", "7", '"x"', "{", '{"kind":"camera","diarize":"yes","language":5}']) expect(read(text)).toEqual(NOTHING_CHOSEN);
});
