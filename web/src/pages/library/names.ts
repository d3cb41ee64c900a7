/** Names of files for transcripts: every system takes them, and no two are the same in one archive. */

/** Endings of recordings, which a title that is a file's name has and a text should not. */
const RECORDING = /\.(mp3|wav|flac|ogg|oga|m4a|aac|opus|wma|mp4|webm|mkv|avi|mov|wmv|mpg|mpeg)$/i;
/** Names that Windows keeps for devices. */
const DEVICE = /^(con|prn|aux|nul|com[0-9]|lpt[0-9])$/i;
/** Characters that a system refuses, and those that turn the direction of a name around. */
const UNWANTED = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069/\\:*?"<>|]+/gu;

/** A title as the name of a file, without its ending. */
export function stem(title: string): string {
  const clean = title.replace(RECORDING, "").replaceAll(UNWANTED, " ").replaceAll(/\s+/g, " ");
  const short = [...clean.trim()].slice(0, 80).join("").replace(/^[ .]+|[ .]+$/g, "");
  if (!short) return "transcript";
  return DEVICE.test(short.split(".")[0] ?? "") ? `_${short}` : short;
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
