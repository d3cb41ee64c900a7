/** The text of a live session: lines as they become final, in paragraphs by speaker and pause. */

/** A final text. */
export interface Line {
  id: number;
  /** Which part of the session said it: a server that forgot the session begins another. */
  part: number;
  /** Seconds since the start. */
  start: number;
  end: number;
  text: string;
  /** From 0; null where speakers are not told apart. */
  speaker: number | null;
}

/** Lines of one speaker without a long pause. */
export interface Paragraph {
  /** That of its first line. */
  id: number;
  speaker: number | null;
  start: number;
  end: number;
  lines: readonly Line[];
}

/** A pause that begins a new paragraph. */
const PAUSE = 2.5;
/** A paragraph that is this long ends with its sentence, and in any case when it is twice as long. */
const LONG = 500;

/** The paragraphs with another line; all but the last stay the same objects, so that they need not be drawn again. */
export function withLine(paragraphs: readonly Paragraph[], line: Line): Paragraph[] {
  const last = paragraphs.at(-1);
  if (!last || !continues(last, line)) {
    return [...paragraphs, { id: line.id, speaker: line.speaker, start: line.start, end: line.end, lines: [line] }];
  }
  return [...paragraphs.slice(0, -1), { ...last, end: Math.max(last.end, line.end), lines: [...last.lines, line] }];
}

/** The paragraphs with what a part said replaced by what its end made of it. */
export function withPart(paragraphs: readonly Paragraph[], part: number, lines: readonly Line[]): Paragraph[] {
  const others = paragraphs.flatMap((paragraph) => paragraph.lines).filter((line) => line.part !== part);
  return [...others, ...lines].reduce<Paragraph[]>((all, line) => withLine(all, line), []);
}

function continues(paragraph: Paragraph, line: Line): boolean {
  if (paragraph.speaker !== line.speaker || line.start - paragraph.end > PAUSE) return false;
  const last = paragraph.lines.at(-1);
  if (last?.part !== line.part) return false;
  const length = paragraph.lines.reduce((sum, each) => sum + each.text.length, 0);
  return length < LONG || (length < 2 * LONG && !endsSentence(last.text));
}

/** Whether a text ends where a sentence does. */
export function endsSentence(text: string): boolean {
  return /[.!?…。！？۔।]["'”’»)\]]*$/u.test(text);
}

/** What stands between two texts that follow each other: nothing in scripts without spaces. */
export function between(before: string, after: string): string {
  if (!before || !after) return "";
  return UNSPACED_END.test(before) || UNSPACED_START.test(after) || ATTACHED.test(after) ? "" : " ";
}

/** What belongs to the word before it: punctuation, and the ends of words such as "don't". */
const ATTACHED = /^(?:[.,;:!?…%)\]}”»、。]|['’]\p{L}{1,2}(?!\p{L}))/u;

const UNSPACED = String.raw`\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\u3000-\u303f\uff00-\uff65`;
const UNSPACED_END = new RegExp(`[${UNSPACED}]$`, "u");
const UNSPACED_START = new RegExp(`^[${UNSPACED}]`, "u");

/** The text of a paragraph. */
export function textOf(lines: readonly { text: string }[]): string {
  return lines.reduce((all, line) => all + between(all, line.text) + line.text, "");
}

/** How many speakers there are. */
export function speakersOf(paragraphs: readonly Paragraph[]): number {
  return new Set(paragraphs.map((paragraph) => paragraph.speaker).filter((speaker) => speaker !== null)).size;
}

/** The last paragraphs of which at least `characters` can be read: what a view of the last lines needs. */
export function tail(paragraphs: readonly Paragraph[], characters: number): { id: number; speaker: number | null; text: string }[] {
  const found: { id: number; speaker: number | null; text: string }[] = [];
  let length = 0;
  for (let index = paragraphs.length - 1; index >= 0 && length < characters; index -= 1) {
    const paragraph = paragraphs[index];
    if (!paragraph) break;
    const text = textOf(paragraph.lines);
    found.unshift({ id: paragraph.id, speaker: paragraph.speaker, text });
    length += text.length;
  }
  return found;
}

/** What is read out at once: a few words are read while the next ones come. */
const READ_CHARACTERS = 60;
/** Readings that stay; older ones were read. */
const READINGS = 4;

/** The last pieces of the text as a screen reader should get them: sentences or several words, never one word at a time. */
export function readings(paragraphs: readonly Paragraph[], isOver: boolean): { id: number; text: string }[] {
  const found: { id: number; text: string }[] = [];
  for (const paragraph of paragraphs.slice(-READINGS)) {
    let id = 0;
    let text = "";
    for (const line of paragraph.lines) {
      id ||= line.id;
      text += between(text, line.text) + line.text;
      if (text.length < READ_CHARACTERS && !endsSentence(line.text)) continue;
      found.push({ id, text });
      id = 0;
      text = "";
    }
    if (text && (isOver || paragraph !== paragraphs.at(-1))) found.push({ id, text });
  }
  return found.slice(-READINGS);
}
