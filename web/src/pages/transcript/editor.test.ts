import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

vi.stubGlobal("location", { origin: "http://localhost", pathname: "/", search: "" });
const { Editor } = await import("./editor");
const { Problem } = await import("../../api/client");
type Message = import("./editor").Message;
type World = import("./editor").World;

const detail = (texts: string[]) => ({
  id: 1,
  title: "T",
  status: "completed" as const,
  language: "en",
  duration_seconds: 10,
  word_count: 3,
  num_speakers: 1,
  source_type: "web",
  is_encrypted: false,
  created_at: "2026-01-01T00:00:00Z",
  text: texts.join(" "),
  segments: texts.map((text, index) => ({ start: index, end: index + 1, text, speaker: "SPEAKER_00", confidence: 1, words: [] })),
});

function world(over: Partial<World> = {}, kept: { value: string | null } = { value: null }) {
  const saved: { index: number; text: string }[][] = [];
  const posted: Message[] = [];
  const made: World = {
    save: async (texts) => {
      saved.push(texts);
    },
    draft: { read: () => kept.value, write: (value) => (kept.value = value) },
    post: (message) => posted.push(message),
    ...over,
  };
  return { world: made, saved, posted, kept };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe("editing", () => {
  it("saves after a moment, once for a burst of typing", async () => {
    const { world: w, saved, kept } = world();
    const editor = new Editor(detail(["a", "b"]), w);
    editor.type(0, "aa");
    editor.type(0, "aaa ");
    expect(editor.saving.value).toBe("waiting");
    await vi.advanceTimersByTimeAsync(300);
    expect(kept.value).toContain("aaa");
    await vi.advanceTimersByTimeAsync(1000);
    expect(saved).toEqual([[{ index: 0, text: "aaa" }]]);
    expect(editor.saving.value).toBe("saved");
    expect(kept.value).toBeNull();
    expect(editor.isDirty).toBe(false);
  });

  it("saves at the latest after some seconds of steady typing", async () => {
    const { world: w, saved } = world();
    const editor = new Editor(detail(["a"]), w);
    for (let n = 0; n < 20; n += 1) {
      editor.type(0, `a${"x".repeat(n + 1)}`);
      await vi.advanceTimersByTimeAsync(500);
    }
    expect(saved.length).toBeGreaterThan(0);
  });

  it("undoes and redoes across segments, and saves that, too", async () => {
    const { world: w, saved } = world();
    const editor = new Editor(detail(["a", "b"]), w);
    editor.type(0, "aa");
    editor.leave(0);
    editor.type(1, "bb");
    await vi.advanceTimersByTimeAsync(1000);
    expect(editor.undo()).toBe(1);
    expect(editor.undo()).toBe(0);
    expect(editor.texts()).toEqual(["a", "b"]);
    expect(editor.undo()).toBeNull();
    await vi.advanceTimersByTimeAsync(1000);
    expect(saved.at(-1)).toEqual([{ index: 1, text: "b" }, { index: 0, text: "a" }]);
    editor.redo();
    editor.redo();
    expect(editor.texts()).toEqual(["aa", "bb"]);
  });

  it("tries again when the server can't be reached, and keeps the draft until then", async () => {
    let isDown = true;
    const { world: w, kept } = world({
      save: async () => {
        if (isDown) throw new Problem(0, "gone");
      },
    });
    const editor = new Editor(detail(["a"]), w);
    editor.type(0, "b");
    await vi.advanceTimersByTimeAsync(1000);
    expect(editor.saving.value).toBe("offline");
    expect(kept.value).toContain("b");
    isDown = false;
    await vi.advanceTimersByTimeAsync(5000);
    expect(editor.saving.value).toBe("saved");
    expect(kept.value).toBeNull();
  });

  it("does not repeat what the server refuses, until something changes", async () => {
    let calls = 0;
    const { world: w } = world({
      save: async () => {
        calls += 1;
        if (calls === 1) throw new Problem(400, "no");
      },
    });
    const editor = new Editor(detail(["a"]), w);
    editor.type(0, "b");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(calls).toBe(1);
    expect(editor.saving.value).toBe("refused");
    editor.type(0, "c");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(calls).toBe(2);
    expect(editor.saving.value).toBe("saved");
  });

  it("brings a draft back after a reload, and asks where the server's text is another", async () => {
    const kept = { value: '[[0,"a","mine"],[1,"b","mine too"]]' };
    const { world: w, saved } = world({}, kept);
    const editor = new Editor(detail(["a", "theirs"]), w);
    expect(editor.texts()).toEqual(["mine", "mine too"]);
    expect(editor.conflicts.value).toEqual([{ index: 1, mine: "mine too", theirs: "theirs" }]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(saved).toEqual([[{ index: 0, text: "mine" }]]);
    editor.decide(1, "theirs");
    await vi.advanceTimersByTimeAsync(1000);
    expect(editor.text(1)).toBe("theirs");
    expect(saved).toHaveLength(1);
    expect(editor.isDirty).toBe(false);
  });
});

describe("two tabs", () => {
  function tabs() {
    const kept = { value: null as string | null };
    const all: InstanceType<typeof Editor>[] = [];
    const saved: { index: number; text: string }[][] = [];
    const queue: (() => void)[] = [];
    for (const me of [0, 1]) {
      const { world: w } = world(
        {
          save: async (texts) => {
            saved.push(texts);
          },
          post: (message) => queue.push(() => all[1 - me]?.hear(message)),
        },
        kept,
      );
      all.push(new Editor(detail(["a", "b"]), w));
    }
    const deliver = () => {
      while (queue.length) queue.shift()?.();
    };
    return { one: all[0] as InstanceType<typeof Editor>, other: all[1] as InstanceType<typeof Editor>, deliver, saved, kept };
  }

  it("take over each other's changes", async () => {
    const { one, other, deliver, saved } = tabs();
    one.type(0, "aa");
    await vi.advanceTimersByTimeAsync(300);
    deliver();
    expect(other.text(0)).toBe("aa");
    expect(other.isDirty).toBe(false);
    other.type(0, "aab");
    await vi.advanceTimersByTimeAsync(300);
    deliver();
    expect(one.text(0)).toBe("aab");
    expect(one.conflicts.value).toEqual([]);
    await vi.advanceTimersByTimeAsync(3000);
    deliver();
    expect(saved.at(-1)).toEqual([{ index: 0, text: "aab" }]);
    expect([one.saving.value, other.saving.value]).toEqual(["saved", "saved"]);
  });

  it("ask when both changed the same segment, and one answer ends it in both", async () => {
    const { one, other, deliver, saved, kept } = tabs();
    one.type(0, "mine");
    other.type(0, "yours");
    await vi.advanceTimersByTimeAsync(300);
    deliver();
    expect(one.conflicts.value).toEqual([{ index: 0, mine: "mine", theirs: "yours" }]);
    expect(other.conflicts.value).toEqual([{ index: 0, mine: "yours", theirs: "mine" }]);
    await vi.advanceTimersByTimeAsync(5000);
    expect(saved).toEqual([]);
    one.decide(0, "mine");
    deliver();
    await vi.advanceTimersByTimeAsync(3000);
    deliver();
    expect(saved.at(-1)).toEqual([{ index: 0, text: "mine" }]);
    expect(other.text(0)).toBe("mine");
    expect([one.conflicts.value, other.conflicts.value]).toEqual([[], []]);
    expect([one.isDirty, other.isDirty, kept.value]).toEqual([false, false, null]);
  });

  it("ask in both, also when one hears of it before it told of its own change", async () => {
    const { one, other, deliver } = tabs();
    other.type(0, "yours");
    await vi.advanceTimersByTimeAsync(150);
    one.type(0, "mine");
    await vi.advanceTimersByTimeAsync(100);
    deliver();
    expect(one.conflicts.value).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(300);
    deliver();
    expect(other.conflicts.value).toEqual([{ index: 0, mine: "yours", theirs: "mine" }]);
  });

  it("end it with the other text, too", async () => {
    const { one, other, deliver, saved } = tabs();
    one.type(0, "mine");
    other.type(0, "yours");
    await vi.advanceTimersByTimeAsync(300);
    deliver();
    one.decide(0, "yours");
    deliver();
    await vi.advanceTimersByTimeAsync(3000);
    deliver();
    expect([one.text(0), other.text(0)]).toEqual(["yours", "yours"]);
    expect(saved.at(-1)).toEqual([{ index: 0, text: "yours" }]);
    expect([one.isDirty, other.isDirty]).toEqual([false, false]);
  });

  it("do not disturb each other in different segments", async () => {
    const { one, other, deliver, kept } = tabs();
    one.type(0, "aa");
    other.type(1, "bb");
    await vi.advanceTimersByTimeAsync(300);
    deliver();
    expect([one.texts(), other.texts()]).toEqual([["aa", "bb"], ["aa", "bb"]]);
    await vi.advanceTimersByTimeAsync(3000);
    deliver();
    expect([one.isDirty, other.isDirty, kept.value]).toEqual([false, false, null]);
  });
});

describe("the server's text", () => {
  it("replaces what was not changed here, and asks about what was", () => {
    const { world: w } = world();
    const editor = new Editor(detail(["a", "b", "c"]), w);
    editor.type(1, "mine");
    editor.meetServer(detail(["x", "theirs", "c"]));
    expect(editor.texts()).toEqual(["x", "mine", "c"]);
    expect(editor.conflicts.value).toEqual([{ index: 1, mine: "mine", theirs: "theirs" }]);
  });
});
