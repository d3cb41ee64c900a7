/** Summaries of a transcript, one for each style. */

import { panel } from "../../../i18n/panel";
import { number } from "../../../ui/format";
import { make } from "./calls";
import { Markdown } from "./markdown-view";
import { Actions, CopyButton, Picker, withSpeakers } from "./pieces";
import type { Desk } from "./store";
import { STYLES, type Style, type Summary, type TranscriptDetail } from "./types";
import { Work } from "./work";

export function SummaryTab({ id, transcript, desk, of, isBlocked }: { id: number; transcript: TranscriptDetail; desk: Desk; of: string; isBlocked: boolean }) {
  const t = panel();
  const stored = transcript.summary == null ? null : withSpeakers(transcript.summary);
  // The API does not tell of which kind the stored one is: it is shown by itself until a kind is chosen.
  const style = desk.style.value ?? (stored === null ? "brief" : null);
  const start = (chosen: Style, force: boolean) =>
    void desk.summary(chosen).start(of, (signal, report) => make<Summary>(id, "summarize", { style: chosen, force }, signal, report));
  return (
    <div class="stack">
      <Picker
        label={t.summaryStyle}
        options={STYLES.map((one) => ({ id: one, label: t.styles[one], isMade: desk.summary(one).state.value.value !== null }))}
        value={style}
        onChange={(chosen) => (desk.style.value = chosen)}
      />
      {style === null ? (
        <div class="stack" role="group" aria-label={t.storedSummary}>
          <p class="soft small">
            {t.storedSummary}. {t.otherSummary}
          </p>
          <Markdown text={stored ?? ""} />
          <Actions>
            <CopyButton text={() => stored ?? ""} />
          </Actions>
        </div>
      ) : (
        <Work
          key={style}
          slot={desk.summary(style)}
          of={of}
          title={t.styles[style]}
          hint={t.styleHints[style]}
          action={t.summarize}
          again={t.makeAgain}
          isBlocked={isBlocked}
          onStart={(force) => start(style, force)}
        >
          {(summary) => (
            <>
              <Markdown text={withSpeakers(summary.summary)} />
              <Actions>
                <CopyButton text={() => withSpeakers(summary.summary)} />
                <span class="soft small numeric">{t.words(number(summary.word_count))}</span>
              </Actions>
            </>
          )}
        </Work>
      )}
    </div>
  );
}
