/** Takes the noise out of a recording: sent, followed until it is done, then heard before and after. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, isAbort, Problem, unwrap, type Schema } from "../../api/client";
import { upload } from "../../api/upload";
import { query, setQuery } from "../../router";
import { Button, LinkButton } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { fileName } from "../../ui/download";
import { bytes, dateTime, number, percent } from "../../ui/format";
import { useInterval } from "../../ui/loaded";
import { remembered } from "../../ui/remembered";
import { ErrorNotice, Notice, ProgressBar, Skeleton } from "../../ui/states";
import { toast } from "../../ui/toast";
import { Compare } from "./compare";
import { Drop } from "./drop";
import { baseName, newKey } from "./facts";
import { FormatField } from "./format-field";
import { ENDING, FORMATS, formatOf, MEDIA, type Format } from "./formats";
import { voiceTexts } from "./texts";

type Enhancement = Schema<"Enhancement">;

const STRENGTHS = { full: 100, strong: 24, gentle: 12, slight: 6 } as const;
type Strength = keyof typeof STRENGTHS;

/** Seconds between two looks at how far it is. */
const POLL = 1.5;

const lastFormat = remembered("enhance-format");

/** A recording that is sent, or was. */
type Sending = { is: "no" } | { is: "uploading"; sent: number; total: number } | { is: "checking" };

export function Enhance({ isShown }: { isShown: boolean }) {
  const t = voiceTexts();
  const [file, setFile] = useState<File | null>(null);
  const [strength, setStrength] = useState<Strength>("full");
  const [format, setFormat] = useState<Format>(() => FORMATS.find((known) => known === lastFormat.read()) ?? "wav");
  const [sending, setSending] = useState<Sending>({ is: "no" });
  const [job, setJob] = useState<Enhancement | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [isDeleting, setDeleting] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const abort = useRef<AbortController | null>(null);
  const attempt = useRef<{ signature: string; file: File; key: string } | null>(null);
  const result = useRef<HTMLHeadingElement>(null);

  const asked = query.value.get("enhancement");
  const id = asked && /^\d{1,16}$/.test(asked) ? Number(asked) : null;

  const leave = () => {
    setJob(null);
    setProblem(null);
    setSending({ is: "no" });
    setQuery({ enhancement: null });
  };

  const look = async () => {
    if (id === null) return;
    try {
      const found = await unwrap(api.GET("/v1/enhancements/{id}", { params: { path: { id } } }));
      setProblem(null);
      setJob((before) => {
        if (before && before.status !== "completed" && found.status === "completed") requestAnimationFrame(() => result.current?.focus({ preventScroll: true }));
        return found;
      });
    } catch (error) {
      if (isAbort(error)) return;
      setProblem(error instanceof Problem && error.status === 404 ? new Error(t.gone) : error);
    }
  };

  // The address names the one that is shown, so that a page that is loaded again finds it.
  useEffect(() => {
    if (id === null) setJob(null);
    else void look();
  }, [id]);
  useEffect(() => () => abort.current?.abort(), []);
  const isUnderWay = job?.status === "queued" || job?.status === "processing";
  useInterval(id !== null && isUnderWay ? POLL : null, () => void look());

  const start = async () => {
    if (!file) return;
    lastFormat.write(format);
    const controller = new AbortController();
    abort.current = controller;
    setProblem(null);
    setSending({ is: "uploading", sent: 0, total: file.size });
    // The same recording in the same way is made and paid once, also where the answer got lost.
    const signature = `${strength} ${format}`;
    if (attempt.current?.signature !== signature || attempt.current.file !== file) attempt.current = { signature, file, key: newKey() };
    const form = new FormData();
    form.append("strength", String(STRENGTHS[strength]));
    form.append("file", file, file.name);
    try {
      const { body } = await upload<Schema<"EnhancementAccepted">>("/v1/enhance-audio", form, {
        headers: { Accept: MEDIA[format], Prefer: "respond-async", "Idempotency-Key": attempt.current.key },
        signal: controller.signal,
        onProgress: (sent, total) => setSending({ is: "uploading", sent, total }),
        onSent: () => setSending({ is: "checking" }),
      });
      setSending({ is: "no" });
      setQuery({ enhancement: String(body.id) });
    } catch (error) {
      setSending({ is: "no" });
      if (error instanceof Problem && (error.status === 410 || error.status === 422)) attempt.current = null;
      if (!isAbort(error)) setProblem(error);
    }
  };

  const remove = async (): Promise<boolean> => {
    if (id === null) return true;
    try {
      await unwrap(api.DELETE("/v1/enhancements/{id}", { params: { path: { id } } }));
    } catch (error) {
      if (!(error instanceof Problem && error.status === 404)) {
        setProblem(error);
        return false;
      }
    }
    attempt.current = null;
    leave();
    return true;
  };

  const name = file ? baseName(file.name) : t.recording;
  const isSending = sending.is !== "no";
  return (
    <section class="stack loose" aria-labelledby="voice-enhance">
      <div class="stack tight">
        <h2 id="voice-enhance">{t.enhanceTitle}</h2>
        <p class="soft">{t.enhanceText}</p>
      </div>

      {!isSending && id === null && (
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void start();
          }}
        >
          <Drop file={file} hint={t.enhanceFormats} onFile={setFile} />
          <div class="voice-fields">
            <div class="field">
              <label for="voice-strength">{t.strength}</label>
              <select id="voice-strength" class="input" aria-describedby="voice-strength-hint" value={strength} onChange={(event) => setStrength(event.currentTarget.value as Strength)}>
                {(Object.keys(STRENGTHS) as Strength[]).map((known) => (
                  <option key={known} value={known}>
                    {t.strengths[known]}
                  </option>
                ))}
              </select>
              <span class="hint" id="voice-strength-hint">
                {t.strengthHint}
              </span>
            </div>
            <FormatField id="voice-enhance-format" value={format} onChange={setFormat} />
          </div>
          {problem ? <ErrorNotice error={problem} /> : null}
          <div class="row">
            <Button kind="primary" type="submit" icon="sparkle" disabled={!file}>
              {t.enhanceAction}
            </Button>
          </div>
        </form>
      )}

      {isSending && (
        <div class="panel stack" role="status">
          {file && (
            <p class="truncate" dir="auto">
              {file.name}
            </p>
          )}
          <ProgressBar share={sending.is === "uploading" ? sending.sent / Math.max(1, sending.total) : null} label={t.uploadProgress} />
          <p class="soft small numeric">{sending.is === "uploading" ? t.uploading(bytes(sending.sent), bytes(sending.total)) : t.checking}</p>
          <div class="row">
            <Button onClick={() => abort.current?.abort()}>{t.cancel}</Button>
          </div>
        </div>
      )}

      {!isSending && id !== null && !job && !problem && (
        <div class="panel">
          <Skeleton lines={4} />
        </div>
      )}

      {id !== null && problem !== null && (
        <>
          <ErrorNotice error={problem} onRetry={() => void look()} />
          {!isUnderWay && job?.status !== "completed" && (
            <div class="row">
              <Button onClick={leave}>{t.enhanceAnother}</Button>
            </div>
          )}
        </>
      )}

      {job && isUnderWay && (
        <div class="panel stack">
          {file && (
            <p class="truncate" dir="auto">
              {file.name}
            </p>
          )}
          <ProgressBar share={job.status === "processing" ? job.progress / 100 : null} label={t.enhanceProgress} />
          <p class="soft small numeric" role="status">
            {job.status === "processing" ? t.enhancing(percent(job.progress / 100)) : job.queue_position ? t.queuedAt(number(job.queue_position)) : t.queued}
          </p>
          <div class="row">
            <Button
              busy={isBusy}
              onClick={() => {
                setBusy(true);
                void remove().finally(() => setBusy(false));
              }}
            >
              {t.cancel}
            </Button>
          </div>
        </div>
      )}

      {job?.status === "failed" && (
        <div class="stack">
          <Notice kind="bad" icon="warning">
            <p>{t.enhanceFailed}</p>
            {job.error && <p dir="auto">{job.error}</p>}
          </Notice>
          <div class="row">
            <Button
              onClick={() => {
                attempt.current = null;
                leave();
              }}
            >
              {t.enhanceAnother}
            </Button>
          </div>
        </div>
      )}

      {job?.status === "completed" && job.audio_url && (
        <div class="panel stack">
          <h3 ref={result} tabIndex={-1} class="voice-result-title" dir="auto">
            {file ? t.resultFor(file.name) : t.result}
          </h3>
          <Compare before={file} after={job.audio_url} duration={job.duration ?? 0} isShown={isShown} />
          <div class="row tight">
            <LinkButton kind="primary" icon="download" href={job.audio_url} download={fileName(t.enhancedName(name), ENDING[formatOf(job.content_type)])}>
              {t.download}
            </LinkButton>
            <Button kind="plain" icon="trash" onClick={() => setDeleting(true)}>
              {t.delete}
            </Button>
            <Button
              kind="plain"
              icon="plus"
              onClick={() => {
                setFile(null);
                leave();
              }}
            >
              {t.enhanceAnother}
            </Button>
          </div>
          {job.expires_at && <p class="soft small">{t.keptUntil(dateTime(job.expires_at))}</p>}
        </div>
      )}

      {isDeleting && (
        <Confirm
          title={t.deleteTitle}
          action={t.delete}
          busy={isBusy}
          onClose={() => setDeleting(false)}
          onConfirm={() => {
            setBusy(true);
            void remove().then((isGone) => {
              setBusy(false);
              setDeleting(false);
              if (isGone) toast(t.deleted);
            });
          }}
        >
          <p>{t.deleteText}</p>
        </Confirm>
      )}
    </section>
  );
}
