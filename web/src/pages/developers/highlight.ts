/** Comments and texts of a program, told apart enough to be read with ease. Pure. */

import type { Language } from "./examples";

export interface Piece {
  text: string;
  kind: "plain" | "comment" | "string";
}

const COMMENT: Record<Language, string> = { curl: "#", python: "#", javascript: "//", rust: "//" };

/** The pieces of a program, which joined are the program. */
export function pieces(code: string, language: Language): Piece[] {
  const found: Piece[] = [];
  const add = (text: string, kind: Piece["kind"]) => {
    const last = found.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text) found.push({ text, kind });
  };
  const comment = COMMENT[language];
  const quotes = language === "rust" ? '"' : language === "javascript" ? "\"'`" : "\"'";
  for (const line of code.split(/(?<=\n)/)) {
    let at = 0;
    while (at < line.length) {
      const letter = line[at] ?? "";
      const isStart = at === 0 || /\s/.test(line[at - 1] ?? "");
      if (isStart && line.startsWith(comment, at)) {
        add(line.slice(at), "comment");
        break;
      }
      if (quotes.includes(letter)) {
        let end = at + 1;
        while (end < line.length && line[end] !== letter && line[end] !== "\n") end += line[end] === "\\" ? 2 : 1;
        end = Math.min(end + 1, line.length);
        add(line.slice(at, end), "string");
        at = end;
        continue;
      }
      add(letter, "plain");
      at += 1;
    }
  }
  return found;
}
