/** Speaks a text in a voice of the server, or in one like a clip. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, callHeaders, failed, isAbort, messageOf, Problem, throwProblem, unwrap, type Schema } from "../../api/client";
import { upload } from "../../api/upload";
import { Button, LinkButton } from "../../ui/button";
import { fileName } from "../../ui/download";
import { Check as Box, TextArea } from "../../ui/field";
import { duration, languageName, number, percent } from "../../ui/format";
import { useLoaded } from "../../ui/loaded";
import { remembered } from "../../ui/remembered";
import { ErrorNotice, Notice, ProgressBar, Skeleton } from "../../ui/states";
import { ClipField, useClipWords, type Clip } from "./clip";
import { characters, newKey, voiceKind, voiceName, type VoiceKind } from "./facts";
import { FormatField } from "./format-field";
import { ENDING, FORMATS, MEDIA, type Format } from "./formats";
import { clipAnswer, withLength, type ClipAnswer } from "./sound";
import { voiceTexts } from "./texts";
import { useObjectUrl } from "./url";

/** The longest text, in Unicode scalar values. */
const LONGEST = 2000;
/** Languages that the API takes for a voice like a clip. */
const LANGUAGES = ["ar", "da", "de", "el", "en", "es", "fi", "fr", "he", "hi", "it", "ja", "ko", "ms", "nl", "no", "pl", "pt", "ru", "sv", "sw", "tr", "zh"];

const lastFormat = remembered("speak-format");
const lastVoice = remembered("speak-voice");

interface Spoken {
  sound: Blob;
  format: Format;
  kind: VoiceKind;
  /** Seconds; null where the server could not tell before it was done. */
  length: number | null;
  took: number | null;
  language: string | null;
}

export function Speak({ isShown }: { isShown: boolean }) {
  const t = voiceTexts();
  const [text, setText] = useState("");
  const [how, setHow] = useState<"named" | "like">("named");
  const [voice, setVoice] = useState(() => lastVoice.read() ?? "");
  const [clip, setClip] = useState<Clip | null>(null);
  const [clipProblem, setClipProblem] = useState<{ is: ClipAnswer; message: string } | null>(null);
  const [consents, setConsents] = useState(false);
  const [needsConsent, setNeedsConsent] = useState(false);
  const [language, setLanguage] = useState("auto");
  const [format, setFormat] = useState<Format>(() => FORMATS.find((known) => known === lastFormat.read()) ?? "mp3");
  const [wrongText, setWrongText] = useState<string | null>(null);
  const [since, setSince] = useState<number | null>(null);
  const [spoken, setSpoken] = useState<Spoken | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const abort = useRef<AbortController | null>(null);
  const attempt = useRef<{ signature: string; clip: Clip | null; key: string } | null>(null);
  const result = useRef<HTMLHeadingElement>(null);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const voices = useLoaded("voices", async (signal) => (await unwrap(api.GET("/v1/voices", { signal }))).voices);
  const chosen = voices.value?.find((known) => known.id === voice) ?? preferred(voices.value ?? []);
  const clipWords = useClipWords(clip, clipProblem);
  const count = characters(text);

  const changeClip = (next: Clip | null) => {
    setClip(next);
    setClipProblem(null);
    // Somebody else may speak in another clip.
    setConsents(false);
  };

  const check = (): boolean => {
    let isGood = true;
    if (!text.trim()) {
      setWrongText(t.textEmpty);
      isGood = false;
    } else if (count > LONGEST) isGood = false;
    if (how === "like") {
      if (!clip) {
        setClipProblem({ is: "missing", message: "" });
        isGood = false;
      } else if (clip.fault) isGood = false;
      if (clip && !consents) {
        setNeedsConsent(true);
        isGood = false;
      }
    } else if (!chosen) isGood = false;
    // What is wrong first is where the focus goes, once it is marked.
    if (!isGood) requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"], .voice-clip:has(.voice-wrong) button, .voice-consent input:invalid')?.focus());
    return isGood;
  };

  const speak = async () => {
    if (since !== null || !check()) return;
    const signature = JSON.stringify([text, how, how === "named" ? chosen?.id : language, format]);
    const used = how === "like" ? clip : null;
    // The same text in the same voice is paid once, also where the answer got lost.
    if (attempt.current?.signature !== signature || attempt.current.clip !== used) attempt.current = { signature, clip: used, key: newKey() };
    lastFormat.write(format);
    const controller = new AbortController();
    abort.current = controller;
    setProblem(null);
    setClipProblem(null);
    setSince(Date.now());
    try {
      const key = attempt.current.key;
      setSpoken(used ? await like(text, used.file, language, format, key, controller.signal) : await named(text, chosen?.id ?? "", format, key, controller.signal));
      if (chosen && !used) lastVoice.write(chosen.id);
      requestAnimationFrame(() => result.current?.focus({ preventScroll: true }));
    } catch (error) {
      if (error instanceof Problem && error.status === 422) attempt.current = null;
      if (isAbort(error)) return;
      const about = used && error instanceof Problem && (error.status === 400 || error.status === 413) ? clipAnswer(messageOf(error)) : null;
      if (about) setClipProblem({ is: about, message: messageOf(error) });
      else setProblem(error);
    } finally {
      setSince(null);
    }
  };

  return (
    <section class="stack loose" aria-labelledby="voice-speak">
      <h2 id="voice-speak">{t.speakTitle}</h2>
      <form
        ref={form}
        class="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void speak();
        }}
      >
        <TextArea
          label={t.text}
          rows={5}
          value={text}
          placeholder={t.textPlaceholder}
          hint={<span class="numeric">{t.textCount(number(count), number(LONGEST))}</span>}
          wrong={wrongText ?? (count > LONGEST ? t.textTooLong(number(count - LONGEST)) : null)}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setWrongText(null);
          }}
        />
        <fieldset class="stack tight">
          <legend class="label">{t.voice}</legend>
          <div class="voice-choices">
            {(["named", "like"] as const).map((kind) => (
              <label key={kind} class={`voice-choice${how === kind ? " chosen" : ""}`}>
                <input type="radio" name="voice-kind" value={kind} checked={how === kind} onChange={() => setHow(kind)} />
                <span>{kind === "named" ? t.voiceNamed : t.voiceLike}</span>
              </label>
            ))}
          </div>
        </fieldset>
        {how === "named" && (
          <>
            {voices.error ? (
              <ErrorNotice error={voices.error} onRetry={voices.reload} />
            ) : !voices.value ? (
              <Skeleton lines={1} height="4.5rem" />
            ) : voices.value.length === 0 ? (
              <Notice icon="info">{t.voicesMissing}</Notice>
            ) : (
              <div class="voice-fields">
                <VoiceField voices={voices.value} value={chosen?.id ?? ""} onChange={setVoice} />
                <FormatField id="voice-speak-format" value={format} hint={t.otherFormat} onChange={setFormat} />
              </div>
            )}
          </>
        )}
        {how === "like" && (
          <>
            <ClipField clip={clip} wrong={clipWords} onClip={changeClip} />
            <div class={`voice-consent${needsConsent && !consents ? " wanted" : ""}`}>
              <Box
                label={t.consent}
                hint={t.consentHint}
                checked={consents}
                required
                aria-invalid={needsConsent && !consents ? true : undefined}
                onChange={(event) => {
                  setConsents(event.currentTarget.checked);
                  setNeedsConsent(false);
                }}
              />
              {needsConsent && !consents && (
                <p class="voice-wrong small" role="alert">
                  {t.consentNeeded}
                </p>
              )}
            </div>
            <div class="voice-fields">
              <div class="field">
                <label for="voice-language">{t.language}</label>
                <select id="voice-language" class="input" aria-describedby="voice-language-hint" value={language} onChange={(event) => setLanguage(event.currentTarget.value)}>
                  <option value="auto">{t.languageAuto}</option>
                  {LANGUAGES.map((code) => ({ code, name: languageName(code) }))
                    .sort((a, b) => a.name.localeCompare(b.name))
                    .map(({ code, name }) => (
                      <option key={code} value={code}>
                        {name}
                      </option>
                    ))}
                </select>
                <span class="hint" id="voice-language-hint">
                  {t.languageHint}
                </span>
              </div>
              <FormatField id="voice-speak-format" value={format} hint={t.otherFormat} onChange={setFormat} />
            </div>
            <p class="soft small">{t.honesty}</p>
          </>
        )}
        <Notice icon="info">
          <span class="small">{t.disclosure}</span>
        </Notice>
        {problem ? <ErrorNotice error={problem} /> : null}
        {since === null ? (
          <div class="row">
            <Button kind="primary" type="submit" icon="speaker" disabled={how === "named" && !chosen}>
              {t.speakAction}
            </Button>
            <span class="soft small">{t.speakCost}</span>
          </div>
        ) : (
          <Waiting since={since} onCancel={() => abort.current?.abort()} />
        )}
      </form>
      {spoken && <Result spoken={spoken} heading={result} isShown={isShown} />}
    </section>
  );
}

/** The voice that is chosen where nobody chose: one of the reader's language, else the first. */
function preferred(voices: readonly Schema<"VoiceInfo">[]): Schema<"VoiceInfo"> | undefined {
  return voices.find((voice) => voice.id === "af_heart") ?? voices[0];
}

function VoiceField({ voices, value, onChange }: { voices: readonly Schema<"VoiceInfo">[]; value: string; onChange: (id: string) => void }) {
  const t = voiceTexts();
  const languages = [...new Set(voices.map((voice) => voice.language))]
    .map((code) => ({ code, name: languageName(code) }))
    // English first, which sounds best.
    .sort((a, b) => Number(b.code.startsWith("en")) - Number(a.code.startsWith("en")) || a.name.localeCompare(b.name));
  return (
    <div class="field">
      <label for="voice-name">{t.voiceChoice}</label>
      <select id="voice-name" class="input" value={value} aria-describedby="voice-name-hint" onChange={(event) => onChange(event.currentTarget.value)}>
        {languages.map(({ code, name }) => (
          <optgroup key={code} label={name}>
            {voices
              .filter((voice) => voice.language === code)
              .map((voice) => (
                <option key={voice.id} value={voice.id} selected={voice.id === value}>
                  {t.voiceOption(voiceName(voice.id), voice.gender === "female" ? t.female : t.male)}
                </option>
              ))}
          </optgroup>
        ))}
      </select>
      <span class="hint" id="voice-name-hint">
        {t.languageFromVoice}
      </span>
    </div>
  );
}

function Waiting({ since, onCancel }: { since: number; onCancel: () => void }) {
  const t = voiceTexts();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.round((now - since) / 1000));
  return (
    <div class="panel stack tight">
      <ProgressBar share={null} label={t.speaking} />
      <p class="soft small numeric">
        {t.speakingSince(duration(seconds))}
        {seconds > 5 && ` · ${t.firstTakesLonger}`}
      </p>
      <div class="row">
        <Button onClick={onCancel}>{t.cancel}</Button>
      </div>
    </div>
  );
}

function Result({ spoken, heading, isShown }: { spoken: Spoken; heading: { current: HTMLHeadingElement | null }; isShown: boolean }) {
  const t = voiceTexts();
  const url = useObjectUrl(spoken.sound);
  const player = useRef<HTMLAudioElement>(null);
  const [heard, setHeard] = useState<number | null>(null);
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    setHeard(null);
    setBroken(false);
  }, [spoken]);
  useEffect(() => {
    if (!isShown) player.current?.pause();
  }, [isShown]);
  const length = spoken.length ?? heard;
  const { kind } = spoken;
  return (
    <div class="panel stack">
      <h3 ref={heading} tabIndex={-1} class="voice-result-title">
        {t.speakResult}
      </h3>
      {url && !isBroken && (
        <audio
          ref={player}
          class="voice-audio"
          controls
          src={url}
          aria-label={t.player}
          onLoadedMetadata={(event) => {
            const seconds = event.currentTarget.duration;
            if (Number.isFinite(seconds)) setHeard(seconds);
          }}
          onError={() => setBroken(true)}
        />
      )}
      {isBroken && (
        <Notice kind="warn" icon="warning">
          {t.resultUnplayable}
        </Notice>
      )}
      <div class="stack tight">
        {kind.is === "matched" && <p>{t.speakMatched(voiceName(kind.base))}</p>}
        {kind.is === "matched" && kind.similarity !== null && <p class="soft small">{t.speakSimilarity(percent(Math.max(0, kind.similarity)))}</p>}
        {kind.is === "cloned" && <p>{t.speakCloned(kind.model)}</p>}
        {kind.is === "preset" && <p>{t.speakPreset(voiceName(kind.name))}</p>}
        <p class="soft small numeric">
          {length !== null && (spoken.took !== null ? t.speakFacts(duration(length), duration(spoken.took)) : t.speakLength(duration(length)))}{" "}
          {spoken.language && t.spokenIn(languageName(spoken.language))}
        </p>
        <p class="soft small">{t.marked}</p>
      </div>
      {url && (
        <div class="row">
          <LinkButton kind="primary" icon="download" href={url} download={fileName(t.spokenName, ENDING[spoken.format])}>
            {t.download}
          </LinkButton>
          <span class="soft small">{t.formats[spoken.format]}</span>
        </div>
      )}
    </div>
  );
}

/** What the headers of an answer say of its sound. */
async function spokenOf(sound: Blob, format: Format, header: (name: string) => string | null): Promise<Spoken> {
  const seconds = (name: string) => {
    const value = Number.parseFloat(header(name) ?? "");
    return Number.isFinite(value) ? value : null;
  };
  const whole = format === "wav" ? new Blob([withLength(new Uint8Array(await sound.arrayBuffer()))], { type: MEDIA.wav }) : sound;
  return { sound: whole, format, kind: voiceKind(header("X-Voice")), length: seconds("X-Duration"), took: seconds("X-Generation-Time"), language: header("X-Language") };
}

async function like(text: string, clip: File, language: string, format: Format, key: string, signal: AbortSignal): Promise<Spoken> {
  const form = new FormData();
  form.append("text", text);
  form.append("consent", "true");
  if (language !== "auto") form.append("language", language);
  form.append("reference_audio", clip, clip.name);
  const { body, header } = await upload<Blob>("/v1/tts", form, { as: "blob", headers: { Accept: MEDIA[format], "Idempotency-Key": key }, signal });
  return spokenOf(body, format, header);
}

async function named(text: string, voice: string, format: Format, key: string, signal: AbortSignal): Promise<Spoken> {
  let response: Response;
  let sound: Blob | null = null;
  try {
    response = await fetch("/v1/audio/speech", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": key, ...callHeaders() },
      body: JSON.stringify({ input: text, voice, response_format: format }),
      signal,
    });
    if (response.ok) sound = await response.blob();
  } catch (error) {
    throw failed(error);
  }
  if (!sound) return throwProblem(response);
  return spokenOf(sound, format, (name) => response.headers.get(name));
}
