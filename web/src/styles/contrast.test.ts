/** Colours that stand on each other can be read: WCAG's contrast, for both themes, out of the values themselves. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const css = readFileSync(new URL("tokens.css", import.meta.url), "utf8");

function values(block: string): Map<string, string> {
  return new Map([...block.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})\b/g)].map(([, name = "", value = ""]) => [name, value]));
}

const [light = "", system = "", ...rest] = css.split(/:root[^{]*\{/).slice(1);
const dark = rest.at(-2) ?? "";
const themes = { light: values(light), dark: values(dark) };

function luminance(hex: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: string, other: string): number {
  const [bright = 0, dim = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (bright + 0.05) / (dim + 0.05);
}

/** Text on what it stands on; 4.5 is asked of text. */
const TEXT: [string, string][] = [
  ...["page", "panel", "sunken", "raised"].flatMap((ground): [string, string][] => [
    ["ink", ground],
    ["ink-soft", ground],
    ["accent", ground],
    ["bad", ground],
    ...Array.from({ length: 8 }, (_, index): [string, string] => [`speaker-${index + 1}`, ground]),
  ]),
  ["accent-ink", "accent"],
  ["accent-ink", "accent-hover"],
  ["accent", "accent-soft"],
  ["good", "good-soft"],
  ["warn", "warn-soft"],
  ["bad", "bad-soft"],
  ["ink", "mark"],
  ["mark-ink", "mark-strong"],
];

/** Lines of controls and the focus; 3 is asked of them. */
const LINES: [string, string][] = ["page", "panel"].flatMap((ground): [string, string][] => [
  ["line-strong", ground],
  ["focus", ground],
]);

for (const [theme, colours] of Object.entries(themes)) {
  const of = (name: string) => {
    const value = colours.get(name);
    if (!value) throw new Error(`no colour ${name} in ${theme}`);
    return value;
  };
  test.each(TEXT)(`${theme}: text in %s on %s`, (ink, ground) => expect(contrast(of(ink), of(ground))).toBeGreaterThanOrEqual(4.5));
  test.each(LINES)(`${theme}: %s on %s`, (line, ground) => expect(contrast(of(line), of(ground))).toBeGreaterThanOrEqual(3));
}

test("dark is the same whether it was chosen or is the system's", () => {
  expect(values(system)).toEqual(themes.dark);
});
