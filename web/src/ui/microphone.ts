/** Recordings of the microphone, in whatever format the browser's recorder has. */

import { useEffect, useRef, useState } from "preact/hooks";

/** Why the microphone can't be used. */
export type MicrophoneFault = "refused" | "missing" | "insecure" | "failed";

export class MicrophoneError extends Error {
  constructor(readonly fault: MicrophoneFault) {
    super(fault);
  }
}

/** What was recorded. */
export interface Recorded {
  sound: Blob;
  /** The ending of a file of this format. */
  ending: string;
  seconds: number;
}

export interface Recording {
  /** Ends it; the sound comes from `done`. */
  stop(): void;
  /** Ends it and throws the sound away. */
  cancel(): void;
  /** Null where it was cancelled or has no sound. */
  done: Promise<Recorded | null>;
}

export interface RecordingOptions {
  /** Of the encoder. */
  bitsPerSecond: number;
  /** Seconds after which it ends by itself. */
  longest?: number;
}

/** Formats by preference, with the endings of their files. */
const TYPES: [string, string][] = [
  ["audio/webm;codecs=opus", "webm"],
  ["audio/ogg;codecs=opus", "ogg"],
  ["audio/mp4", "m4a"],
];

/** Milliseconds between two looks at the level. */
const TICK = 80;
/** Encoders begin a little late, in seconds. */
const LATE = 0.1;

/** Whether this browser can record here: pages without https can't. */
export function canRecord(): boolean {
  return typeof MediaRecorder !== "undefined" && typeof navigator.mediaDevices?.getUserMedia === "function";
}

/** Records until it is stopped or full. `onTick` is called with the seconds so far and the loudest sample of late, 0 to 1. */
export async function record({ bitsPerSecond, longest = Number.POSITIVE_INFINITY }: RecordingOptions, onTick: (seconds: number, level: number) => void): Promise<Recording> {
  if (typeof navigator.mediaDevices?.getUserMedia !== "function") throw new MicrophoneError("insecure");
  if (!canRecord()) throw new MicrophoneError("failed");
  let stream: MediaStream;
  try {
    // What makes calls understandable changes a voice: off, except for the gain.
    stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: true, channelCount: 1 } });
  } catch (error) {
    const name = error instanceof DOMException ? error.name : "";
    throw new MicrophoneError(name === "NotAllowedError" || name === "SecurityError" ? "refused" : name === "NotFoundError" ? "missing" : "failed");
  }
  const { context, analyser, recorder, ending } = opened(stream, bitsPerSecond);
  const samples = new Float32Array(analyser.fftSize);
  const pieces: Blob[] = [];
  const begun = performance.now();
  const passed = () => (performance.now() - begun) / 1000;
  let isCancelled = false;
  const stop = () => {
    if (recorder.state !== "inactive") recorder.stop();
  };
  const timer = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    const level = samples.reduce((loudest, sample) => Math.max(loudest, Math.abs(sample)), 0);
    const seconds = passed();
    onTick(Math.min(longest, seconds), Math.min(1, level));
    if (seconds >= longest + LATE) stop();
  }, TICK);
  const done = new Promise<Recorded | null>((resolve) => {
    recorder.ondataavailable = ({ data }) => {
      if (data.size > 0) pieces.push(data);
    };
    // Browsers end a recording by themselves where the microphone is unplugged: what there is counts.
    recorder.onerror = stop;
    recorder.onstop = () => {
      clearInterval(timer);
      release(stream, context);
      const seconds = Math.min(longest, passed());
      resolve(isCancelled || pieces.length === 0 ? null : { sound: new Blob(pieces, { type: recorder.mimeType }), ending, seconds });
    };
  });
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
function opened(stream: MediaStream, audioBitsPerSecond: number) {
  let context: AudioContext | null = null;
  try {
    context = new AudioContext();
    const analyser = context.createAnalyser();
    analyser.fftSize = 2048;
    context.createMediaStreamSource(stream).connect(analyser);
    const [mimeType, ending] = TYPES.find(([type]) => MediaRecorder.isTypeSupported(type)) ?? ["", "webm"];
    return { context, analyser, ending, recorder: new MediaRecorder(stream, { ...(mimeType ? { mimeType } : {}), audioBitsPerSecond }) };
  } catch {
    release(stream, context);
    throw new MicrophoneError("failed");
  }
}

function release(stream: MediaStream, context: AudioContext | null): void {
  for (const track of stream.getTracks()) track.stop();
  void context?.close().catch(() => undefined);
}

/** A recorder as a component shows it. */
export interface Recorder {
  state: "idle" | "asking" | "recording";
  fault: MicrophoneFault | null;
  seconds: number;
  /** The loudest sample of late, 0 to 1. */
  level: number;
  start(): void;
  stop(): void;
  discard(): void;
}

/** A recorder that lets go of the microphone when the component goes. */
export function useRecorder(options: RecordingOptions, onRecorded: (recorded: Recorded) => void): Recorder {
  const [state, setState] = useState<Recorder["state"]>("idle");
  const [fault, setFault] = useState<MicrophoneFault | null>(null);
  const [heard, setHeard] = useState({ seconds: 0, level: 0 });
  const running = useRef<Recording | null>(null);
  const isGone = useRef(false);
  const latest = useRef(onRecorded);
  latest.current = onRecorded;
  useEffect(
    () => () => {
      isGone.current = true;
      running.current?.cancel();
    },
    [],
  );

  const start = async () => {
    if (state !== "idle") return;
    setState("asking");
    setFault(null);
    setHeard({ seconds: 0, level: 0 });
    try {
      const recording = await record(options, (seconds, level) => setHeard({ seconds, level }));
      running.current = recording;
      if (isGone.current) return recording.cancel();
      setState("recording");
      const recorded = await recording.done;
      running.current = null;
      if (isGone.current) return;
      setState("idle");
      if (recorded) latest.current(recorded);
    } catch (error) {
      if (isGone.current) return;
      setState("idle");
      setFault(error instanceof MicrophoneError ? error.fault : "failed");
    }
  };

  return { state, fault, ...heard, start: () => void start(), stop: () => running.current?.stop(), discard: () => running.current?.cancel() };
}
