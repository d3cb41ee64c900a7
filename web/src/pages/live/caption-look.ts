/** How captions look: chosen by who reads them, remembered in this browser. */

export const COLOURS = ["dark", "light", "yellow", "blue"] as const;
export const FONTS = ["plain", "serif", "wide", "mono"] as const;

export interface CaptionLook {
  /** An index of SIZES. */
  size: number;
  lines: number;
  colours: (typeof COLOURS)[number];
  font: (typeof FONTS)[number];
  /** Whether speakers are named. */
  hasNames: boolean;
}

/** Sizes of the text in rem. */
export const SIZES = [1.25, 1.5, 2, 2.5, 3, 3.75, 4.5, 5.5, 7, 9, 12];
export const MOST_LINES = 8;

export const FIRST_LOOK: CaptionLook = { size: 4, lines: 3, colours: "dark", font: "plain", hasNames: true };

/** The look with a larger or smaller text. */
export function sized(look: CaptionLook, step: number): CaptionLook {
  return { ...look, size: Math.min(SIZES.length - 1, Math.max(0, look.size + step)) };
}

/** The look from a text that anybody may have changed. */
export function readLook(text: string | null): CaptionLook {
  let found: unknown = null;
  try {
    found = JSON.parse(text ?? "null");
  } catch {
    // Not ours.
  }
  const given = typeof found === "object" && found !== null ? (found as Partial<CaptionLook>) : {};
  const within = (value: unknown, least: number, most: number, otherwise: number) =>
    typeof value === "number" && Number.isInteger(value) ? Math.min(most, Math.max(least, value)) : otherwise;
  return {
    size: within(given.size, 0, SIZES.length - 1, FIRST_LOOK.size),
    lines: within(given.lines, 1, MOST_LINES, FIRST_LOOK.lines),
    colours: COLOURS.find((colours) => colours === given.colours) ?? FIRST_LOOK.colours,
    font: FONTS.find((font) => font === given.font) ?? FIRST_LOOK.font,
    hasNames: typeof given.hasNames === "boolean" ? given.hasNames : FIRST_LOOK.hasNames,
  };
}
