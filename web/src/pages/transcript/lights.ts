/**
 * Marks in the text that change often: the spoken word, unsure words, matches. The browser's own highlights paint them
 * without an element for each word; a browser without them marks the whole segment instead.
 */

import type { Segment } from "./editor";

export type Light = "spoken" | "unsure" | "found" | "now";

const LIGHTS: Light[] = ["spoken", "unsure", "found", "now"];
const canLight = typeof CSS !== "undefined" && "highlights" in CSS && typeof Highlight !== "undefined";

/** A part of a segment's text, as it is drawn; null where it is not. */
export function rangeOf(segment: Segment, from: number, to: number): Range | null {
  const node = segment.element?.firstChild;
  if (!(node instanceof Text) || from >= node.length) return null;
  const range = document.createRange();
  range.setStart(node, from);
  range.setEnd(node, Math.min(to, node.length));
  return range;
}

export class Lights {
  readonly #highlights = new Map<Light, Highlight>();
  readonly #marked = new Map<Light, Set<HTMLElement>>();

  constructor() {
    for (const name of LIGHTS) {
      if (canLight) {
        const highlight = new Highlight();
        // The later ones are painted over the earlier ones.
        highlight.priority = LIGHTS.indexOf(name) === 0 ? 3 : LIGHTS.indexOf(name);
        this.#highlights.set(name, highlight);
        CSS.highlights.set(`transcript-${name}`, highlight);
      } else this.#marked.set(name, new Set());
    }
  }

  /** Lights these places and no others. */
  set(name: Light, ranges: readonly Range[]): void {
    this.clear(name);
    for (const range of ranges) this.add(name, range);
  }

  add(name: Light, range: Range): void {
    this.#highlights.get(name)?.add(range);
    const marked = this.#marked.get(name);
    const element = range.startContainer.parentElement;
    if (!marked || !element || name === "unsure") return;
    element.classList.add(`is-${name}`);
    marked.add(element);
  }

  remove(name: Light, range: Range): void {
    this.#highlights.get(name)?.delete(range);
  }

  clear(name: Light): void {
    this.#highlights.get(name)?.clear();
    const marked = this.#marked.get(name);
    for (const element of marked ?? []) element.classList.remove(`is-${name}`);
    marked?.clear();
  }

  dispose(): void {
    for (const name of LIGHTS) {
      this.clear(name);
      if (canLight && CSS.highlights.get(`transcript-${name}`) === this.#highlights.get(name)) CSS.highlights.delete(`transcript-${name}`);
    }
  }
}
