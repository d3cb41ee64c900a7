/** What the server tells about speech and marks, read from its headers and numbers. */

/** What a voice is: like a clip, a copy of one, or one of the model's own. */
export type VoiceKind =
  | { is: "matched"; base: string; similarity: number | null }
  | { is: "cloned"; model: string }
  | { is: "preset"; name: string }
  | { is: "unknown" };

/** Reads `X-Voice`: `matched; base=am_adam; similarity=0.46`. */
export function voiceKind(header: string | null): VoiceKind {
  const [kind = "", ...rest] = (header ?? "").split(";").map((part) => part.trim());
  const fields = new Map(rest.map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)] as const));
  const similarity = Number.parseFloat(fields.get("similarity") ?? "");
  switch (kind) {
    case "matched":
      return { is: "matched", base: fields.get("base") ?? "", similarity: Number.isFinite(similarity) ? similarity : null };
    case "cloned":
      return { is: "cloned", model: fields.get("model") ?? "" };
    case "preset":
      return { is: "preset", name: fields.get("name") ?? "" };
    default:
      return { is: "unknown" };
  }
}

/** The name of a voice for people: `af_heart` is "Heart". */
export function voiceName(id: string): string {
  const name = /^[a-z]{2}_(.+)$/.exec(id)?.[1] ?? id;
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** Characters as the server counts them: Unicode scalar values. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The chance of a false alarm as a power of ten that can be written: `{ exponent: -83 }` is 10⁻⁸³ at most. */
export function alarmExponent(log10: number): number {
  return Math.min(0, Math.ceil(Number.isFinite(log10) ? log10 : 0));
}

/** A power of ten as people write it. */
export function powerOfTen(exponent: number): string {
  const digits: Record<string, string> = { "-": "⁻", "0": "⁰", "1": "¹", "2": "²", "3": "³", "4": "⁴", "5": "⁵", "6": "⁶", "7": "⁷", "8": "⁸", "9": "⁹" };
  return `10${[...String(exponent)].map((digit) => digits[digit] ?? digit).join("")}`;
}

/** Where a stretch of a recording lies on a line, in percent; what is outside is cut. */
export function placeOnLine(start: number, end: number, duration: number): { left: number; width: number } {
  if (!(duration > 0)) return { left: 0, width: 0 };
  const left = Math.min(100, Math.max(0, (start / duration) * 100));
  const right = Math.min(100, Math.max(left, (end / duration) * 100));
  return { left, width: Math.max(right - left, Math.min(1, 100 - left)) };
}

/** Seconds of a recording that its stretches cover, overlaps counted once. */
export function covered(spans: readonly { start: number; end: number }[]): number {
  let sum = 0;
  let until = 0;
  for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
    const from = Math.max(start, until);
    if (end > from) {
      sum += end - from;
      until = end;
    }
  }
  return sum;
}

/** A key that makes a repeat of a call safe. `crypto.randomUUID` is missing on pages without HTTPS. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The name of a file without its ending. */
export function baseName(name: string): string {
  return name.replace(/\.[A-Za-z0-9]{1,5}$/, "");
}
