import { describe, expect, it } from "vitest";
import { RATE } from "./buffer";
import { LiveSession, type LiveFailure, type LiveOptions, type LiveState, type Wire, type WireEvents } from "./session";
import { textOf } from "./transcript";

const OPTIONS: LiveOptions = { language: "en", model: "base", diarize: false, translate: false };

/** A server that does what the test says, and a clock that only the test moves. */
class Fake {
  time = 0;
  timers: { at: number; then: () => void }[] = [];
  wires: FakeWire[] = [];
  reason: LiveFailure | null = null;
  states: LiveState[] = [];
  session: LiveSession;

  constructor(options: Partial<LiveOptions> = {}) {
    this.session = new LiveSession(
      { ...OPTIONS, ...options },
      {
        open: (events) => {
          const wire = new FakeWire(events);
          this.wires.push(wire);
          return wire;
        },
        why: () => Promise.resolve(this.reason),
        now: () => this.time,
        after: (milliseconds, then) => {
          const timer = { at: this.time + milliseconds, then };
          this.timers.push(timer);
          return () => {
            this.timers = this.timers.filter((each) => each !== timer);
          };
        },
        random: () => 0.5,
        noConnection: "no connection",
      },
      (state) => this.states.push(state),
    );
  }

  get state(): LiveState {
    return this.session.state;
  }

  get wire(): FakeWire {
    const wire = this.wires.at(-1);
    if (!wire) throw new Error("no connection was made");
    return wire;
  }

  pass(milliseconds: number): void {
    const end = this.time + milliseconds;
    for (;;) {
      const next = this.timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.timers = this.timers.filter((timer) => timer !== next);
      this.time = next.at;
      next.then();
    }
    this.time = end;
  }

  /** Sound whose samples are the numbers of their tenths of a second, so that what arrives can be told apart. */
  #tenths = 0;
  say(seconds: number): void {
    for (let tenth = 0; tenth < Math.round(seconds * 10); tenth += 1) {
      this.session.push(new Int16Array(RATE / 10).fill(this.#tenths));
      this.#tenths += 1;
    }
  }

  begin(): this {
    this.session.start();
    this.wire.events.onOpen();
    this.wire.tell({ status: "ready", session_id: "one" });
    return this;
  }

  text(text: string, start: number, end: number, more: object = {}): void {
    this.wire.tell({ text, start, end, words: [], language: "en", confidence: 0.9, ...more });
  }

  get shown(): string[] {
    return this.state.paragraphs.map((paragraph) => textOf(paragraph.lines));
  }
}

class FakeWire implements Wire {
  messages: Record<string, unknown>[] = [];
  sound: number[] = [];
  closed: number | null = null;
  waiting = 0;
  isStuck = false;

  constructor(readonly events: WireEvents) {}

  send(message: string | Int16Array): void {
    if (typeof message === "string") this.messages.push(JSON.parse(message) as Record<string, unknown>);
    else {
      for (const sample of message) this.sound.push(sample);
      if (this.isStuck) this.waiting += message.byteLength;
    }
  }

  close(code: number): void {
    this.closed ??= code;
  }

  buffered(): number {
    return this.waiting;
  }

  tell(message: object): void {
    this.events.onMessage(JSON.stringify(message));
  }

  /** The tenths of seconds that arrived, each once where it came as a whole. */
  get tenths(): number[] {
    return this.sound.filter((_, index) => index % (RATE / 10) === 0);
  }
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + index);
}

describe("a session", () => {
  it("sends what was said before the server was ready, then the rest as it comes", () => {
    const fake = new Fake();
    fake.session.start();
    fake.say(0.5);
    fake.wire.events.onOpen();
    expect(fake.wire.messages).toEqual([{ language: "en", model: "base", diarize: false, translate: false }]);
    fake.say(0.5);
    expect(fake.wire.sound).toHaveLength(0);
    fake.wire.tell({ status: "ready", session_id: "one" });
    fake.say(1);
    expect(fake.wire.tenths).toEqual(numbers(0, 20));
    expect([fake.state.link, fake.state.seconds, fake.state.waiting]).toEqual(["ready", 2, 0]);
  });

  it("leaves out what was not chosen", () => {
    const fake = new Fake({ language: "", model: "", diarize: true });
    fake.session.start();
    fake.wire.events.onOpen();
    expect(fake.wire.messages).toEqual([{ diarize: true, translate: false }]);
  });

  it("shows partial text until it is final", () => {
    const fake = new Fake().begin();
    fake.wire.tell({ partial: "It was the" });
    expect([fake.state.partial, fake.shown]).toEqual(["It was the", []]);
    fake.text("It was", 0.2, 0.9);
    expect([fake.state.partial, fake.shown]).toEqual(["the", ["It was"]]);
    fake.wire.tell({ partial: "the best of" });
    fake.text("the best of times.", 0.9, 2);
    expect([fake.state.partial, fake.shown, fake.state.language]).toEqual(["", ["It was the best of times."], "en"]);
  });

  it("stops: sends the rest, waits for the last text, and knows the transcript", () => {
    const fake = new Fake().begin();
    fake.say(1);
    fake.session.stop();
    expect(fake.state.phase).toBe("stopping");
    expect(fake.wire.messages.at(-1)).toEqual({ action: "stop" });
    fake.say(1);
    expect(fake.wire.tenths).toEqual(numbers(0, 10));
    fake.text("The end.", 0, 1);
    fake.wire.tell({ is_final: true, text: "The end.", duration: 1, language: "en", transcript_id: 7 });
    expect([fake.state.phase, fake.state.transcripts, fake.state.failure, fake.shown]).toEqual(["ended", [7], null, ["The end."]]);
    expect(fake.wire.closed).toBe(1000);
    expect(fake.timers).toEqual([]);
  });

  it("takes the speakers of the end over those of the way", () => {
    const fake = new Fake({ diarize: true }).begin();
    fake.say(3);
    fake.text("One two three.", 0, 3, { speaker: "SPEAKER_00" });
    fake.session.stop();
    const segments = [
      { start: 0, end: 1, text: "One", speaker: "SPEAKER_00" },
      { start: 1, end: 3, text: "two three.", speaker: "SPEAKER_01" },
    ];
    fake.wire.tell({ is_final: true, text: "One two three.", duration: 3, language: "en", segments });
    expect(fake.state.paragraphs.map((paragraph) => [paragraph.speaker, textOf(paragraph.lines)])).toEqual([[0, "One"], [1, "two three."]]);
  });

  it("pauses without losing the session", () => {
    const fake = new Fake().begin();
    fake.say(1);
    fake.session.pause();
    expect(fake.wire.messages.at(-1)).toEqual({ action: "flush" });
    fake.say(5);
    fake.pass(65_000);
    expect(fake.wire.sound.slice(RATE)).toEqual([0, 0, 0]);
    fake.session.resume();
    fake.say(0.1);
    expect(fake.wire.sound).toHaveLength(RATE + 3 + RATE / 10);
    fake.pass(60_000);
    expect(fake.wire.sound).toHaveLength(RATE + 3 + RATE / 10);
  });

  it("ends at once when asked to, and keeps the text that was not final", () => {
    const fake = new Fake().begin();
    fake.say(1);
    fake.text("Final.", 0, 0.5);
    fake.wire.tell({ partial: "not final" });
    fake.session.abort();
    expect([fake.state.phase, fake.shown, fake.wire.closed]).toEqual(["ended", ["Final. not final"], 1000]);
  });
});

describe("a broken connection", () => {
  it("goes on where the server has heard it last", () => {
    const fake = new Fake().begin();
    fake.say(3);
    fake.text("Before.", 0, 2);
    fake.wire.tell({ partial: "and" });
    fake.wire.events.onClose(1006);
    expect([fake.state.phase, fake.state.link, fake.state.partial]).toEqual(["running", "lost", "and"]);
    fake.say(2);
    expect(fake.state.waiting).toBe(2);
    fake.pass(1000);
    expect(fake.wires).toHaveLength(2);
    fake.wire.events.onOpen();
    expect(fake.wire.messages[0]).toMatchObject({ session_id: "one", language: "en" });
    fake.say(1);
    fake.wire.tell({ status: "ready", session_id: "one", resumed: true, received: 2.4 });
    expect(fake.wire.tenths).toEqual(numbers(24, 60));
    fake.text("after.", 2.5, 4);
    expect([fake.shown, fake.state.waiting, fake.state.lost, fake.state.parts]).toEqual([["Before. after."], 0, 0, 1]);
  });

  it("ignores what the old connection still says", () => {
    const fake = new Fake().begin();
    const old = fake.wire;
    fake.say(1);
    old.events.onClose(1006);
    fake.pass(1000);
    old.tell({ partial: "ghost" });
    old.events.onClose(1006);
    expect([fake.state.partial, fake.wires.length]).toEqual(["", 2]);
  });

  it("is tried again, more and more slowly, for as long as it takes", async () => {
    const fake = new Fake().begin();
    fake.say(1);
    fake.wire.events.onClose(1006);
    const moments: number[] = [];
    for (let attempt = 0; attempt < 8; attempt += 1) {
      const before = fake.wires.length;
      const from = fake.time;
      while (fake.wires.length === before) fake.pass(100);
      moments.push(fake.time - from);
      fake.reason = { status: 0, message: "unreachable", upgrade: false };
      fake.wire.events.onClose(1006);
      await Promise.resolve();
      await Promise.resolve();
    }
    expect(moments).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
    expect(fake.state.phase).toBe("running");
    fake.session.retryNow();
    expect(fake.wires).toHaveLength(10);
  });

  it("ends where the account may not go on", async () => {
    const fake = new Fake().begin();
    fake.say(1);
    fake.wire.events.onClose(1006);
    fake.pass(1000);
    fake.reason = { status: 401, message: "the session is over", upgrade: false };
    fake.wire.events.onClose(1006);
    await Promise.resolve();
    await Promise.resolve();
    expect([fake.state.phase, fake.state.failure?.status]).toEqual(["ended", 401]);
  });

  it("says how much was lost when it lasted longer than sound is kept", () => {
    const fake = new Fake().begin();
    fake.say(10);
    fake.text("Early.", 0, 9);
    fake.wire.events.onClose(1006);
    fake.say(130);
    fake.pass(1000);
    fake.wire.events.onOpen();
    fake.wire.tell({ status: "ready", session_id: "one", resumed: true, received: 10 });
    expect(fake.state.lost).toBe(10);
    expect(fake.wire.tenths[0]).toBe(200);
    // The server's eleventh second is our twenty-first.
    fake.text("Late.", 11, 12);
    expect(fake.state.paragraphs.at(-1)?.start).toBeCloseTo(21);
  });

  it("begins another session behind the last text where the server has forgotten the old one", () => {
    const fake = new Fake({ diarize: true }).begin();
    fake.say(5);
    fake.text("Before.", 0, 3, { speaker: "SPEAKER_01" });
    fake.wire.events.onClose(1006);
    fake.pass(1000);
    fake.wire.events.onOpen();
    fake.wire.tell({ status: "ready", session_id: "two" });
    expect(fake.wire.tenths).toEqual(numbers(30, 50));
    fake.text("After.", 0.5, 1.5, { speaker: "SPEAKER_00" });
    expect(fake.state.parts).toBe(2);
    expect(fake.state.paragraphs.map(({ speaker, start }) => [speaker, start])).toEqual([[1, 0], [2, 3.5]]);
    fake.session.stop();
    fake.wire.tell({ is_final: true, text: "After.", duration: 2, language: "en", segments: [{ start: 0.5, end: 1.5, text: "After!", speaker: "SPEAKER_00" }] });
    expect(fake.shown).toEqual(["Before.", "After!"]);
  });

  it("drops text that a server which was killed will say again", () => {
    const fake = new Fake().begin();
    fake.say(10);
    fake.text("Stored.", 0, 4);
    fake.text("Not stored.", 4.2, 6);
    fake.wire.events.onClose(1006);
    fake.pass(1000);
    fake.wire.events.onOpen();
    fake.wire.tell({ status: "ready", session_id: "one", resumed: true, received: 4 });
    expect(fake.shown).toEqual(["Stored."]);
    expect(fake.wire.tenths).toEqual(numbers(40, 100));
  });

  it("breaks while stopping, and still gets the end", () => {
    const fake = new Fake().begin();
    fake.say(2);
    fake.session.stop();
    fake.wire.events.onClose(1006);
    fake.pass(1000);
    fake.wire.events.onOpen();
    fake.wire.tell({ status: "ready", session_id: "one", resumed: true, received: 1 });
    expect(fake.wire.tenths).toEqual(numbers(10, 20));
    expect(fake.wire.messages.at(-1)).toEqual({ action: "stop" });
    fake.wire.tell({ is_final: true, text: "", duration: 2, language: "en", transcript_id: 3 });
    expect([fake.state.phase, fake.state.transcripts]).toEqual(["ended", [3]]);
  });

  it("is noticed where the browser does not: nothing is taken for twenty seconds", () => {
    const fake = new Fake().begin();
    fake.wire.isStuck = true;
    for (let second = 0; second < 22; second += 1) {
      fake.say(1);
      fake.pass(1000);
    }
    expect(fake.wires[0]?.closed).toBe(4000);
    expect(fake.wires.length).toBeGreaterThan(1);
  });

  it("waits here, not in the browser, while the server is behind", () => {
    const fake = new Fake().begin();
    fake.wire.isStuck = true;
    fake.say(15);
    expect(fake.wire.sound.length).toBeLessThan(10 * RATE);
    expect(fake.state.waiting).toBeGreaterThan(5);
    fake.wire.isStuck = false;
    fake.wire.waiting = 0;
    fake.pass(1000);
    expect(fake.wire.tenths).toEqual(numbers(0, 150));
    expect(fake.state.waiting).toBe(0);
  });
});

describe("a refusal", () => {
  it("at the start is the end, in the words of the server", () => {
    const fake = new Fake();
    fake.session.start();
    fake.wire.events.onOpen();
    fake.wire.tell({ error: "no credits are left", upgrade: true });
    fake.wire.events.onClose(1008);
    expect(fake.state).toMatchObject({ phase: "ended", failure: { message: "no credits are left", upgrade: true }, parts: 0 });
  });

  it("where no connection can be made is explained", async () => {
    const fake = new Fake();
    fake.reason = { status: 0, message: "unreachable", upgrade: false };
    fake.session.start();
    fake.wire.events.onClose(1006);
    await Promise.resolve();
    await Promise.resolve();
    expect(fake.state).toMatchObject({ phase: "ended", failure: { message: "unreachable" } });
  });

  it("on the way ends with the last text", () => {
    const fake = new Fake().begin();
    fake.say(60);
    fake.wire.tell({ error: "no credits are left", upgrade: true });
    fake.text("Last words.", 58, 60);
    fake.wire.tell({ is_final: true, text: "Last words.", duration: 60, language: "en", transcript_id: 4 });
    fake.wire.events.onClose(1008);
    expect(fake.state).toMatchObject({ phase: "ended", failure: { upgrade: true }, transcripts: [4] });
    expect(fake.shown).toEqual(["Last words."]);
  });

  it("because the server restarts is followed by another session", () => {
    const fake = new Fake().begin();
    fake.say(4);
    fake.wire.tell({ error: "the server shuts down" });
    fake.text("First half", 0, 3.5);
    fake.wire.tell({ is_final: true, text: "First half", duration: 4, language: "en", transcript_id: 4 });
    fake.wire.events.onClose(1013);
    expect([fake.state.phase, fake.state.link]).toEqual(["running", "lost"]);
    fake.say(1);
    fake.pass(1000);
    fake.wire.events.onOpen();
    expect(fake.wire.messages[0]).not.toHaveProperty("session_id");
    fake.wire.tell({ status: "ready", session_id: "two" });
    expect(fake.wire.tenths).toEqual(numbers(40, 50));
    fake.session.stop();
    fake.wire.tell({ is_final: true, text: "", duration: 1, language: "en", transcript_id: 5 });
    expect(fake.state.transcripts).toEqual([4, 5]);
  });

  it("to go on is believed after a few times", () => {
    const fake = new Fake().begin();
    fake.say(1);
    fake.wire.events.onClose(1006);
    for (let attempt = 0; attempt < 6; attempt += 1) {
      fake.pass(15_000);
      fake.wire.events.onOpen();
      fake.wire.tell({ error: "too many transcriptions at once" });
      fake.wire.events.onClose(1008);
    }
    expect(fake.state).toMatchObject({ phase: "ended", failure: { message: "too many transcriptions at once" } });
  });

  it("of silence is no refusal: the next sound begins another session", () => {
    const fake = new Fake().begin();
    fake.say(2);
    fake.wire.tell({ is_final: true, text: "Hello.", duration: 2, language: "en", transcript_id: 1 });
    fake.wire.events.onClose(1000);
    fake.pass(60_000);
    expect([fake.state.phase, fake.wires.length, fake.shown]).toEqual(["running", 1, ["Hello."]]);
    fake.say(0.1);
    expect(fake.wires).toHaveLength(2);
    fake.wire.events.onOpen();
    fake.wire.tell({ status: "ready", session_id: "two" });
    expect(fake.wire.tenths).toEqual([20]);
  });

  it("is survived by anything that is not understood", () => {
    const fake = new Fake().begin();
    for (const message of ["", "null", "[]", "7", '{"text": 5}', '{"text": "x", "start": "y"}', '{"is_final": true, "segments": [{}]}', '{"partial": null}']) {
      fake.wire.events.onMessage(message);
    }
    expect(fake.state.phase).toBe("running");
  });
});
