/** What to listen to and how, before a session. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, unwrap } from "../../api/client";
import { common } from "../../i18n/common";
import { liveTexts } from "../../i18n/live";
import { session } from "../../session";
import { Button, LinkButton } from "../../ui/button";
import { Check, Select } from "../../ui/field";
import { languageName, number } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import type { Chosen } from "./options";
import { canShare, microphones, type SourceKind } from "./source";

interface Props {
  chosen: Chosen;
  onChoose: (values: Partial<Chosen>) => void;
  file: File | null;
  onFile: (file: File | null) => void;
  isOpening: boolean;
  onStart: () => void;
}

export function Setup({ chosen, onChoose, file, onFile, isOpening, onStart }: Props) {
  const t = liveTexts();
  const kinds: { id: SourceKind; label: string; icon: IconName; isMissing?: boolean }[] = [
    { id: "microphone", label: t.microphone, icon: "mic" },
    { id: "screen", label: t.screen, icon: "screen", isMissing: !canShare() },
    { id: "file", label: t.file, icon: "file" },
  ];
  const kind = chosen.kind === "screen" && !canShare() ? "microphone" : chosen.kind;
  const isReady = kind !== "file" || file !== null;
  return (
    <form
      class="live-setup"
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) onStart();
        else event.currentTarget.querySelector<HTMLElement>(".live-choose")?.focus();
      }}
    >
      <div class="panel stack">
        <fieldset class="stack tight">
          <legend class="label live-legend">{t.source}</legend>
          <div class="live-kinds">
            {kinds.map(({ id, label, icon, isMissing }) => (
              <label key={id} class={`live-kind${kind === id ? " chosen" : ""}${isMissing ? " missing" : ""}`}>
                <input type="radio" name="live-kind" value={id} checked={kind === id} disabled={isMissing} onChange={() => onChoose({ kind: id })} />
                <Icon name={icon} />
                <span>{label}</span>
              </label>
            ))}
          </div>
          {!canShare() && <p class="soft small">{t.screenMissing}</p>}
        </fieldset>
        {kind === "microphone" && <Microphone chosen={chosen} onChoose={onChoose} />}
        {kind === "screen" && <p class="soft">{t.screenHint}</p>}
        {kind === "file" && <Recording chosen={chosen} onChoose={onChoose} file={file} onFile={onFile} />}
        <div class="live-start">
          <button type="submit" class="button primary live-begin" aria-disabled={!isReady || isOpening} aria-busy={isOpening || undefined}>
            <Icon name="live" />
            {isOpening ? t.starting : t.start}
          </button>
          <Left />
        </div>
      </div>
      <Options chosen={chosen} onChoose={onChoose} />
    </form>
  );
}

function Microphone({ chosen, onChoose }: Pick<Props, "chosen" | "onChoose">) {
  const t = liveTexts();
  const [devices, setDevices] = useState<MediaDeviceInfo[]>([]);
  useEffect(() => {
    let isGone = false;
    const look = () =>
      void microphones().then((found) => {
        if (!isGone) setDevices(found);
      });
    look();
    navigator.mediaDevices?.addEventListener?.("devicechange", look);
    return () => {
      isGone = true;
      navigator.mediaDevices?.removeEventListener?.("devicechange", look);
    };
  }, []);
  const known = devices.some((device) => device.deviceId === chosen.device);
  return (
    <>
      <Select
        label={t.device}
        value={known ? chosen.device : ""}
        options={[
          { value: "", label: t.deviceDefault },
          ...devices.map((device, index) => ({ value: device.deviceId, label: device.label || t.deviceNumber(index + 1) })),
        ]}
        onChange={(event) => onChoose({ device: event.currentTarget.value })}
      />
      <Check label={t.raw} hint={t.rawHint} checked={chosen.isRaw} onChange={(event) => onChoose({ isRaw: event.currentTarget.checked })} />
    </>
  );
}

function Recording({ chosen, onChoose, file, onFile }: Pick<Props, "chosen" | "onChoose" | "file" | "onFile">) {
  const t = liveTexts();
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <div class="row">
        <Button class="live-choose" icon="file" onClick={() => input.current?.click()}>
          {t.chooseFile}
        </Button>
        <span class={`grow live-file${file ? "" : " soft"}`} dir="auto" aria-live="polite">
          {file ? file.name : t.noFile}
        </span>
        <input
          ref={input}
          type="file"
          accept="audio/*,video/*"
          class="visually-hidden"
          tabIndex={-1}
          aria-label={t.chooseFile}
          onChange={(event) => {
            const chosenFile = event.currentTarget.files?.[0];
            if (chosenFile) onFile(chosenFile);
            event.currentTarget.value = "";
          }}
        />
      </div>
      <Check label={t.aloud} checked={chosen.isAloud} onChange={(event) => onChoose({ isAloud: event.currentTarget.checked })} />
    </>
  );
}

function Options({ chosen, onChoose }: Pick<Props, "chosen" | "onChoose">) {
  const t = liveTexts();
  const models = useLoaded("models", (signal) => unwrap(api.GET("/v1/models", { signal })));
  const languages = useLoaded("languages", (signal) => unwrap(api.GET("/v1/languages", { signal })));
  const isPaid = session.value?.account?.is_plan_active === true;
  const named = (languages.value?.languages ?? []).map(({ code }) => ({ value: code, label: languageName(code) })).sort((a, b) => a.label.localeCompare(b.label));
  const usable = (models.value?.models ?? []).filter((model) => model.installed && (isPaid || !model.paid_only)).map((model) => ({ value: model.id, label: model.name }));
  // What is remembered stays chosen while the lists load, and goes where the server does not have it.
  const kept = (value: string, options: { value: string }[], isLoaded: boolean) => (!isLoaded || options.some((option) => option.value === value) ? value : "");
  const keep = (value: string, options: { value: string; label: string }[], label: string) =>
    value && !options.some((option) => option.value === value) ? [...options, { value, label }] : options;
  const language = kept(chosen.language, named, languages.value !== null);
  const model = kept(chosen.model, usable, models.value !== null);
  return (
    <section class="panel stack live-options" aria-label={t.options}>
      <Select
        label={t.language}
        value={language}
        options={[{ value: "", label: t.languageAuto }, ...keep(language, named, languageName(language || "en"))]}
        onChange={(event) => onChoose({ language: event.currentTarget.value })}
      />
      <Select
        label={t.model}
        value={model}
        options={[{ value: "", label: t.modelDefault }, ...keep(model, usable, model)]}
        onChange={(event) => onChoose({ model: event.currentTarget.value })}
      />
      <Check label={t.speakers} checked={chosen.diarize} onChange={(event) => onChoose({ diarize: event.currentTarget.checked })} />
      <Check label={t.translate} checked={chosen.translate} onChange={(event) => onChoose({ translate: event.currentTarget.checked })} />
      <Check label={t.announce} checked={chosen.isAnnounced} onChange={(event) => onChoose({ isAnnounced: event.currentTarget.checked })} />
    </section>
  );
}

/** What a session costs and what is left. */
function Left() {
  const t = liveTexts();
  const c = common();
  const who = session.value?.account?.id ?? "nobody";
  const credits = useLoaded(`credits ${who}`, (signal) => unwrap(api.GET("/v1/credits", { signal })));
  const left = credits.value;
  if (left && "credits" in left) return <p class="soft small">{left.credits > 0 ? t.minutesLeft(number(left.credits)) : t.noMinutes}</p>;
  if (left && "remaining_today" in left && session.value && !session.value.signed_in) {
    return (
      <div class="stack tight">
        <p class="soft small">
          {left.remaining_today > 0 ? t.anonymousLeft(left.remaining_today) : t.anonymousNone} {t.anonymousNotKept}
        </p>
        <div>
          <LinkButton small href="/sign-in?next=%2Flive">
            {c.signIn}
          </LinkButton>
        </div>
      </div>
    );
  }
  return <p class="soft small">&nbsp;</p>;
}
