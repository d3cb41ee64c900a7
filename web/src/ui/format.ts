/** Times, dates, numbers and sizes as the reader's locale writes them. */

import { locale } from "../i18n";

/** `1:02:07`, `4:05`: a moment of a recording. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(Number.isFinite(seconds) ? seconds : 0));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** The same for screen readers and `datetime`: `PT1H2M7S`. */
export function isoDuration(seconds: number): string {
  return `PT${Math.max(0, Math.round(seconds))}S`;
}

/** `1 h 2 min`, `4 min`, `35 s` in the reader's language. */
export function duration(seconds: number): string {
  const unit = (value: number, name: string) =>
    new Intl.NumberFormat(locale.value, { style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: 0 }).format(value);
  if (seconds < 60) return unit(Math.round(seconds), "second");
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return unit(minutes, "minute");
  const rest = minutes % 60;
  return rest ? `${unit(Math.floor(minutes / 60), "hour")} ${unit(rest, "minute")}` : unit(minutes / 60, "hour");
}

export function number(value: number): string {
  return new Intl.NumberFormat(locale.value).format(value);
}

export function percent(share: number): string {
  return new Intl.NumberFormat(locale.value, { style: "percent", maximumFractionDigits: 0 }).format(share);
}

export function bytes(count: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return new Intl.NumberFormat(locale.value, {
    style: "unit",
    unit: units[unit] ?? "byte",
    unitDisplay: "short",
    maximumFractionDigits: unit < 2 || value >= 100 ? 0 : 1,
  }).format(value);
}

export function date(moment: string | Date): string {
  return new Intl.DateTimeFormat(locale.value, { dateStyle: "medium" }).format(new Date(moment));
}

export function dateTime(moment: string | Date): string {
  return new Intl.DateTimeFormat(locale.value, { dateStyle: "medium", timeStyle: "short" }).format(new Date(moment));
}

/** `5 minutes ago`, and a date beyond a week. */
export function ago(moment: string | Date, now: Date = new Date()): string {
  const seconds = (new Date(moment).getTime() - now.getTime()) / 1000;
  const format = new Intl.RelativeTimeFormat(locale.value, { numeric: "auto" });
  const distance = Math.abs(seconds);
  if (distance < 45) return format.format(0, "second");
  if (distance < 3600) return format.format(Math.round(seconds / 60), "minute");
  if (distance < 86_400) return format.format(Math.round(seconds / 3600), "hour");
  if (distance < 7 * 86_400) return format.format(Math.round(seconds / 86_400), "day");
  return date(moment);
}

/** A language by its name in the reader's language; the code where it has none. */
export function languageName(code: string): string {
  try {
    return new Intl.DisplayNames([locale.value], { type: "language", fallback: "code" }).of(code) ?? code;
  } catch {
    return code;
  }
}
