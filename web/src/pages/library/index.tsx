/** The library: all transcripts of the account, to find, to ask, to manage. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Title, type PageProps } from "../../app";
import { navigate, path, query, setQuery } from "../../router";
import { Button, IconButton, LinkButton } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { readView, type View } from "./address";
import { Ask } from "./ask";
import { List } from "./list";
import "./library.css";
import { Search } from "./search";
import { libraryTexts } from "./texts";

/** How long typing has to rest before it is searched for, in milliseconds. */
const REST = 300;
/** The longest search that the API takes, in characters. */
const LONGEST_SEARCH = 1000;

export default function Library(_: PageProps) {
  const t = libraryTexts();
  const view = readView(query.value);
  const [isEmpty, setEmpty] = useState(false);
  const hasTools = !isEmpty || view.q !== "";
  return (
    <div class="page library">
      <Title words={view.q ? t.searchTitle(view.q) : t.title} />
      <div class="page-head">
        <div class="stack tight">
          <h1>{t.title}</h1>
          <p class="soft">{t.lead}</p>
        </div>
        {hasTools && (
          <div class="row tight">
            <Button icon="chat" aria-expanded={view.ask} aria-controls="library-ask" onClick={() => setQuery({ ask: view.ask ? null : "1" })}>
              {t.ask}
            </Button>
            <LinkButton kind="primary" icon="upload" href="/">
              {t.transcribe}
            </LinkButton>
          </div>
        )}
      </div>
      <div class="stack">
        {hasTools && <SearchBox view={view} />}
        {hasTools && view.ask && <Ask id="library-ask" onClose={() => setQuery({ ask: null })} />}
        {view.q ? <Search view={view} /> : <List view={view} onEmpty={setEmpty} />}
      </div>
    </div>
  );
}

/** The field above everything. What is typed goes into the address once it rests. */
function SearchBox({ view }: { view: View }) {
  const t = libraryTexts();
  const [typed, setTyped] = useState(view.q);
  const pushed = useRef(view.q);
  const timer = useRef(0);
  const field = useRef<HTMLInputElement>(null);
  const isTooLong = [...typed].length > LONGEST_SEARCH;

  // The address changed from elsewhere: by the back button, or by a link.
  useEffect(() => {
    if (view.q !== pushed.current) {
      pushed.current = view.q;
      setTyped(view.q);
    }
  }, [view.q]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const search = (text: string) => {
    clearTimeout(timer.current);
    const wanted = text.trim();
    if (wanted === pushed.current || [...wanted].length > LONGEST_SEARCH) return;
    const before = pushed.current;
    pushed.current = wanted;
    const changed = new URLSearchParams(query.value);
    changed.delete("page");
    if (wanted) changed.set("q", wanted);
    else changed.delete("q");
    const rest = changed.toString();
    // The first letters of a search are a step of their own for the back button, the others are not.
    navigate(path.value + (rest ? `?${rest}` : ""), { replace: before !== "" && wanted !== "" });
  };

  return (
    <search class="library-search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          search(typed);
        }}
      >
        <div class="field">
          <label class="visually-hidden" for="library-q">
            {t.search}
          </label>
          <div class="library-search-field">
            <Icon name="search" />
            <input
              ref={field}
              id="library-q"
              class="input"
              type="text"
              inputMode="search"
              enterKeyHint="search"
              autoComplete="off"
              spellcheck={false}
              dir="auto"
              placeholder={t.searchPlaceholder}
              value={typed}
              aria-describedby="library-q-hint"
              aria-invalid={isTooLong || undefined}
              onInput={(event) => {
                const text = event.currentTarget.value;
                setTyped(text);
                clearTimeout(timer.current);
                timer.current = window.setTimeout(() => search(text), REST);
              }}
              onKeyDown={(event) => {
                if (event.key !== "Escape" || !typed) return;
                event.preventDefault();
                setTyped("");
                search("");
              }}
            />
            {typed && (
              <IconButton
                icon="close"
                small
                label={t.clearSearch}
                onClick={() => {
                  setTyped("");
                  search("");
                  field.current?.focus();
                }}
              />
            )}
          </div>
          <span id="library-q-hint" class={isTooLong ? "wrong" : "hint"} role={isTooLong ? "alert" : undefined}>
            {isTooLong ? t.tooLong : t.searchHint}
          </span>
        </div>
      </form>
    </search>
  );
}
