/** A session that goes on or has ended: its text, and the bar with what can be done. */

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Problem } from "../../api/client";
import { common } from "../../i18n/common";
import { liveTexts } from "../../i18n/live";
import { session } from "../../session";
import { Button, IconButton, LinkButton } from "../../ui/button";
import { copyText, fileName, saveBlob } from "../../ui/download";
import { clock, dateTime, duration, isoDuration, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { ErrorNotice, Notice } from "../../ui/states";
import { toast } from "../../ui/toast";
import { toSrt, toText } from "./export";
import type { Run } from "./run";
import type { LiveState } from "./session";
import { Spoken } from "./spoken";
import { textOf } from "./transcript";

/** Seconds of sound that wait from which it is said. */
const BEHIND = 5;
/** Of those that are kept. */
const ALMOST_ALL = 100;
/** A connection that takes longer has a reason. */
const SOON = 3;

/** What happens, in plain words. */
export function statusOf(state: LiveState, t: ReturnType<typeof liveTexts>): string {
  const { phase, link, isPaused, seconds, waiting } = state;
  if (phase === "ended") return state.failure ? t.interrupted : t.ended;
  if (phase === "stopping") return link === "lost" ? t.finishingLost : t.finishing;
  if (link === "lost") return waiting > ALMOST_ALL ? t.lostLong : t.lost;
  if (link === "connecting") return seconds >= SOON ? t.preparing : t.connecting;
  if (isPaused) return `${t.paused}. ${t.pausedHint}`;
  return waiting >= BEHIND ? t.behind(duration(waiting)) : t.listening;
}

export function Running({ run, onAgain }: { run: Run; onAgain: () => void }) {
  const t = liveTexts();
  const state = run.state.value;
  const isOver = state.phase === "ended";
  const end = useRef<HTMLDivElement>(null);
  const isFollowing = useSignal(true);

  useEffect(() => {
    const look = () => {
      const top = end.current?.getBoundingClientRect().top ?? 0;
      isFollowing.value = top < innerHeight + 40;
    };
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, []);
  const follow = () => end.current?.scrollIntoView({ block: "end" });
  useLayoutEffect(() => {
    if (isFollowing.value && !isOver) follow();
  }, [state.paragraphs, state.partial]);

  return (
    <>
      <section class="live-text" aria-labelledby="live-text-head">
        <h2 id="live-text-head" class="visually-hidden">
          {t.transcript}
        </h2>
        <Spoken paragraphs={state.paragraphs} partial={state.partial} isAnnounced={run.isAnnounced} isOver={isOver} />
        {state.paragraphs.length === 0 && !state.partial && !state.failure && <p class="soft live-nothing">{isOver ? t.nothingHeard : t.nothingYet}</p>}
        <div ref={end} class="live-end" />
      </section>
      <div class="live-foot">
        {!isFollowing.value && !isOver && (
          <div class="live-jump">
            <Button
              small
              icon="chevron"
              onClick={() => {
                isFollowing.value = true;
                follow();
              }}
            >
              {t.toEnd}
            </Button>
          </div>
        )}
        {isOver ? <Over run={run} onAgain={onAgain} /> : <Bar run={run} />}
      </div>
    </>
  );
}

function Bar({ run }: { run: Run }) {
  const t = liveTexts();
  const state = run.state.value;
  const isStopping = state.phase === "stopping";
  const isLost = state.link === "lost";
  const look = isLost ? " lost" : state.isPaused || isStopping || state.link === "connecting" ? " quiet" : "";
  return (
    <section class="live-bar" aria-label={t.controls}>
      <div class="live-state">
        <span class={`live-dot${look}`} aria-hidden="true" />
        <p class="grow" role="status" aria-label={t.status}>
          {statusOf(state, t)}
        </p>
        <span class="numeric live-time" role="timer" aria-label={t.time}>
          <time dateTime={isoDuration(state.seconds)}>{clock(state.seconds)}</time>
        </span>
      </div>
      <Meter run={run} />
      <div class="live-buttons">
        {isStopping ? (
          <Button onClick={() => run.abort()}>{t.endNow}</Button>
        ) : (
          <>
            <Button kind="primary" icon="stop" onClick={() => void run.stop()}>
              {t.stop}
            </Button>
            {state.isPaused ? (
              <Button icon="play" onClick={() => run.resume()}>
                {t.resume}
              </Button>
            ) : (
              <Button icon="pause" onClick={() => run.pause()}>
                {t.pause}
              </Button>
            )}
          </>
        )}
        <span class="grow" />
        <CaptionsButton run={run} />
      </div>
    </section>
  );
}

function CaptionsButton({ run }: { run: Run }) {
  const t = liveTexts();
  const open = () => {
    const opened = window.open(`/captions?from=${run.id}`, `hark-captions-${run.id}`, "popup,width=960,height=360");
    if (opened) opened.focus();
    else toast(t.popupBlocked);
  };
  return (
    <>
      <Button class="live-wide" icon="expand" title={t.captions} onClick={open}>
        {t.captionsShort}
      </Button>
      <IconButton class="live-narrow" kind="plain" icon="expand" label={t.captions} onClick={open} />
    </>
  );
}

/** How loud it is; what is wrong with it is said in words. */
function Meter({ run }: { run: Run }) {
  const t = liveTexts();
  const { value, warning } = run.level.value;
  const percent = Math.round(value * 100);
  const words = percent < 15 ? t.levelSilent : percent < 45 ? t.levelQuiet : warning === "clipped" ? t.levelLoud : t.levelGood;
  return (
    <div class="live-level">
      <div class={`live-meter${warning === "clipped" ? " loud" : ""}`} role="meter" aria-label={t.level} aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent} aria-valuetext={words}>
        <div style={{ transform: `scaleX(${value.toFixed(3)})` }} />
      </div>
      <div role="status">
        {warning && (
          <p class="live-warning small">
            <Icon name="warning" />
            <span>{warning === "silent" ? t.warnSilent : t.warnClipped}</span>
          </p>
        )}
      </div>
    </div>
  );
}

/** What becomes of the text. */
function Over({ run, onAgain }: { run: Run; onAgain: () => void }) {
  const t = liveTexts();
  const c = common();
  const state = run.state.value;
  const { failure, transcripts, paragraphs } = state;
  const head = useRef<HTMLHeadingElement>(null);
  // Somebody who pressed Stop goes on here.
  useEffect(() => head.current?.focus({ preventScroll: true }), []);
  const hasText = paragraphs.length > 0;
  const isKept = transcripts.length > 0 || session.value?.signed_in === true;
  const named = (speaker: number) => c.speaker(speaker + 1);
  const save = (text: string, type: string, ending: string) => {
    saveBlob(new Blob([text], { type: `${type};charset=utf-8` }), fileName(t.fileName(dateTime(new Date())).replaceAll(":", "."), ending));
    run.isSaved.value = true;
  };
  const copy = async () => {
    const isCopied = await copyText(toText(paragraphs, named));
    if (isCopied) run.isSaved.value = true;
    toast(isCopied ? c.copied : c.notCopied);
  };
  const words = paragraphs.reduce((sum, paragraph) => sum + textOf(paragraph.lines).split(/\s+/).filter(Boolean).length, 0);
  const error = failure && new Problem(failure.status, failure.message, failure.upgrade);
  return (
    <section class="live-bar" aria-labelledby="live-over">
      <div class="row between">
        <h2 id="live-over" class="live-over" ref={head} tabIndex={-1}>
          {statusOf(state, t)}
        </h2>
        <span class="soft small numeric">
          {clock(state.seconds)}
          {words > 0 && ` · ${t.words(number(words))}`}
        </span>
      </div>
      <ErrorNotice error={error} />
      {state.lost > 0 && (
        <Notice kind="warn" icon="warning">
          {t.lostSound(duration(state.lost))}
        </Notice>
      )}
      {isKept && state.parts > 1 && <p>{t.severalParts}</p>}
      {hasText && <p class="soft">{transcripts.length > 0 ? t.stored : isKept ? t.inLibrary : t.notKept}</p>}
      <div class="row tight">
        {transcripts.length === 1 && (
          <LinkButton kind="primary" href={`/t/${transcripts[0]}`}>
            {t.open}
          </LinkButton>
        )}
        {transcripts.length > 1 &&
          transcripts.map((id, index) => (
            <LinkButton key={id} href={`/t/${id}`}>
              {t.openPart(index + 1)}
            </LinkButton>
          ))}
        {transcripts.length === 0 && isKept && hasText && <LinkButton href="/library">{t.library}</LinkButton>}
        {hasText && (
          <>
            <Button kind={isKept ? "plain" : "primary"} icon="download" onClick={() => save(toText(paragraphs, named), "text/plain", "txt")}>
              {t.saveText}
            </Button>
            <Button {...(isKept ? { kind: "plain" as const } : {})} icon="download" onClick={() => save(toSrt(paragraphs, named), "application/x-subrip", "srt")}>
              {t.saveSubtitles}
            </Button>
            <Button kind="plain" icon="copy" onClick={() => void copy()}>
              {t.copyText}
            </Button>
          </>
        )}
        <Button {...(hasText ? { kind: "plain" as const } : {})} icon="live" onClick={onAgain}>
          {t.again}
        </Button>
      </div>
    </section>
  );
}
