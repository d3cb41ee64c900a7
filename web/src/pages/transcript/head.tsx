/** The head of the page: the title, which can be changed, and what the transcript is. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { common } from "../../i18n/common";
import { transcriptTexts } from "../../i18n/transcript";
import { Button, IconButton } from "../../ui/button";
import { dateTime, duration, isoDuration, languageName } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { Menu, MenuItem } from "../../ui/menu";
import { remembered } from "../../ui/remembered";
import { ErrorNotice, Notice } from "../../ui/states";
import { change } from "./calls";
import type { Detail } from "./model";

export type Asked = "export" | "share" | "speakers" | "keys" | "delete";

/** What is wrong or remarkable about the recording, until this browser was told that it was read. */
export function Warnings({ detail }: { detail: Detail }) {
  const t = transcriptTexts();
  const all = detail.warnings ?? [];
  const read = remembered(`transcript.${detail.id}.warnings`);
  const [isRead, setRead] = useState(() => read.read() === all.join("\n"));
  if (all.length === 0 || isRead) return null;
  const close = () => {
    read.write(all.join("\n"));
    setRead(true);
  };
  return (
    <section class="transcript-warnings" aria-label={t.aboutRecording}>
      <Notice kind="warn" icon="warning">
        {all.length === 1 ? (
          <p>{all[0]}</p>
        ) : (
          <ul>
            {all.map((warning) => (
              <li key={warning}>{warning}</li>
            ))}
          </ul>
        )}
      </Notice>
      <IconButton small icon="close" label={common().close} onClick={close} />
    </section>
  );
}

export function Head({
  detail,
  words,
  speakers,
  onDetail,
  onAsk,
}: {
  detail: Detail;
  /** How many words it has. */
  words?: ComponentChildren;
  speakers: number;
  onDetail: (detail: Detail) => void;
  /** Null where the transcript is not there yet. */
  onAsk: ((what: Asked) => void) | null;
}) {
  const t = transcriptTexts();
  const [isEditing, setEditing] = useState(false);
  const isDone = detail.status === "completed";
  return (
    <header class="transcript-top">
      {isEditing ? (
        <TitleForm
          detail={detail}
          onDone={(changed) => {
            if (changed) onDetail(changed);
            setEditing(false);
          }}
        />
      ) : (
        <div class="transcript-title">
          <h1 dir="auto" title={detail.title}>{detail.title}</h1>
          <IconButton small icon="edit" label={t.editTitle} onClick={() => setEditing(true)} />
        </div>
      )}
      <div class="transcript-about">
        <ul aria-label={t.about}>
          <li>
            <time dateTime={detail.created_at}>{dateTime(detail.created_at)}</time>
          </li>
          {detail.duration_seconds > 0 && (
            <li>
              <time dateTime={isoDuration(detail.duration_seconds)}>{duration(detail.duration_seconds)}</time>
            </li>
          )}
          {isDone && <li>{detail.language && detail.language !== "auto" ? languageName(detail.language.replace("_", "-")) : t.unknownLanguage}</li>}
          {isDone && <li class="numeric">{words}</li>}
          {isDone && speakers > 0 && <li>{t.speakersCount(speakers)}</li>}
          {detail.share_token && (
            <li>
              <span class="badge accent">{t.sharedBadge}</span>
            </li>
          )}
        </ul>
        {onAsk && (
          <div class="transcript-actions">
            {isDone && (
              <>
                <Button small icon="download" onClick={() => onAsk("export")}>
                  {t.export}
                </Button>
                <Button small icon="share" onClick={() => onAsk("share")}>
                  {t.share}
                </Button>
              </>
            )}
            <Menu
              label={t.moreActions}
              trigger={(attributes) => (
                <button type="button" class="button small icon plain" aria-label={t.moreActions} title={t.moreActions} {...attributes}>
                  <Icon name="more" />
                </button>
              )}
            >
              {isDone && (
                <MenuItem onClick={() => onAsk("speakers")}>
                  <Icon name="account" />
                  {t.speakers}
                </MenuItem>
              )}
              {isDone && (
                <MenuItem onClick={() => onAsk("keys")}>
                  <Icon name="key" />
                  {t.keysTitle}
                </MenuItem>
              )}
              <MenuItem danger onClick={() => onAsk("delete")}>
                <Icon name="trash" />
                {t.deleteOne}
              </MenuItem>
            </Menu>
          </div>
        )}
      </div>
    </header>
  );
}

function TitleForm({ detail, onDone }: { detail: Detail; onDone: (changed: Detail | null) => void }) {
  const t = transcriptTexts();
  const c = common();
  const input = useRef<HTMLInputElement>(null);
  const [title, setTitle] = useState(detail.title);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  const save = async () => {
    const clean = title.trim();
    if (!clean || clean === detail.title) return onDone(null);
    setBusy(true);
    setError(null);
    try {
      onDone(await change(detail.id, { title: clean }));
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <form
      class="stack tight"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onDone(null);
      }}
    >
      {/* The heading stays for those who move by headings. */}
      <h1 class="visually-hidden" dir="auto">
        {detail.title}
      </h1>
      <div class="transcript-title">
        <input ref={input} class="input transcript-title-input" dir="auto" aria-label={t.titleLabel} maxLength={500} value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
        <Button kind="primary" type="submit" busy={isBusy}>
          {c.save}
        </Button>
        <Button onClick={() => onDone(null)}>{c.cancel}</Button>
      </div>
      <ErrorNotice error={error} />
    </form>
  );
}
