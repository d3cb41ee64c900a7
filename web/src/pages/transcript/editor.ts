/**
 * The text of a transcript while it is worked on. Every change goes through here: into the history, to the other tabs, into
 * the browser's storage, and after a moment to the server. Knows nothing of the page.
 */

import { computed, signal, type Signal } from "@preact/signals";
import { isAbort, Problem } from "../../api/client";
import { afterSaving, meet, read, reconcile, withEdit, write, type Conflict, type Edit, type Edits } from "./drafts";
import { closed, EMPTY, redo, together, typed, undo } from "./history";
import { locate, speakersOf, tidy, turnsOf, type Detail, type Span, type Turn, type Word } from "./model";
import { retime } from "./retime";

/** A text with its words, found in it when they are first asked for. */
export class Said {
  #spans: Span[] | null = null;

  constructor(
    readonly text: string,
    readonly words: readonly Word[],
  ) {}

  get spans(): Span[] {
    this.#spans ??= locate(this.text, this.words);
    return this.#spans;
  }
}

/** A segment: its text changes, the rest does not. */
export interface Segment {
  readonly index: number;
  readonly start: number;
  readonly end: number;
  readonly overlapping: readonly string[];
  readonly said: Signal<Said>;
  /** Where it is drawn. */
  element: HTMLElement | null;
}

export type Saving = "saved" | "waiting" | "saving" | "offline" | "refused";

/** What tabs tell each other. */
export type Message =
  | { type: "edit"; index: number; seen: string; text: string; decided: boolean }
  | { type: "saved"; texts: [number, string][]; from: string | null; version: string | null }
  | { type: "changed" };

/** What the editor needs of the world. */
export interface World {
  /** Saves texts of a version of the transcript; the new version, where the server names one. */
  save(texts: { index: number; text: string }[], version: string | null): Promise<string | null | void>;
  /** Gives segments to speakers; the transcript after it. */
  give(speakers: { index: number; speaker: string }[], version: string | null): Promise<Detail>;
  /** What could not be done is told. */
  onProblem(error: unknown): void;
  /** The transcript as the server has it now. */
  load(): Promise<Detail>;
  draft: { read(): string | null; write(value: string | null): void };
  post(message: Message): void;
  /** Another tab changed more than texts. */
  onChanged?: () => void;
  /** Another device changed the transcript: its text was loaded, and what is not saved here is saved again, or asked about. */
  onNewer?: () => void;
}

const SOON = 900;
const AT_LATEST = 6000;
const TELL = 200;
/** How often in a row a save is repeated because another device was first. */
const OVERTAKEN = 5;
const RETRY = [2000, 4000, 8000, 15_000, 30_000];

export class Editor {
  readonly detail: Signal<Detail>;
  readonly segments: readonly Segment[];
  /** When each segment begins, for looking up a moment. */
  readonly starts: Float64Array;
  readonly turns: Signal<readonly Turn[]>;
  readonly speakers: Signal<readonly { name: string; seconds: number }[]>;
  readonly saving = signal<Saving>("saved");
  /** Why the server refuses what was changed. */
  readonly problem = signal<unknown>(null);
  readonly conflicts = signal<readonly Conflict[]>([]);
  /** Grows with each change of any text. */
  readonly revision = signal(0);
  readonly #history = signal(EMPTY);
  readonly canUndo = computed(() => this.#history.value.done.length > 0);
  readonly canRedo = computed(() => this.#history.value.undone.length > 0);

  readonly #world: World;
  /** The texts as the server has them. */
  readonly #server: string[];
  /** The texts as the tabs last agreed on them. */
  readonly #agreed: string[];
  #edits: Edits = new Map();
  /** The version of the transcript that the server's texts are of. */
  #version: string | null;
  #overtaken = 0;
  /** Edits of this tab in the browser's storage. */
  readonly #kept = new Set<number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #waitingSince = 0;
  #attempt = 0;
  #telling: ReturnType<typeof setTimeout> | undefined;
  readonly #untold = new Set<number>();
  #isDisposed = false;

  constructor(detail: Detail, world: World) {
    this.#world = world;
    this.detail = signal(detail);
    this.#version = detail.version ?? null;
    this.#server = detail.segments.map((segment) => segment.text);
    this.#agreed = [...this.#server];
    this.segments = detail.segments.map((segment, index) => ({
      index,
      start: segment.start,
      end: segment.end,
      overlapping: segment.overlapping_speakers ?? [],
      said: signal(new Said(segment.text, segment.words)),
      element: null,
    }));
    this.starts = Float64Array.from(detail.segments, (segment) => segment.start);
    this.turns = signal(turnsOf(detail.segments));
    this.speakers = signal(speakersOf(detail.segments));
    this.#restore();
  }

  text(index: number): string {
    return this.segments[index]?.said.peek().text ?? "";
  }

  texts(): string[] {
    return this.segments.map((segment) => segment.said.peek().text);
  }

  get isDirty(): boolean {
    return this.#edits.size > 0;
  }

  /** Typing in a segment. */
  type(index: number, text: string): void {
    const before = this.text(index);
    if (before === text) return;
    this.#history.value = typed(this.#history.peek(), { index, before, after: text }, Date.now());
    this.#put(index, text);
  }

  /** The segment is left: what follows is a step of its own, and blanks around the text go. */
  leave(index: number): void {
    this.#history.value = closed(this.#history.peek());
    const text = this.text(index);
    // What was not changed stays as the server has it.
    if (text !== this.#server[index] && tidy(text) !== text) this.#show(index, tidy(text));
  }

  /** Several segments at once, as one step. */
  replace(texts: readonly { index: number; text: string }[]): void {
    const changes = texts.map(({ index, text }) => ({ index, before: this.text(index), after: tidy(text) }));
    this.#history.value = together(this.#history.peek(), changes, Date.now());
    for (const change of changes) this.#put(change.index, change.after);
  }

  /** Takes the last step back; the segment it was in. */
  undo(): number | null {
    return this.#step(undo(this.#history.peek()));
  }

  redo(): number | null {
    return this.#step(redo(this.#history.peek()));
  }

  #step(step: ReturnType<typeof undo>): number | null {
    if (!step) return null;
    const before = this.#history.peek();
    this.#history.value = step.history;
    for (const { index, text } of step.texts) this.#put(index, text);
    if (step.speakers.length > 0) {
      this.#give(step.speakers).catch((error: unknown) => {
        this.#history.value = before;
        this.#world.onProblem(error);
      });
    }
    return (step.texts[0] ?? step.speakers[0])?.index ?? null;
  }

  /** Gives segments to a speaker by label or name: at once, as a step that can be taken back. An empty one stands for nobody. */
  async give(indexes: readonly number[], speaker: string): Promise<void> {
    const said = this.detail.peek().segments;
    const changes = indexes.map((index) => ({ index, before: said[index]?.speaker ?? "", after: speaker, of: "speaker" as const }));
    await this.#give(changes.filter((change) => change.before !== speaker).map(({ index }) => ({ index, speaker })));
    this.#history.value = together(this.#history.peek(), changes, Date.now());
  }

  async #give(speakers: { index: number; speaker: string }[]): Promise<void> {
    if (speakers.length === 0) return;
    // Texts first: both are of one version.
    await this.flush();
    const change = () => this.#world.give(speakers, this.#version);
    const detail = await change().catch(async (error: unknown) => {
      const left = await this.#meetNewer(error);
      if (left !== null) throw left;
      return change();
    });
    this.#overtaken = 0;
    this.meetServer(detail);
    this.tellChanged();
  }

  /** A change made here. */
  #put(index: number, text: string): void {
    this.#show(index, text);
    const clean = tidy(text);
    this.#edits = withEdit(this.#edits, index, this.#server[index] ?? "", clean);
    if (this.conflicts.peek().some((conflict) => conflict.index === index)) {
      this.conflicts.value = this.conflicts.peek().map((conflict) => (conflict.index === index ? { ...conflict, mine: clean } : conflict));
    }
    this.#untold.add(index);
    this.#telling ??= setTimeout(() => this.#tell(), TELL);
    this.#schedule();
  }

  #show(index: number, text: string): void {
    const segment = this.segments[index];
    if (!segment) return;
    const before = segment.said.peek();
    if (before.text === text) return;
    segment.said.value = new Said(text, retime(text, before.words, segment));
    this.revision.value += 1;
  }

  /** Keeps unsaved edits in the browser and tells other tabs. */
  #tell(decided = false): void {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    for (const index of this.#untold) {
      const text = tidy(this.text(index));
      const seen = this.#agreed[index] ?? "";
      if (seen === text && !decided) continue;
      this.#agreed[index] = text;
      this.#world.post({ type: "edit", index, seen, text, decided });
    }
    this.#untold.clear();
    this.#keep();
  }

  #keep(): void {
    // Other tabs keep theirs in the same place: only our own are taken out.
    const all = new Map(read(this.#world.draft.read()));
    for (const index of this.#kept) if (!this.#edits.has(index)) all.delete(index);
    this.#kept.clear();
    for (const [index, edit] of this.#edits) {
      all.set(index, edit);
      this.#kept.add(index);
    }
    this.#world.draft.write(write(all));
  }

  #restore(): void {
    const kept = read(this.#world.draft.read());
    if (kept.size === 0) return;
    const { edits, conflicts } = reconcile(kept, this.#server);
    for (const index of kept.keys()) this.#kept.add(index);
    this.#edits = edits;
    this.conflicts.value = conflicts;
    for (const [index, edit] of edits) this.#show(index, edit.text);
    if (edits.size === 0) this.#keep();
    else this.#schedule();
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#toSave().length === 0 && this.saving.peek() !== "saving") {
      this.#waitingSince = 0;
      this.#attempt = 0;
      this.problem.value = null;
      this.saving.value = this.#edits.size ? "waiting" : "saved";
      return;
    }
    if (this.saving.peek() === "saving") return;
    const now = Date.now();
    if (!this.#waitingSince) this.#waitingSince = now;
    const wait = this.#attempt > 0 ? (RETRY[Math.min(this.#attempt, RETRY.length) - 1] ?? 30_000) : Math.max(0, Math.min(SOON, this.#waitingSince + AT_LATEST - now));
    if (this.#attempt === 0) this.saving.value = "waiting";
    this.#timer = setTimeout(() => void this.flush(), wait);
  }

  #toSave(): [number, Edit][] {
    const asked = new Set(this.conflicts.peek().map((conflict) => conflict.index));
    return [...this.#edits].filter(([index]) => !asked.has(index));
  }

  /** Saves what is not saved. Called after a moment without typing, when the page is left, and when the network is back. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.saving.peek() === "saving") return;
    this.#tell();
    const edits = this.#toSave();
    if (edits.length === 0) return;
    const sent = new Map(edits.map(([index, edit]) => [index, edit.text]));
    this.saving.value = "saving";
    this.#waitingSince = 0;
    const from = this.#version;
    let version: string | null;
    try {
      version = (await this.#world.save([...sent].map(([index, text]) => ({ index, text })), from)) ?? null;
    } catch (caught) {
      const error = await this.#meetNewer(caught);
      if (error === null) return;
      const isPassing = isAbort(error) || !(error instanceof Problem) || error.status === 0 || error.status === 408 || error.status === 429 || error.status >= 500;
      this.saving.value = isPassing ? "offline" : "refused";
      this.problem.value = error;
      this.#attempt += 1;
      if (isPassing && !this.#isDisposed) this.#schedule();
      return;
    }
    this.#attempt = 0;
    this.#overtaken = 0;
    this.#version = version;
    this.problem.value = null;
    for (const [index, text] of sent) {
      this.#server[index] = text;
      this.#agreed[index] = text;
    }
    this.#edits = afterSaving(this.#edits, sent);
    this.#world.post({ type: "saved", texts: [...sent], from, version });
    this.#keep();
    this.saving.value = "saved";
    if (!this.#isDisposed) this.#schedule();
    else if (this.#toSave().length) void this.flush();
  }

  /**
   * Where a change was refused because another device made one before: loads that, and what is not saved is saved again on top of
   * it. Null then, otherwise the error that is left.
   */
  async #meetNewer(error: unknown): Promise<unknown> {
    if (!(error instanceof Problem) || error.status !== 412 || this.#overtaken >= OVERTAKEN) return error;
    this.#overtaken += 1;
    try {
      const detail = await this.#world.load();
      if (this.saving.peek() === "saving") this.saving.value = "waiting";
      this.meetServer(detail);
      this.#world.onNewer?.();
      return null;
    } catch (caught) {
      return caught;
    }
  }

  /** Tries again at once. */
  retry(): void {
    this.#attempt = 0;
    void this.flush();
  }

  /** What another tab says. */
  hear(message: Message): void {
    if (message.type === "changed") {
      this.#world.onChanged?.();
    } else if (message.type === "saved") {
      if (message.from === this.#version) this.#version = message.version;
      for (const [index, text] of message.texts) {
        if (index >= this.segments.length) continue;
        this.#server[index] = text;
        const mine = this.#edits.get(index);
        if (!mine) this.#show(index, text);
        else if (mine.text === text) this.#edits = withEdit(this.#edits, index, text, text);
        else this.#edits = new Map(this.#edits).set(index, { base: text, text: mine.text });
        const edit = this.#edits.get(index);
        if (edit?.base === edit?.text) this.#drop(index);
      }
      this.#keep();
      this.#schedule();
    } else {
      const { index, seen, text } = message;
      if (index >= this.segments.length) return;
      // A change that is not told yet counts, too.
      const mine = this.#edits.get(index);
      const isOnMine = mine?.text === seen;
      const answer = message.decided || isOnMine ? (mine?.text === text ? "same" : "take") : meet(mine, text);
      // Nothing is agreed on while both differ: what this tab tells next must not look as if it rested on theirs.
      if (answer !== "conflict") this.#agreed[index] = text;
      if (answer === "conflict" && mine) {
        this.conflicts.value = [...this.conflicts.peek().filter((other) => other.index !== index), { index, mine: mine.text, theirs: text }];
      } else {
        this.conflicts.value = this.conflicts.peek().filter((conflict) => conflict.index !== index);
        if (answer === "take") {
          this.#drop(index);
          this.#untold.delete(index);
          this.#show(index, text);
        }
      }
      this.#schedule();
    }
  }

  #drop(index: number): void {
    if (!this.#edits.has(index)) return;
    const left = new Map(this.#edits);
    left.delete(index);
    this.#edits = left;
  }

  /** Ends a conflict with one of its two texts. */
  decide(index: number, text: string): void {
    this.conflicts.value = this.conflicts.peek().filter((conflict) => conflict.index !== index);
    const before = this.text(index);
    this.#history.value = together(closed(this.#history.peek()), [{ index, before, after: text }], Date.now());
    this.#show(index, text);
    this.#edits = withEdit(this.#edits, index, this.#server[index] ?? "", text);
    this.#untold.add(index);
    this.#tell(true);
    this.#schedule();
  }

  /** The transcript as the server has it now: after a rename, or when the page is looked at again. */
  meetServer(detail: Detail): void {
    if (detail.segments.length !== this.segments.length) return;
    const texts = detail.segments.map((segment) => segment.text);
    const { edits, conflicts } = reconcile(this.#edits, texts);
    this.#edits = edits;
    const known = new Set(this.conflicts.peek().map((conflict) => conflict.index));
    this.conflicts.value = [...this.conflicts.peek(), ...conflicts.filter((conflict) => !known.has(conflict.index))];
    for (const [index, segment] of this.segments.entries()) {
      const now = detail.segments[index];
      if (!now) continue;
      this.#server[index] = now.text;
      if (edits.has(index) || segment.element?.isContentEditable) continue;
      const isSame = segment.said.peek().text === now.text;
      // The server's times are finer than ours.
      segment.said.value = new Said(now.text, now.words);
      if (!isSame) this.revision.value += 1;
      this.#agreed[index] = now.text;
    }
    this.turns.value = turnsOf(detail.segments);
    this.speakers.value = speakersOf(detail.segments);
    this.detail.value = detail;
    this.#version = detail.version ?? null;
    this.#keep();
    this.#schedule();
  }

  /** Tells other tabs that the title, the sharing or the speakers changed. */
  tellChanged(): void {
    this.#world.post({ type: "changed" });
  }

  /** Saves what is left and ends. */
  dispose(): void {
    this.#isDisposed = true;
    void this.flush();
    clearTimeout(this.#timer);
    clearTimeout(this.#telling);
  }
}
