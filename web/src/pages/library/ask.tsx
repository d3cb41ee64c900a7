/** Questions to all transcripts: an answer that comes sentence by sentence, and the places that it rests on. */

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort } from "../../api/client";
import { events } from "../../api/events";
import { Button, IconButton } from "../../ui/button";
import { TextArea } from "../../ui/field";
import { clock, isoDuration } from "../../ui/format";
import { useLoaded } from "../../ui/loaded";
import { speakerName } from "../../ui/speakers";
import { ErrorNotice, ProgressBar } from "../../ui/states";
import { asked, heard, type Source, type Turn } from "./conversation";
import { titleOf } from "./data";
import { placeOf } from "./highlight";
import { libraryTexts } from "./texts";

/** The longest question that the API takes, in characters. */
const LONGEST = 2000;

export function Ask({ id, onClose }: { id: string; onClose: () => void }) {
  const t = libraryTexts();
  const [turns, setTurns] = useState<Turn[]>([]);
  const [question, setQuestion] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  const session = useRef<string | null>(null);
  const abort = useRef<AbortController | null>(null);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    focusField();
    return () => abort.current?.abort();
  }, []);

  const focusField = () => form.current?.querySelector("textarea")?.focus();
  const isRunning = turns.at(-1)?.status === "running";
  const setLast = (change: (turn: Turn) => Turn) => setTurns((before) => before.map((turn, at) => (at === before.length - 1 ? change(turn) : turn)));

  const ask = async (text: string) => {
    const wanted = text.trim();
    if (!wanted) return setWrong(t.questionEmpty);
    if ([...wanted].length > LONGEST) return setWrong(t.questionLong);
    setWrong(null);
    setQuestion("");
    // A question that failed is asked again, not twice.
    setTurns((before) => [...before.filter((turn) => turn.status !== "failed" || turn.question !== wanted), asked(wanted)]);
    const controller = new AbortController();
    abort.current = controller;
    try {
      let turn = asked(wanted);
      for await (const event of events("/v1/chat", { question: wanted, stream: true, ...(session.current ? { session_id: session.current } : {}) }, controller.signal)) {
        const next = heard(turn, event);
        turn = next.turn;
        if (next.session) session.current = next.session;
        if (!controller.signal.aborted) setLast(() => turn);
      }
      if (turn.status === "running" && !controller.signal.aborted) setLast((last) => ({ ...last, status: last.answer ? "stopped" : "failed" }));
    } catch (error) {
      if (controller.signal.aborted || isAbort(error)) {
        if (abort.current === controller) setLast((last) => ({ ...last, status: "stopped" }));
      } else setLast((last) => ({ ...last, status: "failed", error }));
    }
  };

  return (
    <section class="panel stack library-ask" id={id} aria-labelledby={`${id}-title`}>
      <div class="row between">
        <div class="stack tight grow">
          <h2 id={`${id}-title`}>{t.askTitle}</h2>
          <p class="soft small">{t.askText}</p>
        </div>
        <IconButton icon="close" label={t.closeAsk} onClick={onClose} />
      </div>
      {turns.length > 0 && (
        <ol class="stack loose">
          {turns.map((turn, at) => (
            <li key={at} class="stack library-turn">
              <p class="library-question" dir="auto">
                {turn.question}
              </p>
              <Answer turn={turn} onRetry={() => void ask(turn.question)} />
            </li>
          ))}
        </ol>
      )}
      <form
        ref={form}
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isRunning) void ask(question);
        }}
      >
        <TextArea
          label={turns.length > 0 ? t.followUp : t.question}
          placeholder={turns.length > 0 ? "" : t.questionPlaceholder}
          value={question}
          wrong={wrong}
          rows={2}
          class="input library-question-field"
          onInput={(event) => {
            setQuestion(event.currentTarget.value);
            setWrong(null);
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            if (!isRunning) void ask(question);
          }}
        />
        <div class="row tight">
          {isRunning ? (
            <Button icon="stop" onClick={() => abort.current?.abort()}>
              {t.stop}
            </Button>
          ) : (
            <Button kind="primary" type="submit" icon="chat">
              {t.askAction}
            </Button>
          )}
          {turns.length > 0 && !isRunning && (
            <Button
              kind="plain"
              onClick={() => {
                session.current = null;
                setTurns([]);
                focusField();
              }}
            >
              {t.newConversation}
            </Button>
          )}
        </div>
      </form>
    </section>
  );
}

function Answer({ turn, onRetry }: { turn: Turn; onRetry: () => void }) {
  const t = libraryTexts();
  return (
    <div class="stack">
      <div class="stack tight" aria-live="polite" aria-busy={turn.status === "running"}>
        {turn.answer && (
          <p class="library-answer" dir="auto">
            {turn.answer}
          </p>
        )}
        {turn.status === "done" && turn.found === false && !turn.answer && <p>{t.notFound}</p>}
        {turn.status === "stopped" && <p class="soft small">{t.stopped}</p>}
        {turn.status === "running" && !turn.answer && (
          <>
            <p class="soft small">{t.asking}</p>
            <ProgressBar share={null} label={t.asking} />
          </>
        )}
      </div>
      {turn.status === "failed" && <ErrorNotice error={turn.error ?? new Error(t.stopped)} onRetry={onRetry} />}
      {turn.sources.length > 0 && (
        <div class="stack tight">
          <h3 class="library-sources-title">{t.sources}</h3>
          <ol class="library-sources">
            {turn.sources.map((source, at) => (
              <li key={at}>
                <Place source={source} />
              </li>
            ))}
          </ol>
        </div>
      )}
      {turn.status === "done" && turn.model && turn.found && <p class="soft small">{t.answeredBy(turn.model)}</p>}
    </div>
  );
}

/** A place that an answer rests on; its transcript is named as soon as its title is there. */
function Place({ source }: { source: Source }) {
  const t = libraryTexts();
  const loaded = useLoaded(`title ${source.transcript_id}`, () => titleOf(source.transcript_id));
  const title = loaded.value ?? t.transcriptNumber(String(source.transcript_id));
  return (
    <>
      <a class="library-source" href={placeOf(source.transcript_id, source.start_time)} aria-label={t.hitAt(title, clock(source.start_time))}>
        <span class="library-hit-title" dir="auto">
          {title}
        </span>
        <time class="numeric badge accent" dateTime={isoDuration(source.start_time)}>
          {clock(source.start_time)}
        </time>
      </a>
      <p class="library-source-text" dir="auto">
        {source.speaker && (
          <b>
            <bdi>{speakerName(source.speaker)}</bdi>:{" "}
          </b>
        )}
        {source.text}
      </p>
    </>
  );
}
