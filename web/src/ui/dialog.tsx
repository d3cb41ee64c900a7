/** A dialog of the browser's own: it holds the focus, closes with Escape, and gives the focus back. */

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { common } from "../i18n/common";
import { Button, IconButton } from "./button";

export function Dialog({ title, onClose, wide, children }: { title: string; onClose: () => void; wide?: boolean; children: ComponentChildren }) {
  const t = common();
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  // Layout effects run at once: nothing is drawn or focused in between.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => {
      // What opened it may be gone: a menu that closed. Then the page keeps the focus.
      if (before?.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`dialog${wide ? " wide" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div class="stack">
        <div class="row between">
          <h2 id={id} class="grow">
            {title}
          </h2>
          <IconButton icon="close" label={t.close} onClick={onClose} />
        </div>
        {children}
      </div>
    </dialog>
  );
}

/** Asks before something that can't be undone. */
export function Confirm({
  title,
  children,
  action,
  danger = true,
  busy = false,
  onConfirm,
  onClose,
}: {
  title: string;
  children: ComponentChildren;
  action: string;
  danger?: boolean;
  busy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const t = common();
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="prose">{children}</div>
      <div class="row tight" style={{ justifyContent: "flex-end" }}>
        <Button onClick={onClose}>{t.cancel}</Button>
        <Button kind={danger ? "danger" : "primary"} busy={busy} onClick={onConfirm}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
