/** The queue of jobs: how much waits and runs, and what becomes of those that failed. */

import { useState } from "preact/hooks";
import { api, unwrap, type Schema } from "../../api/client";
import { adminTexts } from "../../i18n/admin";
import { session } from "../../session";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { duration, number } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { useInterval, useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { toast } from "../../ui/toast";
import { Ago, focusOn, Group } from "../account/pieces";
import { faultOf, jobName, needNames, type Job } from "./queue-view";

const EVERY = 5;
/** The longest note of a fault that is shown at once. */
const SHORT = 200;

type Act = "retry" | "drop";

const LOOK: Record<Schema<"QueueJobState">, { icon: IconName; kind: string }> = {
  running: { icon: "play", kind: "accent" },
  failed: { icon: "warning", kind: "bad" },
  queued: { icon: "clock", kind: "" },
};

export function Queue() {
  const t = adminTexts().queue;
  const queue = useLoaded("queue", (signal) => unwrap(api.GET("/v1/admin/queue", { signal })));
  const [isPaused, setPaused] = useState(false);
  const [open, setOpen] = useState<{ act: Act; job: Job } | null>(null);
  // One after the other: a slow server is not asked twice.
  useInterval(isPaused ? null : EVERY, () => {
    if (!queue.isLoading) queue.reload();
  });
  const done = (act: Act) => {
    setOpen(null);
    queue.reload();
    toast(act === "retry" ? t.retried : t.dropped);
    focusOn("admin-jobs");
  };
  const state = queue.value;
  return (
    <>
      <Counts state={state} />
      <div class="row between admin-checked">
        <p class="soft small grow">{t.every}</p>
        <Button small icon={isPaused ? "play" : "pause"} onClick={() => setPaused(!isPaused)}>
          {isPaused ? t.goOn : t.pause}
        </Button>
      </div>
      <ErrorNotice error={queue.error} onRetry={queue.reload} />
      {!state && !queue.error && <Skeleton lines={5} height="4.5rem" />}
      {state && (
        <Group id="admin-jobs" title={t.jobs}>
          {state.jobs.length === 0 ? (
            <Empty icon="check" title={t.emptyTitle}>
              <p>{t.emptyText}</p>
            </Empty>
          ) : (
            <ul class="admin-jobs">
              {state.jobs.map((job) => (
                <Row key={job.id} job={job} onOpen={(act) => setOpen({ act, job })} />
              ))}
            </ul>
          )}
          {state.queued + state.running + state.failed > state.jobs.length && <p class="soft small">{t.more(number(state.jobs.length), number(state.queued + state.running + state.failed))}</p>}
        </Group>
      )}
      {open && <ActDialog {...open} onClose={() => setOpen(null)} onDone={() => done(open.act)} />}
    </>
  );
}

function Counts({ state }: { state: Schema<"QueueState"> | null }) {
  const t = adminTexts().queue;
  const tiles: { label: string; value: string | null }[] = [
    { label: t.waiting, value: state && number(state.queued) },
    { label: t.running, value: state && number(state.running) },
    { label: t.failed, value: state && number(state.failed) },
    { label: t.oldest, value: state && (state.oldest_wait_seconds == null ? t.nobodyWaits : duration(state.oldest_wait_seconds)) },
  ];
  return (
    <>
      <dl class="account-tiles" aria-busy={!state}>
        {tiles.map((tile) => (
          <div key={tile.label} class="panel account-tile">
            <dt>{tile.label}</dt>
            <dd class="account-figure numeric">{tile.value ?? <span class="skeleton account-figure-wait" />}</dd>
          </div>
        ))}
      </dl>
      <p class="visually-hidden" role="status">
        {state ? t.said(number(state.queued), number(state.running), number(state.failed)) : ""}
      </p>
    </>
  );
}

function Row({ job, onOpen }: { job: Job; onOpen: (act: Act) => void }) {
  const t = adminTexts().queue;
  const look = LOOK[job.state];
  const fault = faultOf(job, t);
  const needs = needNames(job, t);
  const id = String(job.id);
  const isOwn = job.account_id === session.value?.account?.id;
  return (
    <li>
      <div class="admin-job-head">
        <h3 class="admin-job-name">
          {jobName(job, t)} <span class="soft numeric">{id}</span>
        </h3>
        <span class={`badge ${look.kind}`}>
          <Icon name={look.icon} class="account-badge-icon" />
          {t.states[job.state]}
        </span>
        <span class="soft small">
          {job.state === "failed" && job.failed_at ? (
            <>
              {t.failedAt} <Ago at={job.failed_at} />
            </>
          ) : (
            <>
              {t.queuedAt} <Ago at={job.created_at} />
            </>
          )}
        </span>
      </div>
      <p class="soft small admin-job-about">
        <a href={`/admin/audit?account=${job.account_id}`}>{t.ofAccount(String(job.account_id))}</a>
        {job.transcript_id != null && (isOwn ? <a href={`/t/${job.transcript_id}`}>{t.transcript(String(job.transcript_id))}</a> : <span>{t.transcript(String(job.transcript_id))}</span>)}
        {job.duration != null && <span>{t.audio(duration(job.duration))}</span>}
        {job.attempts > 0 && <span>{t.attempts(job.attempts, number(job.attempts))}</span>}
        {needs.length > 0 && <span>{t.needsAll(needs.join(", "))}</span>}
      </p>
      {fault && (
        <div class="small admin-job-fault">
          <p>{job.state === "failed" ? fault.words : t.lastFault(fault.words)}</p>
          {fault.detail && <FaultDetail text={fault.detail} />}
        </div>
      )}
      {job.state === "failed" && (
        <div class="row tight">
          <Button small icon="retry" aria-label={t.retryOf(id)} onClick={() => onOpen("retry")}>
            {t.retry}
          </Button>
          <Button small icon="trash" kind="danger" aria-label={t.dropOf(id)} onClick={() => onOpen("drop")}>
            {t.drop}
          </Button>
        </div>
      )}
    </li>
  );
}

/** What the server noted: a long text is opened first. */
function FaultDetail({ text }: { text: string }) {
  const t = adminTexts().queue;
  const shown = (
    <p class="soft admin-job-detail" dir="auto">
      {text}
    </p>
  );
  if (text.length <= SHORT) return shown;
  return (
    <details class="account-more">
      <summary>{t.details}</summary>
      {shown}
    </details>
  );
}

function ActDialog({ act, job, onClose, onDone }: { act: Act; job: Job; onClose: () => void; onDone: () => void }) {
  const t = adminTexts().queue;
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const id = String(job.id);
  const run = async () => {
    setBusy(true);
    setError(null);
    const params = { params: { path: { job: job.id } } };
    try {
      if (act === "retry") await unwrap(api.POST("/v1/admin/queue/{job}/retry", params));
      else await unwrap(api.DELETE("/v1/admin/queue/{job}", params));
      onDone();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <Confirm title={act === "retry" ? t.retryTitle(id) : t.dropTitle(id)} action={act === "retry" ? t.retryAction : t.dropAction} danger={act === "drop"} busy={isBusy} onConfirm={() => void run()} onClose={onClose}>
      <p>{act === "retry" ? t.retryText(String(job.account_id)) : t.dropText}</p>
      <ErrorNotice error={error} />
    </Confirm>
  );
}
