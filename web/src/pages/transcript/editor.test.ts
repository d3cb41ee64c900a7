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
    give: async () => Promise.reject(new Problem(0, "gone")),
    onProblem: () => undefined,
    load: async () => Promise.reject(new Problem(0, "gone")),
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

describe("versions", () => {
  /** A server with one transcript that devices change, each knowing the version it read. */
  function server(texts: string[]) {
    const state = { texts: [...texts], version: 1 };
    const read = () => ({ ...detail([...state.texts]), version: String(state.version) });
    const device = () => {
      const sent: (string | null)[] = [];
      let newer = 0;
      const { world: w } = world({
        save: async (changes, version) => {
          sent.push(version);
          if (version !== null && version !== String(state.version)) throw new Problem(412, "changed");
          for (const { index, text } of changes) state.texts[index] = text;
          state.version += 1;
          return String(state.version);
        },
        load: async () => read(),
        onNewer: () => (newer += 1),
      });
      return { editor: new Editor(read(), w), sent, newer: () => newer };
    };
    return { state, device };
  }

  it("a save that comes after that of another device is made again on top of it", async () => {
    const { state, device } = server(["a", "b"]);
    const [one, other] = [device(), device()];
    one.editor.type(0, "one");
    await vi.advanceTimersByTimeAsync(1000);
    other.editor.type(1, "other");
    await vi.advanceTimersByTimeAsync(3000);
    expect(state.texts).toEqual(["one", "other"]);
    expect(other.editor.texts()).toEqual(["one", "other"]);
    expect(other.sent).toEqual(["1", "2"]);
    expect([one.newer(), other.newer()]).toEqual([0, 1]);
    expect(other.editor.saving.value).toBe("saved");
    // The version of its own save is known: the next one is not refused.
    other.editor.type(1, "again");
    await vi.advanceTimersByTimeAsync(1000);
    expect(other.sent).toEqual(["1", "2", "3"]);
  });

  it("two devices that changed the same text are asked about it, and neither is overwritten", async () => {
    const { state, device } = server(["a"]);
    const [one, other] = [device(), device()];
    one.editor.type(0, "one");
    await vi.advanceTimersByTimeAsync(1000);
    other.editor.type(0, "other");
    await vi.advanceTimersByTimeAsync(10_000);
    expect(state.texts).toEqual(["one"]);
    expect(other.editor.conflicts.value).toEqual([{ index: 0, mine: "other", theirs: "one" }]);
    other.editor.decide(0, "other");
    await vi.advanceTimersByTimeAsync(1000);
    expect(state.texts).toEqual(["other"]);
  });

  it("a server that always says that it is newer is not asked without an end", async () => {
    let calls = 0;
    const { world: w } = world({
      save: async () => {
        calls += 1;
        throw new Problem(412, "changed");
      },
      load: async () => ({ ...detail(["a"]), version: "1" }),
    });
    const editor = new Editor({ ...detail(["a"]), version: "1" }, w);
    editor.type(0, "b");
    await vi.advanceTimersByTimeAsync(120_000);
    expect(calls).toBe(6);
    expect(editor.saving.value).toBe("refused");
  });

  it("what another tab saved is known with its version", () => {
    const { world: w } = world();
    const sent: (string | null)[] = [];
    const editor = new Editor({ ...detail(["a", "b"]), version: "1" }, { ...w, save: async (_, version) => void sent.push(version) });
    editor.hear({ type: "saved", texts: [[0, "x"]], from: "1", version: "2" });
    editor.hear({ type: "saved", texts: [[0, "y"]], from: "7", version: "8" });
    editor.type(1, "c");
    void editor.flush();
    expect(sent).toEqual(["2"]);
  });
});

describe("speakers", () => {
  /** A world that gives segments to speakers as the server does. */
  function speaking(over: Partial<World> = {}) {
    const now = { ...detail(["a", "b", "c"]), version: "1" };
    const given: { index: number; speaker: string }[][] = [];
    const problems: unknown[] = [];
    const { world: w } = world({
      save: async (texts) => {
        for (const { index, text } of texts) now.segments[index] = { ...now.segments[index]!, text };
      },
      give: async (speakers) => {
        given.push(speakers);
        for (const { index, speaker } of speakers) now.segments[index] = { ...now.segments[index]!, speaker: speaker || (null as never) };
        now.version += "x";
        return { ...now, segments: [...now.segments] };
      },
      onProblem: (error) => problems.push(error),
      ...over,
    });
    return { editor: new Editor({ ...now, segments: [...now.segments] }, w), given, problems };
  }
  const who = (editor: InstanceType<typeof Editor>) => editor.turns.value.map((turn) => `${turn.first}-${turn.end} ${turn.speaker}`);

  it("are given segments, which is undone and redone between texts", async () => {
    const { editor, given } = speaking();
    editor.type(0, "aa");
    await editor.give([1, 2], "Ada");
    expect(who(editor)).toEqual(["0-1 SPEAKER_00", "1-3 Ada"]);
    expect(editor.speakers.value.map(({ name }) => name)).toEqual(["SPEAKER_00", "Ada"]);
    editor.type(0, "aaa");
    expect(editor.undo()).toBe(0);
    expect(editor.undo()).toBe(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(who(editor)).toEqual(["0-3 SPEAKER_00"]);
    expect(editor.redo()).toBe(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(who(editor)).toEqual(["0-1 SPEAKER_00", "1-3 Ada"]);
    const ada = [1, 2].map((index) => ({ index, speaker: "Ada" }));
    expect(given).toEqual([ada, [1, 2].map((index) => ({ index, speaker: "SPEAKER_00" })), ada]);
    expect(editor.text(0)).toBe("aa");
  });

  it("that say a segment already are not told to the server, nor a step", async () => {
    const { editor, given } = speaking();
    await editor.give([0, 1], "SPEAKER_00");
    expect(given).toEqual([]);
    expect(editor.canUndo.value).toBe(false);
  });

  it("a change that fails is no step, and an undo that fails can be made again", async () => {
    let isDown = true;
    const now = { ...detail(["a", "b"]), version: "1" };
    const { editor, problems } = speaking({
      give: async ([first]) => {
        if (isDown) throw new Problem(0, "gone");
        return { ...now, segments: now.segments.map((segment) => ({ ...segment, speaker: first?.speaker ?? "" })) };
      },
    });
    await expect(editor.give([0], "Ada")).rejects.toThrow("gone");
    expect(editor.canUndo.value).toBe(false);
    isDown = false;
    await editor.give([0], "Ada");
    isDown = true;
    editor.undo();
    await vi.advanceTimersByTimeAsync(0);
    expect(problems).toHaveLength(1);
    expect(editor.canUndo.value).toBe(true);
  });

  it("another device that was first is met, and the change made on top of it", async () => {
    const newer = { ...detail(["x", "b", "c"]), version: "2" };
    const asked: (string | null)[] = [];
    const { editor } = speaking({
      give: async (_, version) => {
        asked.push(version);
        if (version !== "2") throw new Problem(412, "changed");
        return { ...newer, version: "3", segments: newer.segments.map((segment) => ({ ...segment, speaker: "Ada" })) };
      },
      load: async () => newer,
    });
    await editor.give([0, 1, 2], "Ada");
    expect(asked).toEqual(["1", "2"]);
    expect([editor.text(0), ...who(editor)]).toEqual(["x", "0-3 Ada"]);
  });
});
