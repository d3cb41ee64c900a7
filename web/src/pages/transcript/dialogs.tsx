/** What the page asks in dialogs: export, sharing, speakers, keys. */

import { useEffect, useState } from "preact/hooks";
import { api, Problem, unwrap } from "../../api/client";
import { exportFile, FORMATS, type Format } from "../../api/exports";
import { common } from "../../i18n/common";
import { formatNames } from "../../i18n/formats";
import { transcriptTexts } from "../../i18n/transcript";
import { Button, IconButton, LinkButton } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { copyText, fileName, saveBlob } from "../../ui/download";
import { Check, Select, TextField } from "../../ui/field";
import { languageName, percent } from "../../ui/format";
import { labelNumber } from "../../ui/labels";
import { useLoaded } from "../../ui/loaded";
import { remembered } from "../../ui/remembered";
import { ErrorNotice, Notice, Skeleton } from "../../ui/states";
import { toast } from "../../ui/toast";
import { change, nameSpeakers } from "./calls";
import type { Editor } from "./editor";
import { namings } from "./model";
import type { Reader } from "./reader";
import { colourOf, nameOf } from "./text";

/** Whether the translation that is asked for was not made yet. */
function isMissing(error: unknown): boolean {
  return error instanceof Problem && error.status === 409;
}

const PREVIEW = 3000;
const TEXTS: Format[] = ["txt", "srt", "vtt", "json", "csv"];

/** The format that was chosen last: whoever makes subtitles makes them again. */
const lastFormat = remembered("export-format");

export function ExportDialog({ editor, onClose }: { editor: Editor; onClose: () => void }) {
  const t = transcriptTexts();
  const names = formatNames();
  const { id, title, language } = editor.detail.value;
  const [format, setFormat] = useState<Format>(() => FORMATS.find((each) => each === lastFormat.read()) ?? "txt");
  const [wanted, setWanted] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const isText = TEXTS.includes(format);
  // Edits that are not saved yet belong into the file, too.
  const file = useLoaded(`${format}/${wanted}`, async (signal) => {
    await editor.flush();
    return isText ? exportFile(id, format, wanted || null, signal) : null;
  });
  const preview = useLoaded(`${format}/${wanted}/${file.value?.size ?? ""}`, async () => (file.value ? (await file.value.slice(0, PREVIEW * 4).text()).replace(/^\ufeff/, "") : null));
  const languages = useLoaded("languages", async (signal) => {
    const answer = await unwrap(api.GET("/v1/languages", { params: { query: { for: "translation" } }, signal } as never));
    return (answer as { languages?: { code: string }[] }).languages ?? [];
  });
  const own = language.split(/[-_]/)[0] ?? language;
  const others = (languages.value ?? [])
    .filter(({ code }) => code.split(/[-_]/)[0] !== own)
    .map(({ code }) => ({ value: code, label: languageName(code) }))
    .sort((a, b) => a.label.localeCompare(b.label));
  const download = async () => {
    setBusy(true);
    setError(null);
    try {
      const blob = file.value ?? (await exportFile(id, format, wanted || null));
      saveBlob(blob, fileName(title, wanted ? `${wanted}.${format}` : format));
      onClose();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={t.exportTitle} onClose={onClose} wide>
      <div class="transcript-export">
        <div class="stack">
          <fieldset class="stack tight">
            <legend class="label">{t.format}</legend>
            {FORMATS.map((each) => (
              <label key={each} class={`transcript-format${each === format ? " is-chosen" : ""}`}>
                <input type="radio" name="format" value={each} checked={each === format} onChange={() => {
                    setFormat(each);
                    lastFormat.write(each);
                    setError(null);
                  }} />
                <span>
                  <strong>{names[each]}</strong> <span class="soft small">.{each}</span>
                  <span class="soft small transcript-format-text">{t.formatTexts[each]}</span>
                </span>
              </label>
            ))}
          </fieldset>
        </div>
        <div class="stack">
          {others.length > 0 && (
            <Select
              label={t.exportLanguage}
              hint={t.exportLanguageHint}
              value={wanted}
              options={[{ value: "", label: t.exportOriginal(language === "auto" ? t.unknownLanguage : languageName(language)) }, ...others]}
              onChange={(event) => {
                setWanted(event.currentTarget.value);
                setError(null);
              }}
            />
          )}
          <div class="stack tight">
            <h3 class="label">{t.preview}</h3>
            <div class="transcript-preview" tabIndex={0} role="region" aria-label={t.preview}>
              {!isText ? (
                <p class="soft small">{t.noPreview}</p>
              ) : isMissing(file.error) ? (
                <Notice icon="translate">{t.notTranslated(languageName(wanted))}</Notice>
              ) : file.error ? (
                <ErrorNotice error={file.error} onRetry={file.reload} />
              ) : preview.value ? (
                <pre dir="auto">{preview.value.slice(0, PREVIEW)}{preview.value.length > PREVIEW ? "…" : ""}</pre>
              ) : (
                <Skeleton lines={6} />
              )}
            </div>
          </div>
          {isMissing(error) ? <Notice icon="translate">{t.notTranslated(languageName(wanted))}</Notice> : <ErrorNotice error={error} />}
          <div class="row tight transcript-end">
            {isText && (
              <Button icon="copy" onClick={() => void file.value?.text().then(async (text) => toast((await copyText(text.replace(/^\ufeff/, ""))) ? common().copied : common().notCopied))}>
                {t.copyAll}
              </Button>
            )}
            <Button kind="primary" icon="download" busy={isBusy} onClick={() => void download()}>
              {t.download}
            </Button>
          </div>
        </div>
      </div>
    </Dialog>
  );
}

export function ShareDialog({ editor, onClose }: { editor: Editor; onClose: () => void }) {
  const t = transcriptTexts();
  const c = common();
  const { id, share_token: token } = editor.detail.value;
  const [isBusy, setBusy] = useState(false);
  /** What was ticked, until the server has it. */
  const [ticked, setTicked] = useState<boolean | null>(null);
  const [error, setError] = useState<unknown>(null);
  const send = async (body: Parameters<typeof change>[1], done?: string) => {
    setBusy(true);
    setError(null);
    try {
      await editor.flush();
      editor.meetServer(await change(id, body));
      editor.tellChanged();
      if (done) toast(done);
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
      setTicked(null);
    }
  };
  const link = token ? `${location.origin}/s/${encodeURIComponent(token)}` : "";
  return (
    <Dialog title={t.shareTitle} onClose={onClose}>
      <Check
        label={t.shareOn}
        hint={t.shareOnHint}
        checked={ticked ?? Boolean(token)}
        onChange={(event) => {
          setTicked(event.currentTarget.checked);
          void send({ shared: event.currentTarget.checked });
        }}
      />
      <div class="transcript-share" aria-live="polite">
        {token ? (
          <div class="stack">
            <TextField label={t.link} value={link} readOnly dir="ltr" onFocus={(event) => event.currentTarget.select()} />
            <div class="row tight">
              <Button kind="primary" icon="copy" onClick={() => void copyText(link).then((done) => toast(done ? c.copied : c.notCopied))}>
                {c.copy}
              </Button>
              <LinkButton icon="link" href={link} target="_blank" rel="noopener">
                {t.openLink}
              </LinkButton>
              <Button icon="retry" title={t.renewHint} busy={isBusy} onClick={() => void send({ rotate_share_token: true }, t.renewed)}>
                {t.renew}
              </Button>
            </div>
            <p class="soft small">{t.renewHint}</p>
          </div>
        ) : (
          <p class="soft">{t.off}</p>
        )}
      </div>
      <ErrorNotice error={error} />
    </Dialog>
  );
}

export function SpeakersDialog({ editor, reader, first, onClose }: { editor: Editor; reader: Reader; first: string | null; onClose: () => void }) {
  const t = transcriptTexts();
  const c = common();
  const speakers = editor.speakers.value;
  const [names, setNames] = useState<Record<string, string>>(() => Object.fromEntries(speakers.map(({ name }) => [name, labelNumber(name) === null ? name : ""])));
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const total = speakers.reduce((sum, { seconds }) => sum + seconds, 0);
  const given = (name: string) => (names[name] ?? "").trim();
  /** The speaker whose name this one is given: they become one. */
  const sameAs = (name: string) => (given(name) ? speakers.find((other) => other.name !== name && (given(other.name) || nameOf(other.name)) === given(name)) : undefined);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await editor.flush();
      const told = namings(speakers.map(({ name }) => name), names, nameOf);
      if (Object.keys(told).length > 0) {
        editor.meetServer(await nameSpeakers(editor.detail.peek().id, told));
        editor.tellChanged();
      }
      onClose();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    if (first === null) return;
    const at = speakers.findIndex(({ name }) => name === first);
    document.querySelectorAll<HTMLInputElement>(".transcript-speakers input[type=text]")[at]?.focus();
  }, []);
  return (
    <Dialog title={t.speakersTitle} onClose={onClose}>
      {speakers.length === 0 ? (
        <p class="soft">{t.noSpeakers}</p>
      ) : (
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void save();
          }}
        >
          <p class="soft small">{t.speakersText}</p>
          <ul class="transcript-speakers">
            {speakers.map(({ name, seconds }) => {
              const shown = nameOf(name);
              const other = sameAs(name);
              return (
                <li key={name} class={colourOf(name, speakers)}>
                  <span class="transcript-swatch" aria-hidden="true" />
                  <div class="grow stack tight">
                    <TextField
                      label={t.nameLabel(shown)}
                      hideLabel
                      dir="auto"
                      maxLength={200}
                      placeholder={shown}
                      value={names[name] ?? ""}
                      onInput={(event) => {
                        // Read at once: the element is gone from the event when the state is set.
                        const value = event.currentTarget.value;
                        setNames((before) => ({ ...before, [name]: value }));
                      }}
                      hint={
                        <span>
                          {t.speaksFor(percent(total ? seconds / total : 0))}
                          {other ? ` · ${t.mergeNote(nameOf(other.name))}` : ""}
                        </span>
                      }
                    />
                  </div>
                  {speakers.length > 1 && (
                    <select
                      class="input transcript-merge"
                      aria-label={`${shown}: ${t.mergeLabel}`}
                      title={t.mergeLabel}
                      value={other?.name ?? ""}
                      onChange={(event) => {
                        const chosen = event.currentTarget.value;
                        setNames((before) => ({ ...before, [name]: chosen ? before[chosen]?.trim() || nameOf(chosen) : labelNumber(name) === null ? name : "" }));
                      }}
                    >
                      <option value="">{t.mergeNobody}</option>
                      {speakers
                        .filter((each) => each.name !== name)
                        .map((each) => (
                          <option key={each.name} value={each.name} selected={each.name === other?.name}>
                            = {names[each.name]?.trim() || nameOf(each.name)}
                          </option>
                        ))}
                    </select>
                  )}
                  {reader.player.isThere.value && (
                    <IconButton
                      icon="play"
                      label={t.listen(shown)}
                      onClick={() => {
                        const turn = editor.turns.peek().filter((each) => each.speaker === name).sort((a, b) => b.length - a.length)[0];
                        if (!turn) return;
                        reader.player.seek(turn.start);
                        reader.player.play();
                      }}
                    />
                  )}
                </li>
              );
            })}
          </ul>
          <ErrorNotice error={error} />
          <div class="row tight transcript-end">
            <Button onClick={onClose}>{c.cancel}</Button>
            <Button kind="primary" type="submit" busy={isBusy}>
              {t.saveNames}
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

export function KeysDialog({ areOn, onChange, onClose }: { areOn: boolean; onChange: (areOn: boolean) => void; onClose: () => void }) {
  const t = transcriptTexts();
  const rows: [string[][], string][] = [
    [[[t.space]], t.keySpace],
    [[["←"], ["→"]], t.keyArrows],
    [[["<"], [">"]], t.keySpeed],
    [[["n"], [t.shift, "n"]], t.keyUnsure],
    [[["↑"], ["↓"]], t.keyMove],
    [[[t.enter]], t.keyEdit],
    [[[t.ctrl, t.space]], t.keyPlayTyping],
    [[[t.ctrl, "Z"], [t.ctrl, t.shift, "Z"]], t.keyUndo],
    [[[t.ctrl, "F"]], t.keyFind],
    [[["?"]], t.keyHelp],
  ];
  return (
    <Dialog title={t.keysTitle} onClose={onClose}>
      <dl class="transcript-keys">
        {rows.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((chord, n) => (
                <span key={n}>
                  {n > 0 && <span class="soft"> / </span>}
                  {chord.map((key, m) => (
                    <span key={key}>
                      {m > 0 && " + "}
                      <kbd>{key}</kbd>
                    </span>
                  ))}
                </span>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <Check label={t.keysOn} hint={t.keysOnHint} checked={areOn} onChange={(event) => onChange(event.currentTarget.checked)} />
    </Dialog>
  );
}

