/** Sound files as samples, by the browser's own decoders. */

/** Recordings from here on are not decoded: their samples would fill the memory. */
export const LONGEST_WAVEFORM = 30 * 60;
/** Enough for a waveform; keeps the samples of half an hour small. */
const WAVEFORM_RATE = 8000;
/** What clips are sent with. */
export const CLIP_RATE = 48_000;
/** The largest file that is read into memory for its waveform. */
const LARGEST = 400_000_000;

async function decoded(data: ArrayBuffer, rate: number): Promise<Float32Array[]> {
  const context = new OfflineAudioContext(1, 1, rate);
  const buffer = await context.decodeAudioData(data);
  return Array.from({ length: buffer.numberOfChannels }, (_, channel) => buffer.getChannelData(channel));
}

/** The channels of a recording for its waveform; null where it is too large or no browser sound. */
export async function channelsOf(sound: Blob | string, signal: AbortSignal): Promise<Float32Array[] | null> {
  try {
    if (typeof sound !== "string" && sound.size > LARGEST) return null;
    let data: ArrayBuffer;
    if (typeof sound === "string") {
      const response = await fetch(sound, { signal });
      if (!response.ok || Number(response.headers.get("Content-Length") ?? 0) > LARGEST) return null;
      data = await response.arrayBuffer();
    } else data = await sound.arrayBuffer();
    if (signal.aborted) return null;
    return await decoded(data, WAVEFORM_RATE);
  } catch {
    return null;
  }
}

/** The channels of a clip at `CLIP_RATE`. Throws where the browser can't read it. */
export async function clipChannels(file: Blob): Promise<Float32Array[]> {
  return decoded(await file.arrayBuffer(), CLIP_RATE);
}

/** The length of a recording in seconds, by its metadata; null where the browser can't tell. */
export function durationOf(url: string, signal: AbortSignal): Promise<number | null> {
  return new Promise((resolve) => {
    const audio = new Audio();
    const end = (value: number | null) => {
      audio.removeAttribute("src");
      resolve(value);
    };
    audio.preload = "metadata";
    audio.onloadedmetadata = () => end(Number.isFinite(audio.duration) && audio.duration > 0 ? audio.duration : null);
    audio.onerror = () => end(null);
    signal.addEventListener("abort", () => end(null), { once: true });
    // Some containers never tell.
    setTimeout(() => end(null), 5000);
    audio.src = url;
  });
}
