/** Analyses of a transcript, each in the form that fits it. */

import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { locale } from "../../../i18n";
import { panel } from "../../../i18n/panel";
import { Button } from "../../../ui/button";
import { fileName, saveBlob } from "../../../ui/download";
import { clock, number, percent } from "../../../ui/format";
import { Icon } from "../../../ui/icon";
import { make } from "./calls";
import { analysisText, blackened, counts, groups, listText, onScale } from "./findings";
import { Actions, CopyButton, Picker, Time, withSpeakers } from "./pieces";
import { Places } from "./place";
import type { Desk } from "./store";
import {
  FINDINGS,
  type ActionItems,
  type Analysis,
  type Chapter,
  type Entities,
  type Finding,
  type Generation,
  type Questions,
  type Quote,
  type Redaction,
  type Sentiment,
  type Topics,
  type TranscriptDetail,
} from "./types";
import { Work } from "./work";

interface Seeing {
  places: Places;
  onSeek: (seconds: number) => void;
}

function isList(finding: Finding): finding is "chapter_markers" | "key_quotes" {
  return finding === "chapter_markers" || finding === "key_quotes";
}

export function AnalysisTab({
  id,
  transcript,
  desk,
  of,
  isBlocked,
  onSeek,
}: {
  id: number;
  transcript: TranscriptDetail;
  desk: Desk;
  of: string;
  isBlocked: boolean;
  onSeek: (seconds: number) => void;
}) {
  const t = panel();
  const finding = desk.finding.value;
  const places = useMemo(() => new Places(transcript.segments), [of]);
  const seeing = { places, onSeek };
  const slotOf = (one: Finding) => (isList(one) ? desk.generation(one) : desk.analysis(one));
  const frame = {
    of,
    title: t.findings[finding],
    hint: t.findingHints[finding],
    action: t.find,
    again: t.makeAgain,
    isBlocked,
  };
  return (
    <div class="stack">
      <Picker
        label={t.findingKind}
        options={FINDINGS.map((one) => ({ id: one, label: t.findings[one], isMade: slotOf(one).state.value.value !== null }))}
        value={finding}
        onChange={(chosen) => (desk.finding.value = chosen)}
      />
      {isList(finding) ? (
        <Work
          key={finding}
          {...frame}
          slot={desk.generation(finding)}
          onStart={(force) =>
            void desk
              .generation(finding)
              .start(of, (signal, report) => make<Generation>(id, "generate", { type: finding, force }, signal, report))
              .then((made) => made && desk.versions(finding).add(made))
          }
        >
          {(made) => (
            <>
              {finding === "chapter_markers" ? <Chapters made={made} {...seeing} /> : <Quotes made={made} {...seeing} />}
              <Actions>
                <CopyButton text={() => withSpeakers(listText(made))} />
              </Actions>
            </>
          )}
        </Work>
      ) : (
        <Work
          key={finding}
          {...frame}
          slot={desk.analysis(finding)}
          onStart={(force) => void desk.analysis(finding).start(of, (signal, report) => make<Analysis>(id, "analyze", { type: finding, force }, signal, report))}
        >
          {(made) => <Found finding={finding} made={made} title={transcript.title} {...seeing} />}
        </Work>
      )}
    </div>
  );
}

function Found({ finding, made, title, ...seeing }: { finding: Finding; made: Analysis; title: string } & Seeing) {
  const t = panel();
  const text = () => analysisText(made, { ...t, entityTypes: t.entityTypes });
  return (
    <>
      <View finding={finding} result={made.result} {...seeing} />
      <Actions>
        <CopyButton text={text} />
        {finding === "pii_redact" && (
          <Button small icon="download" onClick={() => saveBlob(new Blob([text()], { type: "text/plain;charset=utf-8" }), fileName(title, "txt"))}>
            {t.download}
          </Button>
        )}
      </Actions>
    </>
  );
}

function View({ finding, result, ...seeing }: { finding: Finding; result: Analysis["result"] } & Seeing) {
  switch (finding) {
    case "topics":
      return <TopicList found={result as Topics} />;
    case "entities":
      return <EntityGroups found={result as Entities} {...seeing} />;
    case "action_items":
      return <Tasks found={result as ActionItems} />;
    case "questions":
      return <QuestionList found={result as Questions} {...seeing} />;
    case "sentiment":
      return <Moods found={result as Sentiment} />;
    default:
      return <Redacted found={result as Redaction} />;
  }
}

function Nothing() {
  return <p class="soft">{panel().nothingFound}</p>;
}

function Chapters({ made, onSeek }: { made: Generation } & Seeing) {
  const chapters = (made.result.items ?? []) as Chapter[];
  if (chapters.length === 0) return <Nothing />;
  return (
    <ol class="panel-chapters">
      {chapters.map((chapter, at) => (
        <li key={at}>
          {chapter.start == null ? (
            <span dir="auto">{chapter.title}</span>
          ) : (
            <ChapterButton chapter={chapter} start={chapter.start} onSeek={onSeek} />
          )}
        </li>
      ))}
    </ol>
  );
}

function ChapterButton({ chapter, start, onSeek }: { chapter: Chapter; start: number; onSeek: (seconds: number) => void }) {
  return (
    <button type="button" class="panel-chapter" onClick={() => onSeek(start)}>
      <span class="numeric panel-clock">{clock(start)}</span>
      <span dir="auto" class="grow">
        {chapter.title}
      </span>
      <Icon name="play" />
    </button>
  );
}

function Quotes({ made, places, onSeek }: { made: Generation } & Seeing) {
  const t = panel();
  const quotes = (made.result.items ?? []) as Quote[];
  if (quotes.length === 0) return <Nothing />;
  return (
    <ul class="stack">
      {quotes.map((quote, at) => {
        const start = quote.start ?? places.of(quote.quote);
        return (
          <li key={at}>
            <figure class="panel-quote">
              <blockquote dir="auto">{quote.quote}</blockquote>
              <figcaption class="row tight">
                {start !== null && <Time at={start} onSeek={onSeek} />}
                {quote.speaker && (
                  <span class="soft" dir="auto">
                    {t.speaker(quote.speaker)}
                  </span>
                )}
                <CopyButton text={() => quote.quote} />
              </figcaption>
            </figure>
          </li>
        );
      })}
    </ul>
  );
}

function Scale({ share, label, text }: { share: number; label: string; text: string }) {
  return (
    <div class="panel-bar" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)} aria-valuetext={text}>
      <div style={{ width: `${Math.round(share * 100)}%` }} />
    </div>
  );
}

function TopicList({ found }: { found: Topics }) {
  const t = panel();
  if (found.topics.length === 0) return <Nothing />;
  return (
    <ol class="stack">
      {found.topics.map((topic, at) => {
        const text = topic.relevance >= 0.995 ? t.main : t.relevance(percent(topic.relevance));
        return (
          <li key={at} class="stack tight">
            <span class="row between">
              <span dir="auto" class="grow">
                {topic.name}
              </span>
              <span class="soft small numeric">{text}</span>
            </span>
            <Scale share={topic.relevance} label={topic.name} text={text} />
          </li>
        );
      })}
    </ol>
  );
}

function EntityGroups({ found, places, onSeek }: { found: Entities } & Seeing) {
  const t = panel();
  const all = groups(found);
  if (all.length === 0) return <Nothing />;
  return (
    <div class="stack">
      {all.map((group) => (
        <section key={group.type} class="stack tight">
          <h3 class="panel-kind">{t.entityTypes[group.type]}</h3>
          <ul class="row tight">
            {group.entities.map((entity) => {
              const at = places.of(entity.text);
              const words: ComponentChildren = (
                <>
                  <span dir="auto">{entity.text}</span>
                  {entity.count > 1 && (
                    <span class="panel-count numeric">
                      <span aria-hidden="true">{number(entity.count)}</span>
                      <span class="visually-hidden">{t.times(number(entity.count))}</span>
                    </span>
                  )}
                </>
              );
              return (
                <li key={entity.text}>
                  {at === null ? (
                    <span class="panel-entity">{words}</span>
                  ) : (
                    <button type="button" class="panel-entity" onClick={() => onSeek(at)}>
                      {words}
                    </button>
                  )}
                </li>
              );
            })}
          </ul>
        </section>
      ))}
    </div>
  );
}

function Tasks({ found }: { found: ActionItems }) {
  const t = panel();
  if (found.action_items.length === 0) return <Nothing />;
  return (
    <ul class="panel-rows">
      {found.action_items.map((item, at) => (
        <li key={at} class="stack tight">
          <span dir="auto">{item.task}</span>
          {(item.assignee || item.due) && (
            <span class="row tight">
              {item.assignee && (
                <span class="badge accent panel-badge" dir="auto">
                  {t.assignee(t.speaker(item.assignee))}
                </span>
              )}
              {item.due && (
                <span class="badge panel-badge" dir="auto">
                  {t.due(item.due)}
                </span>
              )}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function QuestionList({ found, places, onSeek }: { found: Questions } & Seeing) {
  const t = panel();
  if (found.questions.length === 0) return <Nothing />;
  return (
    <ul class="panel-rows">
      {found.questions.map((question, index) => {
        const at = places.of(question.question);
        return (
          <li key={index} class="stack tight">
            <strong dir="auto">{question.question}</strong>
            {question.answer && <p dir="auto">{question.answer}</p>}
            <span class="row tight">
              {at !== null && <Time at={at} onSeek={onSeek} />}
              <span class={`badge ${question.answered ? "good" : ""}`}>
                {question.answered && <Icon name="check" />}
                {question.answered ? t.answered : t.notAnswered}
              </span>
              {question.asked_by && (
                <span class="soft small" dir="auto">
                  {t.askedBy(t.speaker(question.asked_by))}
                </span>
              )}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function Mood({ who, label, score }: { who: string; label: Sentiment["label"]; score: number }) {
  const t = panel();
  const value = t.moodValue(t.moods[label], new Intl.NumberFormat(locale.value, { maximumFractionDigits: 2, signDisplay: "exceptZero" }).format(score));
  return (
    <div class="stack tight">
      <span class="row between">
        <strong dir="auto" class="grow">
          {who}
        </strong>
        <span class="numeric">{value}</span>
      </span>
      <div class="panel-scale" role="meter" aria-label={`${who}, ${t.moodScale}`} aria-valuemin={-1} aria-valuemax={1} aria-valuenow={score} aria-valuetext={value}>
        <span style={{ insetInlineStart: `${onScale(score)}%` }} />
      </div>
    </div>
  );
}

function Moods({ found }: { found: Sentiment }) {
  const t = panel();
  return (
    <div class="stack">
      <Mood who={t.overall} label={found.label} score={found.score} />
      <div class="row between soft small" aria-hidden="true">
        <span>−1 {t.negative}</span>
        <span>0</span>
        <span>{t.positive} 1</span>
      </div>
      {(found.by_speaker ?? []).length > 0 && (
        <section class="stack">
          <h3 class="panel-kind">{t.bySpeaker}</h3>
          {(found.by_speaker ?? []).map((one) => (
            <Mood key={one.speaker} who={t.speaker(one.speaker)} label={one.label} score={one.score} />
          ))}
        </section>
      )}
    </div>
  );
}

function Redacted({ found }: { found: Redaction }) {
  const t = panel();
  const kinds: Record<string, string> = t.piiTypes;
  const pieces = useMemo(() => blackened(found.redacted_text), [found]);
  return (
    <div class="stack">
      <p>{found.entities.length ? t.redactedCount(number(found.entities.length)) : t.redactedNone}</p>
      {found.entities.length > 0 && (
        <ul class="row tight">
          {counts(found).map(({ type, count }) => (
            <li key={type} class="badge panel-badge">
              {kinds[type] ?? type}: {number(count)}
            </li>
          ))}
        </ul>
      )}
      <p class="soft small">{t.redactedCheck}</p>
      <div class="panel-redacted" dir="auto" role="region" aria-label={t.redacted} tabIndex={0}>
        {pieces.map((piece, at) => (piece.isMark ? <mark key={at}>{piece.text}</mark> : piece.text))}
      </div>
    </div>
  );
}
