/** Translations of a transcript, beside what was said. */

import { api, unwrap } from "../../../api/client";
import { exportPath, FORMATS } from "../../../api/exports";
import { formatNames } from "../../../i18n/formats";
import { panel } from "../../../i18n/panel";
import { language as interfaceLanguage } from "../../../i18n";
import { Select } from "../../../ui/field";
import { languageName } from "../../../ui/format";
import { Icon } from "../../../ui/icon";
import { useLoaded } from "../../../ui/loaded";
import { Menu, MenuItem } from "../../../ui/menu";
import { Skeleton } from "../../../ui/states";
import { translate } from "./calls";
import { targets } from "./languages";
import { Actions, CopyButton, Time } from "./pieces";
import type { Desk } from "./store";
import type { TranscriptDetail, Translation } from "./types";
import { Work, WorkError } from "./work";

export function TranslationTab({
  id,
  transcript,
  desk,
  of,
  onSeek,
}: {
  id: number;
  transcript: TranscriptDetail;
  desk: Desk;
  of: string;
  onSeek: (seconds: number) => void;
}) {
  const t = panel();
  const list = useLoaded("languages", (signal) => unwrap(api.GET("/v1/languages", { params: { query: { for: "translation" } }, signal })));
  if (list.error) return <WorkError error={list.error} what="translation" onRetry={list.reload} />;
  if (!list.value) return <Skeleton lines={4} height="2.75rem" />;
  const choices = targets(list.value, transcript.language)
    .map((one) => ({ value: one.code, label: nameOf(one) }))
    .sort((a, b) => a.label.localeCompare(b.label, interfaceLanguage.value));
  if (choices.length === 0) return <p class="soft">{t.noLanguages}</p>;
  const chosen = choices.some((one) => one.value === desk.language.value) ? desk.language.value : "";
  return (
    <div class="stack">
      <Select
        label={t.language}
        value={chosen}
        options={[{ value: "", label: t.chooseLanguage }, ...choices]}
        onChange={(event) => (desk.language.value = event.currentTarget.value)}
      />
      {chosen && (
        <Work
          key={chosen}
          slot={desk.translation(chosen)}
          of={of}
          what="translation"
          title={t.translationOf(languageName(chosen))}
          hint={t.translateHint}
          action={t.translate}
          again={t.translateAgain}
          onStart={(force) => void desk.translation(chosen).start(of, (signal) => translate(id, chosen, force, signal))}
        >
          {(made) => <Sides id={id} transcript={transcript} made={made} onSeek={onSeek} />}
        </Work>
      )}
    </div>
  );
}

/** The name in the reader's language; the one that the server knows where the browser knows none. */
function nameOf(language: { code: string; name: string; native_name: string }): string {
  const own = languageName(language.code);
  return own === language.code ? language.name : own;
}

function Sides({ id, transcript, made, onSeek }: { id: number; transcript: TranscriptDetail; made: Translation; onSeek: (seconds: number) => void }) {
  const t = panel();
  const names = formatNames();
  const name = languageName(made.language);
  return (
    <>
      <Actions>
        <CopyButton text={() => made.text} />
        <Menu
          start
          label={t.export}
          trigger={(attributes) => (
            <button type="button" class="button small" {...attributes}>
              <Icon name="download" />
              {t.export}
            </button>
          )}
        >
          {FORMATS.map((format) => (
            <MenuItem key={format} href={exportPath(id, format, made.language)} download>
              {names[format]}
            </MenuItem>
          ))}
        </Menu>
      </Actions>
      <div class="panel-sides">
        <div class="panel-sides-head soft small" aria-hidden="true">
          <span>{t.original}</span>
          <span>{name}</span>
        </div>
        <ol aria-label={t.translationOf(name)}>
          {made.segments.map((segment, at) => {
            const speaker = segment.speaker && segment.speaker !== made.segments[at - 1]?.speaker ? segment.speaker : null;
            return (
              <li key={at} class="panel-side">
                <div class="row tight">
                  <Time at={segment.start} onSeek={onSeek} />
                  {speaker && (
                    <strong class="small" dir="auto">
                      {t.speaker(speaker)}
                    </strong>
                  )}
                </div>
                <p dir="auto" lang={made.source_language} class="soft">
                  {transcript.segments[at]?.text ?? ""}
                </p>
                <p dir="auto" lang={made.language}>
                  {segment.text || <span class="soft">{t.sameSentence}</span>}
                </p>
              </li>
            );
          })}
        </ol>
      </div>
    </>
  );
}
