/** The formats of sound that the server makes. */

export const FORMATS = ["wav", "flac", "mp3", "opus"] as const;
export type Format = (typeof FORMATS)[number];

/** What `Accept` names. */
export const MEDIA: Record<Format, string> = { wav: "audio/wav", flac: "audio/flac", mp3: "audio/mpeg", opus: "audio/ogg" };

/** How the name of a file ends. */
export const ENDING: Record<Format, string> = { wav: "wav", flac: "flac", mp3: "mp3", opus: "opus" };

/** The format of a media type. */
export function formatOf(media: string): Format {
  return FORMATS.find((format) => media.startsWith(MEDIA[format])) ?? "wav";
}
