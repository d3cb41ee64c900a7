/** The shape of a recording, with the part that was played in a stronger colour. */

import { useMemo } from "preact/hooks";

export function Waveform({ levels, share, label, onSeek }: { levels: readonly number[] | null; share: number; label: string; onSeek: (share: number) => void }) {
  const path = useMemo(() => {
    if (!levels) return "";
    // A line for each stretch, mirrored at the middle; silence keeps a hair of height.
    return levels.map((level, at) => `M${at + 0.5} ${50 - Math.max(1, level * 48)}V${50 + Math.max(1, level * 48)}`).join("");
  }, [levels]);
  const width = levels?.length ?? 1;
  const done = Math.min(1, Math.max(0, share)) * 100;
  return (
    <div
      class="voice-wave"
      dir="ltr"
      role="img"
      aria-label={label}
      onPointerDown={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        onSeek((event.clientX - box.left) / box.width);
      }}
    >
      {levels && (
        <>
          <svg viewBox={`0 0 ${width} 100`} preserveAspectRatio="none" aria-hidden="true">
            <path d={path} vector-effect="non-scaling-stroke" />
          </svg>
          <div class="voice-wave-played" style={{ clipPath: `inset(0 ${100 - done}% 0 0)` }} aria-hidden="true">
            <svg viewBox={`0 0 ${width} 100`} preserveAspectRatio="none">
              <path d={path} vector-effect="non-scaling-stroke" />
            </svg>
          </div>
          <div class="voice-wave-head" style={{ left: `${done}%` }} aria-hidden="true" />
        </>
      )}
    </div>
  );
}
