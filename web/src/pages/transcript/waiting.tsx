/** A transcript that is not there yet: its place in line, how far it is, and its words as they are recognised. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, unwrap, type Schema } from "../../api/client";
import { transcriptTexts } from "../../i18n/transcript";
import { Button } from "../../ui/button";
import { percent } from "../../ui/format";
import { useInterval } from "../../ui/loaded";
import { Empty, ErrorNotice, Notice, ProgressBar } from "../../ui/states";
import { toast } from "../../ui/toast";
import { loadTranscript, retryTranscript } from "./calls";
import type { Detail } from "./model";
import { DraftView } from "./text";

export function Waiting({ detail, onDetail }: { detail: Detail; onDetail: (detail: Detail) => void }) {
  const t = transcriptTexts();
  const [state, setState] = useState<Schema<"TranscriptState"> | null>(null);
  const [isLost, setLost] = useState(false);
  const isAsking = useRef(false);
  const known = useRef("");
  const end = useRef<HTMLDivElement>(null);

  const ask = async () => {
    if (isAsking.current) return;
    isAsking.current = true;
    try {
      const now = await unwrap(api.GET("/v1/transcripts/{id}/status", { params: { path: { id: detail.id } } }));
      setState(now);
      setLost(false);
      // The text is fetched when there is more of it.
      const mark = `${now.status} ${now.progress}`;
      if (mark !== known.current && now.status !== "queued") {
        const isAtEnd = (end.current?.getBoundingClientRect().top ?? 0) < innerHeight + 80;
        onDetail(await loadTranscript(detail.id));
        if (isAtEnd && now.status === "processing") requestAnimationFrame(() => end.current?.scrollIntoView({ block: "end" }));
        // Who only watched the words come begins to read at the top.
        if (isAtEnd && now.status === "completed") scrollTo(0, 0);
      }
      known.current = mark;
    } catch {
      setLost(true);
    } finally {
      isAsking.current = false;
    }
  };
  useInterval(1.5, () => void ask());
  useEffect(() => void ask(), []);

  const progress = (state?.progress ?? 0) / 100;
  const isQueued = (state?.status ?? detail.status) === "queued";
  const place = state?.queue_position ?? null;
  const words = isQueued ? (place === null ? t.queued : t.queuedAt(place)) : progress > 0 ? t.processingAt(percent(progress)) : t.processing;
  return (
    <div class="stack loose transcript-waiting">
      <div class="panel stack">
        <p class="transcript-progress-words numeric">{words}</p>
        <ProgressBar share={isQueued ? 0 : progress > 0 ? progress : null} label={words} />
        <p class="soft small">{isQueued ? t.queuedText : t.processingText}</p>
        {/* Told once a stage, not at every percent. */}
        <p class="visually-hidden" role="status">
          {isQueued ? t.queued : t.processing}
        </p>
        {isLost && (
          <Notice kind="warn" icon="warning">
            {t.statusLost}
          </Notice>
        )}
      </div>
      {!isQueued && (
        <section aria-label={t.draftText}>
          {detail.segments.length > 0 ? <DraftView detail={detail} /> : <p class="soft">{t.noDraftYet}</p>}
          <div ref={end} />
        </section>
      )}
    </div>
  );
}

export function Failed({ detail, onAgain, onDelete }: { detail: Detail; onAgain: () => void; onDelete: () => void }) {
  const t = transcriptTexts();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const retry = async () => {
    setBusy(true);
    setError(null);
    try {
      await retryTranscript(detail.id);
      toast(t.retrying);
      onAgain();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Empty icon="warning" title={t.failedTitle}>
      <p dir="auto">{detail.error || t.failedText}</p>
      <div class="row tight">
        <Button kind="primary" icon="retry" busy={isBusy} onClick={() => void retry()}>
          {t.retry}
        </Button>
        <Button kind="danger" icon="trash" onClick={onDelete}>
          {t.deleteOne}
        </Button>
      </div>
      <ErrorNotice error={error} />
    </Empty>
  );
}
