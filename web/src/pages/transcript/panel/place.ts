/** Where in a recording something was said: what the API gives as a text is found again in the segments. */

import type { Segment } from "./types";

/** A text as it is compared: without case, accents and punctuation, one space between words. */
function normal(text: string): string {
  return text
    .normalize("NFKD")
    .replaceAll(/\p{M}+/gu, "")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/** Finds texts in a transcript. */
export class Places {
  #text = " ";
  /** Where each segment begins in the text. */
  readonly #starts: number[] = [];

  constructor(private readonly segments: readonly Segment[]) {
    const pieces: string[] = [];
    let length = 1;
    for (const segment of segments) {
      this.#starts.push(length);
      const piece = `${normal(segment.text)} `;
      pieces.push(piece);
      length += piece.length;
    }
    this.#text += pieces.join("");
  }

  /** The second at which the segment begins in which the text begins; null where it was not said so. */
  of(text: string): number | null {
    const wanted = normal(text);
    if (!wanted) return null;
    const at = this.#text.indexOf(` ${wanted} `);
    if (at < 0) return null;
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= at + 1) low = middle;
      else high = middle - 1;
    }
    return this.segments[low]?.start ?? null;
  }
}
