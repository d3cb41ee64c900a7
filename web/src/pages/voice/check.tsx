/** Looks for the watermark of this server in a recording. */

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, type Schema } from "../../api/client";
import { upload } from "../../api/upload";
import { Button } from "../../ui/button";
import { bytes, clock, date, number, percent } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { ErrorNotice, ProgressBar } from "../../ui/states";
import { durationOf } from "./decode";
import { Drop } from "./drop";
import { alarmExponent, covered, placeOnLine, powerOfTen } from "./facts";
import { voiceTexts } from "./texts";
import { useObjectUrl } from "./url";

type Report = Schema<"WatermarkReport">;

/** What the API examines at most. */
const LARGEST = 100_000_000;
const LONGEST = 1200;

type Phase = { is: "asking" } | { is: "uploading"; sent: number; total: number } | { is: "searching" } | { is: "done"; report: Report };

export function Check({ isShown }: { isShown: boolean }) {
  const t = voiceTexts();
  const [file, setFile] = useState<File | null>(null);
  const [length, setLength] = useState<number | null>(null);
  const [phase, setPhase] = useState<Phase>({ is: "asking" });
  const [problem, setProblem] = useState<unknown>(null);
  const abort = useRef<AbortController | null>(null);
  const result = useRef<HTMLHeadingElement>(null);
  const url = useObjectUrl(file);
  useEffect(() => () => abort.current?.abort(), []);
  useEffect(() => {
    setLength(null);
    if (!url) return;
    const controller = new AbortController();
    void durationOf(url, controller.signal).then((seconds) => {
      if (!controller.signal.aborted) setLength(seconds);
    });
    return () => controller.abort();
  }, [url]);

  const refusal = file && file.size > LARGEST ? t.checkTooLarge : length !== null && length > LONGEST ? t.checkTooLong : null;
  const start = async () => {
    if (!file || refusal) return;
    const controller = new AbortController();
    abort.current = controller;
    setProblem(null);
    setPhase({ is: "uploading", sent: 0, total: file.size });
    const form = new FormData();
    form.append("file", file, file.name);
    try {
      const { body } = await upload<Report>("/v1/watermark/detect", form, {
        signal: controller.signal,
        onProgress: (sent, total) => setPhase({ is: "uploading", sent, total }),
        onSent: () => setPhase({ is: "searching" }),
      });
      setPhase({ is: "done", report: body });
      requestAnimationFrame(() => result.current?.focus({ preventScroll: true }));
    } catch (error) {
      setPhase({ is: "asking" });
      if (!isAbort(error)) setProblem(error);
    }
  };

  const isRunning = phase.is === "uploading" || phase.is === "searching";
  return (
    <section class="stack loose" aria-labelledby="voice-check">
      <div class="stack tight">
        <h2 id="voice-check">{t.checkTitle}</h2>
        <p class="soft">{t.checkText}</p>
      </div>
      {phase.is === "asking" && (
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void start();
          }}
        >
          <Drop
            file={file}
            hint={t.checkFormats}
            onFile={(chosen) => {
              setFile(chosen);
              setProblem(null);
            }}
          >
            {refusal && (
              <p class="voice-wrong small" role="alert">
                {refusal}
              </p>
            )}
          </Drop>
          {problem ? <ErrorNotice error={problem} onRetry={() => void start()} /> : null}
          <div class="row">
            <Button kind="primary" type="submit" icon="search" disabled={!file || refusal !== null}>
              {t.checkAction}
            </Button>
          </div>
        </form>
      )}
      {isRunning && (
        <div class="panel stack" role="status">
          {file && (
            <p class="truncate" dir="auto">
              {file.name}
            </p>
          )}
          <ProgressBar share={phase.is === "uploading" ? phase.sent / Math.max(1, phase.total) : null} label={phase.is === "uploading" ? t.uploadProgress : t.checkProgress} />
          <p class="soft small numeric">{phase.is === "uploading" ? t.uploading(bytes(phase.sent), bytes(phase.total)) : t.checkSearching}</p>
          <div class="row">
            <Button onClick={() => abort.current?.abort()}>{t.cancel}</Button>
          </div>
        </div>
      )}
      {phase.is === "done" && (
        <>
          <Found report={phase.report} file={file} url={url} length={length} heading={result} isShown={isShown} />
          <div class="row">
            <Button
              icon="plus"
              onClick={() => {
                setFile(null);
                setPhase({ is: "asking" });
              }}
            >
              {t.checkAnother}
            </Button>
          </div>
        </>
      )}
    </section>
  );
}

function Found({
  report,
  file,
  url,
  length,
  heading,
  isShown,
}: {
  report: Report;
  file: File | null;
  url: string | null;
  length: number | null;
  heading: { current: HTMLHeadingElement | null };
  isShown: boolean;
}) {
  const t = voiceTexts();
  const player = useRef<HTMLAudioElement>(null);
  const [canPlay, setCanPlay] = useState(true);
  useEffect(() => {
    if (!isShown) player.current?.pause();
  }, [isShown]);
  // Ends of spans are windows: the last may reach beyond the recording.
  const spans = length === null ? report.spans : report.spans.map((span) => ({ ...span, end: Math.min(span.end, length) }));
  const whole = length ?? Math.max(0, ...report.spans.map((span) => span.end));
  const payload = report.payload;
  const playFrom = (seconds: number) => {
    if (!player.current) return;
    player.current.currentTime = seconds;
    void player.current.play().catch(() => undefined);
  };
  return (
    <div class="panel stack">
      <div class={`voice-verdict${report.present ? " present" : ""}`}>
        <Icon name={report.present ? "check" : "info"} />
        <div class="stack tight grow">
          <h3 ref={heading} tabIndex={-1} class="voice-result-title">
            {report.present ? t.present : t.absent}
          </h3>
          {file && (
            <p class="soft small truncate" dir="auto">
              {file.name}
            </p>
          )}
          <p>{report.present ? t.presentText : t.absentText}</p>
        </div>
      </div>
      {report.disclosure && (
        <div class="stack tight">
          <p>{report.present ? t.saysSynthetic : t.absentButSays}</p>
          <blockquote class="voice-quote" dir="auto">
            {report.disclosure}
          </blockquote>
        </div>
      )}
      {report.present && (
        <dl class="voice-facts">
          <div>
            <dt>{t.certainty}</dt>
            <dd>{t.certaintyValue(powerOfTen(alarmExponent(report.log10_false_alarm)))}</dd>
          </div>
          {payload ? (
            <>
              <div>
                <dt>{t.day}</dt>
                {/* The day is one of UTC: at noon it is the same day for most readers. */}
                <dd>{date(`${payload.day}T12:00:00Z`)}</dd>
              </div>
              <div>
                <dt>{t.issuer}</dt>
                <dd class="numeric">{payload.issuer}</dd>
              </div>
              <div>
                <dt>{t.request}</dt>
                <dd>
                  <code>{payload.request_hash}</code> <span class="soft small">{t.requestHint}</span>
                </dd>
              </div>
            </>
          ) : (
            <div>
              <dt>{t.request}</dt>
              <dd>{t.payloadUnreadable}</dd>
            </div>
          )}
        </dl>
      )}
      {spans.length > 0 && (
        <div class="stack tight">
          <h4 class="label">{t.where}</h4>
          <p class="soft small">
            {length !== null && length > 0 ? t.whereText(percent(Math.min(1, covered(spans) / length))) : t.whereOnly} {t.approximately}
          </p>
          <div class="voice-line" dir="ltr" aria-hidden="true">
            {spans.map((span, at) => {
              const place = placeOnLine(span.start, span.end, whole);
              return <div key={at} style={{ left: `${place.left}%`, width: `${place.width}%` }} />;
            })}
          </div>
          <div class="voice-line-ends small soft numeric" dir="ltr" aria-hidden="true">
            <span>{clock(0)}</span>
            <span>{clock(whole)}</span>
          </div>
          <ul class="row tight">
            {spans.map((span, at) => {
              const words = t.span(clock(span.start), clock(span.end));
              const isOther = Math.abs(span.speed - 1) > 0.005;
              const speed = isOther ? ` · ${t.spanSpeed(`${number(Math.round(span.speed * 1000) / 10)} %`)}` : "";
              return (
                <li key={at}>
                  {canPlay && url ? (
                    <Button small icon="play" aria-label={`${t.playFrom(clock(span.start), clock(span.end))}${speed}`} onClick={() => playFrom(span.start)}>
                      <span class="numeric">
                        {words}
                        {speed}
                      </span>
                    </Button>
                  ) : (
                    <span class="badge numeric">
                      {words}
                      {speed}
                    </span>
                  )}
                </li>
              );
            })}
          </ul>
        </div>
      )}
      {url && canPlay && <audio ref={player} class="voice-audio" controls src={url} aria-label={file?.name ?? t.recording} onError={() => setCanPlay(false)} />}
    </div>
  );
}
