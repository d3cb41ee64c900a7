/** The start page: recordings in, text out. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Title, type PageProps } from "../../app";
import { api, failed, throwProblem, unwrap } from "../../api/client";
import { startTexts } from "../../i18n/start";
import { common } from "../../i18n/common";
import { session } from "../../session";
import { Button, LinkButton } from "../../ui/button";
import { Check, Select, TextField } from "../../ui/field";
import { clock, dateTime, languageName, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { useRecorder } from "../../ui/microphone";
import { Notice } from "../../ui/states";
import { toastError } from "../../ui/toast";
import { ItemCard } from "./item";
import { add, items, type Options } from "./uploads";
import "./start.css";

export default function Start(_: PageProps) {
  const t = startTexts();
  const [options, setOptions] = useState<Options>({ language: "auto", model: "", diarize: true, identify: false, translate: false, hotwords: "" });
  const send = (files: Iterable<File>) => add(files, options);
  return (
    <div class="page start">
      <Title words={t.title} />
      <div class="start-head">
        <h1>{t.heading}</h1>
        <p class="soft">{t.lead}</p>
      </div>
      <div class="start-in">
        <Drop onFiles={send} />
        <OptionFields options={options} onChange={setOptions} />
      </div>
      <Left />
      {items.value.length > 0 && (
        <section class="stack" aria-labelledby="start-queue">
          <h2 id="start-queue">{t.queue}</h2>
          <ul class="stack">
            {items.value.map((item) => (
              <li key={item.key}>
                <ItemCard item={item} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

/** Where recordings come in: dropped, chosen, pasted or spoken. */
function Drop({ onFiles }: { onFiles: (files: Iterable<File>) => void }) {
  const t = startTexts();
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const latest = useRef(onFiles);
  latest.current = onFiles;
  const recorder = useRecorder({ bitsPerSecond: 96_000 }, ({ sound, ending }) => {
    onFiles([new File([sound], `${t.recordingName(dateTime(new Date()))}.${ending}`.replaceAll(/[/\\:]/g, "."), { type: sound.type })]);
  });

  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      latest.current(files);
    };
    // Anywhere on the page: somebody who misses the field would otherwise open the file in the browser.
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (!event.relatedTarget) setOver(false);
    };
    const drop = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(false);
      latest.current(event.dataTransfer.files);
    };
    document.addEventListener("paste", paste);
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("paste", paste);
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop);
    };
  }, []);

  if (recorder.state === "recording") {
    return (
      <div class="start-drop recording">
        <span class="start-level" style={{ transform: `scale(${1 + recorder.level})` }} aria-hidden="true" />
        <p class="numeric start-time" role="timer">
          {t.recording(clock(recorder.seconds))}
        </p>
        <div class="row">
          <Button kind="primary" icon="stop" onClick={recorder.stop}>
            {t.stopRecording}
          </Button>
          <Button kind="plain" onClick={recorder.discard}>
            {t.discard}
          </Button>
        </div>
      </div>
    );
  }
  return (
    <div class={`start-drop${isOver ? " over" : ""}`}>
      <Icon name="upload" class="start-glyph" />
      <p class="start-words">{isOver ? t.dropActive : t.drop}</p>
      <div class="row">
        <Button kind="primary" onClick={() => input.current?.click()}>
          {t.choose}
        </Button>
        <Button icon="mic" busy={recorder.state === "asking"} onClick={recorder.start}>
          {t.record}
        </Button>
      </div>
      <input
        ref={input}
        type="file"
        multiple
        accept="audio/*,video/*,.mkv,.opus,.amr,.wma,.caf,.m4b"
        class="visually-hidden"
        tabIndex={-1}
        aria-label={t.choose}
        onChange={(event) => {
          onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
      <p class="soft small">{t.paste}</p>
      <Sample onFile={(file) => onFiles([file])} />
      {recorder.fault && (
        <Notice kind="bad" icon="warning">
          {t.noMicrophone}
        </Notice>
      )}
    </div>
  );
}

/** A recording to try, where the server has one. */
function Sample({ onFile }: { onFile: (file: File) => void }) {
  const t = startTexts();
  const [busy, setBusy] = useState(false);
  const there = useLoaded("sample", async (signal) => (await fetch("/v1/sample", { method: "HEAD", signal })).ok);
  const use = async () => {
    setBusy(true);
    try {
      const response = await fetch("/v1/sample");
      if (!response.ok) await throwProblem(response);
      onFile(new File([await response.blob()], "sample.wav", { type: "audio/wav" }));
    } catch (error) {
      toastError(failed(error));
    } finally {
      setBusy(false);
    }
  };
  // Its place is kept while nobody knows: nothing moves when it appears.
  return (
    <div class="start-sample">
      {there.value && (
        <Button small kind="plain" icon="play" busy={busy} onClick={() => void use()}>
          {t.sample}
        </Button>
      )}
    </div>
  );
}

function OptionFields({ options, onChange }: { options: Options; onChange: (options: Options) => void }) {
  const t = startTexts();
  const models = useLoaded("models", (signal) => unwrap(api.GET("/v1/models", { signal })));
  const languages = useLoaded("languages", (signal) => unwrap(api.GET("/v1/languages", { signal })));
  const set = (values: Partial<Options>) => onChange({ ...options, ...values });
  const named = (languages.value?.languages ?? []).map(({ code }) => ({ value: code, label: languageName(code) })).sort((a, b) => a.label.localeCompare(b.label));
  const installed = (models.value?.models ?? []).filter((model) => model.installed).map((model) => ({ value: model.id, label: model.name }));
  return (
    <section class="start-options stack" aria-label={t.options}>
      <Select
        label={t.language}
        value={options.language}
        options={[{ value: "auto", label: t.languageAuto }, ...named]}
        onChange={(event) => set({ language: event.currentTarget.value })}
      />
      <Select label={t.model} value={options.model} options={[{ value: "", label: t.modelDefault }, ...installed]} onChange={(event) => set({ model: event.currentTarget.value })} />
      <TextField label={t.hotwords} hint={t.hotwordsHint} dir="auto" maxLength={4000} value={options.hotwords} onInput={(event) => set({ hotwords: event.currentTarget.value })} />
      <Check label={t.speakers} checked={options.diarize} onChange={(event) => set({ diarize: event.currentTarget.checked })} />
      {session.value?.signed_in && (
        <Check label={t.identify} hint={t.identifyHint} checked={options.identify} onChange={(event) => set({ identify: event.currentTarget.checked })} />
      )}
      <Check label={t.translate} checked={options.translate} onChange={(event) => set({ translate: event.currentTarget.checked })} />
    </section>
  );
}

/** What may still be transcribed; asked again when something was. */
function Left() {
  const t = startTexts();
  const c = common();
  const done = items.value.filter((item) => item.phase === "done").length;
  const who = session.value?.account?.id ?? "nobody";
  const credits = useLoaded(`credits ${who} ${done}`, (signal) => unwrap(api.GET("/v1/credits", { signal })));
  const left = credits.value;
  return (
    <div class="start-left row" aria-live="polite">
      {left && "remaining_today" in left && session.value && !session.value.signed_in ? (
        <>
          <span>
            {left.remaining_today > 0 ? t.left(left.remaining_today) : t.noneLeft} <span class="soft">{t.accountHelps}</span>
          </span>
          <LinkButton small href="/sign-in">
            {c.signIn}
          </LinkButton>
          {session.value.sign_up && (
            <LinkButton small href="/sign-up">
              {c.signUp}
            </LinkButton>
          )}
        </>
      ) : left && "credits" in left ? (
        <span class="soft">{left.credits > 0 ? t.creditsLeft(number(left.credits)) : t.noCredits}</span>
      ) : (
        <span>&nbsp;</span>
      )}
    </div>
  );
}
