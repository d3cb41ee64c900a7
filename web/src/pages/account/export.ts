/** The export of an account as it arrives: it is counted, and only kept when it is whole. */

/** What has arrived of an export. */
export interface ExportCount {
  lines: number;
  bytes: number;
  transcripts: number;
  /** Whether the last line says that this is all. */
  isWhole: boolean;
}

const NEWLINE = 10;

/** Counts the lines of an export by the type each begins with, without holding on to them. */
export class ExportCounter {
  readonly #decoder = new TextDecoder();
  #start = "";
  #count: ExportCount = { lines: 0, bytes: 0, transcripts: 0, isWhole: false };

  push(piece: Uint8Array): ExportCount {
    let from = 0;
    for (;;) {
      const end = piece.indexOf(NEWLINE, from);
      this.#keep(piece.subarray(from, end < 0 ? piece.length : end));
      if (end < 0) break;
      this.#line();
      from = end + 1;
    }
    this.#count = { ...this.#count, bytes: this.#count.bytes + piece.length };
    return this.#count;
  }

  /** The type stands at the start of a line; transcripts are long, and the rest of them is not read. */
  #keep(bytes: Uint8Array): void {
    const room = 64 - this.#start.length;
    if (room > 0) this.#start += this.#decoder.decode(bytes.subarray(0, room));
  }

  #line(): void {
    const type = /^\{\s*"type"\s*:\s*"([a-z_]+)"/.exec(this.#start)?.[1];
    const isEmpty = this.#start.trim() === "";
    this.#start = "";
    if (isEmpty) return;
    const isEnd = type === "end";
    this.#count = {
      ...this.#count,
      lines: this.#count.lines + (isEnd ? 0 : 1),
      transcripts: this.#count.transcripts + (type === "transcript" ? 1 : 0),
      isWhole: isEnd,
    };
  }
}

/** Reads an export to its end; null where it broke off. */
export async function readExport(body: ReadableStream<Uint8Array<ArrayBuffer>>, onCount: (count: ExportCount) => void): Promise<{ blob: Blob; count: ExportCount } | null> {
  const counter = new ExportCounter();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  const reader = body.getReader();
  let count = counter.push(new Uint8Array());
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    count = counter.push(value);
    onCount(count);
  }
  return count.isWhole ? { blob: new Blob(pieces, { type: "application/x-ndjson" }), count } : null;
}
