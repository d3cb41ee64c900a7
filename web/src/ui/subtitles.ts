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

/** SubRip, a cue each segment. */
export function toSrt(segments: Spoken[]): string {
  return segments
    .filter((segment) => segment.text.trim())
    .map((segment, index) => `${index + 1}\n${stamp(segment.start)} --> ${stamp(Math.max(segment.end, segment.start + 0.001))}\n${segment.text.trim().replaceAll(/\n{2,}/g, "\n")}\n`)
    .join("\n");
}

/** Plain text: a paragraph each turn, with its speaker where speakers were told apart. */
export function toText(segments: Spoken[]): string {
  const turns: { speaker: string; texts: string[] }[] = [];
  for (const segment of segments) {
    const speaker = segment.speaker ?? "";
    const last = turns.at(-1);
    if (last?.speaker === speaker) last.texts.push(segment.text.trim());
    else turns.push({ speaker, texts: [segment.text.trim()] });
  }
  return turns.map((turn) => (turn.speaker ? `${turn.speaker}: ` : "") + turn.texts.join(" ")).join("\n\n") + (turns.length ? "\n" : "");
}
