/** A transcript: its recording, its text, and what is made of it. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../../api/client";
import { Title, type PageProps } from "../../app";
import { transcriptTexts } from "../../i18n/transcript";
import { guardLeaving, navigate, query } from "../../router";
import { LinkButton } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { remembered } from "../../ui/remembered";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { toast, toastError } from "../../ui/toast";
import { change, loadTranscript, remove, saveTexts } from "./calls";
import { ExportDialog, KeysDialog, ShareDialog, SpeakersDialog } from "./dialogs";
import { Editor, type Message } from "./editor";
import { Head, Warnings, type Asked } from "./head";
import { countWords, momentOf, type Detail } from "./model";
import Panel from "./panel";
import { Player } from "./player";
import { PlayerBar } from "./player-bar";
import { Reader } from "./reader";
import { hasRecording, loadWave } from "./recording";
import { TextView } from "./text";
import { Conflicts, FindBar, Tools } from "./tools";
import { useKeys } from "./keys";
import { Failed, Waiting } from "./waiting";
import "./transcript.css";

export default function Page({ params }: PageProps) {
  const id = Number(params["id"]);
  return Number.isSafeInteger(id) && id > 0 ? <TranscriptPage key={id} id={id} /> : <NotFound />;
}

function NotFound() {
  const t = transcriptTexts();
  return (
    <div class="page">
      <Title words={t.notFoundTitle} />
      <h1 class="visually-hidden">{t.title}</h1>
      <Empty icon="search" title={t.notFoundTitle} isPage>
        <p>{t.notFoundText}</p>
        <LinkButton kind="primary" href="/library">
          {t.toLibrary}
        </LinkButton>
      </Empty>
    </div>
  );
}

function TranscriptPage({ id }: { id: number }) {
  const t = transcriptTexts();
  const loaded = useLoaded(`transcript/${id}`, (signal) => loadTranscript(id, signal));
  const [isAskedToDelete, setAskedToDelete] = useState(false);
  const detail = loaded.value;
  if (!detail && loaded.error instanceof Problem && loaded.error.status === 404) return <NotFound />;
  if (!detail) {
    return (
      <div class="page transcript-page">
        <Title words={t.title} />
        <h1 class="visually-hidden">{t.title}</h1>
        {loaded.error ? <ErrorNotice error={loaded.error} onRetry={loaded.reload} /> : <Loading />}
      </div>
    );
  }
  if (detail.status === "completed") return <Ready key="ready" first={detail} />;
  return (
    <div class="page transcript-page">
      <Title words={detail.title} />
      <Head detail={detail} speakers={0} onDetail={loaded.set} onAsk={() => setAskedToDelete(true)} />
      {detail.status === "failed" ? (
        <Failed detail={detail} onAgain={loaded.reload} onDelete={() => setAskedToDelete(true)} />
      ) : (
        <Waiting detail={detail} onDetail={loaded.set} />
      )}
      {isAskedToDelete && <Delete id={id} onClose={() => setAskedToDelete(false)} />}
    </div>
  );
}

function Loading() {
  return (
    <>
      <div class="transcript-top">
        <Skeleton lines={1} height="2.5rem" />
        <Skeleton lines={1} height="2.25rem" />
      </div>
      <div class="transcript-body">
        <Skeleton lines={12} height="1.75rem" />
        <div class="transcript-side">
          <Skeleton lines={1} height="18rem" />
        </div>
      </div>
    </>
  );
}

function Delete({ id, onClose }: { id: number; onClose: () => void }) {
  const t = transcriptTexts();
  const [isBusy, setBusy] = useState(false);
  const go = async () => {
    setBusy(true);
    try {
      await remove(id);
      remembered(`transcript.${id}.draft`).write(null);
      onClose();
      toast(t.deleted);
      navigate("/library");
    } catch (error) {
      toastError(error);
      setBusy(false);
    }
  };
  return (
    <Confirm title={t.deleteTitle} action={t.deleteOne} busy={isBusy} onConfirm={() => void go()} onClose={onClose}>
      <p>{t.deleteText}</p>
    </Confirm>
  );
}

/** All that lives as long as the page shows one transcript. */
class Session {
  readonly editor: Editor;
  readonly player: Player;
  readonly reader: Reader;
  #channel: BroadcastChannel | null;

  constructor(detail: Detail) {
    const { id } = detail;
    this.#channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(`hark.transcript.${id}`) : null;
    this.player = new Player(detail.duration_seconds);
    this.editor = new Editor(detail, {
      save: (texts, version) => saveTexts(id, texts, version),
      give: (speakers, version) => change(id, { segments: speakers }, version),
      load: () => loadTranscript(id),
      onProblem: toastError,
      draft: remembered(`transcript.${id}.draft`),
      post: (message) => this.#channel?.postMessage(message),
      onChanged: () => void this.refresh(),
      onNewer: () => toast(transcriptTexts().newer),
    });
    this.reader = new Reader(this.editor, this.player);
    this.#channel?.addEventListener("message", (event: MessageEvent<Message>) => this.editor.hear(event.data));
  }

  /** Loads what may have changed elsewhere. Without an answer all stays as it is. */
  async refresh(): Promise<void> {
    try {
      const detail = await loadTranscript(this.editor.detail.peek().id);
      if (detail.status === "completed") this.editor.meetServer(detail);
    } catch {
      // The next look at the page asks again.
    }
  }

  end(): void {
    this.editor.dispose();
    // What was just saved is still told.
    setTimeout(() => {
      this.#channel?.close();
      this.#channel = null;
    }, 1000);
  }
}

const keysKept = remembered("transcript.keys");

function Ready({ first }: { first: Detail }) {
  const t = transcriptTexts();
  const [session] = useState(() => new Session(first));
  const { editor, player, reader } = session;
  const { id } = first;
  const detail = editor.detail.value;
  const [asked, setAsked] = useState<Asked | null>(null);
  const [speaker, setSpeaker] = useState<string | null>(null);
  const [side, setSide] = useState<"text" | "panel">("text");
  const [areKeysOn, setKeysOn] = useState(keysKept.read() !== "off");
  const kept = useLoaded(`recording/${id}`, (signal) => hasRecording(id, signal));
  const wave = useLoaded(`wave/${id}/${kept.value}`, async (signal) => (kept.value ? loadWave(id, signal) : null));
  reader.onShow = () => setSide("text");

  useEffect(() => () => session.end(), [session]);
  useEffect(() => {
    player.isThere.value = kept.value === true;
  }, [kept.value]);

  const at = momentOf(query.value.get("at"));
  useEffect(() => {
    // When the text is laid out: before, there is nowhere to scroll to.
    if (at !== null) requestAnimationFrame(() => requestAnimationFrame(() => reader.goTo(at)));
  }, [at]);

  useEffect(() => {
    const takeBack = guardLeaving(() => {
      if (!editor.isDirty) return true;
      void editor.flush();
      // What is only waiting for its moment is saved on the way out.
      return editor.saving.peek() === "saving" && editor.problem.peek() === null ? true : confirm(transcriptTexts().leave);
    });
    const stop = new AbortController();
    const { signal } = stop;
    addEventListener(
      "beforeunload",
      (event) => {
        if (!editor.isDirty) return;
        void editor.flush();
        event.preventDefault();
      },
      { signal },
    );
    addEventListener("pagehide", () => void editor.flush(), { signal });
    addEventListener("online", () => editor.retry(), { signal });
    let hiddenAt = 0;
    document.addEventListener(
      "visibilitychange",
      () => {
        if (document.hidden) {
          hiddenAt = Date.now();
          void editor.flush();
        } else if (hiddenAt && Date.now() - hiddenAt > 30_000) void session.refresh();
      },
      { signal },
    );
    return () => {
      takeBack();
      stop.abort();
    };
  }, [session]);

  // The bars stick under the head of the app, which is higher on a phone.
  const page = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const head = document.querySelector<HTMLElement>("header.top");
    if (!head) return;
    const observer = new ResizeObserver(() => page.current?.style.setProperty("--transcript-top", `${head.offsetHeight}px`));
    observer.observe(head);
    // The bars cover the edges of the page: what the keyboard reaches is scrolled clear of them.
    document.documentElement.classList.add("with-transcript");
    return () => {
      observer.disconnect();
      document.documentElement.classList.remove("with-transcript");
    };
  }, []);

  useKeys({ reader, player, areOn: areKeysOn, onHelp: () => setAsked("keys") });

  const speakers = editor.speakers.value;
  const ask = (what: Asked) => {
    setSpeaker(null);
    setAsked(what);
  };
  const close = () => setAsked(null);
  const isEmpty = editor.segments.length === 0;
  return (
    <div class="page transcript-page" ref={page}>
      <Title words={detail.title} />
      <Head
        detail={detail}
        words={<Words editor={editor} />}
        speakers={speakers.length}
        onDetail={(changed) => {
          editor.meetServer(changed);
          editor.tellChanged();
        }}
        onAsk={ask}
      />
      <Warnings detail={detail} />
      <div class="transcript-switch" role="group" aria-label={t.textOrPanel}>
        {(["text", "panel"] as const).map((each) => (
          <button key={each} type="button" aria-pressed={side === each} onClick={() => setSide(each)}>
            {each === "text" ? t.text : t.panel}
          </button>
        ))}
      </div>
      <div class={`transcript-body shows-${side}`}>
        <aside class="transcript-side" aria-label={t.panel}>
          {kept.value && <Picture player={player} id={id} />}
          <div class="transcript-panel">
            <Panel id={id} transcript={detail} onSeek={(seconds) => reader.goTo(seconds)} />
          </div>
        </aside>
        <section class="transcript-main" aria-label={t.text}>
          {isEmpty ? (
            <Empty icon="mic" title={t.emptyTitle}>
              <p>{t.emptyText}</p>
            </Empty>
          ) : (
            <>
              <div class="transcript-bars">
                <Tools editor={editor} reader={reader} onKeys={() => setAsked("keys")} />
                {reader.isFinding.value && <FindBar reader={reader} />}
              </div>
              <p id="transcript-help" class="visually-hidden">
                {t.textHelp}
              </p>
              <TextView
                editor={editor}
                reader={reader}
                onSpeaker={(name) => {
                  setSpeaker(name);
                  setAsked("speakers");
                }}
              />
            </>
          )}
        </section>
      </div>
      <div class="transcript-bottom">
        <Conflicts editor={editor} />
        {kept.value && !reader.isFollowing.value && (
          <button type="button" class="button small transcript-follow" onClick={() => reader.follow()}>
            {t.backToWord}
          </button>
        )}
        {kept.value === false ? (
          <p class="transcript-no-recording small soft">
            <Icon name="info" />
            {t.noRecording}
          </p>
        ) : kept.value ? (
          <PlayerBar player={player} editor={editor} wave={wave.value} id={id} />
        ) : kept.error ? (
          <ErrorNotice error={kept.error} onRetry={kept.reload} />
        ) : (
          <div class="transcript-player is-loading" />
        )}
      </div>
      <p class="visually-hidden" role="status">
        {reader.said.value}
      </p>
      {asked === "export" && <ExportDialog editor={editor} onClose={close} />}
      {asked === "share" && <ShareDialog editor={editor} onClose={close} />}
      {asked === "speakers" && <SpeakersDialog editor={editor} reader={reader} first={speaker} onClose={close} />}
      {asked === "keys" && (
        <KeysDialog
          areOn={areKeysOn}
          onChange={(areOn) => {
            setKeysOn(areOn);
            keysKept.write(areOn ? null : "off");
          }}
          onClose={close}
        />
      )}
      {asked === "delete" && <Delete id={id} onClose={close} />}
    </div>
  );
}

/** The element that plays, and its picture where it has one. */
function Picture({ player, id }: { player: Player; id: number }) {
  const t = transcriptTexts();
  const element = useRef<HTMLVideoElement>(null);
  useEffect(() => player.attach(element.current), [player]);
  const isSeen = player.hasPicture.value;
  return (
    <div class="transcript-picture" hidden={!isSeen}>
      <video ref={element} src={`/v1/transcripts/${id}/recording`} preload="metadata" playsInline aria-label={t.picture} onClick={() => player.toggle()} />
    </div>
  );
}

/** Words: those that the server counted, and what edits made of them since. On its own, so that saving does not draw the page. */
function Words({ editor }: { editor: Editor }) {
  const t = transcriptTexts();
  const detail = editor.detail.value;
  void editor.saving.value;
  let more = 0;
  for (const segment of editor.segments) {
    const before = detail.segments[segment.index]?.text ?? "";
    const now = segment.said.peek().text;
    if (now !== before) more += countWords(now) - countWords(before);
  }
  return <>{t.words(number(detail.word_count + more))}</>;
}
