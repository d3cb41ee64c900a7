/** A menu under a button: arrows move, Escape closes, a click elsewhere closes. */

import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

export function Menu({
  trigger,
  label,
  start,
  children,
}: {
  /** Draws the button with the attributes that make it open the menu. */
  trigger: (attributes: ButtonHTMLAttributes<HTMLButtonElement>) => ComponentChildren;
  label: string;
  /** Aligned with the start of the button instead of its end. */
  start?: boolean;
  /** Items, each a `MenuItem`. */
  children: ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const id = useId();

  const items = () => [...(root.current?.querySelectorAll<HTMLElement>('[role^="menuitem"]:not(:disabled)') ?? [])];
  const close = (giveFocusBack: boolean) => {
    setOpen(false);
    if (giveFocusBack) root.current?.querySelector<HTMLElement>("[aria-haspopup]")?.focus();
  };

  useEffect(() => {
    if (!isOpen) return;
    items()[0]?.focus();
    const outside = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) close(false);
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [isOpen]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape") {
      event.stopPropagation();
      close(true);
    } else if (event.key === "Tab") close(false);
    else if (to !== undefined) {
      event.preventDefault();
      all[(to + all.length) % all.length]?.focus();
    }
  };

  return (
    <div class="menu" ref={root} onKeyDown={onKeyDown}>
      {trigger({ "aria-haspopup": "menu", "aria-expanded": isOpen, "aria-controls": isOpen ? id : undefined, onClick: () => setOpen(!isOpen) })}
      {isOpen && (
        <div id={id} role="menu" aria-label={label} class={`menu-list${start ? " start" : ""}`} onClick={() => close(true)}>
          {children}
        </div>
      )}
    </div>
  );
}

/** An item that does something, goes somewhere (`href`), or is one choice of several (`checked`). */
export function MenuItem({
  children,
  danger,
  href,
  checked,
  ...rest
}: { danger?: boolean; href?: string; checked?: boolean; download?: string | boolean } & Omit<ButtonHTMLAttributes<HTMLButtonElement>, "download">) {
  const look = danger ? "danger" : undefined;
  if (href !== undefined) {
    return (
      <a role="menuitem" tabIndex={-1} class={look} href={href} {...(rest.download !== undefined ? { download: rest.download } : {})}>
        {children}
      </a>
    );
  }
  const { download: _, ...button } = rest;
  return (
    <button type="button" role={checked === undefined ? "menuitem" : "menuitemradio"} aria-checked={checked} tabIndex={-1} class={look} {...button}>
      {children}
    </button>
  );
}
