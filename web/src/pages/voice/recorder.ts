/** The microphone for a few seconds, with its level while it listens. */

import { CLIP_SECONDS } from "./sound";

/** Why the microphone can't be used. */
export type MicrophoneFault = "refused" | "missing" | "insecure" | "failed";

export class MicrophoneError extends Error {
  constructor(readonly fault: MicrophoneFault) {
    super(fault);
  }
}

export interface Recording {
  /** Ends it; the sound comes from `done`. */
  stop(): void;
  /** Ends it and throws the sound away. */
  cancel(): void;
  /** What was recorded; null where it was cancelled. */
  done: Promise<Blob | null>;
}

/** Longer than this nothing is recorded, in milliseconds; encoders begin a little late. */
const LONGEST = CLIP_SECONDS.most * 1000 + 100;

/** Records until it is stopped or the clip is full. `onTick` is called with the seconds so far and the loudest sample of late, 0 to 1. */
export async function record(onTick: (seconds: number, level: number) => void): Promise<Recording> {
  if (!window.isSecureContext || !("mediaDevices" in navigator)) throw new MicrophoneError("insecure");
  if (typeof MediaRecorder === "undefined") throw new MicrophoneError("failed");
  let stream: MediaStream;
  try {
    // What makes calls understandable changes a voice: off, except for the gain.
    stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: true, channelCount: 1 } });
  } catch (error) {
    const name = error instanceof DOMException ? error.name : "";
    throw new MicrophoneError(name === "NotAllowedError" || name === "SecurityError" ? "refused" : name === "NotFoundError" ? "missing" : "failed");
  }
  const { context, analyser, recorder } = opened(stream);
  const samples = new Float32Array(analyser.fftSize);
  const pieces: Blob[] = [];
  let isCancelled = false;
  const begun = performance.now();
  const release = () => {
    clearInterval(timer);
    for (const track of stream.getTracks()) track.stop();
    void context.close().catch(() => undefined);
  };
  const done = new Promise<Blob | null>((resolve) => {
    recorder.ondataavailable = (event) => pieces.push(event.data);
    recorder.onstop = () => {
      release();
      resolve(isCancelled ? null : new Blob(pieces, { type: recorder.mimeType }));
    };
    // The microphone was unplugged: what there is counts.
    recorder.onerror = () => stop();
  });
  const stop = () => {
    if (recorder.state !== "inactive") recorder.stop();
  };
  const timer = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    const level = samples.reduce((loudest, sample) => Math.max(loudest, Math.abs(sample)), 0);
    const passed = performance.now() - begun;
    onTick(Math.min(CLIP_SECONDS.most, passed / 1000), Math.min(1, level));
    if (passed >= LONGEST) stop();
  }, 80);
  recorder.start(250);
  return {
    stop,
    cancel() {
      isCancelled = true;
      stop();
    },
    done,
  };
}

/** A meter and a recorder of a stream; lets go of the microphone where the browser can't make them. */
function opened(stream: MediaStream) {
  try {
    const context = new AudioContext();
    const analyser = context.createAnalyser();
    analyser.fftSize = 2048;
    context.createMediaStreamSource(stream).connect(analyser);
    return { context, analyser, recorder: new MediaRecorder(stream, { audioBitsPerSecond: 256_000 }) };
  } catch {
    for (const track of stream.getTracks()) track.stop();
    throw new MicrophoneError("failed");
  }
}
