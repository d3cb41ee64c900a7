/** What the address of the library says: what is searched for, the filters, the page. */

export type SearchMode = "all" | "text" | "meaning";
export type Status = "queued" | "processing" | "completed" | "failed";

export interface View {
  q: string;
  mode: SearchMode;
  page: number;
  status: Status | "";
  language: string;
  title: string;
  /** Days of the reader's calendar, `2026-11-18`, both included; empty for no limit. */
  from: string;
  to: string;
  /** Whether the question box is open. */
  ask: boolean;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Reads the query; what makes no sense counts as not said. */
export function readView(query: URLSearchParams): View {
  const text = (name: string) => query.get(name) ?? "";
  const oneOf = <T extends string>(name: string, values: readonly T[]): T | "" => values.find((value) => value === text(name)) ?? "";
  const day = (name: string) => (DAY.test(text(name)) && !Number.isNaN(Date.parse(text(name))) ? text(name) : "");
  const page = Number(text("page"));
  return {
    q: text("q"),
    mode: oneOf("mode", ["text", "meaning"] as const) || "all",
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
    status: oneOf("status", ["queued", "processing", "completed", "failed"] as const),
    language: /^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$/.test(text("language")) ? text("language") : "",
    title: text("title"),
    from: day("from"),
    to: day("to"),
    ask: query.has("ask"),
  };
}

/** The moment at which a day of the reader's calendar begins, plus some days. */
export function startOfDay(day: string, plus = 0): string {
  const [year = 1970, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date + plus).toISOString();
}

/** The days of a view as the API takes them. */
export function period(view: Pick<View, "from" | "to">): { created_after?: string; created_before?: string } {
  return {
    ...(view.from ? { created_after: startOfDay(view.from) } : {}),
    ...(view.to ? { created_before: startOfDay(view.to, 1) } : {}),
  };
}

/** A text as titles are compared: without case and accents. */
function folded(text: string): string {
  return text.normalize("NFKD").replaceAll(/\p{M}+/gu, "").toLowerCase();
}

/** Whether a title has every word that is looked for, in any order. */
export function titleMatches(title: string, wanted: string): boolean {
  const has = folded(title);
  return folded(wanted).split(/\s+/).every((word) => has.includes(word));
}

/** How many pages so many things fill. */
export function pageCount(total: number, size: number): number {
  return Math.max(1, Math.ceil(total / size));
}
