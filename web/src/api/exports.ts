/** Transcripts as files, made by the server. */

import { common } from "../i18n/common";
import { failed, throwProblem } from "./client";

/** What a transcript can be saved as: for reading first, for programs last. */
export const FORMATS = ["txt", "srt", "vtt", "docx", "pdf", "csv", "json"] as const;
export type Format = (typeof FORMATS)[number];

/** The address of the file; `language` is that of a translation. */
export function exportPath(id: number, format: Format, language: string | null = null): string {
  const query = new URLSearchParams();
  if (language) query.set("language", language);
  // As the pages name speakers whom nobody has named; programs get the labels.
  if (format !== "json") query.set("unnamed_speaker", common().unnamedSpeaker);
  return `/v1/transcripts/${id}/export/${format}${query.size > 0 ? `?${query}` : ""}`;
}

export async function exportFile(id: number, format: Format, language: string | null = null, signal?: AbortSignal): Promise<Blob> {
  let response: Response;
  try {
    response = await fetch(exportPath(id, format, language), signal ? { signal } : {});
    if (response.ok) return await response.blob();
  } catch (error) {
    throw failed(error);
  }
  return throwProblem(response);
}
