/** Flashcards and quizzes to practise with. */

import { useState } from "preact/hooks";
import { panel } from "../../../i18n/panel";
import { Button, IconButton } from "../../../ui/button";
import { number } from "../../../ui/format";
import { Icon } from "../../../ui/icon";
import type { Flashcard, QuizQuestion } from "./types";

export function Cards({ cards }: { cards: Flashcard[] }) {
  const t = panel();
  const [at, setAt] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const card = cards[at];
  if (!card) return <p class="soft">{t.nothingFound}</p>;
  const go = (to: number) => {
    setAt((to + cards.length) % cards.length);
    setOpen(false);
  };
  return (
    <div class="stack tight">
      <div class="panel-card" aria-live="polite">
        <p class="panel-front" dir="auto">
          {card.front}
        </p>
        {isOpen ? (
          <p class="panel-back" dir="auto">
            {card.back}
          </p>
        ) : (
          <Button kind="plain" onClick={() => setOpen(true)}>
            {t.showAnswer}
          </Button>
        )}
      </div>
      <div class="row between">
        <IconButton icon="chevron" class="panel-turn-before" label={t.cardBefore} onClick={() => go(at - 1)} />
        <span class="soft small numeric">{t.card(number(at + 1), number(cards.length))}</span>
        <IconButton icon="chevron" class="panel-turn-next" label={t.nextCard} onClick={() => go(at + 1)} />
      </div>
    </div>
  );
}

export function Quiz({ questions }: { questions: QuizQuestion[] }) {
  const t = panel();
  const [chosen, setChosen] = useState<Record<number, string>>({});
  const right = questions.filter((question, at) => chosen[at] === question.answer).length;
  const isDone = Object.keys(chosen).length === questions.length;
  return (
    <div class="stack loose">
      <ol class="stack loose">
        {questions.map((question, at) => (
          <li key={at}>
            <fieldset class="stack tight">
              <legend class="panel-question" dir="auto">
                {at + 1}. {question.question}
              </legend>
              {question.choices.map((choice) => {
                const isChosen = chosen[at] === choice;
                const isRight = choice === question.answer;
                const look = chosen[at] === undefined ? "" : isRight ? " right" : isChosen ? " wrong" : "";
                return (
                  <button
                    key={choice}
                    type="button"
                    class={`panel-choice${look}`}
                    aria-pressed={isChosen}
                    aria-disabled={chosen[at] !== undefined}
                    onClick={() => chosen[at] === undefined && setChosen({ ...chosen, [at]: choice })}
                  >
                    <span dir="auto" class="grow">
                      {choice}
                    </span>
                    {look === " right" && <Icon name="check" />}
                    {look === " wrong" && <Icon name="close" />}
                  </button>
                );
              })}
              <p class="small" role="status" dir="auto">
                {chosen[at] === undefined ? "" : chosen[at] === question.answer ? t.right : `${t.wrong}. ${t.rightAnswer(question.answer)}`}
              </p>
            </fieldset>
          </li>
        ))}
      </ol>
      <div class="row between">
        <span role="status">{isDone ? t.score(number(right), number(questions.length)) : ""}</span>
        {Object.keys(chosen).length > 0 && (
          <Button small icon="retry" onClick={() => setChosen({})}>
            {t.again}
          </Button>
        )}
      </div>
    </div>
  );
}

/** Cards as a table that programs for flashcards read. A cell that a spreadsheet would run as a formula begins with an apostrophe. */
export function cardTable(cards: Flashcard[]): string {
  const cell = (text: string) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  return `\ufeff${cards.map((card) => `${cell(card.front)},${cell(card.back)}`).join("\r\n")}\r\n`;
}
