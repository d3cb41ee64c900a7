/** The text of a session as a file, made in the browser: for those who have no account that keeps it. */

import { endsSentence, between, speakersOf, textOf, type Line, type Paragraph } from "./transcript";

/** What a speaker is called, from 0. */
export type Named = (speaker: number) => string;

/** Paragraphs with a blank line between them; with speakers where there are several. */
export function toText(paragraphs: readonly Paragraph[], named: Named): string {
  const many = speakersOf(paragraphs) > 1;
  const text = paragraphs.map((paragraph) => {
    const words = oneLine(textOf(paragraph.lines));
    return paragraph.speaker === null || !many ? words : `${named(paragraph.speaker)}: ${words}`;
  });
  return text.length ? `${text.join("\n\n")}\n` : "";
}

interface Cue {
  start: number;
  end: number;
  text: string;
  speaker: number | null;
}

/** Rules of subtitles: two lines of 42 characters, at most seven seconds. */
const LINE_CHARACTERS = 42;
const CUE_CHARACTERS = 2 * LINE_CHARACTERS;
const CUE_SECONDS = 7;
const CUE_PAUSE = 1;

/** Subtitles (SubRip). Where there are several speakers, a cue that begins with another one names it. */
export function toSrt(paragraphs: readonly Paragraph[], named: Named): string {
  const many = speakersOf(paragraphs) > 1;
  let speaker: number | null = null;
  const cues = cuesOf(paragraphs.flatMap((paragraph) => paragraph.lines)).map((cue, index) => {
    const name = many && cue.speaker !== null && cue.speaker !== speaker ? `${named(cue.speaker)}: ` : "";
    speaker = cue.speaker;
    return `${index + 1}\n${moment(cue.start)} --> ${moment(cue.end)}\n${wrap(name + cue.text)}\n`;
  });
  return cues.join("\n");
}

function cuesOf(lines: readonly Line[]): Cue[] {
  const cues: Cue[] = [];
  for (const piece of lines.flatMap(pieces)) {
    const last = cues.at(-1);
    const joined = last ? last.text + between(last.text, piece.text) + piece.text : "";
    const fits =
      last &&
      last.speaker === piece.speaker &&
      joined.length <= CUE_CHARACTERS &&
      piece.end - last.start <= CUE_SECONDS &&
      piece.start - last.end <= CUE_PAUSE &&
      !(endsSentence(last.text) && last.text.length > LINE_CHARACTERS);
    if (fits) {
      last.text = joined;
      last.end = Math.max(last.end, piece.end);
    } else cues.push({ ...piece });
  }
  // One cue ends before the next begins, and each is there long enough to be seen.
  for (const [index, cue] of cues.entries()) {
    const next = cues[index + 1];
    cue.end = Math.max(cue.end, cue.start + 0.7);
    if (next && cue.end > next.start && next.start > cue.start) cue.end = next.start;
  }
  return cues;
}

/** A line that is too long for a cue, in pieces whose times are in proportion to their length. */
function pieces(line: Line): Cue[] {
  const text = oneLine(line.text);
  if (!text) return [];
  if (text.length <= CUE_CHARACTERS) return [{ start: line.start, end: line.end, text, speaker: line.speaker }];
  const parts: string[] = [];
  for (let rest = text; rest; ) {
    const space = rest.length > CUE_CHARACTERS ? rest.lastIndexOf(" ", CUE_CHARACTERS) : rest.length;
    const end = rest.length <= CUE_CHARACTERS ? rest.length : space > 0 ? space : CUE_CHARACTERS;
    parts.push(rest.slice(0, end).trim());
    rest = rest.slice(end).trim();
  }
  const total = parts.reduce((sum, part) => sum + part.length, 0);
  let before = 0;
  return parts.map((part) => {
    const at = (count: number) => line.start + ((line.end - line.start) * count) / total;
    const piece = { start: at(before), end: at(before + part.length), text: part, speaker: line.speaker };
    before += part.length;
    return piece;
  });
}

/** Two lines of about the same length where one is too long. */
function wrap(text: string): string {
  if (text.length <= LINE_CHARACTERS) return text;
  const middle = text.length / 2;
  let best = -1;
  for (let at = text.indexOf(" "); at >= 0; at = text.indexOf(" ", at + 1)) {
    if (best < 0 || Math.abs(at - middle) < Math.abs(best - middle)) best = at;
  }
  return best < 0 ? text : `${text.slice(0, best)}\n${text.slice(best + 1)}`;
}

/** Without line breaks, control characters and what a subtitle would take for a time. */
function oneLine(text: string): string {
  return text.replaceAll(/[\u0000-\u001f\u007f\s]+/g, " ").replaceAll("-->", "→").trim();
}

/** `01:02:03,450`. */
function moment(seconds: number): string {
  const all = Math.max(0, Math.round(seconds * 1000));
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(Math.floor(all / 3_600_000))}:${two(Math.floor(all / 60_000) % 60)}:${two(Math.floor(all / 1000) % 60)},${String(all % 1000).padStart(3, "0")}`;
}
