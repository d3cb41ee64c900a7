/** The bars above the text: tools, and search and replace. */

import { useEffect, useRef } from "preact/hooks";
import { common } from "../../i18n/common";
import { transcriptTexts } from "../../i18n/transcript";
import { IconButton, Button } from "../../ui/button";
import { number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { toast } from "../../ui/toast";
import { clock } from "../../ui/format";
import type { Editor } from "./editor";
import type { Reader } from "./reader";
import { SavingState } from "./text";

export function Tools({ editor, reader, onKeys }: { editor: Editor; reader: Reader; onKeys: () => void }) {
  const t = transcriptTexts();
  return (
    <div class="transcript-tools" role="group" aria-label={t.tools}>
      <button
        type="button"
        class="button small"
        aria-pressed={reader.isEditMode.value}
        title={t.editTextHint}
        onClick={() => {
          reader.isEditMode.value = !reader.isEditMode.value;
          if (!reader.isEditMode.value) reader.endEditing(false);
        }}
      >
        <Icon name="edit" />
        <span class="transcript-label">{t.editText}</span>
      </button>
      <IconButton small icon="undo" label={t.undo} disabled={!editor.canUndo.value} onClick={() => reader.undo()} />
      <IconButton small icon="redo" label={t.redo} disabled={!editor.canRedo.value} onClick={() => reader.redo()} />
      <IconButton small icon="search" label={t.find} aria-expanded={reader.isFinding.value} onClick={() => (reader.isFinding.value ? reader.closeFind() : reader.openFind())} />
      <button type="button" class="button plain small icon" aria-label={t.unsure} title={t.unsure} aria-pressed={reader.marksUnsure.value} onClick={() => reader.setMarksUnsure(!reader.marksUnsure.value)}>
        <span class="transcript-sign" aria-hidden="true">
          ab
        </span>
      </button>
      <button type="button" class="button plain small icon" aria-label={t.keysTitle} title={t.keysTitle} onClick={onKeys}>
        <span aria-hidden="true">?</span>
      </button>
      <SavingState editor={editor} />
    </div>
  );
}

export function FindBar({ reader }: { reader: Reader }) {
  const t = transcriptTexts();
  const input = useRef<HTMLInputElement>(null);
  const matches = reader.matches.value;
  const at = Math.min(reader.at.value, Math.max(0, matches.length - 1));
  useEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      reader.closeFind();
    } else if (event.key === "Enter" && event.target === input.current && !event.isComposing) {
      event.preventDefault();
      reader.stepMatch(event.shiftKey ? -1 : 1);
    }
  };
  return (
    <div class="transcript-find" role="search" aria-label={t.find} onKeyDown={onKeyDown}>
      <div class="transcript-find-line">
        <div class="transcript-find-field">
          <input ref={input} class="input" type="text" dir="auto" aria-label={t.findLabel} placeholder={t.findLabel} value={reader.wanted.value} onInput={(event) => reader.find(event.currentTarget.value)} />
          <span class="transcript-find-count small soft numeric" role="status">
            {reader.wanted.value ? (matches.length ? t.matchesOf(number(at + 1), number(matches.length)) : t.noMatches) : ""}
          </span>
        </div>
        <IconButton small icon="up" label={t.previous} disabled={matches.length === 0} onClick={() => reader.stepMatch(-1)} />
        <IconButton small icon="chevron" label={t.next} disabled={matches.length === 0} onClick={() => reader.stepMatch(1)} />
        <IconButton small icon="close" label={common().close} onClick={() => reader.closeFind()} />
      </div>
      <div class="transcript-find-line">
        <input class="input" type="text" dir="auto" aria-label={t.replaceLabel} placeholder={t.replaceLabel} value={reader.replacement.value} onInput={(event) => (reader.replacement.value = event.currentTarget.value)} />
        <Button small disabled={matches.length === 0} onClick={() => reader.replaceOne()}>
          {t.replaceOne}
        </Button>
        <Button
          small
          disabled={matches.length === 0}
          onClick={() => {
            const count = reader.replaceAll();
            toast(count === 1 ? t.replacedOne : t.replaced(number(count)), { label: t.undo, run: () => reader.undo() });
          }}
        >
          {t.replaceAll}
        </Button>
      </div>
      <label class="check small">
        <input type="checkbox" checked={reader.matchCase.value} onChange={(event) => (reader.matchCase.value = event.currentTarget.checked)} />
        <span>{t.matchCase}</span>
      </label>
    </div>
  );
}

/** Segments that were changed here and in another place: both texts, and the question which is right. */
export function Conflicts({ editor }: { editor: Editor }) {
  const t = transcriptTexts();
  const conflict = editor.conflicts.value[0];
  if (!conflict) return null;
  const time = clock(editor.segments[conflict.index]?.start ?? 0);
  return (
    <section class="transcript-conflict" role="alert" aria-label={t.conflictTitle} key={conflict.index}>
      <h2>{t.conflictTitle}</h2>
      <p class="small">{t.conflictText(time)}</p>
      <div class="transcript-versions">
        {(
          [
            [t.mine, conflict.mine, t.takeMine],
            [t.theirs, conflict.theirs, t.takeTheirs],
          ] as const
        ).map(([label, text, action]) => (
          <div key={label}>
            <h3 class="small">{label}</h3>
            <p class="transcript-version" dir="auto" tabIndex={0}>
              {text || "…"}
            </p>
            <Button small onClick={() => editor.decide(conflict.index, text)}>
              {action}
            </Button>
          </div>
        ))}
      </div>
    </section>
  );
}
