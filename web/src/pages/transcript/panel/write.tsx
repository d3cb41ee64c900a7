/** Texts that are written from a transcript: each kind with its versions, to read, edit, copy and download. */

import { useState } from "preact/hooks";
import { panel } from "../../../i18n/panel";
import { Button, IconButton } from "../../../ui/button";
import { fileName, saveBlob } from "../../../ui/download";
import { TextArea } from "../../../ui/field";
import { number } from "../../../ui/format";
import { Icon } from "../../../ui/icon";
import { Menu, MenuItem } from "../../../ui/menu";
import { toast } from "../../../ui/toast";
import { make } from "./calls";
import { Cards, cardTable, Quiz } from "./cards";
import { plainText } from "./markdown";
import { Markdown } from "./markdown-view";
import { Actions, CopyButton, Picker, withSpeakers } from "./pieces";
import type { Desk } from "./store";
import { GENERATIONS, type Flashcard, type Generation, type GenerationKind, type QuizQuestion, type TranscriptDetail } from "./types";
import { Work } from "./work";

export function WriteTab({ id, transcript, desk, of, isBlocked }: { id: number; transcript: TranscriptDetail; desk: Desk; of: string; isBlocked: boolean }) {
  const t = panel();
  const kind = desk.kind.value;
  const slot = desk.generation(kind);
  const start = (force: boolean) =>
    void slot
      .start(of, (signal, report) => make<Generation>(id, "generate", { type: kind, force }, signal, report))
      .then((made) => {
        if (made && !desk.versions(kind).add(made) && force) toast(panel().sameAgain);
      });
  return (
    <div class="stack">
      <Picker
        label={t.writeKind}
        options={GENERATIONS.map((one) => ({ id: one, label: t.kinds[one], isMade: desk.generation(one).state.value.value !== null }))}
        value={kind}
        onChange={(chosen) => (desk.kind.value = chosen)}
      />
      <Work key={kind} slot={slot} of={of} title={t.kinds[kind]} hint={t.kindHints[kind]} action={t.write} again={t.writeAgain} isBlocked={isBlocked} onStart={start}>
        {(made) => <Result kind={kind} made={made} desk={desk} title={transcript.title} />}
      </Work>
    </div>
  );
}

type Look = "practise" | "read" | "edit";

function Result({ kind, made, desk, title }: { kind: GenerationKind; made: Generation; desk: Desk; title: string }) {
  const t = panel();
  const versions = desk.versions(kind);
  const all = versions.all.value;
  const shown = Math.min(versions.shown.value, Math.max(0, all.length - 1));
  const version = all[shown] ?? { made, edited: null };
  const canPractise = (kind === "flashcards" || kind === "quiz") && Boolean(version.made.result.items?.length);
  const [look, setLook] = useState<Look>(canPractise ? "practise" : "read");
  const text = version.edited ?? withSpeakers(version.made.result.content);
  const name = `${title} – ${t.kinds[kind]}`;
  const save = (content: string, type: string, ending: string) => saveBlob(new Blob([content], { type: `${type};charset=utf-8` }), fileName(name, ending));
  const looks: Look[] = canPractise ? ["practise", "read", "edit"] : ["read", "edit"];
  return (
    <div class="stack">
      <div class="row between">
        <Picker small label={t.view} options={looks.map((one) => ({ id: one, label: t[one] }))} value={look} onChange={setLook} />
        {all.length > 1 && (
          <span class="row tight">
            <IconButton small icon="chevron" class="panel-turn-before" label={t.versionBefore} disabled={shown === 0} onClick={() => (versions.shown.value = shown - 1)} />
            <span class="small numeric" role="status">
              {t.version(number(shown + 1), number(all.length))}
            </span>
            <IconButton
              small
              icon="chevron"
              class="panel-turn-next"
              label={t.versionNext}
              disabled={shown === all.length - 1}
              onClick={() => (versions.shown.value = shown + 1)}
            />
          </span>
        )}
      </div>
      {look === "practise" && kind === "flashcards" && <Cards key={shown} cards={version.made.result.items as Flashcard[]} />}
      {look === "practise" && kind === "quiz" && <Quiz key={shown} questions={version.made.result.items as QuizQuestion[]} />}
      {look === "read" && <Markdown text={text} />}
      {look === "edit" && (
        <TextArea
          label={t.editLabel}
          class="input panel-editor"
          value={text}
          rows={Math.min(28, Math.max(10, text.split("\n").length + 2))}
          onInput={(event) => versions.edit(shown, event.currentTarget.value)}
          {...(version.edited === null ? {} : { hint: t.edited })}
        />
      )}
      <Actions>
        <CopyButton text={() => text} />
        <Menu
          start
          label={t.download}
          trigger={(attributes) => (
            <button type="button" class="button small" {...attributes}>
              <Icon name="download" />
              {t.download}
            </button>
          )}
        >
          <MenuItem onClick={() => save(text, "text/markdown", "md")}>{t.downloadMarkdown}</MenuItem>
          <MenuItem onClick={() => save(plainText(text), "text/plain", "txt")}>{t.downloadText}</MenuItem>
          {kind === "flashcards" && version.made.result.items && (
            <MenuItem onClick={() => save(cardTable(version.made.result.items as Flashcard[]), "text/csv", "csv")}>{t.downloadCards}</MenuItem>
          )}
        </Menu>
        {version.edited !== null && (
          <Button small kind="plain" icon="undo" onClick={() => versions.edit(shown, null)}>
            {t.discardEdits}
          </Button>
        )}
        <span class="soft small numeric">{t.words(number(text.split(/\s+/).filter(Boolean).length))}</span>
      </Actions>
    </div>
  );
}
