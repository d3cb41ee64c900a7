/**
 * The text on the page: what is lit, where it is scrolled to, which passage has the focus, which one is edited. Works on the
 * elements themselves, so that neither a spoken word nor a key draws the page again.
 */

import { computed, effect, signal } from "@preact/signals";
import { transcriptTexts } from "../../i18n/transcript";
import { clock } from "../../ui/format";
import { remembered } from "../../ui/remembered";
import type { Editor, Said, Segment } from "./editor";
import { findAll, nextMatch, replaceAll, replaceOne, type Match } from "./find";
import { Lights, rangeOf } from "./lights";
import { lastBefore, spanAt, spanAtOffset, UNSURE } from "./model";
import type { Player } from "./player";

const unsureKept = remembered("transcript.unsure");

/** How many matches are lit; all are counted. */
const MOST_LIT = 3000;

export class Reader {
  readonly editor: Editor;
  readonly player: Player;
  /** Whether a click edits instead of playing. */
  readonly isEditMode = signal(false);
  /** The segment that is edited. */
  readonly editing = signal<number | null>(null);
  /** Whether the page follows what is spoken. */
  readonly isFollowing = signal(true);
  readonly marksUnsure = signal(unsureKept.read() !== "off");
  /** What a screen reader is told. */
  readonly said = signal("");
  /** Asked to show the text where a phone shows the panel. */
  onShow: (() => void) | null = null;

  readonly isFinding = signal(false);
  readonly wanted = signal("");
  readonly matchCase = signal(false);
  readonly replacement = signal("");
  /** Which match is the current one. */
  readonly at = signal(0);
  readonly matches = computed<Match[]>(() => {
    if (!this.isFinding.value) return [];
    void this.editor.revision.value;
    return findAll(this.editor.texts(), this.wanted.value, this.matchCase.value);
  });

  readonly #lights = new Lights();
  readonly #unsure = new Map<number, Range[]>();
  #spoken: { index: number; span: number; said: Said } | null = null;
  #spokenRange: Range | null = null;
  /** The segment in the order of the tab key. */
  #focus = 0;
  /** Where editing begins when it is asked for by key. */
  #caret: { index: number; from: number; to: number } | null = null;
  #lastUnsure: { index: number; from: number } | null = null;
  #scrollingUntil = 0;
  #wasPlaying = false;
  readonly #ends: (() => void)[] = [];

  constructor(editor: Editor, player: Player) {
    this.editor = editor;
    this.player = player;
  }

  /** Begins when the text is on the page. */
  start(): () => void {
    const stop = new AbortController();
    const { signal: until } = stop;
    this.#ends.push(
      this.player.onTime((time, isSeek) => this.#light(time, isSeek)),
      effect(() => this.#lightUnsure(this.marksUnsure.value)),
      effect(() => this.#lightMatches(this.matches.value, this.at.value)),
      () => this.#lights.dispose(),
      () => stop.abort(),
    );
    addEventListener("scroll", () => this.#scrolled(), { passive: true, signal: until });
    const byHand = () => (this.#scrollingUntil = 0);
    for (const name of ["wheel", "touchmove"] as const) addEventListener(name, byHand, { passive: true, signal: until });
    return () => {
      this.endEditing(false);
      for (const end of this.#ends.splice(0)) end();
    };
  }

  /** A segment was drawn. */
  drawn(segment: Segment, element: HTMLElement): () => void {
    segment.element = element;
    element.tabIndex = segment.index === this.#focus ? 0 : -1;
    const stop = segment.said.subscribe((said) => {
      if (element.textContent !== said.text) this.#write(segment, element, said.text);
      if (this.#unsure.has(segment.index)) this.#lightUnsureIn(segment);
      if (this.#spoken?.index === segment.index) {
        this.#spoken = null;
        this.#light(this.player.time, false);
      }
    });
    return () => {
      stop();
      if (segment.element === element) segment.element = null;
    };
  }

  /** Writes a text that came from elsewhere; where it is edited the cursor goes behind what changed. */
  #write(segment: Segment, element: HTMLElement, text: string): void {
    const before = element.textContent ?? "";
    const node = element.firstChild;
    if (element.childNodes.length === 1 && node instanceof Text && text) node.data = text;
    else element.textContent = text;
    if (this.editing.peek() !== segment.index || document.activeElement !== element) return;
    let tail = 0;
    while (tail < before.length && tail < text.length && before.at(-1 - tail) === text.at(-1 - tail)) tail += 1;
    this.#select(element, text.length - tail, text.length - tail);
  }

  #select(element: HTMLElement, from: number, to: number): void {
    const selection = getSelection();
    const node = element.firstChild;
    if (!selection) return;
    if (node instanceof Text) selection.setBaseAndExtent(node, Math.min(from, node.length), node, Math.min(to, node.length));
    else selection.collapse(element, 0);
  }

  // What is spoken

  #light(time: number, isSeek: boolean): void {
    const { segments, starts } = this.editor;
    const index = lastBefore(starts, time + 0.01);
    const segment = segments[index];
    if (!segment) {
      this.#spoken = null;
      this.#lights.clear("spoken");
      return;
    }
    const said = segment.said.peek();
    const span = spanAt(said.spans, time + 0.01);
    if (this.#spoken?.index === index && this.#spoken.span === span && this.#spoken.said === said && !isSeek) return;
    this.#spoken = { index, span, said };
    const word = said.spans[span];
    const range = word ? rangeOf(segment, word.from, word.to) : said.spans.length ? null : rangeOf(segment, 0, said.text.length);
    this.#lights.set("spoken", range ? [range] : []);
    this.#spokenRange = range;
    if (this.isFollowing.peek() && (this.player.isPlaying.peek() || isSeek) && this.editing.peek() === null) this.#keepInView(range ?? segment.element);
  }

  #keepInView(what: Range | HTMLElement | null): void {
    if (!what) return;
    const { top, bottom } = what.getBoundingClientRect();
    if (top === 0 && bottom === 0) return;
    const height = innerHeight;
    if (top >= height * 0.16 && bottom <= height * 0.68) return;
    this.#scrollTo(what);
  }

  /** Brings a place to the upper third of the page. */
  #scrollTo(what: Range | HTMLElement, tries = 3): void {
    const { top, bottom } = what.getBoundingClientRect();
    const by = (top + bottom) / 2 - innerHeight * 0.36;
    if (Math.abs(by) < 4) return;
    const isNear = Math.abs(by) < innerHeight * 1.2 && tries === 3 && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.#scrollingUntil = performance.now() + (isNear ? 900 : 250);
    scrollBy({ top: by, behavior: isNear ? "smooth" : "instant" });
    // Passages that were not drawn yet may turn out higher or lower than was thought.
    if (!isNear && tries > 0) requestAnimationFrame(() => this.#scrollTo(what, tries - 1));
  }

  #scrolled(): void {
    if (performance.now() < this.#scrollingUntil || !this.isFollowing.peek() || !this.#spokenRange) return;
    const { top, bottom } = this.#spokenRange.getBoundingClientRect();
    if (bottom < 60 || top > innerHeight - 90) this.isFollowing.value = false;
  }

  /** Goes back to what is spoken and follows it again. */
  follow(): void {
    this.onShow?.();
    this.isFollowing.value = true;
    const what = this.#spokenRange ?? this.editor.segments[this.#spoken?.index ?? 0]?.element;
    if (what) this.#scrollTo(what);
  }

  /** Jumps to a moment: of a search, a source, a chapter. */
  goTo(seconds: number): void {
    this.onShow?.();
    this.isFollowing.value = true;
    this.player.seek(seconds);
    const index = Math.max(0, lastBefore(this.editor.starts, seconds + 0.01));
    const segment = this.editor.segments[index];
    if (!segment?.element) return;
    this.#focusOn(index, false);
    const element = segment.element;
    this.#scrollTo(this.#spokenRange ?? element);
    element.classList.remove("is-target");
    requestAnimationFrame(() => element.classList.add("is-target"));
    setTimeout(() => element.classList.remove("is-target"), 2500);
  }

  // Unsure words

  setMarksUnsure(marks: boolean): void {
    this.marksUnsure.value = marks;
    unsureKept.write(marks ? null : "off");
  }

  #lightUnsure(marks: boolean): void {
    this.#lights.clear("unsure");
    this.#unsure.clear();
    if (!marks) return;
    for (const segment of this.editor.segments) this.#lightUnsureIn(segment);
  }

  #lightUnsureIn(segment: Segment): void {
    for (const range of this.#unsure.get(segment.index) ?? []) this.#lights.remove("unsure", range);
    this.#unsure.delete(segment.index);
    if (!this.marksUnsure.peek()) return;
    const said = segment.said.peek();
    if (!said.words.some((word) => word.confidence < UNSURE)) return;
    const ranges: Range[] = [];
    for (const span of said.spans) {
      if (span.confidence >= UNSURE) continue;
      const range = rangeOf(segment, span.from, span.to);
      if (range) ranges.push(range);
    }
    for (const range of ranges) this.#lights.add("unsure", range);
    this.#unsure.set(segment.index, ranges);
  }

  /** Goes to the next (1) or previous (-1) unsure word. */
  stepUnsure(step: 1 | -1): void {
    const t = transcriptTexts();
    const all: { index: number; from: number; to: number }[] = [];
    for (const segment of this.editor.segments) {
      const said = segment.said.peek();
      if (!said.words.some((word) => word.confidence < UNSURE)) continue;
      for (const span of said.spans) if (span.confidence < UNSURE) all.push({ index: segment.index, from: span.from, to: span.to });
    }
    if (all.length === 0) {
      this.said.value = t.unsureNone;
      return;
    }
    const last = this.#lastUnsure?.index === this.#focus ? this.#lastUnsure : { index: this.#focus, from: step > 0 ? -1 : 0 };
    const isAfter = (place: { index: number; from: number }) => place.index > last.index || (place.index === last.index && place.from > last.from);
    const isBefore = (place: { index: number; from: number }) => place.index < last.index || (place.index === last.index && place.from < last.from);
    let number = step > 0 ? all.findIndex(isAfter) : all.findLastIndex(isBefore);
    if (number < 0) number = step > 0 ? 0 : all.length - 1;
    const place = all[number];
    const segment = place && this.editor.segments[place.index];
    if (!place || !segment) return;
    this.onShow?.();
    this.#lastUnsure = place;
    this.#caret = place;
    this.#focusOn(place.index, true);
    this.isFollowing.value = false;
    const range = rangeOf(segment, place.from, place.to);
    if (range) {
      this.#lights.set("now", [range]);
      this.#scrollTo(range);
    }
    this.said.value = t.unsureAt(segment.said.peek().text.slice(place.from, place.to), number + 1, all.length);
  }

  // Find and replace

  openFind(): void {
    this.onShow?.();
    const selected = getSelection()?.toString().trim() ?? "";
    if (selected && selected.length < 100 && !selected.includes("\n")) this.wanted.value = selected;
    this.isFinding.value = true;
    this.#goToMatchNear();
  }

  closeFind(): void {
    this.isFinding.value = false;
    this.#lights.clear("now");
    const segment = this.editor.segments[this.#focus]?.element;
    segment?.focus({ preventScroll: true });
  }

  /** The query changed: the first match from where the reader is. */
  find(wanted: string): void {
    this.wanted.value = wanted;
    this.#goToMatchNear();
  }

  #goToMatchNear(): void {
    const number = nextMatch(this.matches.value, this.#focus, 0);
    this.at.value = Math.max(0, number);
    this.#showMatch();
  }

  stepMatch(step: 1 | -1): void {
    const count = this.matches.value.length;
    if (count === 0) return;
    this.at.value = (this.at.value + step + count) % count;
    this.#showMatch();
  }

  #showMatch(): void {
    const match = this.matches.value[this.at.value];
    const segment = match && this.editor.segments[match.index];
    if (!match || !segment) return;
    this.isFollowing.value = false;
    this.#focusOn(match.index, false);
    this.#caret = match;
    const range = rangeOf(segment, match.from, match.to);
    if (range) this.#scrollTo(range);
  }

  replaceOne(): void {
    const match = this.matches.value[this.at.value];
    if (!match) return;
    const by = this.replacement.value;
    this.editor.replace([{ index: match.index, text: replaceOne(this.editor.text(match.index), match, by) }]);
    this.at.value = Math.max(0, nextMatch(this.matches.value, match.index, match.from + by.length));
    this.#showMatch();
  }

  /** Replaces every match; how many. */
  replaceAll(): number {
    const matches = this.matches.value;
    this.editor.replace(replaceAll(this.editor.texts(), matches, this.replacement.value));
    this.at.value = 0;
    return matches.length;
  }

  #lightMatches(matches: readonly Match[], at: number): void {
    const now = matches[at];
    const ranges: Range[] = [];
    for (const match of matches.slice(0, MOST_LIT)) {
      const segment = this.editor.segments[match.index];
      const range = match !== now && segment ? rangeOf(segment, match.from, match.to) : null;
      if (range) ranges.push(range);
    }
    this.#lights.set("found", ranges);
    const segment = now && this.editor.segments[now.index];
    const range = now && segment ? rangeOf(segment, now.from, now.to) : null;
    this.#lights.set("now", range ? [range] : []);
  }

  // Focus

  #focusOn(index: number, take: boolean): void {
    const next = this.editor.segments[index]?.element;
    if (!next) return;
    const before = this.editor.segments[this.#focus]?.element;
    if (before && before !== next) before.tabIndex = -1;
    next.tabIndex = 0;
    this.#focus = index;
    if (take) next.focus({ preventScroll: true });
  }

  #move(to: number): void {
    const index = Math.min(this.editor.segments.length - 1, Math.max(0, to));
    this.#caret = null;
    this.#focusOn(index, true);
    const element = this.editor.segments[index]?.element;
    if (!element) return;
    const { top, bottom } = element.getBoundingClientRect();
    if (top < innerHeight * 0.15 || bottom > innerHeight * 0.75) this.#scrollTo(element);
  }

  // Editing

  /** Puts the cursor into a segment. */
  edit(index: number, from = 0, to = from): void {
    const element = this.editor.segments[index]?.element;
    if (!element) return;
    if (this.editing.peek() === index) return;
    this.endEditing(false);
    this.#focusOn(index, false);
    try {
      element.contentEditable = "plaintext-only";
    } catch {
      element.contentEditable = "true";
    }
    element.setAttribute("role", "textbox");
    element.setAttribute("aria-multiline", "true");
    element.setAttribute("aria-label", transcriptTexts().passage(clock(this.editor.segments[index]?.start ?? 0)));
    element.classList.add("is-editing");
    this.editing.value = index;
    element.focus({ preventScroll: true });
    this.#select(element, from, to);
    this.#lights.clear("now");
  }

  endEditing(keepFocus: boolean): void {
    const index = this.editing.peek();
    if (index === null) return;
    this.editing.value = null;
    this.editor.leave(index);
    const element = this.editor.segments[index]?.element;
    if (!element) return;
    element.removeAttribute("contenteditable");
    for (const name of ["role", "aria-multiline", "aria-label"]) element.removeAttribute(name);
    element.classList.remove("is-editing");
    // The browser may have left line breaks of its own.
    const text = this.editor.text(index);
    if (element.textContent !== text || element.childNodes.length > 1) element.textContent = text;
    const segment = this.editor.segments[index];
    if (segment) this.#lightUnsureIn(segment);
    if (keepFocus) element.focus({ preventScroll: true });
    else if (document.activeElement === element) element.blur();
    getSelection()?.removeAllRanges();
  }

  undo(): void {
    this.#after(this.editor.undo());
  }

  redo(): void {
    this.#after(this.editor.redo());
  }

  #after(index: number | null): void {
    const element = index === null ? null : this.editor.segments[index]?.element;
    if (index === null || !element || this.editing.peek() === index) return;
    this.onShow?.();
    this.endEditing(false);
    this.#focusOn(index, true);
    this.#keepInView(element);
  }

  // Events of the text

  #segmentAt(target: EventTarget | null): Segment | null {
    const element = (target as Element | null)?.closest?.<HTMLElement>("[data-segment]");
    return element ? (this.editor.segments[Number(element.dataset["segment"])] ?? null) : null;
  }

  readonly onClick = (event: MouseEvent): void => {
    const segment = this.#segmentAt(event.target);
    if (!segment?.element || event.button !== 0 || this.editing.peek() === segment.index) return;
    const selection = getSelection();
    // Who selects text wants to copy it.
    if (event.detail < 2 && selection && !selection.isCollapsed && selection.containsNode(segment.element, true)) return;
    const offset = offsetAt(segment.element, event.clientX, event.clientY);
    if (this.isEditMode.peek() || event.detail >= 2 || !this.player.isThere.peek()) {
      if (event.detail === 2 && !this.#wasPlaying && this.player.isPlaying.peek()) this.player.toggle();
      this.edit(segment.index, offset ?? 0);
      return;
    }
    this.#wasPlaying = this.player.isPlaying.peek();
    this.#focusOn(segment.index, true);
    const word = offset === null ? null : spanAtOffset(segment.said.peek().spans, offset);
    this.isFollowing.value = true;
    this.#caret = word ? { index: segment.index, from: word.from, to: word.from } : null;
    this.player.seek(word?.start ?? segment.start);
    this.player.play();
  };

  readonly onKeyDown = (event: KeyboardEvent): void => {
    const segment = this.#segmentAt(event.target);
    if (!segment || event.isComposing) return;
    const isEditing = this.editing.peek() === segment.index;
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (isEditing) {
      if (event.key === "Escape" || event.key === "Enter") {
        event.preventDefault();
        event.stopPropagation();
        this.endEditing(true);
      } else if (event.key === " " && event.ctrlKey) {
        event.preventDefault();
        this.player.toggle();
      }
      return;
    }
    const to = { ArrowDown: segment.index + 1, ArrowUp: segment.index - 1 }[event.key];
    if (to !== undefined && isPlain && !event.shiftKey) {
      event.preventDefault();
      this.#move(to);
    } else if (event.key === "Enter" && isPlain) {
      event.preventDefault();
      const caret = this.#caret?.index === segment.index ? this.#caret : null;
      this.edit(segment.index, caret?.from ?? 0, caret?.to ?? caret?.from ?? 0);
    }
  };

  readonly onInput = (event: Event): void => {
    const segment = this.#segmentAt(event.target);
    if (!segment?.element || this.editing.peek() !== segment.index) return;
    this.editor.type(segment.index, (segment.element.textContent ?? "").replaceAll(/[\r\n]+/g, " "));
  };

  readonly onBeforeInput = (event: InputEvent): void => {
    const segment = this.#segmentAt(event.target);
    if (!segment?.element || this.editing.peek() !== segment.index) return;
    if (event.inputType === "historyUndo" || event.inputType === "historyRedo") {
      event.preventDefault();
      if (event.inputType === "historyUndo") this.undo();
      else this.redo();
    } else if (event.inputType === "insertParagraph" || event.inputType === "insertLineBreak" || event.inputType.startsWith("format")) {
      event.preventDefault();
    }
  };

  readonly onPaste = (event: ClipboardEvent): void => {
    const segment = this.#segmentAt(event.target);
    if (!segment?.element || this.editing.peek() !== segment.index) return;
    event.preventDefault();
    const text = (event.clipboardData?.getData("text/plain") ?? "").replaceAll(/\s*[\r\n]+\s*/g, " ");
    const selection = getSelection();
    if (!text || !selection || selection.rangeCount === 0) return;
    const range = selection.getRangeAt(0);
    const before = range.cloneRange();
    before.selectNodeContents(segment.element);
    before.setEnd(range.startContainer, range.startOffset);
    const from = before.toString().length;
    const to = from + range.toString().length;
    const old = segment.element.textContent ?? "";
    const whole = old.slice(0, from) + text + old.slice(to);
    segment.element.textContent = whole;
    this.#select(segment.element, from + text.length, from + text.length);
    this.editor.type(segment.index, whole);
  };

  readonly onFocusOut = (event: FocusEvent): void => {
    const segment = this.#segmentAt(event.target);
    // Another window takes the focus only for a while.
    if (segment && this.editing.peek() === segment.index && document.hasFocus() && event.relatedTarget !== segment.element) this.endEditing(false);
  };

  readonly onFocusIn = (event: FocusEvent): void => {
    const segment = this.#segmentAt(event.target);
    if (segment) this.#focusOn(segment.index, false);
  };
}

/** Where in the text of an element a point is; null where it is beside it. */
function offsetAt(element: HTMLElement, x: number, y: number): number | null {
  const found: { node: Node | null; offset: number } | null =
    "caretPositionFromPoint" in document
      ? ((position) => position && { node: position.offsetNode, offset: position.offset })(document.caretPositionFromPoint(x, y))
      : ((range) => range && { node: range.startContainer, offset: range.startOffset })(
          (document as { caretRangeFromPoint?: (x: number, y: number) => Range | null }).caretRangeFromPoint?.(x, y) ?? null,
        );
  return found?.node && element.contains(found.node) && found.node instanceof Text ? found.offset : null;
}
