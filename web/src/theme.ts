/** Light, dark, or as the system has it. Remembered in this browser. */

import { effect, signal } from "@preact/signals";
import { remembered } from "./ui/remembered";

export type Theme = "system" | "light" | "dark";

const stored = remembered("theme");

/** The theme that was chosen. */
export const theme = signal<Theme>(stored.read() === "dark" ? "dark" : stored.read() === "light" ? "light" : "system");

effect(() => {
  const chosen = theme.value;
  if (chosen === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
  stored.write(chosen === "system" ? null : chosen);
});
