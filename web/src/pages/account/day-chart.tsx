/** Bars by day, drawn here: lines and words in the colours of the theme, and a table beside it says the same. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { locale } from "../../i18n";
import { number } from "../../ui/format";
import { labelled, ticks, type Day, type Measure } from "./chart";

const HEIGHT = 240;
const TOP = 12;
const BOTTOM = 28;
/** Room for a label of the days, and half of its words. */
const LABEL = 64;
const HALF = 24;

const STYLES = {
  short: { day: "numeric", month: "short" },
  table: { weekday: "short", day: "numeric", month: "short" },
  long: { weekday: "short", day: "numeric", month: "long", year: "numeric" },
} satisfies Record<string, Intl.DateTimeFormatOptions>;

/** A day as an axis names it. Days are UTC, whatever the reader's zone is. */
export function dayName(day: string, style: keyof typeof STYLES): string {
  return new Intl.DateTimeFormat(locale.value, { ...STYLES[style], timeZone: "UTC" }).format(new Date(`${day}T00:00:00Z`));
}

export function DayChart({ days, measure, label, valueOf }: { days: Day[]; measure: Measure; /** What a screen reader hears. */ label: string; valueOf: (day: Day) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<number | null>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const lines = ticks(Math.max(...days.map((day) => day[measure])));
  const top = lines.at(-1) ?? 1;
  // As wide as the longest number of the axis.
  const left = Math.max(...lines.map((line) => number(line).length)) * 8 + 12;
  const step = Math.max(0, width - left) / Math.max(1, days.length);
  const bar = Math.max(1, Math.min(28, step * 0.72));
  const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const middle = (index: number) => left + step * (index + 0.5);
  // The last days whose label would not fit get none.
  const unnamed = step > 0 ? Math.max(0, Math.ceil((HALF - step / 2) / step)) : 0;
  const named = at === null ? undefined : days[at];

  const follow = (event: PointerEvent) => {
    const bounds = (event.currentTarget as Element).getBoundingClientRect();
    const index = Math.floor((event.clientX - bounds.left - left) / step);
    setAt(index >= 0 && index < days.length ? index : null);
  };

  return (
    <div class="account-chart" ref={box}>
      <p class="account-chart-read small numeric" aria-hidden="true">
        {named ? (
          <>
            <strong>{valueOf(named)}</strong> <span class="soft">{dayName(named.date, "long")}</span>
          </>
        ) : (
          "\u00a0"
        )}
      </p>
      <svg role="img" aria-label={label} width={width} height={HEIGHT} onPointerMove={follow} onPointerDown={follow} onPointerLeave={() => setAt(null)}>
        {lines.map((line) => (
          <g key={line} aria-hidden="true">
            <line x1={left} x2={width} y1={y(line)} y2={y(line)} class={line === 0 ? "account-chart-base" : "account-chart-line"} />
            <text x={left - 8} y={y(line)} dy="0.32em" text-anchor="end">
              {number(line)}
            </text>
          </g>
        ))}
        {at !== null && <rect x={left + step * at} y={TOP} width={step} height={HEIGHT - TOP - BOTTOM} class="account-chart-at" />}
        {days.map((day, index) => {
          const value = day[measure];
          if (value <= 0) return null;
          // A day with a little use is still to be seen.
          const height = Math.max(2, y(0) - y(value));
          return <rect key={day.date} x={middle(index) - bar / 2} y={y(0) - height} width={bar} height={height} rx={Math.min(3, bar / 3)} class={`account-chart-bar${index === at ? " at" : ""}`} />;
        })}
        {width > 0 &&
          labelled(days.length - unnamed, Math.floor((width - left) / LABEL)).map((index) => (
            <text key={index} x={middle(index)} y={HEIGHT - 8} text-anchor="middle" aria-hidden="true">
              {dayName(days[index]?.date ?? "", "short")}
            </text>
          ))}
      </svg>
    </div>
  );
}
