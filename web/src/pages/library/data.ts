/** What the library asks of the API: pages of transcripts, how far those under way are, and what changes them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, Problem, unwrap, type Schema } from "../../api/client";
import { useInterval } from "../../ui/loaded";
import { pageCount, period, titleMatches, type View } from "./address";

export type Transcript = Schema<"TranscriptSummary">;
export type State = Schema<"TranscriptState">;

/** Transcripts a page. */
export const PAGE_SIZE = 20;
/** The API filters by everything but the title; so many pages of 100 are read where a title is looked for. */
const TITLE_PAGES = 30;

/** A page of the list. */
export interface Listed {
  items: Transcript[];
  /** How many match on all pages. */
  total: number;
  /** Whether there were more than could be compared by title; then how many were. */
  capped: number | null;
}

/** Loads the page of the list that the address names. */
export async function loadPage(view: View, signal: AbortSignal): Promise<Listed> {
  const filter = { ...(view.status ? { status: view.status } : {}), ...(view.language ? { language: view.language } : {}), ...period(view) };
  const ask = (page: number, per_page: number) => unwrap(api.GET("/v1/transcripts", { params: { query: { ...filter, page, per_page } }, signal }));
  if (!view.title.trim()) {
    const answer = await ask(view.page, PAGE_SIZE);
    return { items: answer.transcripts, total: answer.total, capped: null };
  }
  const found = new Map<number, Transcript>();
  let compared = 0;
  for (let page = 1; ; page += 1) {
    const answer = await ask(page, 100);
    compared += answer.transcripts.length;
    for (const item of answer.transcripts) if (titleMatches(item.title, view.title)) found.set(item.id, item);
    const pages = pageCount(answer.total, 100);
    if (page < pages && page < TITLE_PAGES && answer.transcripts.length > 0) continue;
    const all = [...found.values()];
    const from = (view.page - 1) * PAGE_SIZE;
    return { items: all.slice(from, from + PAGE_SIZE), total: all.length, capped: page < pages ? compared : null };
  }
}

/** Seconds between two looks at what is under way. */
const POLL_SECONDS = 3;
/** How many are asked for at a time: the API allows 600 such questions a minute from one address. */
const POLL_AT_ONCE = 10;

const isActive = (item: Transcript) => item.status === "queued" || item.status === "processing";

/** How far the transcripts under way are, and why those that failed did. Calls `onChange` when one of them ended. */
export function useStates(items: readonly Transcript[], onChange: (ended: { item: Transcript; state: State }[]) => void): ReadonlyMap<number, State> {
  const [states, setStates] = useState<ReadonlyMap<number, State>>(new Map());
  const turn = useRef(0);
  const isAsking = useRef(false);
  const mounted = useRef(true);
  useEffect(() => () => void (mounted.current = false), []);

  const look = async (wanted: readonly Transcript[]) => {
    if (isAsking.current || wanted.length === 0) return;
    isAsking.current = true;
    try {
      const answers = await Promise.all(
        wanted.map(async (item) => {
          try {
            return { item, state: await unwrap(api.GET("/v1/transcripts/{id}/status", { params: { path: { id: item.id } } })) };
          } catch (error) {
            // One that was deleted elsewhere is gone from the list, too; other failures pass.
            return { item, state: null, isGone: error instanceof Problem && error.status === 404 };
          }
        }),
      );
      if (!mounted.current) return;
      setStates((before) => {
        const after = new Map(before);
        for (const { item, state } of answers) if (state) after.set(item.id, state);
        return after;
      });
      const ended = answers.flatMap(({ item, state }) => (state && isActive(item) && state.status !== "queued" && state.status !== "processing" ? [{ item, state }] : []));
      if (ended.length > 0 || answers.some((answer) => answer.isGone)) onChange(ended);
    } finally {
      isAsking.current = false;
    }
  };

  const active = items.filter(isActive);
  // At once for what is new on the page: what is under way, and the reasons of failures.
  const key = items.filter((item) => item.status !== "completed").map((item) => `${item.id}${item.status}`).join();
  useEffect(() => {
    void look(items.filter((item) => item.status !== "completed").slice(0, 2 * POLL_AT_ONCE));
  }, [key]);
  useInterval(active.length > 0 ? POLL_SECONDS : null, () => {
    const from = active.length > POLL_AT_ONCE ? turn.current++ * POLL_AT_ONCE : 0;
    const next = Array.from({ length: Math.min(POLL_AT_ONCE, active.length) }, (_, at) => active[(from + at) % active.length]);
    void look(next.filter((item) => item !== undefined));
  });
  return states;
}

/** Gives a transcript another title. */
export async function rename(id: number, title: string): Promise<string> {
  const answer = await unwrap(api.PATCH("/v1/transcripts/{id}", { params: { path: { id } }, body: { title } }));
  return answer.title;
}

/** Deletes transcripts; tells how many are gone and why others are not. */
export async function remove(ids: readonly number[]): Promise<{ gone: number[]; error: unknown; failed: number }> {
  const gone: number[] = [];
  let error: unknown = null;
  for (const id of ids) {
    try {
      await unwrap(api.DELETE("/v1/transcripts/{id}", { params: { path: { id } } }));
      gone.push(id);
    } catch (reason) {
      // What somebody deleted before is as gone.
      if (reason instanceof Problem && reason.status === 404) gone.push(id);
      else error = reason;
    }
  }
  return { gone, error, failed: ids.length - gone.length };
}

/** Puts a failed transcript in the queue again. */
export async function retry(id: number): Promise<void> {
  await unwrap(api.POST("/v1/transcripts/{id}/retry", { params: { path: { id } } }));
}

const titles = new Map<number, Promise<string>>();

/** Remembers titles that are known already. */
export function rememberTitle(id: number, title: string): void {
  titles.set(id, Promise.resolve(title));
}

/** The title of a transcript; the API has no shorter way to it than the whole transcript. */
export function titleOf(id: number): Promise<string> {
  const known = titles.get(id);
  if (known) return known;
  const asked = unwrap(api.GET("/v1/transcripts/{id}", { params: { path: { id } } })).then((transcript) => transcript.title);
  titles.set(id, asked);
  asked.catch(() => titles.delete(id));
  return asked;
}
