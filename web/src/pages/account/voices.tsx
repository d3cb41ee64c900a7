/** People whose voices are known: list, learn, forget. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, isAbort, unwrap, type Schema } from "../../api/client";
import { upload } from "../../api/upload";
import { accountTexts } from "../../i18n/account";
import { common } from "../../i18n/common";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { Check, TextField } from "../../ui/field";
import { bytes, clock, date, number, percent } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { canRecord, useRecorder } from "../../ui/microphone";
import { Empty, ErrorNotice, Notice, ProgressBar, Skeleton } from "../../ui/states";
import { toast } from "../../ui/toast";
import { focusOn, Group, isolated, useFocusWrong } from "./pieces";

type Speaker = Schema<"Speaker">;

const MOST_VOICES = 100;
const MOST_NAME = 200;
const SHORTEST = 3;
/** A clip of our own ends by itself: more says nothing new about a voice. */
const LONGEST = 60;

export function Voices() {
  const t = accountTexts().voices;
  const voices = useLoaded("voices", async (signal) => (await unwrap(api.GET("/v1/speakers", { signal }))).speakers);
  const [asked, setAsked] = useState<Speaker | null>(null);
  return (
    <>
      <p class="soft account-measure account-intro">{t.intro}</p>
      <Group id="account-voices" title={t.listTitle} aside={voices.value && voices.value.length > 0 && <span class="soft small numeric">{t.of(number(voices.value.length), number(MOST_VOICES))}</span>}>
        <ErrorNotice error={voices.error} onRetry={voices.reload} />
        {!voices.value && !voices.error && <Skeleton lines={3} height="2.75rem" />}
        {voices.value?.length === 0 && (
          <Empty icon="voice" title={t.emptyTitle}>
            <p>{t.emptyText}</p>
          </Empty>
        )}
        {voices.value && voices.value.length > 0 && (
          <ul class="account-rows">
            {voices.value.map((voice) => (
              <li key={voice.id}>
                <Icon name="voice" class="soft" />
                <span class="grow">
                  <bdi class="account-strong">{voice.name}</bdi>
                  <span class="soft small account-under">{t.known(date(voice.created_at))}</span>
                </span>
                <Button small aria-label={t.forgetOf(isolated(voice.name))} onClick={() => setAsked(voice)}>
                  {t.forget}
                </Button>
              </li>
            ))}
          </ul>
        )}
      </Group>
      <Enroll
        onLearned={(learned) => {
          toast(t.learned(isolated(learned.name)));
          voices.reload();
        }}
      />
      {asked && (
        <Forget
          voice={asked}
          onClose={() => setAsked(null)}
          onForgotten={() => {
            setAsked(null);
            voices.reload();
            focusOn("account-voices");
          }}
        />
      )}
    </>
  );
}

function Forget({ voice, onClose, onForgotten }: { voice: Speaker; onClose: () => void; onForgotten: () => void }) {
  const t = accountTexts().voices;
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const forget = async () => {
    setBusy(true);
    setError(null);
    try {
      await unwrap(api.DELETE("/v1/speakers/{id}", { params: { path: { id: voice.id } } }));
      toast(t.forgotten);
      onForgotten();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={t.forgetTitle(isolated(voice.name))} action={t.forget} busy={isBusy} onConfirm={() => void forget()} onClose={onClose}>
      <p>{t.forgetText}</p>
      <ErrorNotice error={error} />
    </Confirm>
  );
}

interface Faults {
  name?: string;
  clip?: string;
  consent?: string;
}

function Enroll({ onLearned }: { onLearned: (voice: Speaker) => void }) {
  const t = accountTexts().voices;
  const c = common();
  const [name, setName] = useState("");
  const [clip, setClip] = useState<File | null>(null);
  const [hasConsent, setConsent] = useState(false);
  const [faults, setFaults] = useState<Faults>({});
  const [round, setRound] = useState(0);
  const [error, setError] = useState<unknown>(null);
  /** How much was sent; null while the server learns. */
  const [sending, setSending] = useState<{ share: number | null } | null>(null);
  const abort = useRef<AbortController | null>(null);
  const element = useFocusWrong(round);
  useEffect(() => () => abort.current?.abort(), []);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (sending) return;
    const found: Faults = {};
    if (!name.trim()) found.name = t.wrong.name;
    else if ([...name.trim()].length > MOST_NAME) found.name = t.wrong.nameLong;
    if (!clip) found.clip = t.wrong.clip;
    if (!hasConsent) found.consent = t.wrong.consent;
    setFaults(found);
    setError(null);
    if (!clip || Object.keys(found).length > 0) {
      setRound((before) => before + 1);
      return;
    }
    const form = new FormData();
    form.append("name", name.trim());
    form.append("file", clip);
    abort.current = new AbortController();
    setSending({ share: 0 });
    focusOn("account-voice-cancel");
    try {
      const { body } = await upload<Speaker>("/v1/speakers", form, {
        signal: abort.current.signal,
        onProgress: (sent, total) => setSending({ share: total > 0 ? sent / total : null }),
        onSent: () => setSending({ share: null }),
      });
      setName("");
      setClip(null);
      setConsent(false);
      onLearned(body);
      focusOn("account-voices");
    } catch (failure) {
      if (!isAbort(failure)) setError(failure);
      focusOn("account-voice-submit");
    } finally {
      setSending(null);
    }
  };

  return (
    <Group title={t.add}>
      <form class="panel stack account-enroll" noValidate ref={element} onSubmit={(event) => void submit(event)}>
        <Notice icon="lock">
          <p class="small">{t.biometric}</p>
        </Notice>
        <TextField label={t.name} hint={t.nameHint} wrong={faults.name} value={name} dir="auto" autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
        <Clip clip={clip} wrong={faults.clip} onClip={setClip} />
        <div class="stack tight">
          <Check label={t.consent} hint={t.consentHint} checked={hasConsent} aria-invalid={faults.consent ? true : undefined} onChange={(event) => setConsent(event.currentTarget.checked)} />
          {faults.consent && (
            <span class="account-wrong" role="alert">
              {faults.consent}
            </span>
          )}
        </div>
        <ErrorNotice error={error} />
        {sending ? (
          <div class="stack tight">
            <p class="small" role="status">
              {sending.share === null ? t.learning : t.sending(percent(sending.share))}
            </p>
            <ProgressBar share={sending.share} label={t.learning} />
            <div class="row tight">
              <Button small id="account-voice-cancel" onClick={() => abort.current?.abort()}>
                {c.cancel}
              </Button>
            </div>
          </div>
        ) : (
          <div class="row tight">
            <Button kind="primary" type="submit" id="account-voice-submit">
              {t.submit}
            </Button>
          </div>
        )}
      </form>
    </Group>
  );
}

/** A file or a recording, and how it sounds. */
function Clip({ clip, wrong, onClip }: { clip: File | null; wrong: string | undefined; onClip: (clip: File | null) => void }) {
  const t = accountTexts().voices;
  const [trouble, setTrouble] = useState<string | null>(null);
  const [isOwn, setOwn] = useState(false);
  const [url, setUrl] = useState<string | null>(null);
  const recorder = useRecorder({ bitsPerSecond: 128_000, longest: LONGEST }, ({ sound, ending, seconds }) => {
    if (seconds < SHORTEST) {
      setTrouble(t.tooShort);
      focusOn("account-clip-record");
      return;
    }
    setOwn(true);
    onClip(new File([sound], `clip.${ending}`, { type: sound.type }));
    focusOn("account-clip-again");
  });

  useEffect(() => {
    if (!clip) {
      setUrl(null);
      return;
    }
    const made = URL.createObjectURL(clip);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [clip]);
  useEffect(() => {
    if (recorder.state === "recording") focusOn("account-clip-stop");
  }, [recorder.state]);
  const told = trouble ?? (clip ? null : recorder.fault ? t.noMicrophone : wrong);

  return (
    <fieldset class="stack tight">
      <legend class="label">{t.clip}</legend>
      <p class="soft small account-hint" id="account-clip-hint">
        {t.clipHint}
      </p>
      {clip ? (
        <div class="account-clip">
          <p class="row tight">
            <Icon name="check" />
            <bdi class="grow truncate">{isOwn ? t.recorded : clip.name}</bdi>
            <span class="soft small numeric">{bytes(clip.size)}</span>
          </p>
          {url && <audio controls src={url} aria-label={isOwn ? t.recorded : clip.name} />}
          <div class="row tight">
            <Button
              small
              id="account-clip-again"
              onClick={() => {
                onClip(null);
                focusOn("account-clip-file");
              }}
            >
              {t.remove}
            </Button>
          </div>
        </div>
      ) : recorder.state === "recording" ? (
        <div class="account-clip">
          <p class="soft small">{t.readAloud}</p>
          <p class="account-passage">{t.passage}</p>
          <div class="row">
            <Button kind="primary" icon="stop" id="account-clip-stop" onClick={recorder.stop}>
              {t.stop}
            </Button>
            <span class="row tight" role="status">
              <span class="account-dot" aria-hidden="true" />
              {t.recording}
            </span>
            <span class="numeric" role="timer">
              {clock(recorder.seconds)}
            </span>
          </div>
        </div>
      ) : (
        <div class="row tight">
          <span class="account-file">
            <input
              type="file"
              id="account-clip-file"
              class="visually-hidden"
              accept="audio/*,video/*"
              aria-describedby="account-clip-hint"
              aria-invalid={wrong ? true : undefined}
              onChange={(event) => {
                setOwn(false);
                setTrouble(null);
                onClip(event.currentTarget.files?.[0] ?? null);
                focusOn("account-clip-again");
              }}
            />
            <label class="button" for="account-clip-file">
              <Icon name="upload" />
              {t.choose}
            </label>
          </span>
          {canRecord() && (
            <Button
              icon="mic"
              id="account-clip-record"
              busy={recorder.state === "asking"}
              onClick={() => {
                setTrouble(null);
                recorder.start();
              }}
            >
              {t.record}
            </Button>
          )}
        </div>
      )}
      {told && (
        <span class="account-wrong" role="alert">
          {told}
        </span>
      )}
    </fieldset>
  );
}
