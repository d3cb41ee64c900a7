/** Questions about a transcript, and answers with the places that they rest on. */

import { useEffect, useRef } from "preact/hooks";
import { panel } from "../../../i18n/panel";
import { session } from "../../../session";
import { Button } from "../../../ui/button";
import { number } from "../../../ui/format";
import { Icon } from "../../../ui/icon";
import { ask } from "./calls";
import { LONGEST_QUESTION, type Turn } from "./chat";
import { CopyButton, Time, withSpeakers } from "./pieces";
import type { Desk } from "./store";
import { WorkError } from "./work";

/** Questions a day by plan, as the API's contract has them; other plans have no limit. */
const A_DAY: Record<string, number> = { free: 3, pro: 50 };

export function AskTab({ id, desk, isBlocked, onSeek }: { id: number; desk: Desk; isBlocked: boolean; onSeek: (seconds: number) => void }) {
  const t = panel();
  const chat = desk.chat;
  const turns = chat.turns.value;
  const draft = chat.draft.value;
  const isAsking = turns.at(-1)?.state === "asking";
  const field = useRef<HTMLTextAreaElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const limit = A_DAY[session.value?.account?.plan ?? ""];
  const left = LONGEST_QUESTION - [...draft.trim()].length;

  const send = (question: string) => {
    if (isBlocked || isAsking || !question.trim() || [...question.trim()].length > LONGEST_QUESTION) return;
    if (question === chat.draft.peek()) chat.draft.value = "";
    void chat.ask(question, ask(id));
    field.current?.focus();
  };

  // What is new is in sight, unless somebody reads further above.
  const count = turns.length;
  const pieces = turns.at(-1)?.parts.length ?? 0;
  const seen = useRef(count);
  useEffect(() => {
    if (count > seen.current || (isAsking && isNear(end.current))) end.current?.scrollIntoView({ block: "nearest" });
    seen.current = count;
  }, [count, pieces, isAsking]);

  return (
    <div class="stack">
      {turns.length === 0 ? (
        <div class="stack tight">
          <h3>{t.askTitle}</h3>
          <p class="soft">{t.askText}</p>
          {!isBlocked && (
            <ul class="row tight" aria-label={t.suggestionsLabel}>
              {t.suggestions.map((question) => (
                <li key={question}>
                  <button type="button" class="panel-suggestion" onClick={() => send(question)}>
                    {question}
                  </button>
                </li>
              ))}
            </ul>
          )}
        </div>
      ) : (
        <div class="panel-chat stack loose" role="log" aria-live="polite" aria-relevant="additions" aria-label={t.conversation}>
          {turns.map((turn) => (
            <OneTurn
              key={turn.id}
              turn={turn}
              onSeek={onSeek}
              onRetry={() => {
                chat.drop(turn.id);
                send(turn.question);
              }}
            />
          ))}
        </div>
      )}
      <div ref={end} />
      <form
        class="panel-ask"
        onSubmit={(event) => {
          event.preventDefault();
          send(draft);
        }}
      >
        <textarea
          ref={field}
          class="input"
          dir="auto"
          rows={2}
          aria-label={t.question}
          aria-describedby="panel-ask-hint"
          placeholder={t.questionPlaceholder}
          value={draft}
          disabled={isBlocked}
          onInput={(event) => (chat.draft.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            send(draft);
          }}
        />
        <div class="row between">
          <span class="soft small grow" id="panel-ask-hint">
            {t.sendHint}
            {left < 200 && <span class={left < 0 ? "panel-over" : ""}> {t.charactersLeft(number(left))}</span>}
          </span>
          <span class="row tight">
            {turns.length > 0 && (
              <Button
                small
                kind="plain"
                onClick={() => {
                  chat.clear();
                  field.current?.focus();
                }}
              >
                {t.clear}
              </Button>
            )}
            {isAsking ? (
              <Button
                key="stop"
                icon="stop"
                onClick={() => {
                  chat.stop();
                  field.current?.focus();
                }}
              >
                {t.stop}
              </Button>
            ) : (
              <Button key="send" kind="primary" type="submit" disabled={isBlocked || !draft.trim() || left < 0}>
                {t.send}
              </Button>
            )}
          </span>
        </div>
      </form>
      <p class="soft small">
        {limit === undefined ? t.questionsFree : t.questionsADay(number(limit))} {t.mistakes}
      </p>
    </div>
  );
}

function isNear(element: Element | null): boolean {
  const box = element?.getBoundingClientRect();
  return box !== undefined && box.top < innerHeight + 200;
}

function OneTurn({ turn, onSeek, onRetry }: { turn: Turn; onSeek: (seconds: number) => void; onRetry: () => void }) {
  const t = panel();
  const answer = withSpeakers(turn.parts.join(""));
  return (
    <article class="stack tight">
      <p class="panel-asked" dir="auto">
        <span class="visually-hidden">{t.you}: </span>
        {turn.question}
      </p>
      {turn.state === "asking" && turn.parts.length === 0 && (
        <p class="soft row tight">
          <span class="panel-dots" aria-hidden="true">
            <span />
            <span />
            <span />
          </span>
          {t.thinking}
        </p>
      )}
      {turn.found === false && (
        <p class="row tight">
          <span class="badge warn">
            <Icon name="info" />
            {t.notInTranscript}
          </span>
        </p>
      )}
      {turn.parts.length > 0 && (
        <p class="panel-answer" dir="auto">
          <span class="visually-hidden">{t.answer}: </span>
          {turn.parts.map((part, at) => (
            <span key={at}>{withSpeakers(part)}</span>
          ))}
        </p>
      )}
      {turn.state === "stopped" && <p class="soft small">{t.stopped}</p>}
      {turn.state === "failed" && <WorkError error={turn.error ?? new Error(t.brokeOff)} what="language" onRetry={onRetry} />}
      {turn.sources.length > 0 && <Sources turn={turn} onSeek={onSeek} />}
      {turn.state === "stopped" && turn.parts.length === 0 && (
        <span>
          <Button small icon="retry" onClick={onRetry}>
            {t.askAgain}
          </Button>
        </span>
      )}
      {turn.state === "answered" && turn.found && (
        <span>
          <CopyButton text={() => answer} />
        </span>
      )}
    </article>
  );
}

function Sources({ turn, onSeek }: { turn: Turn; onSeek: (seconds: number) => void }) {
  const t = panel();
  const sources = [...turn.sources].sort((a, b) => a.start_time - b.start_time);
  return (
    <details class="panel-sources" open>
      <summary>{t.sources(number(sources.length))}</summary>
      <ul class="stack tight">
        {sources.map((source) => (
          <li key={source.segment_order} class="panel-source">
            <span class="row tight">
              <Time at={source.start_time} onSeek={onSeek} />
              {source.speaker && (
                <span class="small soft" dir="auto">
                  {t.speaker(source.speaker)}
                </span>
              )}
            </span>
            <span dir="auto">{source.text}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
