/** Where the sound of a session comes from: a microphone, a tab or screen, or a recording that is played. */

import type { Measure } from "./level";

export type SourceKind = "microphone" | "screen" | "file";

export interface SourceChoice {
  kind: SourceKind;
  /** The microphone; empty for the system's default. */
  device: string;
  /** Without the browser's echo and noise reduction. */
  isRaw: boolean;
  file: File | null;
  /** Whether the recording is heard, too. */
  isAloud: boolean;
}

/** Why there is no sound. */
export type SourceFault = "denied" | "deniedScreen" | "missing" | "busy" | "insecure" | "unsupported" | "noSound" | "unreadable" | "sourceFailed";

export class SourceProblem extends Error {
  constructor(readonly fault: SourceFault) {
    super(fault);
  }
}

export interface SourceEvents {
  onPiece(pcm: Int16Array, measure: Measure): void;
  /** The recording is over, sharing was ended, or the microphone is gone. */
  onEnd(): void;
}

export interface Source {
  setPaused(isPaused: boolean): void;
  /** Gives the last sound and lets go of the microphone. */
  stop(): Promise<void>;
}

interface Piece {
  pcm: Int16Array;
  peak: number;
  rms: number;
  clipped: number;
  isLast: boolean;
}

const RATE = 16_000;
/** How long the last sound may take. */
const FLUSH_MS = 500;
/** What a recording's last sound needs from the player to the worklet. */
const TAIL_MS = 150;

/** Whether the browser can share the sound of a tab or screen. */
export function canShare(): boolean {
  return typeof navigator.mediaDevices?.getDisplayMedia === "function";
}

/** The microphones; without names until the browser may tell them. */
export async function microphones(): Promise<MediaDeviceInfo[]> {
  const all = (await navigator.mediaDevices?.enumerateDevices?.().catch(() => [])) ?? [];
  return all.filter((device) => device.kind === "audioinput" && device.deviceId !== "" && device.deviceId !== "default" && device.deviceId !== "communications");
}

/** Opens a source: call it where the user has just pressed something, or browsers refuse. */
export async function openSource(choice: SourceChoice, events: SourceEvents): Promise<Source> {
  if (!globalThis.isSecureContext) throw new SourceProblem("insecure");
  if (typeof AudioContext === "undefined" || typeof AudioWorkletNode === "undefined") throw new SourceProblem("unsupported");
  const context = newContext(choice.kind === "file" && choice.isAloud);
  let input: Input | null = null;
  try {
    // At once: what is said while the module loads would be lost, and sharing a screen has to be asked for at once.
    const [opening, loading] = await Promise.allSettled([openInput(context, choice), context.audioWorklet.addModule("/audio/capture.js")]);
    if (opening.status === "fulfilled") input = opening.value;
    else throw opening.reason;
    if (loading.status === "rejected") throw new SourceProblem("sourceFailed");
  } catch (error) {
    input?.close();
    void context.close();
    throw error instanceof SourceProblem ? error : new SourceProblem(faultOf(error, choice.kind));
  }
  const opened = input;
  const worklet = new AudioWorkletNode(context, "hark-capture", { numberOfInputs: 1, numberOfOutputs: 1 });
  let isStopped = false;
  let onLast: (() => void) | null = null;
  worklet.port.onmessage = ({ data }: MessageEvent<Piece>) => {
    const { pcm, peak, rms, clipped, isLast } = data;
    if (pcm.length > 0) events.onPiece(pcm, { peak, rms, clipped, seconds: pcm.length / RATE });
    if (isLast) onLast?.();
  };
  opened.node.connect(worklet);
  // It stays silent; browsers only run what leads to the loudspeaker.
  worklet.connect(context.destination);
  // A phone call may suspend it.
  context.addEventListener("statechange", () => {
    if (!isStopped && context.state !== "running" && context.state !== "closed") void context.resume().catch(() => undefined);
  });
  // Not waited for: without a loudspeaker it may never come.
  void context.resume().catch(() => undefined);
  opened.onEnd(() => {
    if (!isStopped) events.onEnd();
  });
  await opened.begin();
  return {
    setPaused: (isPaused) => opened.setPaused(isPaused),
    async stop() {
      if (isStopped) return;
      isStopped = true;
      opened.setPaused(true);
      await new Promise<void>((resolve) => {
        onLast = resolve;
        setTimeout(resolve, FLUSH_MS);
        worklet.port.postMessage("flush");
      });
      opened.close();
      worklet.disconnect();
      void context.close();
    },
  };
}

/** A context whose sound is heard, or one that needs no loudspeaker where the browser knows such a thing. */
function newContext(isHeard: boolean): AudioContext {
  return isHeard ? new AudioContext() : new AudioContext({ sinkId: { type: "none" } } as AudioContextOptions);
}

interface Input {
  node: AudioNode;
  begin(): Promise<void>;
  setPaused(isPaused: boolean): void;
  onEnd(then: () => void): void;
  close(): void;
}

async function openInput(context: AudioContext, choice: SourceChoice): Promise<Input> {
  if (choice.kind === "file") return fileInput(context, choice);
  const stream = choice.kind === "screen" ? await shared() : await microphone(choice);
  const tracks = stream.getAudioTracks();
  return {
    node: context.createMediaStreamSource(stream),
    begin: () => Promise.resolve(),
    setPaused: (isPaused) => tracks.forEach((track) => (track.enabled = !isPaused)),
    onEnd: (then) => tracks.forEach((track) => track.addEventListener("ended", then)),
    close: () => stream.getTracks().forEach((track) => track.stop()),
  };
}

async function microphone({ device, isRaw }: SourceChoice): Promise<MediaStream> {
  if (!navigator.mediaDevices?.getUserMedia) throw new SourceProblem("unsupported");
  const audio = { echoCancellation: !isRaw, noiseSuppression: !isRaw, autoGainControl: !isRaw };
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: device ? { ...audio, deviceId: { exact: device } } : audio });
  } catch (error) {
    // The chosen one may have been unplugged since.
    if (device && error instanceof DOMException && ["OverconstrainedError", "NotFoundError"].includes(error.name)) {
      return navigator.mediaDevices.getUserMedia({ audio });
    }
    throw error;
  }
}

async function shared(): Promise<MediaStream> {
  if (!canShare()) throw new SourceProblem("unsupported");
  const stream = await navigator.mediaDevices.getDisplayMedia({
    // Browsers share no sound without a picture; a small slow one costs least.
    video: { frameRate: 1, width: { max: 320 } },
    audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
    systemAudio: "include",
  } as DisplayMediaStreamOptions);
  if (stream.getAudioTracks().length > 0) return stream;
  stream.getTracks().forEach((track) => track.stop());
  throw new SourceProblem("noSound");
}

async function fileInput(context: AudioContext, { file, isAloud }: SourceChoice): Promise<Input> {
  if (!file) throw new SourceProblem("unreadable");
  const player = new Audio();
  const url = URL.createObjectURL(file);
  await new Promise<void>((resolve, reject) => {
    player.addEventListener("canplay", () => resolve(), { once: true });
    player.addEventListener("error", () => reject(new SourceProblem("unreadable")), { once: true });
    player.src = url;
  }).catch((error: unknown) => {
    URL.revokeObjectURL(url);
    throw error;
  });
  const node = context.createMediaElementSource(player);
  if (isAloud) node.connect(context.destination);
  return {
    node,
    begin: () => player.play(),
    setPaused: (isPaused) => {
      if (isPaused) player.pause();
      else void player.play().catch(() => undefined);
    },
    onEnd: (then) => {
      player.addEventListener("ended", () => setTimeout(then, TAIL_MS));
      player.addEventListener("error", then);
    },
    close: () => {
      player.pause();
      player.removeAttribute("src");
      URL.revokeObjectURL(url);
    },
  };
}

function faultOf(error: unknown, kind: SourceKind): SourceFault {
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError" || name === "SecurityError") return kind === "screen" ? "deniedScreen" : "denied";
  if (name === "NotFoundError" || name === "OverconstrainedError") return "missing";
  if (name === "NotReadableError") return "busy";
  return "sourceFailed";
}
