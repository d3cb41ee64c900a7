/** Into which languages a transcript can be translated. Pure. */

import type { Schema } from "../../../api/client";

type List = Schema<"LanguageList">;

/** The languages that can be reached from `source`: by a pair, by a model of many languages, or all where the server does not tell. */
export function targets(list: List, source: string): List["languages"] {
  const from = source.split("-")[0] ?? source;
  const others = list.languages.filter((language) => language.code !== from);
  if (!list.pairs && !list.multilingual) return others;
  const pairs = new Set((list.pairs ?? []).filter((pair) => pair.from === from).map((pair) => pair.to));
  const inPairs = new Set((list.pairs ?? []).flatMap((pair) => [pair.from, pair.to]));
  const many = (list.multilingual ?? []).filter((model) => model.languages.includes(from)).flatMap((model) => model.languages);
  // A language that no pair and no model names is translated by the language model, from any other.
  const named = new Set([...inPairs, ...(list.multilingual ?? []).flatMap((model) => model.languages)]);
  const reached = new Set([...pairs, ...many]);
  const found = others.filter((language) => reached.has(language.code) || !named.has(language.code));
  return found.length > 0 || pairs.size > 0 ? found : others;
}
