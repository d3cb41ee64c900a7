/** Small things that the parts of the account share. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { accountTexts } from "../../i18n/account";
import { common } from "../../i18n/common";
import { ago, dateTime, number } from "../../ui/format";
import { Button } from "../../ui/button";
import { copyText } from "../../ui/download";
import type { Loaded } from "../../ui/loaded";
import { toast } from "../../ui/toast";

/** A name from a user inside a sentence: its direction stays its own, and a long one is cut. */
export function isolated(name: string): string {
  const letters = [...name.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, "")];
  return `\u2068${letters.length > 60 ? `${letters.slice(0, 59).join("")}…` : letters.join("")}\u2069`;
}

/** Puts the focus on an element once the page is drawn: where what had it is gone. */
export function focusOn(id: string): void {
  const focus = () => document.getElementById(id)?.focus({ preventScroll: true });
  // A dialog that closes gives the focus back a moment later, to what may be taken out of the page after that.
  setTimeout(focus, 100);
  setTimeout(() => {
    if (document.activeElement === document.body) focus();
  }, 600);
}

/** A section with its heading, which can be given the focus where it has an id. */
export function Group({ id, title, text, aside, children, danger }: { id?: string; title: string; text?: ComponentChildren; aside?: ComponentChildren; children?: ComponentChildren; danger?: boolean }) {
  return (
    <section class={`account-group${danger ? " danger" : ""}`} aria-label={title}>
      <div class="account-group-head">
        <div class="grow stack tight">
          <h2 id={id} tabIndex={id ? -1 : undefined}>
            {title}
          </h2>
          {text && <p class="soft account-measure">{text}</p>}
        </div>
        {aside}
      </div>
      {children}
    </section>
  );
}

/** A term with its value, in a `dl`. */
export function Fact({ term, children }: { term: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** How long ago something was, with the moment itself as a tooltip. */
export function Ago({ at }: { at: string }) {
  return (
    <time dateTime={at} title={dateTime(at)}>
      {ago(at)}
    </time>
  );
}

/** Copies a text and says so on the button, where the eyes are. */
export function CopyButton({ text, label, primary }: { text: string; label: string; primary?: boolean }) {
  const t = accountTexts();
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 2500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    if (await copyText(text)) setCopied(true);
    else toast(common().notCopied);
  };
  return (
    <>
      <Button {...(primary ? { kind: "primary" as const } : {})} icon={isCopied ? "check" : "copy"} onClick={() => void copy()}>
        {isCopied ? t.copied : label}
      </Button>
      <span class="visually-hidden" aria-live="polite">
        {isCopied ? t.copied : ""}
      </span>
    </>
  );
}

/** One choice of a few, as buttons in a row. */
export function Segments<T extends string>({ label, choices, current, onChange }: { label: string; choices: { id: T; label: string }[]; current: T; onChange: (id: T) => void }) {
  return (
    <div role="group" aria-label={label} class="account-segments">
      {choices.map((choice) => (
        <button key={choice.id} type="button" aria-pressed={choice.id === current} onClick={() => onChange(choice.id)}>
          {choice.label}
        </button>
      ))}
    </div>
  );
}

/** Newer and older pages of a list. Its buttons keep the focus at both ends. */
export function Pager({ page, pages, busy, label, onChange }: { page: number; pages: number; busy: boolean; /** What its pages are of; the log without one. */ label?: string; onChange: (page: number) => void }) {
  const t = accountTexts().security;
  if (pages < 2) return null;
  const step = (to: number, label: string) => {
    const isOff = busy || to < 1 || to > pages;
    return (
      <Button small aria-disabled={isOff} onClick={() => !isOff && onChange(to)}>
        {label}
      </Button>
    );
  };
  return (
    <nav class="row between" aria-label={label ?? t.pages}>
      {step(page - 1, t.newer)}
      <span class="soft small numeric" aria-live="polite">
        {t.page(number(page), number(pages))}
      </span>
      {step(page + 1, t.older)}
    </nav>
  );
}

/** The page that an address asks for, from 1. */
export function pageAsked(text: string | null): number {
  return text && /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 1;
}

/** What is loaded, and until then what was there before: a list that is searched or paged through does not flash. */
export function useKept<T>(loaded: Loaded<T>): T | null {
  const kept = useRef<T | null>(null);
  if (loaded.value) kept.current = loaded.value;
  return loaded.value ?? (loaded.error ? null : kept.current);
}

/** Puts the focus on the first control that is wrong, whenever `round` changes. */
export function useFocusWrong(round: number) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (round > 0) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [round]);
  return form;
}

export const GRACES = { now: 0, h1: 3600, d1: 86_400, d7: 7 * 86_400, d30: 30 * 86_400 } as const;

/** For how long something old stays valid. */
export type Grace = keyof typeof GRACES;
