/** Who says a passage: a menu under the name of its speaker, and a dialog for a part of it. */

import { useState } from "preact/hooks";
import { common } from "../../i18n/common";
import { transcriptTexts } from "../../i18n/transcript";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Select, TextField } from "../../ui/field";
import { clock } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { Menu, MenuItem } from "../../ui/menu";
import { speakerName } from "../../ui/speakers";
import { ErrorNotice } from "../../ui/states";
import { toast, toastError } from "../../ui/toast";
import type { Editor } from "./editor";
import type { Reader } from "./reader";

/** The value of the choice that is nobody who speaks already. */
const NEW = "\n";

/** A name for somebody who has none yet: the next number that no shown name has. */
function newName(speakers: readonly { name: string }[]): string {
  const { speaker } = common();
  const taken = new Set(speakers.map(({ name }) => speakerName(name)));
  let number = speakers.length + 1;
  while (taken.has(speaker(number))) number += 1;
  return speaker(number);
}

/** Puts the focus on the name over a segment: what was chosen from may be gone. */
function focusOver(index: number): void {
  setTimeout(() => {
    const names = [...document.querySelectorAll<HTMLElement>(".transcript-name")];
    names.findLast((name) => Number(name.dataset["first"]) <= index)?.focus({ preventScroll: true });
    // After a dialog that closes has given the focus back, and after the text is drawn.
  }, 100);
}

/** What one speaker says until another does. */
export interface Passage {
  /** Its first segment. */
  first: number;
  /** The segment after its last one. */
  end: number;
  speaker: string | null;
}

export function SpeakerMenu({
  editor,
  reader,
  passage,
  name,
  onRename,
  onPart,
}: {
  editor: Editor;
  reader: Reader;
  passage: Passage;
  /** The speaker as shown. */
  name: string;
  onRename: (speaker: string) => void;
  /** Only some of its segments are meant. */
  onPart: (passage: Passage) => void;
}) {
  const t = transcriptTexts();
  const { first, end, speaker } = passage;
  const speakers = editor.speakers.value;
  const give = (to: string) => {
    const indexes = Array.from({ length: end - first }, (_, at) => first + at);
    void giveTo(editor, reader, indexes, to).catch(toastError);
  };
  return (
    <Menu
      label={t.speakerMenu(name)}
      start
      trigger={(attributes) => (
        <button type="button" class="transcript-name" data-first={first} aria-label={t.speakerMenu(name)} title={t.speakerMenu(name)} {...attributes}>
          <span dir="auto">{name}</span>
        </button>
      )}
    >
      {speaker !== null && (
        <MenuItem onClick={() => onRename(speaker)}>
          <Icon name="edit" />
          {t.rename}
        </MenuItem>
      )}
      <div role="group" aria-label={t.saidBy} class="transcript-menu-group">
        <p class="small soft" aria-hidden="true">
          {t.saidBy}
        </p>
        {speakers.map((each) => (
          <MenuItem key={each.name} checked={each.name === speaker} onClick={() => each.name !== speaker && give(each.name)}>
            <span dir="auto">{speakerName(each.name)}</span>
          </MenuItem>
        ))}
      </div>
      <MenuItem onClick={() => give(newName(speakers))}>
        <Icon name="plus" />
        {t.newSpeaker}
      </MenuItem>
      {end - first > 1 && (
        <MenuItem onClick={() => onPart(passage)}>
          <Icon name="account" />
          {t.onlyPart}
        </MenuItem>
      )}
    </Menu>
  );
}

async function giveTo(editor: Editor, reader: Reader, indexes: number[], to: string): Promise<void> {
  const t = transcriptTexts();
  await editor.give(indexes, to);
  toast(t.given(speakerName(to)), { label: t.undo, run: () => reader.undo() });
  focusOver(indexes[0] ?? 0);
}

/** Some segments of a passage, and who says them. */
export function PartDialog({ editor, reader, passage, onClose }: { editor: Editor; reader: Reader; passage: Passage; onClose: () => void }) {
  const t = transcriptTexts();
  const c = common();
  const speakers = editor.speakers.value;
  const { first, end } = passage;
  const others = speakers.filter((each) => each.name !== passage.speaker);
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [to, setTo] = useState(others[0]?.name ?? NEW);
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const save = async () => {
    if (chosen.size === 0) return;
    setBusy(true);
    setError(null);
    try {
      await giveTo(editor, reader, [...chosen].sort((a, b) => a - b), to === NEW ? typed.trim() || newName(speakers) : to);
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <Dialog title={t.partTitle} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <fieldset class="transcript-part">
          <legend class="soft small">{t.partText}</legend>
          {editor.segments.slice(first, end).map((segment) => (
            <label key={segment.index} class="check">
              <input
                type="checkbox"
                checked={chosen.has(segment.index)}
                onChange={(event) => {
                  const next = new Set(chosen);
                  if (event.currentTarget.checked) next.add(segment.index);
                  else next.delete(segment.index);
                  setChosen(next);
                }}
              />
              <span>
                <span class="soft small numeric">{clock(segment.start)}</span> <span dir="auto">{segment.said.value.text}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <Select
          label={t.saidBy}
          value={to}
          options={[...others.map((each) => ({ value: each.name, label: speakerName(each.name) })), { value: NEW, label: t.newSpeaker }]}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
        {to === NEW && <TextField label={t.newName} dir="auto" maxLength={200} placeholder={newName(speakers)} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />}
        <ErrorNotice error={error} />
        <div class="row">
          <Button kind="primary" type="submit" busy={isBusy} disabled={chosen.size === 0}>
            {c.save}
          </Button>
          <Button onClick={onClose}>{c.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}
