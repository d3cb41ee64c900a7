/** Buttons, and links that look like them. */

import type { AnchorHTMLAttributes, ButtonHTMLAttributes, ComponentChildren, PartialAnchorHTMLAttributes } from "preact";
import { Icon, type IconName } from "./icon";

interface Look {
  kind?: "primary" | "danger" | "plain";
  small?: boolean;
  icon?: IconName;
  children?: ComponentChildren;
  class?: string;
}

function classes({ kind, small, class: extra }: Look, isIcon = false): string {
  return ["button", kind, small && "small", isIcon && "icon", extra].filter(Boolean).join(" ");
}

type Native = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon" | "class" | "size">;

/** A button with words. `busy` keeps it from being pressed twice and says so to screen readers. */
export function Button({ kind, small, icon, children, class: extra, busy, ...rest }: Look & Native & { busy?: boolean }) {
  return (
    <button
      type="button"
      {...rest}
      class={classes({ ...(kind ? { kind } : {}), ...(small ? { small } : {}), ...(extra ? { class: extra } : {}) })}
      aria-disabled={busy ? true : rest["aria-disabled"]}
      aria-busy={busy || undefined}
      onClick={busy ? (event) => event.preventDefault() : rest.onClick}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A button that shows an icon only; `label` is its name and its tooltip. */
export function IconButton({ kind = "plain", small, icon, label, class: extra, ...rest }: Omit<Look, "children"> & Native & { icon: IconName; label: string }) {
  return (
    <button type="button" aria-label={label} title={label} {...rest} class={classes({ kind, ...(small ? { small } : {}), ...(extra ? { class: extra } : {}) }, true)}>
      <Icon name={icon} />
    </button>
  );
}

type NativeLink = Omit<PartialAnchorHTMLAttributes<HTMLAnchorElement>, "icon" | "class"> & { href: string };

/** A link that looks like a button: it goes somewhere. */
export function LinkButton({ kind, small, icon, children, class: extra, ...rest }: Look & NativeLink) {
  return (
    <a {...(rest as AnchorHTMLAttributes<HTMLAnchorElement>)} class={classes({ ...(kind ? { kind } : {}), ...(small ? { small } : {}), ...(extra ? { class: extra } : {}) })}>
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}
