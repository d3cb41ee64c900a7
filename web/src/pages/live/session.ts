/**
 * A live session: sound goes in, text comes out, over a WebSocket that may break (docs/users/api.md, "Live"). It knows
 * neither the page nor the microphone: connection, clock and chance are given to it.
 *
 * The last two minutes of sound are kept, sent or not. That is as long as the server waits for a session to come back, so
 * whatever it did not receive can be sent again.
 */

import { RATE, SoundBuffer } from "./buffer";
import { withLine, withPart, type Line, type Paragraph } from "./transcript";

/** What the server is asked for; empty strings leave it to the server. */
export interface LiveOptions {
  language: string;
  model: string;
  diarize: boolean;
  translate: boolean;
}

/** A connection. After `close` nothing of it is heard any more. */
export interface Wire {
  send(message: string | Int16Array): void;
  close(code: number): void;
  /** Bytes that were not handed to the network yet. */
  buffered(): number;
}

export interface WireEvents {
  onOpen(): void;
  onMessage(text: string): void;
  onClose(code: number): void;
}

/** Why a session could not go on, in words for its user. */
export interface LiveFailure {
  /** A status of HTTP where there was one, else 0. */
  status: number;
  message: string;
  upgrade: boolean;
}

export interface LiveDeps {
  open(events: WireEvents): Wire;
  /** Why no connection can be made: a browser does not tell. Null where the server answers. */
  why(): Promise<LiveFailure | null>;
  /** Milliseconds. */
  now(): number;
  /** Calls back after milliseconds, unless the function that it returns is called. */
  after(milliseconds: number, then: () => void): () => void;
  /** From 0 to 1. */
  random(): number;
  /** The words for a connection that could not be made though the server answers. */
  noConnection: string;
}

export interface LiveState {
  phase: "idle" | "running" | "stopping" | "ended";
  link: "connecting" | "ready" | "lost";
  isPaused: boolean;
  /** Whole seconds of sound so far. */
  seconds: number;
  /** Whole seconds of it that still have to be sent. */
  waiting: number;
  /** Seconds that could not be kept for the server. */
  lost: number;
  paragraphs: readonly Paragraph[];
  partial: string;
  language: string | null;
  /** Sessions of the server that this one was made of; more than one where it had ended one. */
  parts: number;
  /** Stored transcripts, one for each part whose end was heard. */
  transcripts: readonly number[];
  failure: LiveFailure | null;
}

const NEW: LiveState = {
  phase: "idle",
  link: "connecting",
  isPaused: false,
  seconds: 0,
  waiting: 0,
  lost: 0,
  paragraphs: [],
  partial: "",
  language: null,
  parts: 0,
  transcripts: [],
  failure: null,
};

/** Seconds of sound that are kept: as long as a server keeps a session whose connection broke. */
const KEPT = 120;
/** Samples of a message: a second at most, where much has to be sent again. */
const MESSAGE = RATE;
/** Bytes that may wait in the browser; the rest waits here, where it can be sent over another connection. */
const BUFFERED = 256 * 1024;
const OPEN_MS = 15_000;
/** Servers load a model before the first session of it. */
const READY_MS = 180_000;
/** The last text of a long session may take two minutes, and a minute to be stored. */
const FINISH_MS = 200_000;
/** A connection that takes nothing for so long is dead, whatever the browser thinks. */
const STUCK_MS = 20_000;
const DRAIN_MS = 200;
/** How often a paused session says that it is there: servers end those without sound after a minute. */
const KEEPALIVE_MS = 20_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
/** After so long a connection counts as good. */
const GOOD_MS = 10_000;
/** How often a server may refuse to go on before we believe it. */
const REFUSALS = 5;

/** What one session of the server is to this one. */
interface Part {
  /** From which sample of the server on (`at`) its samples are how far behind ours (`base`). */
  clock: { at: number; base: number }[];
  /** The number of its first speaker: what it calls its first need not be that of the part before. */
  firstSpeaker: number;
  /** Where sound goes on if it has ended: behind its last text. */
  heard: number;
}

interface Connection {
  wire: Wire | null;
  isOpen: boolean;
  isReady: boolean;
  readyAt: number;
  /** Bytes of sound that were given to the browser, that it handed on, and when it last did. */
  given: number;
  taken: number;
  takenAt: number;
  isStopSent: boolean;
  hasFinal: boolean;
  failure: LiveFailure | null;
}

export class LiveSession {
  state: LiveState = NEW;
  readonly #options: LiveOptions;
  readonly #deps: LiveDeps;
  readonly #changed: (state: LiveState) => void;
  readonly #sound = new SoundBuffer(KEPT);
  /** The next sample to send. */
  #sent = 0;
  #sessionId: string | null = null;
  #part: Part | null = null;
  #lines = 0;
  #speakers = 0;

  /** The connection; a new object each time, so that what an old one still says is known as such. */
  #connection: Connection | null = null;
  #attempts = 0;
  #refusals = 0;
  /** Connects when there is sound to send. */
  #waitsForSound = false;
  #isStopSent = false;
  #timers: Record<string, () => void> = {};

  constructor(options: LiveOptions, deps: LiveDeps, changed: (state: LiveState) => void) {
    this.#options = options;
    this.#deps = deps;
    this.#changed = changed;
  }

  start(): void {
    if (this.state.phase !== "idle") return;
    this.#set({ phase: "running" });
    this.#connect();
  }

  /** More sound, 16 kHz. It may come before the server is ready. */
  push(samples: Int16Array): void {
    if (this.state.phase !== "running" || this.state.isPaused || samples.length === 0) return;
    this.#take(samples);
  }

  /** Sends no more sound until `resume`; the session stays. */
  pause(): void {
    if (this.state.phase !== "running" || this.state.isPaused) return;
    this.#set({ isPaused: true });
    if (this.#connection?.isReady) this.#connection.wire?.send(JSON.stringify({ action: "flush" }));
    this.#keepAlive();
  }

  resume(): void {
    if (this.state.phase !== "running" || !this.state.isPaused) return;
    this.#cancel("alive");
    this.#set({ isPaused: false });
  }

  /** Sends what is left and waits for the last text. */
  stop(): void {
    if (this.state.phase !== "running") return;
    this.#cancel("alive");
    this.#set({ phase: "stopping", isPaused: false });
    if (this.#waitsForSound) this.#end(null);
    else if (this.#connection?.isReady) this.#pump();
    else if (!this.#connection) this.#connect();
  }

  /** Ends at once, with the text so far; the server finishes what it has. */
  abort(): void {
    if (this.state.phase === "idle" || this.state.phase === "ended") return;
    this.#end(null);
  }

  /** The network is back: no need to wait for the next attempt. */
  retryNow(): void {
    if (this.state.link === "lost" && !this.#connection && !this.#waitsForSound && this.#isGoing()) this.#connect();
  }

  #isGoing(): boolean {
    return this.state.phase === "running" || this.state.phase === "stopping";
  }

  #take(samples: Int16Array): void {
    this.#sound.push(samples);
    if (this.#connection?.isReady) this.#pump();
    else if (this.#waitsForSound) {
      this.#waitsForSound = false;
      this.#connect();
    }
    this.#measure();
  }

  #measure(): void {
    const seconds = Math.floor(this.#sound.end / RATE);
    const waiting = Math.floor((this.#sound.end - Math.max(this.#sent, this.#sound.start)) / RATE);
    if (seconds !== this.state.seconds || waiting !== this.state.waiting) this.#set({ seconds, waiting });
  }

  /** A single silent sample now and then: it costs nothing, and without any sound the server would end the session. */
  #keepAlive(): void {
    this.#after("alive", KEEPALIVE_MS, () => {
      if (this.#connection?.isReady) this.#take(new Int16Array(1));
      this.#keepAlive();
    });
  }

  #connect(): void {
    this.#cancel("retry");
    const connection: Connection = { wire: null, isOpen: false, isReady: false, readyAt: 0, given: 0, taken: 0, takenAt: 0, isStopSent: false, hasFinal: false, failure: null };
    this.#connection = connection;
    const isCurrent = () => this.#connection === connection;
    this.#after("wait", OPEN_MS, () => this.#broken(false));
    connection.wire = this.#deps.open({
      onOpen: () => {
        if (!isCurrent()) return;
        connection.isOpen = true;
        this.#after("wait", READY_MS, () => this.#broken(true));
        const { language, model, diarize, translate } = this.#options;
        connection.wire?.send(
          JSON.stringify({
            ...(language ? { language } : {}),
            ...(model ? { model } : {}),
            ...(this.#sessionId ? { session_id: this.#sessionId } : {}),
            diarize,
            translate,
          }),
        );
      },
      onMessage: (text) => {
        if (isCurrent()) this.#receive(text);
      },
      onClose: (code) => {
        if (isCurrent()) this.#closed(code);
      },
    });
  }

  #receive(text: string): void {
    let message: Record<string, unknown>;
    try {
      message = JSON.parse(text) as Record<string, unknown>;
    } catch {
      return;
    }
    if (typeof message !== "object" || message === null) return;
    if (typeof message["error"] === "string") {
      // The last texts still come; the close says the rest.
      if (this.#connection) this.#connection.failure = { status: 0, message: message["error"], upgrade: message["upgrade"] === true };
    } else if (message["status"] === "ready") this.#ready(message);
    else if (message["is_final"] === true) this.#final(message);
    else if (typeof message["partial"] === "string") this.#set({ partial: message["partial"].trim() });
    else if (typeof message["text"] === "string") this.#text(message);
  }

  #ready(message: Record<string, unknown>): void {
    const connection = this.#connection;
    if (!connection || connection.isReady) return;
    const id = typeof message["session_id"] === "string" ? message["session_id"] : null;
    const received = typeof message["received"] === "number" ? Math.round(message["received"] * RATE) : 0;
    const isResumed = message["resumed"] === true && this.#part !== null;
    this.#sessionId = id;
    if (isResumed && this.#part) this.#goOn(this.#part, received);
    else if (!this.#begin()) return;
    this.#cancel("wait");
    connection.isReady = true;
    connection.readyAt = this.#deps.now();
    connection.takenAt = connection.readyAt;
    this.#set({ link: "ready" });
    this.#pump();
    this.#measure();
  }

  /** The server has the session still, and sound up to `received`. */
  #goOn(part: Part, received: number): void {
    part.clock = part.clock.filter((entry) => entry.at <= received || entry.at === 0);
    const wanted = Math.min(toOurs(part, received), this.#sound.end);
    if (wanted < this.#sound.start) {
      this.#set({ lost: this.state.lost + (this.#sound.start - wanted) / RATE });
      part.clock.push({ at: received, base: this.#sound.start - received });
    }
    this.#sent = Math.max(wanted, this.#sound.start);
    // One whose process died knows only what was stored: it will say the rest again.
    const from = wanted / RATE - 0.05;
    const index = this.state.parts - 1;
    if (this.state.paragraphs.at(-1)?.lines.some((line) => line.part === index && line.start >= from)) {
      const kept = this.state.paragraphs.flatMap((paragraph) => paragraph.lines).filter((line) => line.part === index && line.start < from);
      this.#set({ paragraphs: withPart(this.state.paragraphs, index, kept), partial: "" });
    }
  }

  /** The server knows no session of ours: another begins behind the last text. False where nothing is left for it. */
  #begin(): boolean {
    const before = this.#part;
    const wanted = before ? Math.min(before.heard, this.#sound.end) : 0;
    const from = Math.max(wanted, this.#sound.start);
    if (before && this.#isStopSent && this.#sound.end - from < RATE / 2) {
      this.#end(null);
      return false;
    }
    this.#part = { clock: [{ at: 0, base: from }], firstSpeaker: this.#speakers, heard: from };
    this.#sent = from;
    this.#set({ parts: this.state.parts + 1, partial: "", lost: this.state.lost + (from - wanted) / RATE });
    return true;
  }

  /** Sends what there is, as fast as it is taken. */
  #pump(): void {
    const connection = this.#connection;
    const wire = connection?.wire;
    if (!connection?.isReady || !wire) return;
    this.#sent = Math.max(this.#sent, this.#sound.start);
    while (this.#sent < this.#sound.end && wire.buffered() < BUFFERED) {
      const samples = this.#sound.read(this.#sent, MESSAGE);
      this.#sent += samples.length;
      connection.given += samples.byteLength;
      wire.send(samples);
    }
    const waiting = wire.buffered();
    const taken = connection.given - waiting;
    if (waiting === 0 || taken > connection.taken) {
      connection.taken = taken;
      connection.takenAt = this.#deps.now();
    } else if (this.#deps.now() - connection.takenAt > STUCK_MS) {
      this.#broken(true);
      return;
    }
    if (this.#sent < this.#sound.end) {
      this.#after("drain", DRAIN_MS, () => {
        this.#pump();
        this.#measure();
      });
    } else if (this.state.phase === "stopping" && !connection.isStopSent) {
      connection.isStopSent = true;
      this.#isStopSent = true;
      wire.send(JSON.stringify({ action: "stop" }));
      this.#after("wait", FINISH_MS, () => this.#end(null));
    }
  }

  #text(message: Record<string, unknown>): void {
    const line = this.#line(message);
    if (!line) return;
    if (this.#part) this.#part.heard = Math.max(this.#part.heard, Math.round(line.end * RATE));
    const rest = this.state.partial.startsWith(line.text) ? this.state.partial.slice(line.text.length).trim() : "";
    const language = typeof message["language"] === "string" && message["language"] ? message["language"] : this.state.language;
    this.#set({ paragraphs: withLine(this.state.paragraphs, line), partial: rest, language });
  }

  #line(message: Record<string, unknown>): Line | null {
    const { text, start, end, speaker } = message;
    if (typeof text !== "string" || !text.trim() || !this.#part) return null;
    const from = this.#seconds(this.#part, start);
    this.#lines += 1;
    return {
      id: this.#lines,
      part: this.state.parts - 1,
      start: from,
      end: Math.max(from, this.#seconds(this.#part, end)),
      text: text.trim(),
      speaker: this.#speaker(this.#part, speaker),
    };
  }

  #seconds(part: Part, value: unknown): number {
    return typeof value === "number" && Number.isFinite(value) ? toOurs(part, value * RATE) / RATE : this.#sound.end / RATE;
  }

  #speaker(part: Part, label: unknown): number | null {
    const number = typeof label === "string" ? /(\d+)$/.exec(label)?.[1] : undefined;
    if (number === undefined) return null;
    const speaker = part.firstSpeaker + Number.parseInt(number, 10);
    this.#speakers = Math.max(this.#speakers, speaker + 1);
    return speaker;
  }

  #final(message: Record<string, unknown>): void {
    const connection = this.#connection;
    const part = this.#part;
    if (!connection || !part) return;
    connection.hasFinal = true;
    const index = this.state.parts - 1;
    const segments = Array.isArray(message["segments"]) ? (message["segments"] as Record<string, unknown>[]) : [];
    const lines = segments.map((segment) => this.#line(segment)).filter((line) => line !== null);
    const hasLines = this.state.paragraphs.some((paragraph) => paragraph.lines.some((line) => line.part === index));
    if (lines.length === 0 && !hasLines) {
      const whole = this.#line({ text: message["text"], start: 0, end: message["duration"] });
      if (whole) lines.push(whole);
    }
    if (typeof message["duration"] === "number") part.heard = Math.max(part.heard, Math.round(this.#seconds(part, message["duration"]) * RATE));
    const id = message["transcript_id"];
    this.#set({
      partial: "",
      ...(lines.length ? { paragraphs: withPart(this.state.paragraphs, index, lines) } : {}),
      ...(typeof id === "number" && !this.state.transcripts.includes(id) ? { transcripts: [...this.state.transcripts, id] } : {}),
      ...(typeof message["language"] === "string" && message["language"] ? { language: message["language"] } : {}),
    });
    if (this.state.phase === "stopping" && !connection.failure) this.#end(null);
  }

  /** The server or the network closed the connection. */
  #closed(code: number): void {
    const connection = this.#connection;
    if (!connection || !this.#isGoing()) return;
    const { failure, isReady } = connection;
    if (connection.hasFinal) this.#sessionId = null;
    if (failure) {
      // Busy, restarting, or a fault: another session may do. So may one that was refused because the old one still ends.
      const mayRetry = this.state.parts > 0 && (code === 1013 || code === 1011 || (code === 1008 && !isReady)) && this.#refusals < REFUSALS;
      if (!mayRetry || (connection.hasFinal && this.state.phase === "stopping")) {
        this.#end(failure);
        return;
      }
      this.#refusals += 1;
      this.#retry();
    } else if (connection.hasFinal) {
      // Ended by the server without a fault: no sound came for a while.
      this.#connection = null;
      this.#cancelAll();
      if (this.state.phase === "stopping") this.#end(null);
      else {
        this.#waitsForSound = true;
        this.#attempts = 0;
      }
    } else this.#broken(connection.isOpen);
  }

  /** The connection is gone, or as good as. */
  #broken(wasOpen: boolean): void {
    // Not 1000: that would end the session.
    this.#connection?.wire?.close(4000);
    if (wasOpen) {
      this.#retry();
      return;
    }
    this.#connection = null;
    this.#cancel("wait");
    const phase = this.state.phase;
    void this.#deps.why().then((failure) => {
      if (this.#connection || this.state.phase !== phase || !this.#isGoing()) return;
      const isFirst = this.state.parts === 0;
      const isRefused = failure !== null && [401, 402, 403].includes(failure.status);
      if (isFirst || isRefused) this.#end(failure ?? { status: 0, message: this.#deps.noConnection, upgrade: false });
      else this.#retry();
    });
    if (this.state.parts > 0) this.#set({ link: "lost" });
  }

  #retry(): void {
    const readyAt = this.#connection?.readyAt ?? 0;
    if (readyAt > 0 && this.#deps.now() - readyAt > GOOD_MS) {
      this.#attempts = 0;
      this.#refusals = 0;
    }
    this.#connection = null;
    this.#cancel("wait");
    this.#cancel("drain");
    this.#set({ link: "lost" });
    const delay = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#attempts) * (0.7 + 0.6 * this.#deps.random());
    this.#attempts += 1;
    this.#after("retry", delay, () => this.#connect());
  }

  #end(failure: LiveFailure | null): void {
    this.#cancelAll();
    this.#connection?.wire?.close(1000);
    this.#connection = null;
    // What was not final when nothing more can come is better than nothing.
    const { partial, seconds } = this.state;
    const last = this.state.paragraphs.at(-1)?.lines.at(-1);
    const rest = partial && this.#part ? { id: (this.#lines += 1), part: this.state.parts - 1, start: last?.end ?? 0, end: seconds, text: partial, speaker: last?.speaker ?? null } : null;
    this.#set({ phase: "ended", failure, partial: "", isPaused: false, waiting: 0, ...(rest ? { paragraphs: withLine(this.state.paragraphs, rest) } : {}) });
  }

  #set(change: Partial<LiveState>): void {
    this.state = { ...this.state, ...change };
    this.#changed(this.state);
  }

  #after(name: string, milliseconds: number, then: () => void): void {
    this.#cancel(name);
    this.#timers[name] = this.#deps.after(milliseconds, then);
  }

  #cancel(name: string): void {
    this.#timers[name]?.();
    delete this.#timers[name];
  }

  #cancelAll(): void {
    for (const name of Object.keys(this.#timers)) this.#cancel(name);
  }
}

/** A sample of the server as ours. */
function toOurs(part: Part, sample: number): number {
  const entry = part.clock.findLast((each) => each.at <= sample) ?? part.clock[0];
  return sample + (entry?.base ?? 0);
}
