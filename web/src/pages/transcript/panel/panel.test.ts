import { describe, expect, it, vi } from "vitest";
import { Chat, withEvent, type Turn } from "./chat";
import { blackened, counts, groups, onScale } from "./findings";
import { targets } from "./languages";
import { blocks, inline, plainText } from "./markdown";
import { languageModel } from "./models";
import { Places } from "./place";
import { Desk, fingerprint, isModelMissing, Slot, Versions } from "./store";
import type { Generation, Segment } from "./types";

// What modules of the app look at when they are loaded.
vi.hoisted(() => {
  vi.stubGlobal("location", { origin: "http://hark.test", pathname: "/", search: "" });
  vi.stubGlobal("navigator", { languages: ["en"] });
  vi.stubGlobal("document", { documentElement: {} });
});

const segment = (start: number, text: string): Segment => ({ start, end: start + 1, text, speaker: null, confidence: 1, words: [] }) as unknown as Segment;

describe("work", () => {
  it("is not begun twice, and stays after it", async () => {
    const slot = new Slot<number>();
    let calls = 0;
    let end: (value: number) => void = () => undefined;
    const work = () => {
      calls += 1;
      return new Promise<number>((resolve) => (end = resolve));
    };
    const first = slot.start("a", work);
    const second = await slot.start("a", work);
    expect(second).toBeNull();
    end(7);
    expect(await first).toBe(7);
    expect(calls).toBe(1);
    expect(slot.state.value).toMatchObject({ value: 7, of: "a", running: null, error: null });
  });

  it("tells how far it is", async () => {
    const slot = new Slot<number>();
    let middle: unknown;
    await slot.start("a", async (_, report) => {
      report(2, 5);
      middle = slot.state.value.running;
      return 1;
    });
    expect(middle).toMatchObject({ done: 2, total: 5 });
  });

  it("that is cancelled changes nothing, and can begin again at once", async () => {
    const slot = new Slot<number>();
    slot.put("a", 1);
    let ended: (value: number) => void = () => undefined;
    const first = slot.start("a", () => new Promise<number>((resolve) => (ended = resolve)));
    slot.cancel();
    expect(slot.state.value.running).toBeNull();
    const second = slot.start("b", async () => 3);
    ended(2);
    expect(await first).toBeNull();
    expect(await second).toBe(3);
    expect(slot.state.value).toMatchObject({ value: 3, of: "b" });
  });

  it("that fails says why and keeps what was there", async () => {
    const slot = new Slot<number>();
    slot.put("a", 1);
    await slot.start("a", async () => {
      throw new Error("no");
    });
    expect(slot.state.value.value).toBe(1);
    expect((slot.state.value.error as Error).message).toBe("no");
  });

  it("has one slot for each thing", () => {
    const desk = new Desk();
    expect(desk.summary("brief")).toBe(desk.summary("brief"));
    expect(desk.summary("brief")).not.toBe(desk.summary("detailed"));
    expect(desk.generation("quiz")).not.toBe(desk.generation("flashcards"));
  });

  it("a missing model is not a busy one", () => {
    expect(isModelMissing({ status: 503, retryAfter: null })).toBe(true);
    expect(isModelMissing({ status: 503, retryAfter: 15 })).toBe(false);
    expect(isModelMissing({ status: 402, retryAfter: null })).toBe(false);
    expect(isModelMissing(null)).toBe(false);
  });
});

describe("versions", () => {
  const made = (content: string): Generation => ({ type: "blog_post", model: "m", result: { content, word_count: 1 } });

  it("are kept with their edits; the same one is not kept twice", () => {
    const versions = new Versions();
    versions.add(made("one"));
    versions.edit(0, "one, edited");
    versions.add(made("two"));
    expect(versions.shown.value).toBe(1);
    versions.add(made("one"));
    expect(versions.shown.value).toBe(0);
    expect(versions.all.value.map((version) => version.edited)).toEqual(["one, edited", null]);
    versions.edit(0, "one");
    expect(versions.all.value[0]?.edited).toBeNull();
  });
});

describe("fingerprint", () => {
  it("changes with texts, speakers and their order", () => {
    const all = [
      [segment(0, "a b")],
      [segment(0, "a"), segment(1, "b")],
      [segment(0, "b"), segment(1, "a")],
      [{ ...segment(0, "a b"), speaker: "Ann" }],
      [],
    ].map((segments) => fingerprint(segments));
    expect(new Set(all).size).toBe(all.length);
    expect(fingerprint([segment(0, "a b")])).toBe(fingerprint([segment(9, "a b")]));
  });
});

describe("conversation", () => {
  const turn: Turn = { id: 1, question: "?", parts: [], sources: [], found: null, state: "asking", error: null };
  const done = (answer: string, found = true) => ({ event: "done", data: { answer, found, sources: [], session_id: "s", model: "m" } });

  it("puts sentences together as they come", () => {
    const after = [{ event: "delta", data: { text: "One. " } }, { event: "delta", data: { text: "Two." } }, done("One. Two.")].reduce(withEvent, turn);
    expect(after).toMatchObject({ parts: ["One. ", "Two."], state: "answered", found: true });
  });

  it("takes the whole where no pieces came, and knows when there is no answer", () => {
    expect(withEvent(turn, done("It is not there.", false))).toMatchObject({ parts: ["It is not there."], found: false });
  });

  it("goes on with its session, and anew when it is cleared", async () => {
    const chat = new Chat();
    const sessions: (string | null)[] = [];
    const open = async function* (_: string, session: string | null) {
      sessions.push(session);
      yield done("a");
    };
    await chat.ask("one", open);
    await chat.ask("two", open);
    chat.clear();
    await chat.ask("three", open);
    expect(sessions).toEqual([null, "s", null]);
    expect(chat.turns.value.map((one) => one.question)).toEqual(["three"]);
  });

  it("answers one question at a time, and stops when asked to", async () => {
    const chat = new Chat();
    let opened = 0;
    const open = async function* (_: string, __: string | null, signal: AbortSignal) {
      opened += 1;
      yield { event: "delta", data: { text: "Some" } };
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new DOMException("x", "AbortError"))));
    };
    const first = chat.ask("one", open);
    await chat.ask("two", open);
    await new Promise((resolve) => setTimeout(resolve));
    chat.stop();
    await first;
    expect(opened).toBe(1);
    expect(chat.turns.value).toMatchObject([{ state: "stopped", parts: ["Some"], error: null }]);
  });

  it("a stream that ends without an answer has failed", async () => {
    const chat = new Chat();
    await chat.ask("one", async function* () {
      yield { event: "delta", data: { text: "Some" } };
    });
    expect(chat.turns.value[0]?.state).toBe("failed");
  });
});

describe("places", () => {
  const places = new Places([segment(0, "Good morning, everyone."), segment(4, "Who takes the minutes?"), segment(8, "Müller does, until Friday.")]);

  it("finds what was said whatever its case, accents and punctuation", () => {
    expect(places.of("who takes the MINUTES")).toBe(4);
    expect(places.of("Muller")).toBe(8);
    expect(places.of("everyone. Who takes")).toBe(0);
  });

  it("finds whole words only, and nothing that was not said", () => {
    expect(places.of("minute")).toBeNull();
    expect(places.of("never")).toBeNull();
    expect(places.of(" … ")).toBeNull();
    expect(new Places([]).of("a")).toBeNull();
  });
});

describe("findings", () => {
  it("groups names by their type, unknown ones among the others", () => {
    const found = groups({
      entities: [
        { text: "Lisbon", type: "location", count: 1 },
        { text: "Ann", type: "person", count: 1 },
        { text: "Bob", type: "person", count: 3 },
        { text: "X", type: "planet", count: 1 },
      ],
    });
    expect(found.map((group) => [group.type, group.entities.map((entity) => entity.text)])).toEqual([
      ["person", ["Bob", "Ann"]],
      ["location", ["Lisbon"]],
      ["other", ["X"]],
    ]);
  });

  it("marks what was blacked out", () => {
    expect(blackened("Call [PHONE] or [note] [EMAIL]")).toEqual([
      { text: "Call ", isMark: false },
      { text: "[PHONE]", isMark: true },
      { text: " or [note] ", isMark: false },
      { text: "[EMAIL]", isMark: true },
    ]);
    expect(counts({ redacted_text: "", entities: ["a", "b", "b"].map((type) => ({ type, start: 0, end: 1 })) })).toEqual([
      { type: "b", count: 2 },
      { type: "a", count: 1 },
    ]);
  });

  it("puts scores on a scale", () => {
    expect([-1, 0, 1, 5, Number.NaN].map(onScale)).toEqual([0, 50, 100, 100, 50]);
  });
});

describe("languages", () => {
  const language = (code: string) => ({ code, name: code, native_name: code });
  const list = { languages: ["de", "en", "fr", "pt"].map(language), pairs: [{ from: "en", to: "fr", model: "m" }, { from: "en", to: "pt", model: "m" }, { from: "pt", to: "en", model: "m" }], multilingual: [] };

  it("are those that the language of the transcript reaches", () => {
    expect(targets(list, "en").map((one) => one.code)).toEqual(["de", "fr", "pt"]);
    expect(targets(list, "pt-BR").map((one) => one.code)).toEqual(["de", "en"]);
  });

  it("of a model of many are all of it", () => {
    const many = { ...list, multilingual: [{ model: "m", languages: ["de", "en", "fr", "pt"] }] };
    expect(targets(many, "de").map((one) => one.code)).toEqual(["en", "fr", "pt"]);
  });
});

describe("models", () => {
  it("the server's language model is the first", () => {
    expect(languageModel([{ task: "chat", state: "loaded" }])).toBe("ready");
    expect(languageModel([{ task: "embedding", state: "loaded" }, { task: "chat", state: "missing" }])).toBe("missing");
    expect(languageModel([{ task: "chat", state: "pulling" }])).toBe("pulling");
    expect(languageModel([])).toBe("ready");
  });
});

describe("Markdown", () => {
  it("is cut into blocks", () => {
    const found = blocks("# Title\n\nOne **bold** word\nand more.\n\n- a\n  - b\n- [x] c\n\n1. first\n2. second\n\n> said\n> — Ann\n\n---\n```\ncode\n```");
    expect(found.map((block) => block.kind)).toEqual(["heading", "paragraph", "list", "list", "quote", "rule", "code"]);
    const list = found[2];
    if (list?.kind !== "list") throw new Error("no list");
    expect(list.items.length).toBe(2);
    expect(list.items[0]?.children.length).toBe(1);
    expect(list.items[1]?.checked).toBe(true);
  });

  it("marks text, and leaves marks without an end alone", () => {
    expect(inline("a **b** *c* `d*e` f_g_h 2 * 3 **x")).toEqual([
      { text: "a ", kind: "text" },
      { text: "b", kind: "strong" },
      { text: " ", kind: "text" },
      { text: "c", kind: "emphasis" },
      { text: " ", kind: "text" },
      { text: "d*e", kind: "code" },
      { text: " f_g_h 2 * 3 **x", kind: "text" },
    ]);
  });

  it("is nothing but text where it looks like HTML or a link", () => {
    expect(inline("<script>alert(1)</script> [x](javascript:alert(1))")).toEqual([{ text: "<script>alert(1)</script> [x](javascript:alert(1))", kind: "text" }]);
  });

  it("ends in time for hostile texts", () => {
    const began = Date.now();
    for (const piece of ["*", "**a", "_", "`", "- ", "> ", "#", "  - [ ] ", "1. ", "[", "\\"]) {
      blocks(piece.repeat(50_000));
      blocks(`${piece}\n`.repeat(20_000));
    }
    expect(Date.now() - began).toBeLessThan(5000);
  });

  it("becomes plain text", () => {
    expect(plainText("## A\n\n**b** c\n\n- d\n  - e\n\n> f")).toBe("A\n\nb c\n\n- d\n  - e\n\nf");
  });
});
