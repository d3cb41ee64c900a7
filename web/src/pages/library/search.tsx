/** What was found in all transcripts. */

import { useRef } from "preact/hooks";
import { api, unwrap, type Schema } from "../../api/client";
import { query, setQuery } from "../../router";
import { Button } from "../../ui/button";
import { clock, date, isoDuration, number } from "../../ui/format";
import { useInterval, useLoaded } from "../../ui/loaded";
import { speakerName } from "../../ui/speakers";
import { Empty, ErrorNotice, Notice, Skeleton } from "../../ui/states";
import { Filters, Pages } from "./filters";
import { period, type View } from "./address";
import { rememberTitle } from "./data";
import { momentOf, pieces, placeOf } from "./highlight";
import { libraryTexts } from "./texts";

type Hit = Schema<"SearchHit">;
type Answer = Schema<"SearchAnswer">;

/** Passages a page. */
const SIZE = 20;
/** The API skips so many passages at most. */
const LAST_PAGE = 200 / SIZE + 1;
/** Seconds between two searches while transcripts are being indexed. */
const AGAIN = 5;

export function Search({ view }: { view: View }) {
  const t = libraryTexts();
  const page = Math.min(view.page, LAST_PAGE);
  const key = [view.q, view.mode, page, view.language, view.from, view.to].join("\n");
  const loaded = useLoaded(key, async (signal) => {
    const answer = await unwrap(
      api.GET("/v1/search", {
        params: { query: { q: view.q, mode: view.mode, limit: SIZE, offset: (page - 1) * SIZE, ...(view.language ? { language: view.language } : {}), ...period(view) } },
        signal,
      }),
    );
    for (const hit of answer.hits) rememberTitle(hit.transcript_id, hit.title);
    return answer;
  });
  const last = useRef<Answer | null>(null);
  if (loaded.value) last.current = loaded.value;
  const answer = loaded.value ?? (loaded.error ? null : last.current);
  const isStale = loaded.value === null;
  const top = useRef<HTMLElement>(null);
  const pending = loaded.value?.pending ?? 0;
  useInterval(pending > 0 ? AGAIN : null, loaded.reload);

  const count = answer?.hits.length ?? 0;
  return (
    <section class="stack" aria-label={t.results} ref={top} tabIndex={-1}>
      <Filters view={view} forSearch />
      <div class="row between">
        <h2 class="library-results">{t.results}</h2>
        <span class="soft small numeric" role="status">
          {!loaded.error && (isStale ? t.searching : count === 0 ? t.nothingFound : page > 1 || answer?.more ? t.foundOnPage(number(count), number(page)) : count === 1 ? t.foundOne : t.found(number(count)))}
        </span>
      </div>
      {pending > 0 && <Notice icon="clock">{pending === 1 ? t.pendingOne : t.pending(number(pending))}</Notice>}
      {loaded.value?.mode === "text" && view.mode === "all" && count > 0 && <p class="soft small">{t.wordsOnly}</p>}
      {loaded.error ? (
        <ErrorNotice error={loaded.error} onRetry={loaded.reload} />
      ) : !answer ? (
        <Skeleton lines={4} height="7rem" />
      ) : count === 0 ? (
        <Empty icon="search" title={t.nothingFound}>
          <p class="library-narrow">{t.nothingFoundText}</p>
          <Button onClick={backToList}>{t.backToList}</Button>
        </Empty>
      ) : (
        <ol class="library-hits" aria-busy={isStale}>
          {answer.hits.map((hit) => (
            <li key={`${hit.transcript_id}-${hit.segment_order}-${hit.start_time}`}>
              <Passage hit={hit} />
            </li>
          ))}
        </ol>
      )}
      {answer && (
        <Pages
          page={page}
          count={null}
          hasMore={answer.more && page < LAST_PAGE}
          onGo={(to) => {
            setQuery({ page: to > 1 ? String(to) : null });
            top.current?.focus({ preventScroll: true });
            top.current?.scrollIntoView({ block: "start" });
          }}
        />
      )}
    </section>
  );
}

function backToList(): void {
  setQuery(Object.fromEntries([...query.value.keys()].map((name) => [name, null])));
}

function Passage({ hit }: { hit: Hit }) {
  const t = libraryTexts();
  const moment = momentOf(hit);
  return (
    <article class="library-hit">
      <header class="library-hit-head">
        <a href={placeOf(hit.transcript_id, moment)} aria-label={t.hitAt(hit.title, clock(moment))}>
          <span class="library-hit-title" dir="auto">
            {hit.title}
          </span>
          <time class="numeric badge accent" dateTime={isoDuration(moment)}>
            {clock(moment)}
          </time>
        </a>
        <span class="library-facts">
          {hit.speaker && <bdi>{speakerName(hit.speaker)}</bdi>}
          <time dateTime={hit.created_at}>{date(hit.created_at)}</time>
        </span>
      </header>
      <p class="library-hit-text" dir="auto">
        {pieces(hit.text, hit.highlights).map((piece, index) => (piece.marked ? <mark key={index}>{piece.text}</mark> : piece.text))}
      </p>
    </article>
  );
}
