/** A recording with the browser's own recorder, in whatever format it has. */

import { useEffect, useRef, useState } from "preact/hooks";

export interface Recorder {
  state: "idle" | "asking" | "recording";
  failed: boolean;
  seconds: number;
  /** How loud it is, 0 to 1. */
  level: number;
  start: () => void;
  stop: () => void;
  discard: () => void;
}

const TYPES: [string, string][] = [
  ["audio/webm;codecs=opus", "webm"],
  ["audio/ogg;codecs=opus", "ogg"],
  ["audio/mp4", "m4a"],
];

export function useRecorder(onRecorded: (sound: Blob, ending: string) => void): Recorder {
  const [state, setState] = useState<Recorder["state"]>("idle");
  const [failed, setFailed] = useState(false);
  const [seconds, setSeconds] = useState(0);
  const [level, setLevel] = useState(0);
  const running = useRef<{ recorder: MediaRecorder; end: (keep: boolean) => void } | null>(null);
  const recorded = useRef(onRecorded);
  recorded.current = onRecorded;
  useEffect(() => () => running.current?.end(false), []);

  async function start(): Promise<void> {
    if (state !== "idle") return;
    setState("asking");
    setFailed(false);
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false } });
      const [type, ending] = TYPES.find(([candidate]) => MediaRecorder.isTypeSupported(candidate)) ?? ["", "webm"];
      const recorder = new MediaRecorder(stream, { ...(type ? { mimeType: type } : {}), audioBitsPerSecond: 96_000 });
      const pieces: Blob[] = [];
      let isKept = true;
      const context = new AudioContext();
      const analyser = context.createAnalyser();
      analyser.fftSize = 1024;
      context.createMediaStreamSource(stream).connect(analyser);
      const samples = new Float32Array(analyser.fftSize);
      const began = performance.now();
      const timer = setInterval(() => {
        setSeconds((performance.now() - began) / 1000);
        analyser.getFloatTimeDomainData(samples);
        setLevel(Math.min(1, Math.sqrt(samples.reduce((sum, value) => sum + value * value, 0) / samples.length) * 4));
      }, 100);
      recorder.ondataavailable = (event) => {
        if (event.data.size) pieces.push(event.data);
      };
      recorder.onstop = () => {
        clearInterval(timer);
        for (const track of stream.getTracks()) track.stop();
        void context.close();
        running.current = null;
        setState("idle");
        if (isKept && pieces.length) recorded.current(new Blob(pieces, { type: recorder.mimeType }), ending);
      };
      running.current = {
        recorder,
        end(keep) {
          isKept = keep;
          if (recorder.state !== "inactive") recorder.stop();
        },
      };
      setSeconds(0);
      recorder.start(1000);
      setState("recording");
    } catch {
      setFailed(true);
      setState("idle");
    }
  }

  return { state, failed, seconds, level, start: () => void start(), stop: () => running.current?.end(true), discard: () => running.current?.end(false) };
}
