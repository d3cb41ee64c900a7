/** The recording of a transcript: whether it was kept, and how loud it is over its length. */

import { failed, throwProblem } from "../../api/client";

export interface Wave {
  duration: number;
  peaks: number[];
}

/** The waveform of a transcript's recording; null where there is none. */
export async function loadWave(id: number, signal: AbortSignal): Promise<Wave | null> {
  const response = await fetch(`/v1/transcripts/${id}/waveform?points=1000`, { signal });
  if (response.status === 404 || response.status === 405) return null;
  if (!response.ok) return throwProblem(response);
  const body: unknown = await response.json();
  if (typeof body !== "object" || body === null) return null;
  const { duration, peaks } = body as Record<string, unknown>;
  if (typeof duration !== "number" || !Array.isArray(peaks) || peaks.length === 0) return null;
  return { duration, peaks: peaks.map((peak) => (typeof peak === "number" ? Math.min(100, Math.max(0, peak)) : 0)) };
}

/** Whether a recording was kept. Asks for its first byte only. */
export async function hasRecording(id: number, signal: AbortSignal): Promise<boolean> {
  let response: Response;
  try {
    response = await fetch(`/v1/transcripts/${id}/recording`, { headers: { Range: "bytes=0-0" }, signal });
  } catch (error) {
    throw failed(error);
  }
  if (response.status === 404) return false;
  if (!response.ok && response.status !== 416) return throwProblem(response);
  void response.body?.cancel().catch(() => undefined);
  return true;
}
