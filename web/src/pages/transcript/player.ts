/** Playing the recording: one media element, its state as signals, and what has to follow each frame without drawing the page again. */

import { signal } from "@preact/signals";
import { remembered } from "../../ui/remembered";

/** The speeds that keys step through. */
export const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5];

const speedKept = remembered("transcript.speed");
const volumeKept = remembered("transcript.volume");

function kept(value: string | null, low: number, high: number, otherwise: number): number {
  const read = Number(value ?? "");
  return value && Number.isFinite(read) && read >= low && read <= high ? read : otherwise;
}

export class Player {
  readonly isPlaying = signal(false);
  /** The whole second that is played: what is drawn again with it is drawn once a second. */
  readonly second = signal(0);
  readonly duration = signal(0);
  readonly speed = signal(kept(speedKept.read(), 0.5, 2.5, 1));
  readonly volume = signal(kept(volumeKept.read(), 0, 1, 1));
  readonly isMuted = signal(false);
  /** Whether the recording has a picture. */
  readonly hasPicture = signal(false);
  /** Why nothing can be played: a format that the browser does not know, or what went wrong while it played. */
  readonly problem = signal<"format" | "playing" | null>(null);
  /** Whether there is anything to play. */
  readonly isThere = signal(false);

  #element: HTMLVideoElement | null = null;
  #wanted: number | null = null;
  #frame = 0;
  readonly #listeners = new Set<(time: number, isSeek: boolean) => void>();

  constructor(duration: number) {
    this.duration.value = duration;
  }

  get time(): number {
    return this.#wanted ?? this.#element?.currentTime ?? 0;
  }

  /** Called at every frame while it plays, and after each jump. */
  onTime(listener: (time: number, isSeek: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes the element that plays; null when it goes. */
  attach(element: HTMLVideoElement | null): (() => void) | undefined {
    cancelAnimationFrame(this.#frame);
    this.#element = element;
    if (!element) return undefined;
    element.playbackRate = this.speed.peek();
    element.volume = this.volume.peek();
    const end = new AbortController();
    const on = (name: keyof HTMLMediaElementEventMap, then: () => void) => element.addEventListener(name, then, { signal: end.signal });
    on("loadedmetadata", () => {
      this.hasPicture.value = element.videoWidth > 0;
      if (Number.isFinite(element.duration) && element.duration > 0) this.duration.value = element.duration;
      element.playbackRate = this.speed.peek();
      if (this.#wanted !== null) element.currentTime = this.#wanted;
      this.#wanted = null;
    });
    on("durationchange", () => {
      if (Number.isFinite(element.duration) && element.duration > 0) this.duration.value = element.duration;
    });
    on("play", () => {
      this.isPlaying.value = true;
      this.#run();
    });
    on("pause", () => {
      this.isPlaying.value = false;
    });
    on("seeked", () => this.#tell(true));
    on("error", () => {
      // Firefox fails only here where the machine has no sound device.
      this.problem.value = element.readyState > 0 ? "playing" : "format";
      this.isPlaying.value = false;
    });
    return () => {
      end.abort();
      cancelAnimationFrame(this.#frame);
      element.pause();
      this.#element = null;
    };
  }

  #run(): void {
    cancelAnimationFrame(this.#frame);
    const frame = () => {
      this.#tell(false);
      if (this.isPlaying.peek()) this.#frame = requestAnimationFrame(frame);
    };
    this.#frame = requestAnimationFrame(frame);
  }

  #tell(isSeek: boolean): void {
    const time = this.time;
    this.second.value = Math.floor(time);
    for (const listener of this.#listeners) listener(time, isSeek);
  }

  play(): void {
    this.#element?.play().catch(() => undefined);
  }

  toggle(): void {
    if (!this.#element || this.problem.peek()) return;
    if (this.#element.paused) this.play();
    else this.#element.pause();
  }

  /** Jumps to a moment; before the recording is known it is remembered. */
  seek(seconds: number): void {
    const time = Math.min(Math.max(0, seconds), this.duration.peek() || seconds);
    if (this.#element && this.#element.readyState > 0) this.#element.currentTime = time;
    else this.#wanted = time;
    this.second.value = Math.floor(time);
    for (const listener of this.#listeners) listener(time, true);
  }

  skip(seconds: number): void {
    this.seek(this.time + seconds);
  }

  setSpeed(speed: number): void {
    this.speed.value = speed;
    speedKept.write(String(speed));
    if (this.#element) this.#element.playbackRate = speed;
  }

  /** One step slower (-1) or faster (1). */
  stepSpeed(step: number): void {
    const now = this.speed.peek();
    const next = step > 0 ? SPEEDS.find((speed) => speed > now) : SPEEDS.findLast((speed) => speed < now);
    if (next !== undefined) this.setSpeed(next);
  }

  setVolume(volume: number): void {
    this.volume.value = volume;
    volumeKept.write(String(volume));
    if (this.#element) this.#element.volume = volume;
    this.setMuted(false);
  }

  setMuted(isMuted: boolean): void {
    this.isMuted.value = isMuted;
    if (this.#element) this.#element.muted = isMuted;
  }
}
