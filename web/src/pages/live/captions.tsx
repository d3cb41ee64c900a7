/** The last lines of a live session, large: for a second screen, a beamer, or somebody who reads along. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Title } from "../../app";
import { common } from "../../i18n/common";
import { liveTexts } from "../../i18n/live";
import { query } from "../../router";
import { IconButton, LinkButton } from "../../ui/button";
import { Check, Select } from "../../ui/field";
import { remembered } from "../../ui/remembered";
import { COLOURS, FONTS, MOST_LINES, readLook, sized, SIZES, type CaptionLook } from "./caption-look";
import { captionChannel, captionMessage, type CaptionText } from "./channel";
import { between } from "./transcript";

const stored = remembered("captions");

/** The settings go after so long without use while the text fills the screen. */
const IDLE_MS = 3000;

export function Captions() {
  const t = liveTexts();
  const [look, setLook] = useState<CaptionLook>(() => readLook(stored.read()));
  const [heard, setHeard] = useState<CaptionText | null>(null);
  const [isBarHidden, setBarHidden] = useState(false);
  const [isFull, setFull] = useState(false);
  const [isIdle, setIdle] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const view = useRef<HTMLDivElement>(null);
  const wanted = query.value.get("from");

  const change = (next: CaptionLook) => {
    setLook(next);
    stored.write(JSON.stringify(next));
  };
  const latest = useRef(look);
  latest.current = look;

  useEffect(() => {
    const channel = captionChannel();
    if (!channel) return;
    channel.onmessage = ({ data }: MessageEvent<unknown>) => {
      const message = captionMessage(data);
      if (message?.kind === "text" && (!wanted || message.from === wanted)) setHeard(message);
    };
    channel.postMessage({ kind: "hello" });
    return () => channel.close();
  }, [wanted]);

  const toggleFull = () => {
    if (document.fullscreenElement) void document.exitFullscreen();
    else void root.current?.requestFullscreen?.().catch(() => undefined);
  };

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      // Letters choose in a list.
      const isInField = event.target instanceof HTMLSelectElement;
      if (event.key === "+" || event.key === "=") change(sized(latest.current, 1));
      else if (event.key === "-" || event.key === "−") change(sized(latest.current, -1));
      else if (event.key.toLowerCase() === "f" && !isInField) toggleFull();
      else if (event.key.toLowerCase() === "h" && !isInField) setBarHidden((before) => !before);
      else return;
      event.preventDefault();
    };
    const onFull = () => setFull(document.fullscreenElement !== null);
    document.addEventListener("keydown", onKey);
    document.addEventListener("fullscreenchange", onFull);
    return () => {
      document.removeEventListener("keydown", onKey);
      document.removeEventListener("fullscreenchange", onFull);
    };
  }, []);

  // On the whole screen nothing but the text stays, until somebody moves.
  useEffect(() => {
    if (!isFull) {
      setIdle(false);
      return;
    }
    let timer = setTimeout(() => setIdle(true), IDLE_MS);
    const wake = () => {
      setIdle(false);
      clearTimeout(timer);
      timer = setTimeout(() => setIdle(true), IDLE_MS);
    };
    const events = ["pointermove", "pointerdown", "keydown"] as const;
    for (const name of events) document.addEventListener(name, wake);
    return () => {
      clearTimeout(timer);
      for (const name of events) document.removeEventListener(name, wake);
    };
  }, [isFull]);

  // The screen of a reader who touches nothing has to stay on.
  useEffect(() => {
    let lock: WakeLockSentinel | null = null;
    const hold = () => {
      if (!document.hidden && "wakeLock" in navigator) {
        navigator.wakeLock.request("screen").then(
          (held) => (lock = held),
          () => undefined,
        );
      }
    };
    hold();
    document.addEventListener("visibilitychange", hold);
    return () => {
      document.removeEventListener("visibilitychange", hold);
      void lock?.release().catch(() => undefined);
    };
  }, []);

  useLayoutEffect(() => {
    if (view.current) view.current.scrollTop = view.current.scrollHeight;
  }, [heard, look, isBarHidden]);

  const isBarShown = !isBarHidden && !isIdle;
  return (
    <div ref={root} class={`captions${isIdle ? " idle" : ""}`} data-colours={look.colours} data-font={look.font}>
      <Title words={t.captionsTitle} />
      <h1 class="visually-hidden">{t.captionsTitle}</h1>
      <div ref={view} class="captions-view" style={{ fontSize: `${SIZES[look.size] ?? 3}rem`, "--captions-lines": String(look.lines) }}>
        <Text heard={heard} hasNames={look.hasNames} />
      </div>
      {isBarShown ? (
        <Bar look={look} onChange={change} isFull={isFull} onFull={toggleFull} onHide={() => setBarHidden(true)} />
      ) : (
        <div class="captions-more">{!isIdle && <IconButton icon="more" label={t.show} aria-expanded={false} onClick={() => setBarHidden(false)} />}</div>
      )}
    </div>
  );
}

function Text({ heard, hasNames }: { heard: CaptionText | null; hasNames: boolean }) {
  const t = liveTexts();
  const c = common();
  const paragraphs = heard?.paragraphs ?? [];
  const partial = heard?.partial ?? "";
  const last = paragraphs.at(-1);
  const state = { live: t.captionsQuiet, paused: t.captionsPaused, lost: t.captionsLost, ended: t.captionsEnded };
  const isEmpty = paragraphs.length === 0 && !partial;
  return (
    <>
      {!heard && (
        <div class="captions-note">
          <p>{t.captionsWaiting}</p>
          <LinkButton href="/live">{t.toLive}</LinkButton>
        </div>
      )}
      <div class="captions-lines">
        {paragraphs.map((paragraph, index) => (
          <p key={paragraph.id} dir="auto">
            {hasNames && paragraph.speaker !== null && paragraph.speaker !== paragraphs[index - 1]?.speaker && (
              <>
                <span class="captions-name">{c.speaker(paragraph.speaker + 1)}:</span>{" "}
              </>
            )}
            {paragraph.text}
            {paragraph === last && partial && (
              <span class="captions-partial" aria-hidden="true">
                {between(paragraph.text, partial) + partial}
              </span>
            )}
          </p>
        ))}
        {!last && partial && (
          <p class="captions-partial" dir="auto" aria-hidden="true">
            {partial}
          </p>
        )}
      </div>
      {heard && (heard.state !== "live" || isEmpty) && (
        <p class="captions-state" role="status">
          {state[heard.state]}
        </p>
      )}
    </>
  );
}

function Bar({ look, onChange, isFull, onFull, onHide }: { look: CaptionLook; onChange: (look: CaptionLook) => void; isFull: boolean; onFull: () => void; onHide: () => void }) {
  const t = liveTexts();
  const colours = { dark: t.colourDark, light: t.colourLight, yellow: t.colourYellow, blue: t.colourBlue };
  const fonts = { plain: t.fontPlain, serif: t.fontSerif, wide: t.fontWide, mono: t.fontMono };
  return (
    <section class="captions-bar" aria-label={t.settings}>
      <div class="captions-sizes">
        <button type="button" class="button plain icon" aria-label={t.smaller} title={t.smaller} disabled={look.size === 0} onClick={() => onChange(sized(look, -1))}>
          <span class="captions-small" aria-hidden="true">
            A
          </span>
        </button>
        <button type="button" class="button plain icon" aria-label={t.larger} title={t.larger} disabled={look.size === SIZES.length - 1} onClick={() => onChange(sized(look, 1))}>
          <span class="captions-large" aria-hidden="true">
            A
          </span>
        </button>
      </div>
      <Select
        label={t.lines}
        hideLabel
        value={String(look.lines)}
        options={Array.from({ length: MOST_LINES }, (_, index) => ({ value: String(index + 1), label: t.linesOf(index + 1) }))}
        onChange={(event) => onChange({ ...look, lines: Number(event.currentTarget.value) })}
      />
      <Select
        label={t.colours}
        hideLabel
        value={look.colours}
        options={COLOURS.map((id) => ({ value: id, label: colours[id] }))}
        onChange={(event) => onChange({ ...look, colours: COLOURS.find((id) => id === event.currentTarget.value) ?? look.colours })}
      />
      <Select
        label={t.font}
        hideLabel
        value={look.font}
        options={FONTS.map((id) => ({ value: id, label: fonts[id] }))}
        onChange={(event) => onChange({ ...look, font: FONTS.find((id) => id === event.currentTarget.value) ?? look.font })}
      />
      <Check label={t.names} checked={look.hasNames} onChange={(event) => onChange({ ...look, hasNames: event.currentTarget.checked })} />
      <span class="captions-ends">
        <IconButton icon="expand" label={isFull ? t.leaveFullScreen : t.fullScreen} aria-pressed={isFull} onClick={onFull} />
        <IconButton icon="close" label={t.hide} onClick={onHide} />
      </span>
    </section>
  );
}
