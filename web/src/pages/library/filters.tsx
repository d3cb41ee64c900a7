/** What narrows the list and the search down, and the steps through their pages. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, unwrap } from "../../api/client";
import { setQuery } from "../../router";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { languageName, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import type { View } from "./address";
import { libraryTexts } from "./texts";

/** How long typing has to rest before it counts, in milliseconds. */
const REST = 300;

/** The filters of the list, or of the search, which knows no status and no title. */
export function Filters({ view, forSearch = false }: { view: View; forSearch?: boolean }) {
  const t = libraryTexts();
  const languages = useLoaded("languages", (signal) => unwrap(api.GET("/v1/languages", { signal })));
  const [title, setTitle] = useState(view.title);
  const pushed = useRef(view.title);
  const timer = useRef(0);
  useEffect(() => {
    if (view.title !== pushed.current) {
      pushed.current = view.title;
      setTitle(view.title);
    }
  }, [view.title]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const set = (values: Record<string, string>) => setQuery({ ...values, page: null });
  const setWanted = (wanted: string) => {
    pushed.current = wanted;
    set({ title: wanted });
  };

  const active = [view.language, view.from, view.to, ...(forSearch ? [view.mode === "all" ? "" : view.mode] : [view.status, view.title])].filter(Boolean).length;
  const codes = [...new Set([...(languages.value?.languages ?? []).map((language) => language.code), ...(view.language ? [view.language] : [])])];
  const named = codes.map((code) => ({ code, name: languageName(code) })).sort((a, b) => a.name.localeCompare(b.name));
  return (
    <details class="library-filters" open={active > 0 || undefined}>
      <summary>
        <Icon name="filter" />
        {active > 0 ? t.filtersOn(number(active)) : t.filters}
        <Icon name="chevron" class="library-chevron" />
      </summary>
      <div class="library-filter-fields">
        {forSearch ? (
          <div class="field">
            <label for="library-mode">{t.mode}</label>
            <select id="library-mode" class="input" value={view.mode} onChange={(event) => set({ mode: event.currentTarget.value === "all" ? "" : event.currentTarget.value })}>
              <option value="all">{t.modeAll}</option>
              <option value="text">{t.modeText}</option>
              <option value="meaning">{t.modeMeaning}</option>
            </select>
          </div>
        ) : (
          <>
            <div class="library-filter-title">
              <TextField
                label={t.filterTitle}
                placeholder={t.filterTitlePlaceholder}
                value={title}
                dir="auto"
                maxLength={500}
                onInput={(event) => {
                  const text = event.currentTarget.value;
                  setTitle(text);
                  clearTimeout(timer.current);
                  timer.current = window.setTimeout(() => setWanted(text.trim()), REST);
                }}
              />
            </div>
            <div class="field">
              <label for="library-status">{t.filterStatus}</label>
              <select id="library-status" class="input" value={view.status} onChange={(event) => set({ status: event.currentTarget.value })}>
                <option value="">{t.all}</option>
                {(["completed", "processing", "queued", "failed"] as const).map((status) => (
                  <option key={status} value={status}>
                    {t.status[status]}
                  </option>
                ))}
              </select>
            </div>
          </>
        )}
        <div class="field">
          <label for="library-language">{t.filterLanguage}</label>
          <select id="library-language" class="input" value={view.language} onChange={(event) => set({ language: event.currentTarget.value })}>
            <option value="">{t.all}</option>
            {named.map(({ code, name }) => (
              <option key={code} value={code}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <TextField label={t.filterFrom} type="date" value={view.from} max={view.to || undefined} onChange={(event) => set({ from: event.currentTarget.value })} />
        <TextField label={t.filterTo} type="date" value={view.to} min={view.from || undefined} onChange={(event) => set({ to: event.currentTarget.value })} />
        {active > 0 && (
          <Button small kind="plain" icon="close" class="library-filters-clear" onClick={() => clearFilters()}>
            {t.clearFilters}
          </Button>
        )}
      </div>
    </details>
  );
}

/** Takes all filters away and leaves what is searched for. */
export function clearFilters(): void {
  setQuery({ status: null, language: null, from: null, to: null, title: null, mode: null, page: null });
}

/** Steps through pages. `count` is null where nobody knows how many there are. */
export function Pages({ page, count, hasMore, onGo }: { page: number; count: number | null; hasMore: boolean; onGo: (page: number) => void }) {
  const t = libraryTexts();
  if (page === 1 && !hasMore) return null;
  return (
    <nav class="library-pages" aria-label={t.pages}>
      <Button disabled={page <= 1} onClick={() => onGo(page - 1)}>
        {t.previous}
      </Button>
      <span class="soft small numeric" aria-current="page">
        {count === null ? t.pageOnly(number(page)) : t.page(number(page), number(count))}
      </span>
      <Button disabled={!hasMore} onClick={() => onGo(page + 1)}>
        {t.next}
      </Button>
    </nav>
  );
}
