/** What the live page tells windows with captions, in the same browser. */

export interface CaptionText {
  kind: "text";
  /** Which live page: there may be several. */
  from: string;
  state: "live" | "paused" | "lost" | "ended";
  paragraphs: { id: number; speaker: number | null; text: string }[];
  partial: string;
}

/** A window with captions has opened and wants to know what was said. */
export interface CaptionHello {
  kind: "hello";
}

export type CaptionMessage = CaptionText | CaptionHello;

/** As much text as the largest view of captions can show. */
export const CAPTION_CHARACTERS = 1200;

/** The channel between the pages; null where the browser has none. */
export function captionChannel(): BroadcastChannel | null {
  return "BroadcastChannel" in globalThis ? new BroadcastChannel("hark.captions") : null;
}

/** A message of the channel, where it is one: another version of the app may be open in another tab. */
export function captionMessage(data: unknown): CaptionMessage | null {
  if (typeof data !== "object" || data === null) return null;
  const message = data as Partial<CaptionText> | CaptionHello;
  if (message.kind === "hello") return { kind: "hello" };
  if (message.kind !== "text" || typeof message.from !== "string" || typeof message.partial !== "string" || !Array.isArray(message.paragraphs)) return null;
  return message as CaptionText;
}
