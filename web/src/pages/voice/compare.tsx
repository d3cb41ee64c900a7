/** A recording before and after, at one position: switching keeps the place, so that the ear hears only the difference. */

import { useEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../../ui/button";
import { clock } from "../../ui/format";
import { Notice } from "../../ui/states";
import { channelsOf, LONGEST_WAVEFORM } from "./decode";
import { peaks } from "./sound";
import { voiceTexts } from "./texts";
import { useObjectUrl } from "./url";
import { Waveform } from "./waveform";

type Side = "before" | "after";

/** Lines of a waveform. */
const LINES = 240;
/** Seconds by which the silent player may be off before it is put right. */
const DRIFT = 0.12;

export function Compare({ before, after, duration, isShown }: { before: File | null; after: string; duration: number; isShown: boolean }) {
  const t = voiceTexts();
  const beforeUrl = useObjectUrl(before);
  const players = { before: useRef<HTMLAudioElement>(null), after: useRef<HTMLAudioElement>(null) };
  const [side, setSide] = useState<Side>("after");
  const [isPlaying, setPlaying] = useState(false);
  const [position, setPosition] = useState(0);
  const [broken, setBroken] = useState<Record<Side, boolean>>({ before: false, after: false });
  const [levels, setLevels] = useState<Record<Side, number[] | null>>({ before: null, after: null });
  const [hasWaves, setHasWaves] = useState(duration < LONGEST_WAVEFORM);

  const hasBefore = before !== null && !broken.before;
  const active: Side = !hasBefore ? "after" : broken.after ? "before" : side;
  const passive: Side = active === "before" ? "after" : "before";
  const canPlay = hasBefore || !broken.after;

  useEffect(() => {
    const abort = new AbortController();
    setLevels({ before: null, after: null });
    setHasWaves(duration < LONGEST_WAVEFORM);
    if (duration >= LONGEST_WAVEFORM) return;
    // One after the other: two recordings at once would need twice the memory.
    const draw = async () => {
      const heard = await channelsOf(after, abort.signal);
      if (abort.signal.aborted) return;
      if (heard) setLevels((known) => ({ ...known, after: peaks(heard, LINES) }));
      const source = before && (await channelsOf(before, abort.signal));
      if (abort.signal.aborted) return;
      if (source) setLevels((known) => ({ ...known, before: peaks(source, LINES) }));
      if (!heard && !source) setHasWaves(false);
    };
    void draw();
    return () => abort.abort();
  }, [before, after, duration]);

  useEffect(() => {
    if (!isShown) stop();
  }, [isShown]);

  const play = () => {
    const now = players[active].current;
    const other = players[passive].current;
    if (!now) return;
    if (now.ended || now.currentTime >= duration - 0.05) seek(0);
    now.muted = false;
    void now.play().then(
      () => setPlaying(true),
      () => setPlaying(false),
    );
    // The other one runs along without sound: switching is then immediate.
    if (other && (passive === "after" || hasBefore)) {
      other.muted = true;
      other.currentTime = now.currentTime;
      void other.play().catch(() => undefined);
    }
  };
  const stop = () => {
    players.before.current?.pause();
    players.after.current?.pause();
    setPlaying(false);
  };
  const seek = (seconds: number) => {
    const to = Math.min(duration, Math.max(0, seconds));
    setPosition(to);
    for (const player of [players.before.current, players.after.current]) if (player && player.readyState > 0) player.currentTime = to;
  };
  const choose = (to: Side) => {
    if (to === active || (to === "before" && !hasBefore) || broken[to]) return;
    const [from, next] = [players[active].current, players[to].current];
    if (from && next) {
      if (Math.abs(next.currentTime - from.currentTime) > 0.03) next.currentTime = from.currentTime;
      next.muted = false;
      from.muted = true;
      if (isPlaying) void next.play().catch(() => undefined);
    }
    setSide(to);
  };

  // The position moves smoothly while it plays, and the silent player stays beside it.
  useEffect(() => {
    if (!isPlaying) return;
    let frame = 0;
    const step = () => {
      const now = players[active].current;
      const other = players[passive].current;
      if (now) {
        setPosition(now.currentTime);
        if (other && !other.paused && Math.abs(other.currentTime - now.currentTime) > DRIFT) other.currentTime = now.currentTime;
      }
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, active]);

  const keys = useRef({ play, stop, choose, isPlaying });
  keys.current = { play, stop, choose, isPlaying };
  useEffect(() => {
    if (!isShown) return;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as HTMLElement | null;
      if (target?.closest("input:not([type=range]), select, textarea, dialog, [contenteditable], [role=menu]")) return;
      const key = event.key.toLowerCase();
      if (key === "a") keys.current.choose("before");
      else if (key === "b") keys.current.choose("after");
      else if (key === " " && !target?.closest("button, a, summary, [role=tab]")) {
        if (keys.current.isPlaying) keys.current.stop();
        else keys.current.play();
      } else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [isShown]);

  const share = duration > 0 ? position / duration : 0;
  const names = { before: t.before, after: t.after };
  const element = (which: Side, src: string | null) =>
    src && (
      <audio
        ref={players[which]}
        src={src}
        preload="metadata"
        onError={() => {
          stop();
          setBroken((known) => ({ ...known, [which]: true }));
        }}
        onEnded={() => {
          if (which === active) stop();
        }}
      />
    );
  return (
    <div class="stack">
      {element("before", beforeUrl)}
      {element("after", after)}
      {!before ? <Notice icon="info">{t.noBefore}</Notice> : broken.before && <Notice icon="info">{t.beforeUnplayable}</Notice>}
      {broken.after && (
        <Notice kind="warn" icon="warning">
          {t.afterUnplayable}
        </Notice>
      )}
      {hasWaves ? (
        <div class="voice-waves">
          {(["before", "after"] as const)
            .filter((which) => which === "after" || before)
            .map((which) => (
              <div key={which} class={`voice-wave-row${which === active ? " active" : ""}`}>
                <span class="small" aria-hidden="true">
                  {names[which]}
                </span>
                <Waveform levels={levels[which]} share={share} label={t.waveformOf(names[which])} onSeek={(to) => seek(to * duration)} />
              </div>
            ))}
        </div>
      ) : (
        duration >= LONGEST_WAVEFORM && <p class="soft small">{t.noWaveform}</p>
      )}
      <div class="voice-player">
        <IconButton kind="primary" icon={isPlaying ? "pause" : "play"} label={isPlaying ? t.pause : t.play} disabled={!canPlay} onClick={() => (isPlaying ? stop() : play())} />
        <input
          type="range"
          class="voice-range"
          min={0}
          max={Math.max(0.1, duration)}
          step={0.1}
          value={position}
          aria-label={t.position}
          aria-valuetext={t.positionIs(clock(position), clock(duration))}
          onInput={(event) => seek(event.currentTarget.valueAsNumber)}
        />
        <span class="small numeric soft" aria-hidden="true">
          {clock(position)} / {clock(duration)}
        </span>
      </div>
      {before && (
        <div class="row">
          <div class="voice-switch" role="group" aria-label={t.listenTo}>
            {(["before", "after"] as const).map((which) => (
              <button key={which} type="button" class="button" aria-pressed={which === active} disabled={(which === "before" && !hasBefore) || broken[which]} onClick={() => choose(which)}>
                {names[which]}
              </button>
            ))}
          </div>
          <span class="soft small voice-keys">{t.keysHint}</span>
        </div>
      )}
    </div>
  );
}

