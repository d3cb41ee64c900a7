/** One recording on its way, and its text once it is there. */

import { useId } from "preact/hooks";
import { messageOf, Problem } from "../../api/client";
import { common } from "../../i18n/common";
import { startTexts } from "../../i18n/start";
import { Button, IconButton, LinkButton } from "../../ui/button";
import { copyText, fileName, saveBlob } from "../../ui/download";
import { bytes, percent } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { ErrorNotice, Notice, ProgressBar } from "../../ui/states";
import { speakerName } from "../../ui/speakers";
import { toSrt, toText, turnsOf } from "../../ui/subtitles";
import { toast } from "../../ui/toast";
import { cancel, remove, retry, type Item } from "./uploads";

export function ItemCard({ item }: { item: Item }) {
  const t = startTexts();
  const id = useId();
  const isActive = !["done", "failed", "cancelled"].includes(item.phase);
  const icon = item.phase === "done" ? "check" : item.phase === "failed" ? "warning" : "file";
  return (
    <article class="panel start-item" aria-labelledby={id}>
      <div class="row between start-item-head">
        <Icon name={icon} class={`start-state ${item.phase}`} />
        <div class="grow">
          <h3 id={id} class="truncate" dir="auto" title={item.name}>
            {item.name}
          </h3>
          <p class="soft small numeric" aria-live={item.phase === "uploading" ? "off" : "polite"}>
            {stateOf(item)}
          </p>
        </div>
        {item.id !== null && item.phase !== "cancelled" && (
          <LinkButton small kind={item.phase === "done" ? "primary" : "plain"} href={`/t/${item.id}`} aria-label={t.openOne(item.name)}>
            {t.open}
          </LinkButton>
        )}
        {isActive ? (
          <IconButton icon="close" label={t.cancelOne(item.name)} onClick={() => cancel(item.key)} />
        ) : (
          <>
            {item.phase !== "done" && <IconButton icon="retry" label={t.retryOne(item.name)} onClick={() => retry(item.key)} />}
            <IconButton icon="close" label={t.removeOne(item.name)} onClick={() => remove(item.key)} />
          </>
        )}
      </div>
      {isActive && <ProgressBar label={stateOf(item)} share={shareOf(item)} />}
      {item.phase === "failed" && (item.error instanceof Problem ? <ErrorNotice error={item.error} /> : <Notice kind="bad">{messageOf(item.error)}</Notice>)}
      <Words item={item} />
    </article>
  );
}

function stateOf(item: Item): string {
  const t = startTexts();
  if (item.interrupted) return t.interrupted;
  switch (item.phase) {
    case "waiting":
      return t.waiting;
    case "uploading":
      return t.uploading(bytes(item.sent), bytes(item.size));
    case "checking":
      return t.checking;
    case "queued":
      return item.place === null ? t.queuedSomewhere : t.queued(item.place);
    case "processing":
      return item.progress === null ? t.transcribing : t.processing(percent(item.progress / 100));
    case "done":
      return t.done;
    case "failed":
      return t.failed;
    case "cancelled":
      return t.cancelled;
  }
}

function shareOf(item: Item): number | null {
  if (item.phase === "uploading") return item.size ? item.sent / item.size : null;
  if (item.phase === "processing" && item.progress !== null) return item.progress / 100;
  return item.phase === "waiting" || item.phase === "queued" ? 0 : null;
}

function Words({ item }: { item: Item }) {
  const t = startTexts();
  const c = common();
  if (item.phase === "done" && item.segments.length === 0) return item.result ? <Notice icon="info">{t.emptyResult}</Notice> : null;
  if (item.segments.length === 0) return null;
  // Whoever has an account reads on the transcript's own page.
  const isPreview = item.result === null;
  const shown = isPreview ? item.segments.slice(-4) : item.segments;
  return (
    <>
      <div class={`start-text${isPreview ? " preview" : ""}`} dir="auto" aria-label={isPreview ? t.wordsSoFar : undefined} tabIndex={isPreview ? undefined : 0} role={isPreview ? undefined : "region"}>
        {turnsOf(shown).map((turn, index) => (
          <p key={index} dir="auto">
            {turn.speaker && <strong class="start-speaker">{speakerName(turn.speaker)}: </strong>}
            {turn.text}
          </p>
        ))}
      </div>
      {item.result && (
        <>
          <div class="row tight">
            <Button small icon="copy" onClick={() => void copyText(toText(item.segments, speakerName)).then((ok) => toast(ok ? c.copied : c.notCopied))}>
              {t.copyText}
            </Button>
            <Button small icon="download" onClick={() => saveBlob(new Blob([toText(item.segments, speakerName)], { type: "text/plain" }), fileName(item.name, "txt"))}>
              {t.saveText}
            </Button>
            <Button small icon="download" onClick={() => saveBlob(new Blob([toSrt(item.segments, speakerName)], { type: "application/x-subrip" }), fileName(item.name, "srt"))}>
              {t.saveSubtitles}
            </Button>
          </div>
          <p class="soft small">{t.notKept}</p>
        </>
      )}
    </>
  );
}
