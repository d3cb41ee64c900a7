/**
 * Texts of the interface by language. Each page has a module of its own in `en/` and `de/`; the German one has the type
 * of the English one, so that a text that is missing does not compile.
 */

import { computed, effect, signal } from "@preact/signals";
import { remembered } from "../ui/remembered";

export type Language = "en" | "de";

/** The languages that the interface speaks, each in its own name. */
export const LANGUAGES: Record<Language, string> = { en: "English", de: "Deutsch" };

const stored = remembered("language");

function initial(): Language {
  const wanted = [stored.read(), ...navigator.languages];
  for (const tag of wanted) {
    const code = tag?.split("-")[0];
    if (code === "en" || code === "de") return code;
  }
  return "en";
}

/** The language of the interface. */
export const language = signal<Language>(initial());

/** The tag for dates and numbers: the browser's own where it is of the same language. */
export const locale = computed(() => {
  const own = navigator.languages.find((tag) => tag.split("-")[0] === language.value);
  return own ?? language.value;
});

effect(() => {
  document.documentElement.lang = language.value;
});

/** Chooses a language and remembers it. */
export function chooseLanguage(chosen: Language): void {
  language.value = chosen;
  stored.write(chosen);
}

/** The same shape with any texts: what a translation has to have. */
export type Translated<T> = {
  [K in keyof T]: T[K] extends string
    ? string
    : T[K] extends (...args: infer A) => string
      ? (...args: A) => string
      : Translated<T[K]>;
};

/** The texts of a page in the language of the interface: call inside a component, which is then drawn again when it changes. */
export function texts<T>(all: { en: T; de: Translated<T> }): () => T {
  return () => all[language.value] as T;
}
