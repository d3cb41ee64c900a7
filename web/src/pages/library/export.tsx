/** Transcripts as files: one as it is, several in one archive. */

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf, Problem } from "../../api/client";
import { exportFile, FORMATS, type Format } from "../../api/exports";
import { common } from "../../i18n/common";
import { formatNames } from "../../i18n/formats";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { fileName, saveBlob } from "../../ui/download";
import { number } from "../../ui/format";
import { remembered } from "../../ui/remembered";
import { ErrorNotice, Notice, ProgressBar } from "../../ui/states";
import { collect, type Collected } from "./collect";
import type { Transcript } from "./data";
import { libraryTexts } from "./texts";

/** The format of the last export, which is likely that of the next. */
const chosen = remembered("export-format");

type Phase =
  | { is: "asking" }
  | { is: "running"; done: number; title: string }
  | { is: "done"; count: number; failed: Collected["failed"] }
  | { is: "cancelled" }
  | { is: "broken"; error: unknown };

export function Export({ items, onClose }: { items: Transcript[]; onClose: () => void }) {
  const t = libraryTexts();
  const c = common();
  const names = formatNames();
  const [format, setFormat] = useState<Format>(() => FORMATS.find((known) => known === chosen.read()) ?? "txt");
  const [phase, setPhase] = useState<Phase>({ is: "asking" });
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const ready = items.filter((item) => item.status === "completed");
  const waiting = items.length - ready.length;

  const start = async () => {
    chosen.write(format);
    const controller = new AbortController();
    abort.current = controller;
    setPhase({ is: "running", done: 0, title: ready[0]?.title ?? "" });
    try {
      const only = ready.length === 1 ? ready[0] : undefined;
      if (only) {
        saveBlob(await exportFile(only.id, format, null, controller.signal), fileName(only.title, format));
        setPhase({ is: "done", count: 1, failed: [] });
        return;
      }
      const found = await collect(ready, {
        ending: format,
        load: async (item, signal) => new Uint8Array(await (await exportFile(item.id, format, null, signal)).arrayBuffer()),
        retryAfter: (error) => (error instanceof Problem && (error.status === 429 || error.status === 503) ? error.retryAfter : null),
        onProgress: (done, item) => setPhase({ is: "running", done, title: item?.title ?? "" }),
        signal: controller.signal,
      });
      if (found.parts) {
        const day = new Date();
        const name = `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, "0")}-${String(day.getDate()).padStart(2, "0")}`;
        saveBlob(new Blob(found.parts as BlobPart[], { type: "application/zip" }), `${t.zipName(name)}.zip`);
      }
      setPhase({ is: "done", count: found.count, failed: found.failed });
    } catch (error) {
      setPhase(isAbort(error) ? { is: "cancelled" } : { is: "broken", error });
    }
  };

  const isRunning = phase.is === "running";
  return (
    <Dialog
      title={t.exportTitle}
      onClose={() => {
        abort.current?.abort();
        onClose();
      }}
    >
      {phase.is === "asking" && (
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            if (ready.length > 0) void start();
          }}
        >
          {ready.length > 0 && <p>{ready.length === 1 ? t.exportTextOne : t.exportText(number(ready.length))}</p>}
          {waiting > 0 && <Notice icon="info">{ready.length === 0 ? t.noneReady : waiting === 1 ? t.notReadyOne : t.notReady(number(waiting))}</Notice>}
          {ready.length > 0 && (
            <fieldset class="library-formats">
              <legend class="label">{t.exportFormat}</legend>
              {FORMATS.map((known) => (
                <label key={known} class="check">
                  <input type="radio" name="format" value={known} checked={known === format} onChange={() => setFormat(known)} />
                  <span>{names[known]}</span>
                </label>
              ))}
            </fieldset>
          )}
          <div class="row tight library-dialog-end">
            <Button onClick={onClose}>{c.cancel}</Button>
            {ready.length > 0 && (
              <Button kind="primary" type="submit" icon="download">
                {t.exportStart}
              </Button>
            )}
          </div>
        </form>
      )}
      {isRunning && (
        <div class="stack">
          <ProgressBar share={phase.done / Math.max(1, ready.length)} label={t.exportTitle} />
          <div class="stack tight">
            <p class="numeric" role="status">
              {t.exporting(number(phase.done), number(ready.length))}
            </p>
            <p class="soft small truncate" dir="auto">
              {phase.title || "\u00a0"}
            </p>
          </div>
          <div class="row tight library-dialog-end">
            <Button onClick={() => abort.current?.abort()}>{c.cancel}</Button>
          </div>
        </div>
      )}
      {phase.is === "cancelled" && <Notice icon="info">{t.exportCancelled}</Notice>}
      {phase.is === "broken" && <ErrorNotice error={phase.error} />}
      {phase.is === "done" && (
        <>
          {phase.count > 0 ? (
            <Notice kind="good" icon="check">
              <span role="status">{phase.count === 1 ? t.exportDoneOne : t.exportDone(number(phase.count))}</span>
            </Notice>
          ) : (
            <p>{t.exportNothing}</p>
          )}
          {phase.failed.length > 0 && (
            <Notice kind="bad" icon="warning">
              <div class="stack tight">
                <p>{phase.failed.length === 1 ? t.exportFailedOne : t.exportFailed(number(phase.failed.length))}</p>
                <ul class="stack tight library-failures">
                  {phase.failed.map(({ item, error }) => (
                    <li key={item.id}>
                      <bdi>{item.title}</bdi>: {messageOf(error)}
                    </li>
                  ))}
                </ul>
              </div>
            </Notice>
          )}
        </>
      )}
      {!isRunning && phase.is !== "asking" && (
        <div class="row tight library-dialog-end">
          {(phase.is === "cancelled" || phase.is === "broken" || (phase.is === "done" && phase.failed.length > 0)) && (
            <Button icon="retry" onClick={() => setPhase({ is: "asking" })}>
              {c.tryAgain}
            </Button>
          )}
          <Button kind="primary" onClick={onClose}>
            {c.close}
          </Button>
        </div>
      )}
    </Dialog>
  );
}
