/** Colours that stand on each other can be read: WCAG's contrast, for both themes, out of the values themselves. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const css = readFileSync(new URL("tokens.css", import.meta.url), "utf8");

/** The colours of a theme: the first or the second of `light-dark()`, or the only one. */
function values(theme: 0 | 1): Map<string, string> {
  return new Map(
    [...css.matchAll(/--([\w-]+):\s*(?:(#[0-9a-f]{6})|light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\));/g)].map(([, name = "", only, light, dark]) => [
      name,
      only ?? [light, dark][theme] ?? "",
    ]),
  );
}

const themes = { light: values(0), dark: values(1) };

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

test("every colour has a value in both themes, and only here", () => {
  // Marks keep their ink: they are bright in both.
  expect([...themes.light].filter(([name, value]) => themes.dark.get(name) === value).map(([name]) => name)).toEqual(["mark-ink"]);
  expect(css.match(/#[0-9a-f]{3,8}\b/g)?.length).toBe(2 * themes.light.size - 1);
  expect(css).not.toContain("prefers-color-scheme");
});

test("a theme that was chosen is the one that counts", () => {
  for (const [selector, scheme] of [[":root", "light dark"], [':root[data-theme="light"]', "light"], [':root[data-theme="dark"]', "dark"]] as const) {
    expect(css).toContain(`${selector} {\n  color-scheme: ${scheme};`);
  }
});
