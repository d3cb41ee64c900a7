/** What a chart of days needs to know before it is drawn. */

import type { Schema } from "../../api/client";

/** What can be counted by day. */
export type Measure = "minutes" | "transcripts" | "words";

export interface Day {
  /** `2025-11-03`, in UTC. */
  date: string;
  minutes: number;
  transcripts: number;
  words: number;
}

/** All days of a period, oldest first: the server leaves out those without use, an axis must not. */
export function everyDay(daily: readonly Schema<"DailyUsage">[], count: number, today: Date): Day[] {
  const used = new Map(daily.map((day) => [day.date.slice(0, 10), day]));
  const last = Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate());
  return Array.from({ length: count }, (_, index) => {
    const date = new Date(last - (count - 1 - index) * 86_400_000).toISOString().slice(0, 10);
    const day = used.get(date);
    return { date, minutes: (day?.duration_seconds ?? 0) / 60, transcripts: day?.transcripts ?? 0, words: day?.words ?? 0 };
  });
}

/** Round values from 0 to at least `most`, about `wanted` steps: where the lines of the axis are. */
export function ticks(most: number, wanted = 4): number[] {
  if (!(most > 0) || !Number.isFinite(most)) return [0, 1];
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  // Minutes, transcripts and words are counted: no steps between whole numbers.
  const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? 10 * power);
  const count = Math.ceil(most / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, index) => Math.round(index * step));
}

/** Which of the first `count` days get a label: the last of them always, and as many as have room, evenly apart. */
export function labelled(count: number, room: number): number[] {
  if (count <= 0) return [];
  const every = Math.max(1, Math.ceil(count / Math.max(1, room)));
  const chosen: number[] = [];
  for (let index = count - 1; index >= 0; index -= every) chosen.unshift(index);
  return chosen;
}
