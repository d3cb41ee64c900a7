/** A clip of the microphone, as the browser records it. */

export interface ClipRecorder {
  /** Ends the recording and hands out what was said. */
  stop: () => Promise<File>;
  /** Ends it and forgets it. */
  cancel: () => void;
}

/** Whether this browser can record here: pages without https can't. */
export function canRecord(): boolean {
  return typeof MediaRecorder !== "undefined" && typeof navigator.mediaDevices?.getUserMedia === "function";
}

/** Starts to record; fails where the microphone is not allowed. */
export async function startClip(): Promise<ClipRecorder> {
  // A voice as it is: what calls do to it would be learned, too.
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: false, noiseSuppression: false } });
  const release = () => stream.getTracks().forEach((track) => track.stop());
  try {
    const recorder = new MediaRecorder(stream);
    const pieces: Blob[] = [];
    recorder.addEventListener("dataavailable", (event) => pieces.push(event.data));
    const ended = new Promise<void>((resolve) => recorder.addEventListener("stop", () => resolve(), { once: true }));
    recorder.start();
    return {
      async stop() {
        if (recorder.state !== "inactive") recorder.stop();
        await ended;
        release();
        const type = recorder.mimeType || pieces[0]?.type || "audio/webm";
        return new File(pieces, `clip.${type.includes("mp4") ? "m4a" : type.includes("ogg") ? "ogg" : "webm"}`, { type });
      },
      cancel() {
        if (recorder.state !== "inactive") recorder.stop();
        release();
      },
    };
  } catch (error) {
    release();
    throw error;
  }
}
