/** Which page is shown: the address bar as a signal, and links that change it without loading the document again. */

import { computed, signal } from "@preact/signals";

const current = signal(location.pathname + location.search);

/** The path of the page, without its query. */
export const path = computed(() => current.value.split("?")[0] ?? "/");

/** The query of the page. */
export const query = computed(() => new URLSearchParams(current.value.split("?")[1] ?? ""));

/** Asked before a page is left; `false` stays. */
let guard: (() => boolean) | null = null;

/** Asks `mayLeave` before the page is left; the function that is returned takes the question back. */
export function guardLeaving(mayLeave: () => boolean): () => void {
  guard = mayLeave;
  return () => {
    if (guard === mayLeave) guard = null;
  };
}

/** Goes to a page. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  const url = new URL(to, location.href);
  const next = url.pathname + url.search;
  if (next === current.value && !url.hash) return;
  if (guard && !guard()) return;
  if (options.replace) history.replaceState(null, "", next + url.hash);
  else history.pushState(null, "", next + url.hash);
  const samePage = url.pathname === path.value;
  current.value = next;
  if (!samePage) scrollTo(0, 0);
}

/** Changes parameters of the query in place; an empty value takes the parameter away. */
export function setQuery(values: Record<string, string | null | undefined>): void {
  const changed = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(values)) {
    if (value) changed.set(name, value);
    else changed.delete(name);
  }
  const text = changed.toString();
  navigate(path.value + (text ? `?${text}` : ""), { replace: true });
}

addEventListener("popstate", () => {
  current.value = location.pathname + location.search;
});

// Links of the app change the page; others (downloads, the API's documentation, new tabs) are left to the browser.
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.dataset["native"] !== undefined || !isPage(link.pathname)) return;
  if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
  event.preventDefault();
  navigate(link.href);
});

/** Whether a path is a page of the app, not of the API. */
export function isPage(pathname: string): boolean {
  return !/^\/(v1|s|docs|health|openapi\.json|metrics|assets)(\/|$)/.test(pathname);
}

/** `/t/{id}` against `/t/7` is `{ id: "7" }`; null where the path is another. */
export function match(pattern: string, pathname: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const parts = pathname.replace(/\/+$/, "").split("/");
  if (pathname === "/") parts.splice(0, parts.length, "", "");
  if (wanted.length !== parts.length) return null;
  const found: Record<string, string> = {};
  for (const [index, piece] of wanted.entries()) {
    const part = parts[index] ?? "";
    if (piece.startsWith("{")) {
      if (!part) return null;
      try {
        found[piece.slice(1, -1)] = decodeURIComponent(part);
      } catch {
        return null;
      }
    } else if (piece !== part) return null;
  }
  return found;
}
