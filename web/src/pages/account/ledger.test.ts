import { describe, expect, it } from "vitest";
import { entryAbout, entryName, isPassing, type LedgerEntry, type LedgerWords } from "./ledger";

const words: LedgerWords = {
  kinds: { grant: "Given", hold: "Set aside", release: "Free again", charge: "Paid", refund: "Given back", adjust: "Corrected" },
  taken: "Taken",
  notes: { transcription: "transcription", "to begin with": "To begin with" },
  paidFor: (work) => `Paid: ${work}`,
  job: (id) => `Job ${id}`,
  again: (id) => `Job ${id}, again`,
  transcript: (id) => `Transcript ${id}`,
  live: "Live session",
};
const entry = (part: Partial<LedgerEntry>): LedgerEntry => ({ id: 1, at: "2026-01-31T12:00:00Z", kind: "grant", amount: 1, reference: null, note: "", ...part });

describe("lines of the ledger", () => {
  it("are named by their kind, charges by the work", () => {
    expect(entryName(entry({}), words)).toBe("Given");
    expect(entryName(entry({ kind: "charge", note: "transcription" }), words)).toBe("Paid: transcription");
    expect(entryName(entry({ kind: "charge", note: "something new" }), words)).toBe("Paid");
    expect(entryName(entry({ kind: "adjust", amount: -5 }), words)).toBe("Taken");
    expect(entryName(entry({ kind: "adjust", amount: 5 }), words)).toBe("Corrected");
    expect(entryName(entry({ kind: "toString" }), words)).toBe("toString");
  });

  it("say why, in words where the server wrote it, and never twice", () => {
    expect(entryAbout(entry({ note: "to begin with", reference: "beginning:3" }), words)).toEqual([{ text: "To begin with" }]);
    expect(entryAbout(entry({ note: " for the workshop " }), words)).toEqual([{ text: "for the workshop" }]);
    expect(entryAbout(entry({ kind: "charge", note: "transcription", reference: "job:7" }), words)).toEqual([{ text: "Job 7" }]);
    expect(entryAbout(entry({}), words)).toEqual([]);
  });

  it("link to a transcript, and to nothing else", () => {
    const about = (reference: string) => entryAbout(entry({ kind: "hold", reference }), words);
    expect(about("transcript:12")).toEqual([{ text: "Transcript 12", href: "/t/12" }]);
    expect(about("job:7.2")).toEqual([{ text: "Job 7, again" }]);
    expect(about("job:7+12")).toEqual([{ text: "Job 7" }]);
    expect(about("stream:abc+2")).toEqual([{ text: "Live session" }]);
    expect(about("call:0af3")).toEqual([]);
    expect(about("transcript:1/../x")).toEqual([{ text: "transcript:1/../x" }]);
  });

  it("know what only passes", () => {
    expect(["grant", "hold", "release", "charge"].map((kind) => isPassing(entry({ kind })))).toEqual([false, true, true, false]);
  });
});
