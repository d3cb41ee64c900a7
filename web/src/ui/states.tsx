/** What a page shows while it has nothing to show, and when something went wrong. */

import type { ComponentChildren } from "preact";
import { isAbort, messageOf, Problem } from "../api/client";
import { common } from "../i18n/common";
import { Button, LinkButton } from "./button";
import { Icon, type IconName } from "./icon";

/** Lines of the height that will be there: nothing jumps when it is. */
export function Skeleton({ lines = 3, height = "1.25rem" }: { lines?: number; height?: string }) {
  const t = common();
  return (
    <div class="stack tight" role="status" aria-label={t.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <div key={line} class="skeleton" style={{ height, width: line === lines - 1 && lines > 1 ? "60%" : "100%" }} />
      ))}
    </div>
  );
}

/** A place without content. `isPage` where it is all that the page has: then its title is the heading of the page. */
export function Empty({ icon, title, isPage, children }: { icon: IconName; title: string; isPage?: boolean; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={icon} />
      {isPage ? <h1>{title}</h1> : <h2>{title}</h2>}
      {children}
    </div>
  );
}

export function Notice({ kind, icon, children }: { kind?: "good" | "warn" | "bad"; icon?: IconName; children: ComponentChildren }) {
  return (
    <div class={`notice ${kind ?? ""}`} role={kind === "bad" ? "alert" : undefined}>
      {icon && <Icon name={icon} />}
      <div class="grow">{children}</div>
    </div>
  );
}

/** An error in words, with what its reader can do about it. */
export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  const t = common();
  if (!error || isAbort(error)) return null;
  const needsPlan = error instanceof Problem && error.upgrade;
  const needsAccount = error instanceof Problem && error.status === 401;
  return (
    <Notice kind="bad" icon="warning">
      <div class="stack tight">
        <p>{messageOf(error)}</p>
        {(onRetry || needsPlan || needsAccount) && (
          <div class="row tight">
            {onRetry && (
              <Button small icon="retry" onClick={onRetry}>
                {t.tryAgain}
              </Button>
            )}
            {needsAccount && (
              <LinkButton small href="/sign-in">
                {t.signIn}
              </LinkButton>
            )}
            {needsPlan && (
              <LinkButton small href="/account">
                {t.toPlan}
              </LinkButton>
            )}
          </div>
        )}
      </div>
    </Notice>
  );
}

/** A bar that says how far something is; without a share it only says that something goes on. */
export function ProgressBar({ share, label }: { share: number | null; label: string }) {
  const percent = share === null ? null : Math.round(Math.min(1, Math.max(0, share)) * 100);
  return (
    <div
      class={`progress${percent === null ? " waiting" : ""}`}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent ?? undefined}
    >
      <div style={percent === null ? {} : { width: `${percent}%` }} />
    </div>
  );
}
