/** The frame around something that is made on request: what it will be, how far it is, what went wrong, and what it became. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf, Problem } from "../../../api/client";
import { common } from "../../../i18n/common";
import { panel } from "../../../i18n/panel";
import { session } from "../../../session";
import { Button, LinkButton } from "../../../ui/button";
import { duration, number } from "../../../ui/format";
import { ErrorNotice, Notice, ProgressBar } from "../../../ui/states";
import { isModelMissing, type Running, type Slot } from "./store";

/** What work costs, and what is left. */
export function costs(): string {
  const t = panel();
  const credits = session.value?.account?.credits;
  return credits === undefined ? t.cost : t.costLeft(number(credits));
}

/** How far work is, and how long it takes already. */
export function Working({ running, label }: { running: Running; label: string }) {
  const t = panel();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, (now - running.since) / 1000);
  const isKnown = running.total > 1;
  return (
    <div class="panel-working stack tight">
      <ProgressBar share={isKnown ? running.done / running.total : null} label={label} />
      <p class="soft small row between">
        <span>{isKnown ? t.step(number(Math.min(running.done + 1, running.total)), number(running.total)) : running.total ? label : t.starting}</span>
        <span class="numeric">{t.elapsed(duration(seconds))}</span>
      </p>
      {seconds > 8 && <p class="soft small">{t.patience}</p>}
    </div>
  );
}

/** An error of work; a model that is not there is explained, since trying again does not help. */
export function WorkError({ error, what, onRetry }: { error: unknown; what: "language" | "translation"; onRetry: () => void }) {
  const t = panel();
  if (!error) return null;
  if (isModelMissing(error)) return <ModelMissing what={what} said={messageOf(error)} onRetry={onRetry} />;
  // Without credits or over a limit, the same again fails again.
  const isFinal = error instanceof Problem && (error.status === 402 || (error.status === 429 && error.upgrade && (error.retryAfter ?? 0) > 600));
  return <ErrorNotice error={error} onRetry={isFinal ? undefined : onRetry} />;
}

export function ModelMissing({ what, said, onRetry }: { what: "language" | "translation"; said?: string; onRetry?: () => void }) {
  const t = panel();
  const isAdmin = session.value?.account?.is_admin === true;
  return (
    <Notice kind="warn" icon="info">
      <div class="stack tight" role="alert">
        <p>
          <strong>{t.modelMissingTitle}</strong>
        </p>
        <p>{what === "language" ? t.languageModelMissing : t.translationMissing}</p>
        {said && (
          <p class="small" dir="auto">
            {t.operatorSays} {said}
          </p>
        )}
        {(onRetry || isAdmin) && (
          <div class="row tight">
            {onRetry && (
              <Button small icon="retry" onClick={onRetry}>
                {common().tryAgain}
              </Button>
            )}
            {isAdmin && (
              <LinkButton small href="/admin">
                {common().admin}
              </LinkButton>
            )}
          </div>
        )}
      </div>
    </Notice>
  );
}

export function Work<T>({
  slot,
  of,
  what = "language",
  title,
  hint,
  action,
  again,
  isBlocked,
  hideMistakes,
  onStart,
  children,
}: {
  slot: Slot<T>;
  /** The text as it is now. */
  of: string;
  what?: "language" | "translation";
  /** The name of the result. */
  title: string;
  /** What it will be, shown while there is none. */
  hint: string;
  action: string;
  again: string;
  /** Nothing can be made: the model is not there. */
  isBlocked?: boolean;
  hideMistakes?: boolean;
  onStart: (force: boolean) => void;
  children: (value: T) => ComponentChildren;
}) {
  const t = panel();
  const { value, error, running, of: made } = slot.state.value;
  const frame = useRef<HTMLDivElement>(null);
  const held = useRef(false);
  const wasRunning = useRef(running !== null);
  const isDone = wasRunning.current && !running && value !== null && !error;
  useEffect(() => {
    wasRunning.current = running !== null;
    // Buttons change places with what they did: the focus stays here instead of falling to the top of the page.
    if (held.current && document.activeElement === document.body) frame.current?.focus({ preventScroll: true });
  }, [running]);
  const start = (force: boolean) => {
    held.current = true;
    onStart(force);
  };
  const isOld = value !== null && made !== null && made !== of;
  return (
    <div class="panel-work stack" ref={frame} tabIndex={-1} role="group" aria-label={title}>
      <span class="visually-hidden" role="status">
        {isDone ? `${title}: ${t.ready}` : ""}
      </span>
      {value === null && (
        <div class="panel-idle stack tight">
          <p>{hint}</p>
          {!isBlocked && (
            <>
              <div class="row tight">
                <Button kind="primary" icon={what === "language" ? "sparkle" : "translate"} busy={running !== null} onClick={() => start(false)}>
                  {action}
                </Button>
                {running && <Button onClick={() => slot.cancel()}>{t.stop}</Button>}
              </div>
              {!running && <p class="soft small">{costs()}</p>}
            </>
          )}
        </div>
      )}
      {running && <Working running={running} label={action} />}
      {Boolean(error) && <WorkError error={error} what={what} onRetry={() => start(false)} />}
      {isOld && !running && <Notice kind="warn">{t.outdated}</Notice>}
      {value !== null && (
        <>
          {children(value)}
          <div class="panel-foot row between">
            <p class="soft small grow">{hideMistakes ? "" : t.mistakes}</p>
            <div class="row tight">
              {running ? (
                <Button small onClick={() => slot.cancel()}>
                  {t.stop}
                </Button>
              ) : (
                !isBlocked && (
                  <Button small kind="plain" icon="retry" title={t.makeAgainHint} onClick={() => start(!isOld)}>
                    {again}
                  </Button>
                )
              )}
            </div>
          </div>
        </>
      )}
    </div>
  );
}
