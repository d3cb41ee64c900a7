/** The controls of the recording, at the bottom of the page. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { transcriptTexts } from "../../i18n/transcript";
import { locale } from "../../i18n";
import { theme } from "../../theme";
import { IconButton } from "../../ui/button";
import { clock } from "../../ui/format";
import { Icon } from "../../ui/icon";
import type { Editor } from "./editor";
import { lastBefore, resample } from "./model";
import { SPEEDS, type Player } from "./player";
import type { Wave } from "./recording";

export function PlayerBar({ player, editor, wave, id }: { player: Player; editor: Editor; wave: Wave | null; id: number }) {
  const t = transcriptTexts();
  const isPlaying = player.isPlaying.value;
  const isMuted = player.isMuted.value || player.volume.value === 0;
  const speed = (value: number) => t.speedOf(new Intl.NumberFormat(locale.value).format(value));
  if (player.problem.value) {
    return (
      <section class="transcript-player" aria-label={t.player}>
        <p class="transcript-player-note" role="status">
          <Icon name="warning" />
          <span class="grow">{player.problem.value === "format" ? t.notPlayable : t.notPlayed}</span>
          <a href={`/v1/transcripts/${id}/recording`} download>
            {t.downloadRecording}
          </a>
        </p>
      </section>
    );
  }
  return (
    <section class="transcript-player" aria-label={t.player}>
      <Position player={player} editor={editor} wave={wave} />
      <div class="transcript-controls" dir="ltr">
        <div class="transcript-time numeric">
          <span>{clock(player.second.value)}</span>
          <span class="soft"> / {clock(player.duration.value)}</span>
        </div>
        <div class="transcript-buttons">
          <IconButton icon="back" label={t.back} onClick={() => player.skip(-5)} />
          <button type="button" class="button primary transcript-play" aria-label={isPlaying ? t.pause : t.play} title={isPlaying ? t.pause : t.play} onClick={() => player.toggle()}>
            <Icon name={isPlaying ? "pause" : "play"} />
          </button>
          <IconButton icon="forward" label={t.forward} onClick={() => player.skip(5)} />
        </div>
        <div class="transcript-sound">
          <select
            class="input transcript-speed"
            aria-label={t.speed}
            title={t.speed}
            value={String(player.speed.value)}
            onChange={(event) => player.setSpeed(Number(event.currentTarget.value))}
          >
            {SPEEDS.map((value) => (
              <option key={value} value={String(value)} selected={value === player.speed.value}>
                {speed(value)}
              </option>
            ))}
          </select>
          <IconButton icon={isMuted ? "mute" : "speaker"} label={isMuted ? t.unmute : t.mute} onClick={() => (player.volume.value === 0 ? player.setVolume(1) : player.setMuted(!isMuted))} />
          <input
            type="range"
            class="transcript-volume"
            aria-label={t.volume}
            min="0"
            max="1"
            step="0.05"
            value={isMuted ? 0 : player.volume.value}
            onInput={(event) => player.setVolume(Number(event.currentTarget.value))}
          />
        </div>
      </div>
    </section>
  );
}

/** Where it plays: the waveform, coloured by who speaks, or a line where there is none. */
function Position({ player, editor, wave }: { player: Player; editor: Editor; wave: Wave | null }) {
  const t = transcriptTexts();
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const rest = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<{ width: number; height: number } | null>(null);
  const [round, setRound] = useState(0);
  const duration = player.duration.value;
  const turns = editor.turns.value;
  const speakers = editor.speakers.value;
  const chosen = theme.value;

  useLayoutEffect(() => {
    const place = (time: number) => {
      const share = duration > 0 ? Math.min(1, Math.max(0, time / duration)) : 0;
      if (rest.current) rest.current.style.transform = `scaleX(${1 - share})`;
      if (head.current) head.current.style.transform = `translateX(${share * 100}%)`;
    };
    place(player.time);
    return player.onTime(place);
  }, [player, duration]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setSize({ width: entry.contentRect.width, height: entry.contentRect.height });
    });
    observer.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const again = () => setRound((before) => before + 1);
    dark.addEventListener("change", again);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", again);
    };
  }, []);

  useEffect(() => {
    const element = canvas.current;
    if (!element || !size || !wave) return;
    const scale = Math.min(3, devicePixelRatio || 1);
    element.width = Math.round(size.width * scale);
    element.height = Math.round(size.height * scale);
    const context = element.getContext("2d");
    if (!context) return;
    const style = getComputedStyle(element);
    // Only where they are used do colours become those of the theme.
    const colour = (name: string) => {
      element.style.color = `var(--${name})`;
      return style.color;
    };
    const colours = Array.from({ length: 8 }, (_, n) => colour(`speaker-${n + 1}`));
    const silent = colour("line-strong");
    const starts = turns.map((turn) => turn.start);
    const names = speakers.map((speaker) => speaker.name);
    const step = 3;
    const count = Math.max(1, Math.floor(size.width / step));
    const bars = resample(wave.peaks, count);
    // A quiet recording fills the height, too; noise alone does not.
    const loudest = Math.max(15, ...bars);
    // The waveform may be a little longer or shorter than what the player says.
    const whole = wave.duration || duration;
    context.scale(scale, scale);
    context.clearRect(0, 0, size.width, size.height);
    for (const [bar, peak] of bars.entries()) {
      const turn = turns[lastBefore(starts, ((bar + 0.5) / count) * whole)];
      const speaker = turn?.speaker ? names.indexOf(turn.speaker) : -1;
      context.fillStyle = (speaker < 0 ? (names.length ? silent : colours[0]) : colours[speaker % 8]) || "gray";
      const height = Math.max(2, (peak / loudest) * size.height);
      context.beginPath();
      context.roundRect(bar * step, (size.height - height) / 2, step - 1, height, 1);
      context.fill();
    }
  }, [wave, size, turns, speakers, duration, chosen, round]);

  const at = (event: PointerEvent) => {
    const bounds = box.current?.getBoundingClientRect();
    if (!bounds || bounds.width === 0) return;
    player.seek(((event.clientX - bounds.left) / bounds.width) * duration);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = player.time;
    const to = { ArrowRight: now + 5, ArrowUp: now + 5, ArrowLeft: now - 5, ArrowDown: now - 5, PageUp: now + 60, PageDown: now - 60, Home: 0, End: duration }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    player.seek(to);
  };
  const second = Math.min(player.second.value, Math.floor(duration));
  return (
    <div
      ref={box}
      class={`transcript-wave${wave ? "" : " plain"}`}
      dir="ltr"
      role="slider"
      tabIndex={0}
      aria-label={t.position}
      aria-valuemin={0}
      aria-valuemax={Math.max(1, Math.floor(duration))}
      aria-valuenow={second}
      aria-valuetext={t.positionOf(clock(second), clock(duration))}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        at(event);
      }}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) at(event);
      }}
    >
      <div class="transcript-wave-in">
        {wave ? <canvas ref={canvas} aria-hidden="true" /> : <div class="transcript-line" />}
        <div class="transcript-rest" ref={rest} />
        <div class="transcript-head-line" ref={head} />
      </div>
    </div>
  );
}
