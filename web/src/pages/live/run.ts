/** A live session in the browser: source, connection, wake lock and windows with captions, held together. */

import { computed, effect, signal } from "@preact/signals";
import { CAPTION_CHARACTERS, captionChannel, captionMessage, type CaptionText } from "./channel";
import { heard, NO_LEVEL, waited, type Level } from "./level";
import { LiveSession, type LiveOptions, type LiveState } from "./session";
import { openSource, SourceProblem, type Source, type SourceChoice } from "./source";
import { tail } from "./transcript";
import { openWire, whyNot } from "./wire";

export class Run {
  /** Its name on the channel to the captions. */
  readonly id = Math.random().toString(36).slice(2);
  readonly state;
  readonly level = signal<Level>(NO_LEVEL);
  readonly isSaved = signal(false);
  readonly isGoing = computed(() => ["idle", "running", "stopping"].includes(this.state.value.phase));
  readonly #session: LiveSession;
  #source: Source | null = null;
  #lock: WakeLockSentinel | null = null;
  /** When the source last gave something. */
  #heardAt = 0;
  readonly #channel = captionChannel();
  readonly #undo: (() => void)[] = [];

  constructor(
    readonly options: LiveOptions,
    readonly isAnnounced: boolean,
    noConnection: string,
  ) {
    this.#session = new LiveSession(
      options,
      {
        open: openWire,
        why: whyNot,
        now: () => performance.now(),
        after: (milliseconds, then) => {
          const timer = setTimeout(then, milliseconds);
          return () => clearTimeout(timer);
        },
        random: Math.random,
        noConnection,
      },
      (state) => {
        this.state.value = state;
        if (state.phase === "ended") this.#release();
      },
    );
    this.state = signal<LiveState>(this.#session.state);
  }

  /** Opens the source, then the connection. Throws a `SourceProblem`. */
  async open(choice: SourceChoice): Promise<void> {
    this.#source = await openSource(choice, {
      onPiece: (pcm, measure) => {
        if (this.state.value.isPaused) return;
        this.#heardAt = performance.now();
        this.level.value = heard(this.level.value, measure);
        this.#session.push(pcm);
      },
      onEnd: () => void this.stop(),
    }).catch((error: unknown) => {
      this.close();
      throw error instanceof SourceProblem ? error : new SourceProblem("sourceFailed");
    });
    this.#listen(window, "online", () => this.#session.retryNow());
    // Whoever closes the window ends the session; without this the server would wait for its return.
    this.#listen(window, "pagehide", () => this.abort());
    this.#listen(document, "visibilitychange", () => void this.#stayAwake());
    if (this.#channel) {
      this.#listen(this.#channel, "message", (event) => {
        if (captionMessage((event as MessageEvent<unknown>).data)?.kind === "hello") this.#caption(this.state.value);
      });
      this.#undo.push(effect(() => this.#caption(this.state.value)));
    }
    const watch = setInterval(() => {
      const isListening = this.state.value.phase === "running" && !this.state.value.isPaused;
      if (isListening && performance.now() - this.#heardAt > 1500) this.level.value = waited(this.level.value, 1);
    }, 1000);
    this.#undo.push(() => clearInterval(watch));
    void this.#stayAwake();
    this.#session.start();
  }

  pause(): void {
    this.#session.pause();
    this.#source?.setPaused(true);
    this.level.value = NO_LEVEL;
  }

  resume(): void {
    this.#source?.setPaused(false);
    this.#session.resume();
  }

  /** Takes the last sound, and waits for its text. */
  async stop(): Promise<void> {
    await this.#source?.stop();
    this.#session.stop();
  }

  /** Ends without waiting. */
  abort(): void {
    this.#session.abort();
  }

  /** Ends whatever still goes on, when nobody looks any more. */
  close(): void {
    this.abort();
    this.#release();
    for (const undo of this.#undo.splice(0)) undo();
    this.#channel?.close();
  }

  #release(): void {
    void this.#source?.stop();
    void this.#lock?.release().catch(() => undefined);
    this.#lock = null;
    this.level.value = NO_LEVEL;
  }

  #caption({ phase, link, isPaused, paragraphs, partial }: LiveState): void {
    const message: CaptionText = {
      kind: "text",
      from: this.id,
      state: phase === "ended" ? "ended" : link === "lost" ? "lost" : isPaused ? "paused" : "live",
      paragraphs: tail(paragraphs, CAPTION_CHARACTERS),
      partial,
    };
    this.#channel?.postMessage(message);
  }

  /** Keeps the screen on; browsers take it back when the page is hidden. */
  async #stayAwake(): Promise<void> {
    if (document.hidden || !this.isGoing.value || !("wakeLock" in navigator)) return;
    try {
      this.#lock = await navigator.wakeLock.request("screen");
    } catch {
      // Low battery, or not allowed: the session goes on.
    }
  }

  #listen(target: EventTarget, name: string, then: (event: Event) => void): void {
    target.addEventListener(name, then);
    this.#undo.push(() => target.removeEventListener(name, then));
  }
}
