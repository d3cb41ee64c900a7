/** Hands files to the browser, under names that every system takes. */

export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // Not at once: some browsers read it later.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Endings of recordings, which a title that is a file's name has and what is made of it should not. */
const RECORDING = /\.(mp3|wav|flac|ogg|oga|m4a|aac|opus|wma|mp4|webm|mkv|avi|mov|wmv|mpg|mpeg)$/i;
/** Names that Windows keeps for devices. */
const DEVICE = /^(con|prn|aux|nul|com[0-9]|lpt[0-9])$/i;
/** Characters that a system refuses, and those that turn the direction of a name around. */
const UNWANTED = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069/\\:*?"<>|]+/gu;
/** Linux and macOS take 255 bytes; ending, language and number need a few. */
const MOST_BYTES = 200;
const MOST_CHARACTERS = 80;

/** A title as the name of a file, without its ending. */
export function stem(title: string): string {
  const clean = title.replace(RECORDING, "").replaceAll(UNWANTED, " ").replaceAll(/\s+/g, " ");
  const short = shortened(clean.trim()).replace(/^[ .]+|[ .]+$/g, "");
  if (!short) return "hark";
  return DEVICE.test(short.split(".")[0] ?? "") ? `_${short}` : short;
}

function shortened(name: string): string {
  let short = "";
  let bytes = 0;
  for (const character of [...name].slice(0, MOST_CHARACTERS)) {
    bytes += new TextEncoder().encode(character).length;
    if (bytes > MOST_BYTES) break;
    short += character;
  }
  return short;
}

/** The name of a file that is made from what has this title. */
export function fileName(title: string, ending: string): string {
  return `${stem(title)}.${ending}`;
}

/** Gives each title a name of its own: "talk.txt", "talk (2).txt". Systems that ignore case or the form of accents count as one. */
export class UniqueNames {
  readonly #taken = new Set<string>();

  name(title: string, ending: string): string {
    const base = stem(title);
    for (let round = 1; ; round += 1) {
      const name = `${base}${round === 1 ? "" : ` (${round})`}.${ending}`;
      const key = name.normalize("NFC").toLowerCase();
      if (this.#taken.has(key)) continue;
      this.#taken.add(key);
      return name;
    }
  }
}

/** Copies a text; false where the browser refuses. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
