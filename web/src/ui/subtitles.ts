/** Texts of segments that the browser has and the server does not keep. Subtitles with line rules come from the server's export. */

export interface Spoken {
  start: number;
  end: number;
  text: string;
  speaker?: string | null;
}

function stamp(seconds: number): string {
  const all = Math.max(0, Math.round(seconds * 1000));
  const pad = (value: number, digits = 2) => String(value).padStart(digits, "0");
  return `${pad(Math.floor(all / 3_600_000))}:${pad(Math.floor(all / 60_000) % 60)}:${pad(Math.floor(all / 1000) % 60)},${pad(all % 1000, 3)}`;
}

/** Turns of speakers; without them where one voice says everything. */
export function turnsOf(segments: readonly Spoken[]): { speaker: string; text: string }[] {
  const isMonologue = isSaidByOne(segments);
  const turns: { speaker: string; text: string }[] = [];
  for (const segment of segments) {
    const speaker = isMonologue ? "" : (segment.speaker ?? "");
    const text = segment.text.trim();
    const last = turns.at(-1);
    if (last?.speaker === speaker) last.text += ` ${text}`;
    else turns.push({ speaker, text });
  }
  return turns;
}

function isSaidByOne(segments: readonly Spoken[]): boolean {
  return new Set(segments.map((segment) => segment.speaker ?? "")).size < 2;
}

/** What a speaker with this label is called. */
type Named = (label: string) => string;

/** SubRip, a cue each segment. Where there are several speakers, a cue that begins with another one names it. */
export function toSrt(segments: readonly Spoken[], named: Named): string {
  const isMonologue = isSaidByOne(segments);
  let before = "";
  return segments
    .filter((segment) => segment.text.trim())
    .map((segment, index) => {
      const speaker = isMonologue ? "" : (segment.speaker ?? "");
      const name = speaker && speaker !== before ? `${named(speaker)}: ` : "";
      before = speaker;
      const text = segment.text.trim().replaceAll(/\n{2,}/g, "\n");
      return `${index + 1}\n${stamp(segment.start)} --> ${stamp(Math.max(segment.end, segment.start + 0.001))}\n${name}${text}\n`;
    })
    .join("\n");
}

/** Plain text: a paragraph each turn, with its speaker where there are several. */
export function toText(segments: readonly Spoken[], named: Named): string {
  const turns = turnsOf(segments).map((turn) => (turn.speaker ? `${named(turn.speaker)}: ` : "") + turn.text);
  return turns.length ? `${turns.join("\n\n")}\n` : "";
}
