import { describe, expect, it } from "vitest";
import { faultOf, jobName, needNames, type JobWords } from "./queue-view";

const words: JobWords = {
  kinds: { transcribe: "Transcription" },
  errors: { timeout: "It took too long" },
  needs: { identify: "known voices" },
  needsModel: (name) => `model ${name}`,
};

describe("a job of the queue", () => {
  it("is named by what it does", () => {
    expect(jobName({ kind: "transcribe" }, words)).toBe("Transcription");
    expect(jobName({ kind: "constructor" }, words)).toBe("constructor");
  });

  it("says what it needs", () => {
    expect(needNames({ needs: ["model:whisper-tiny", "capability:identify", "capability:new", "odd"] }, words)).toEqual(["model whisper-tiny", "known voices", "capability:new", "odd"]);
    expect(needNames({ needs: [] }, words)).toEqual([]);
  });

  it("says why it failed", () => {
    expect(faultOf({ error_kind: null, error: null }, words)).toBeNull();
    expect(faultOf({}, words)).toBeNull();
    expect(faultOf({ error_kind: "timeout", error: "after 60 s" }, words)).toEqual({ words: "It took too long", detail: "after 60 s" });
    expect(faultOf({ error_kind: "new", error: null }, words)).toEqual({ words: "new", detail: "" });
  });
});
