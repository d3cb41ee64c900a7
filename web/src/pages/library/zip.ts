/** ZIP archives without compression: texts are small, and a writer of two records needs no library. */

/** What goes into an archive. */
export interface ZipEntry {
  name: string;
  data: Uint8Array;
  /** When it was made; archives know no date before 1980. */
  date: Date;
}

/** The largest archive and the most files that the format takes without its 64-bit extension. */
const MAX_BYTES = 0xffff_ffff;
const MAX_FILES = 0xffff;
/** Names are UTF-8. */
const UTF8_FLAG = 0x0800;
/** Version 2.0 of the format. */
const VERSION = 20;

const TABLE = (() => {
  const table = new Uint32Array(256);
  for (let byte = 0; byte < 256; byte += 1) {
    let value = byte;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb8_8320 ^ (value >>> 1) : value >>> 1;
    table[byte] = value;
  }
  return table;
})();

/** The checksum of the format: CRC-32 of IEEE 802.3. */
export function crc32(data: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of data) crc = (TABLE[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffff_ffff) >>> 0;
}

/** A date and a time of day as MS-DOS wrote them: local time, steps of two seconds, from 1980 to 2107. */
export function dosTime(date: Date): { time: number; day: number } {
  const year = date.getFullYear();
  if (!(year >= 1980)) return { time: 0, day: (1 << 5) | 1 };
  if (year > 2107) return { time: (23 << 11) | (59 << 5) | 29, day: (127 << 9) | (12 << 5) | 31 };
  return {
    time: (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1),
    day: ((year - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate(),
  };
}

/** Bytes with numbers in little-endian order. */
function record(fields: [size: 2 | 4, value: number][]): Uint8Array {
  const bytes = new Uint8Array(fields.reduce((sum, [size]) => sum + size, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const [size, value] of fields) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return bytes;
}

/** Writes an archive file by file: `parts` of what was added are final, `finish` adds the directory behind them. */
export class ZipWriter {
  readonly #parts: Uint8Array[] = [];
  readonly #directory: Uint8Array[] = [];
  #offset = 0;
  #directorySize = 0;
  #count = 0;

  /** How many files are in it. */
  get count(): number {
    return this.#count;
  }

  add({ name, data, date }: ZipEntry): void {
    const encoded = new TextEncoder().encode(name);
    const crc = crc32(data);
    const { time, day } = dosTime(date);
    const added = 30 + encoded.length + data.length;
    if (this.#count >= MAX_FILES || encoded.length > 0xffff || this.#offset + added + this.#directorySize + 46 + encoded.length + 22 > MAX_BYTES) {
      throw new RangeError("the archive would be larger than 4 GB");
    }
    const common: [2 | 4, number][] = [
      [2, VERSION], [2, UTF8_FLAG], [2, 0], [2, time], [2, day], [4, crc], [4, data.length], [4, data.length], [2, encoded.length], [2, 0],
    ];
    this.#parts.push(record([[4, 0x0403_4b50], ...common]), encoded, data);
    const entry = record([[4, 0x0201_4b50], [2, VERSION], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, this.#offset]]);
    this.#directory.push(entry, encoded);
    this.#directorySize += entry.length + encoded.length;
    this.#offset += added;
    this.#count += 1;
  }

  /** The whole archive in pieces, as a `Blob` takes them. */
  finish(): Uint8Array[] {
    const end = record([[4, 0x0605_4b50], [2, 0], [2, 0], [2, this.#count], [2, this.#count], [4, this.#directorySize], [4, this.#offset], [2, 0]]);
    return [...this.#parts, ...this.#directory, end];
  }
}
