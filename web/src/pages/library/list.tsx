/** The list of transcripts: how far each is, and what can be done with one or with several. */

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../../api/client";
import { exportFile } from "../../api/exports";
import { common } from "../../i18n/common";
import { setQuery } from "../../router";
import { Button, IconButton, LinkButton } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { fileName, saveBlob } from "../../ui/download";
import { clock, dateTime, duration, isoDuration, languageName, number, percent } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { Menu, MenuItem } from "../../ui/menu";
import { Empty, ErrorNotice, Notice, ProgressBar, Skeleton } from "../../ui/states";
import { toast, toastError } from "../../ui/toast";
import { clearFilters, Filters, Pages } from "./filters";
import { pageCount, type View } from "./address";
import { loadPage, PAGE_SIZE, rememberTitle, remove, rename, retry, useStates, type Listed, type State, type Transcript } from "./data";
import { Export } from "./export";
import { between, share } from "./select";
import { libraryTexts } from "./texts";

type Selection = ReadonlyMap<number, Transcript>;

export function List({ view, onEmpty }: { view: View; onEmpty: (isEmpty: boolean) => void }) {
  const t = libraryTexts();
  const key = [view.page, view.status, view.language, view.title, view.from, view.to].join("\n");
  const loaded = useLoaded(key, (signal) => loadPage(view, signal));
  const last = useRef<Listed | null>(null);
  if (loaded.value) last.current = loaded.value;
  // The page before stays until the next one is there, so that nothing jumps.
  const listed = loaded.value ?? last.current;
  const isStale = loaded.value === null;
  const items = listed?.items ?? [];
  const hasFilters = Boolean(view.status || view.language || view.title || view.from || view.to);
  const isEmpty = loaded.value !== null && loaded.value.total === 0 && !hasFilters;

  const [selection, setSelection] = useState<Selection>(new Map());
  const [deleting, setDeleting] = useState<Transcript[] | null>(null);
  const [exporting, setExporting] = useState<Transcript[] | null>(null);
  const [said, setSaid] = useState("");
  const anchor = useRef<number | null>(null);
  const section = useRef<HTMLElement>(null);

  const states = useStates(isStale ? [] : items, (ended) => {
    const words = ended.map(({ item, state }) => (state.status === "failed" ? t.failedNow(item.title) : t.finished(item.title)));
    if (words.length > 0) setSaid(words.join(" "));
    loaded.reload();
  });

  useEffect(() => onEmpty(isEmpty), [isEmpty]);
  useEffect(() => () => onEmpty(false), []);
  useEffect(() => {
    if (!loaded.value) return;
    for (const item of loaded.value.items) rememberTitle(item.id, item.title);
    // What is selected keeps up with what became of it.
    setSelection((before) => {
      const now = loaded.value?.items.filter((item) => before.has(item.id)) ?? [];
      return now.length === 0 ? before : new Map([...before, ...now.map((item) => [item.id, item] as const)]);
    });
    // The last page lost its last transcript: the one before it is the last now.
    const pages = pageCount(loaded.value.total, PAGE_SIZE);
    if (view.page > pages) setQuery({ page: pages > 1 ? String(pages) : null });
  }, [loaded.value]);
  // What happened in another tab or on another device shows when this one is looked at again.
  useEffect(() => {
    const back = () => {
      if (!document.hidden) loaded.reload();
    };
    document.addEventListener("visibilitychange", back);
    return () => document.removeEventListener("visibilitychange", back);
  }, []);

  const ids = items.map((item) => item.id);
  const toggle = (item: Transcript, on: boolean, withShift: boolean) => {
    const wanted = withShift ? between(ids, anchor.current, item.id) : [item.id];
    anchor.current = item.id;
    setSelection((before) => {
      const after = new Map(before);
      for (const row of items) {
        if (!wanted.includes(row.id)) continue;
        if (on) after.set(row.id, row);
        else after.delete(row.id);
      }
      return after;
    });
  };
  const togglePage = (on: boolean) =>
    setSelection((before) => {
      const after = new Map(before);
      for (const row of items) {
        if (on) after.set(row.id, row);
        else after.delete(row.id);
      }
      return after;
    });

  if (loaded.error && !listed) return <ErrorNotice error={loaded.error} onRetry={loaded.reload} />;
  if (isEmpty) {
    return (
      <Empty icon="library" title={t.emptyTitle}>
        <p>{t.emptyText}</p>
        <LinkButton kind="primary" icon="upload" href="/">
          {t.emptyAction}
        </LinkButton>
      </Empty>
    );
  }

  const pages = pageCount(listed?.total ?? 0, PAGE_SIZE);
  return (
    <section class="stack" aria-label={t.list} ref={section} tabIndex={-1}>
      <Filters view={view} />
      {loaded.error ? <ErrorNotice error={loaded.error} onRetry={loaded.reload} /> : null}
      {listed?.capped != null && <Notice icon="info">{t.titlesCapped(number(listed.capped))}</Notice>}
      <div class="visually-hidden" role="status" aria-live="polite">
        {said}
      </div>
      {!listed ? (
        <div class="library-loading">
          <Skeleton lines={8} height="3.75rem" />
        </div>
      ) : items.length === 0 ? (
        <Empty icon="search" title={t.nothingMatches}>
          <p>{t.nothingMatchesText}</p>
          <Button onClick={clearFilters}>{t.clearFilters}</Button>
        </Empty>
      ) : (
        <div class="library-list" aria-busy={isStale}>
          <div class="library-list-head">
            <PageBox ids={ids} selection={selection} onChange={togglePage} />
            <span class="soft small numeric" aria-live="polite">
              {listed.total === 1 ? t.totalOne : t.total(number(listed.total))}
            </span>
          </div>
          <ul>
            {items.map((item) => (
              <Row
                key={item.id}
                item={item}
                state={states.get(item.id) ?? null}
                isSelected={selection.has(item.id)}
                onSelect={(on, withShift) => toggle(item, on, withShift)}
                onRenamed={(title) => {
                  rememberTitle(item.id, title);
                  if (loaded.value) loaded.set({ ...loaded.value, items: loaded.value.items.map((row) => (row.id === item.id ? { ...row, title } : row)) });
                  setSaid(t.renamed);
                }}
                onDelete={() => setDeleting([item])}
                onExport={() => setExporting([item])}
                onChanged={loaded.reload}
              />
            ))}
          </ul>
        </div>
      )}
      {listed && (
        <Pages
          page={view.page}
          count={pages}
          hasMore={view.page < pages}
          onGo={(page) => {
            setQuery({ page: page > 1 ? String(page) : null });
            section.current?.focus({ preventScroll: true });
            section.current?.scrollIntoView({ block: "start" });
          }}
        />
      )}
      {selection.size > 0 && (
        <div class="library-selection" role="region" aria-label={t.selectionTools}>
          <span class="numeric" aria-live="polite">
            {t.selected(number(selection.size))}
          </span>
          <IconButton small icon="close" label={t.clearSelection} onClick={() => setSelection(new Map())} />
          <span class="library-selection-space" />
          <Button small icon="download" onClick={() => setExporting([...selection.values()])}>
            {t.export}
          </Button>
          <Button small kind="danger" icon="trash" onClick={() => setDeleting([...selection.values()])}>
            {t.delete}
          </Button>
        </div>
      )}
      {deleting && (
        <Delete
          items={deleting}
          onClose={() => setDeleting(null)}
          onGone={(gone) => {
            setSelection((before) => new Map([...before].filter(([id]) => !gone.includes(id))));
            setSaid(gone.length === 1 ? t.deleted : t.deletedMany(number(gone.length)));
            loaded.reload();
            section.current?.focus({ preventScroll: true });
          }}
        />
      )}
      {exporting && <Export items={exporting} onClose={() => setExporting(null)} />}
    </section>
  );
}

function PageBox({ ids, selection, onChange }: { ids: number[]; selection: Selection; onChange: (on: boolean) => void }) {
  const t = libraryTexts();
  const box = useRef<HTMLInputElement>(null);
  const how = share(ids, selection);
  useEffect(() => {
    if (box.current) box.current.indeterminate = how === "some";
  }, [how]);
  return (
    <label class="library-box">
      <input ref={box} type="checkbox" checked={how === "all"} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span class="small soft">{t.selectPage}</span>
    </label>
  );
}

function Row({
  item,
  state,
  isSelected,
  onSelect,
  onRenamed,
  onDelete,
  onExport,
  onChanged,
}: {
  item: Transcript;
  state: State | null;
  isSelected: boolean;
  onSelect: (on: boolean, withShift: boolean) => void;
  onRenamed: (title: string) => void;
  onDelete: () => void;
  onExport: () => void;
  onChanged: () => void;
}) {
  const t = libraryTexts();
  const c = common();
  const [isRenaming, setRenaming] = useState(false);
  const link = useRef<HTMLAnchorElement>(null);
  const status = statusOf(item, state);
  const endRenaming = () => {
    setRenaming(false);
    requestAnimationFrame(() => link.current?.focus());
  };
  return (
    <li class={`library-row${isSelected ? " selected" : ""}`}>
      <label class="library-box">
        <input
          type="checkbox"
          checked={isSelected}
          // The click knows about the shift key, the change does not.
          onClick={(event) => onSelect(event.currentTarget.checked, event.shiftKey)}
        />
        <span class="visually-hidden" dir="auto">
          {t.selectOne(item.title)}
        </span>
      </label>
      <div class="library-row-main">
        {isRenaming ? (
          <Rename item={item} onClose={endRenaming} onRenamed={onRenamed} />
        ) : (
          <a
            ref={link}
            class="library-title"
            href={`/t/${item.id}`}
            dir="auto"
            onKeyDown={(event) => {
              if (event.key !== "F2") return;
              event.preventDefault();
              setRenaming(true);
            }}
          >
            {item.title}
          </a>
        )}
        <div class="library-facts">
          <time dateTime={item.created_at}>{dateTime(item.created_at)}</time>
          {item.duration_seconds > 0 && (
            <time dateTime={isoDuration(item.duration_seconds)} title={clock(item.duration_seconds)}>
              {duration(item.duration_seconds)}
            </time>
          )}
          {status === "completed" && <span>{t.words(number(item.word_count))}</span>}
          {item.language !== "auto" && <span>{languageName(item.language)}</span>}
          {item.source_type === "stream" && <span>{t.live}</span>}
          {item.share_token && (
            <span class="badge">
              <Icon name="share" />
              {t.shared}
            </span>
          )}
          <Progress item={item} state={state} />
        </div>
      </div>
      <Menu
        label={t.actions(item.title)}
        trigger={(attributes) => (
          <button type="button" class="button plain icon" aria-label={t.actions(item.title)} title={c.more} {...attributes}>
            <Icon name="more" />
          </button>
        )}
      >
        <MenuItem href={`/t/${item.id}`}>
          <Icon name="file" />
          {t.open}
        </MenuItem>
        <MenuItem onClick={() => setRenaming(true)}>
          <Icon name="edit" />
          {t.rename}
        </MenuItem>
        {status === "completed" && (
          <>
            <MenuItem onClick={() => void saveSubtitles(item).catch(toastError)}>
              <Icon name="download" />
              {t.saveSubtitles}
            </MenuItem>
            <MenuItem onClick={onExport}>
              <Icon name="file" />
              {t.export}
            </MenuItem>
          </>
        )}
        {status === "failed" && (
          <MenuItem
            onClick={() => {
              retry(item.id).then(() => {
                toast(t.retried);
                onChanged();
              }, toastError);
            }}
          >
            <Icon name="retry" />
            {t.retry}
          </MenuItem>
        )}
        <MenuItem danger onClick={onDelete}>
          <Icon name="trash" />
          {t.delete}
        </MenuItem>
      </Menu>
    </li>
  );
}

/** What is downloaded most, without a question in between. */
async function saveSubtitles(item: Transcript): Promise<void> {
  saveBlob(await exportFile(item.id, "srt"), fileName(item.title, "srt"));
}

/** The look at the status is newer than the list, but what is done stays done. */
function statusOf(item: Transcript, state: State | null): Transcript["status"] {
  return item.status === "completed" ? "completed" : (state?.status ?? item.status);
}

/** How far a transcript is, where it is not done. */
function Progress({ item, state }: { item: Transcript; state: State | null }) {
  const t = libraryTexts();
  const status = statusOf(item, state);
  if (status === "completed") return null;
  if (status === "failed") {
    return (
      <div class="library-state">
        <span class="badge bad">
          <Icon name="warning" />
          {t.status.failed}
        </span>
        {state?.error && (
          <span class="small library-reason" dir="auto">
            {state.error}
          </span>
        )}
      </div>
    );
  }
  if (status === "queued") {
    return (
      <div class="library-state">
        <span class="badge">
          <Icon name="clock" />
          {state?.queue_position ? t.place(number(state.queue_position)) : t.status.queued}
        </span>
      </div>
    );
  }
  const done = state ? state.progress / 100 : null;
  return (
    <div class="library-state">
      <span class="badge accent">{t.status.processing}</span>
      <div class="library-bar">
        <ProgressBar share={done} label={t.progressOf(item.title)} />
      </div>
      {done !== null && <span class="small soft numeric">{percent(done)}</span>}
    </div>
  );
}

/** The title as a field: Enter saves, Escape leaves it as it was. */
function Rename({ item, onClose, onRenamed }: { item: Transcript; onClose: () => void; onRenamed: (title: string) => void }) {
  const t = libraryTexts();
  const c = common();
  const [title, setTitle] = useState(item.title);
  const [wrong, setWrong] = useState<string | null>(null);
  const [isSaving, setSaving] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // Behind the menu, which gives the focus back when it closes.
    const frame = requestAnimationFrame(() => {
      field.current?.focus();
      field.current?.select();
    });
    return () => cancelAnimationFrame(frame);
  }, []);
  const save = async () => {
    if (isSaving) return;
    const wanted = title.trim();
    if (!wanted) return setWrong(t.titleEmpty);
    if ([...wanted].length > 500) return setWrong(t.titleLong);
    if (wanted === item.title) return onClose();
    setSaving(true);
    try {
      onRenamed(await rename(item.id, wanted));
      onClose();
    } catch (error) {
      setSaving(false);
      if (!isAbort(error)) setWrong(messageOf(error));
    }
  };
  const id = `library-rename-${item.id}`;
  return (
    <form
      class="library-rename"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <label class="visually-hidden" for={id}>
        {t.renameOf(item.title)}
      </label>
      <input
        ref={field}
        id={id}
        class="input"
        dir="auto"
        value={title}
        aria-invalid={wrong ? true : undefined}
        aria-describedby={wrong ? `${id}-wrong` : undefined}
        onInput={(event) => {
          setTitle(event.currentTarget.value);
          setWrong(null);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          onClose();
        }}
      />
      <Button small kind="primary" type="submit" busy={isSaving} onClick={() => undefined}>
        {c.save}
      </Button>
      <Button small onClick={onClose}>
        {c.cancel}
      </Button>
      {wrong && (
        <span class="small library-reason" id={`${id}-wrong`} role="alert">
          {wrong}
        </span>
      )}
    </form>
  );
}

/** Titles that are named before the rest is only counted. */
const NAMED = 5;

function Delete({ items, onClose, onGone }: { items: Transcript[]; onClose: () => void; onGone: (gone: number[]) => void }) {
  const t = libraryTexts();
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const confirm = async () => {
    setBusy(true);
    setProblem(null);
    const { gone, error, failed } = await remove(items.map((item) => item.id));
    setBusy(false);
    if (failed > 0) setProblem(items.length === 1 ? error : new Error(t.notDeleted(number(failed), messageOf(error))));
    else onClose();
    if (gone.length > 0) onGone(gone);
  };
  const isOne = items.length === 1;
  return (
    <Confirm
      title={isOne ? t.deleteTitle : t.deleteTitleMany(number(items.length))}
      action={t.delete}
      busy={isBusy}
      onConfirm={() => void confirm()}
      onClose={() => {
        if (!isBusy) onClose();
      }}
    >
      <p>{isOne ? t.deleteText : t.deleteTextMany}</p>
      <ul class="library-names">
        {items.slice(0, NAMED).map((item) => (
          <li key={item.id} class="truncate" dir="auto">
            {item.title}
          </li>
        ))}
        {items.length > NAMED && <li class="soft">{t.deleteAndMore(number(items.length - NAMED))}</li>}
      </ul>
      {problem ? <ErrorNotice error={problem} /> : null}
    </Confirm>
  );
}
