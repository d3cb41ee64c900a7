/**
 * Markdown as language models write it, cut into blocks and marked pieces of text. It becomes elements, never HTML; links stay
 * text, since where they lead was made up or said by somebody.
 */

export type Inline = { text: string; kind: "text" | "strong" | "emphasis" | "code" };

export type Block =
  | { kind: "heading"; level: number; inline: Inline[] }
  | { kind: "paragraph"; inline: Inline[] }
  | { kind: "quote"; lines: Inline[][] }
  | { kind: "code"; text: string }
  | { kind: "rule" }
  | { kind: "list"; ordered: boolean; start: number; items: Item[] };

export interface Item {
  inline: Inline[];
  /** Of a task: whether it is done. */
  checked: boolean | null;
  children: Item[];
  ordered: boolean;
}

const HEADING = /^(#{1,6})\s+(.*)$/;
const BULLET = /^(\s*)(?:[-*+•]|(\d{1,6})[.)])\s+(.*)$/;
const TASK = /^\[([ xX])\]\s+(.*)$/;

/** Blocks of a text. */
export function blocks(text: string): Block[] {
  const found: Block[] = [];
  let paragraph: string[] = [];
  const flush = () => {
    if (paragraph.length) found.push({ kind: "paragraph", inline: inline(paragraph.join("\n")) });
    paragraph = [];
  };
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const heading = HEADING.exec(line);
    if (line.startsWith("```")) {
      flush();
      const code: string[] = [];
      while (++at < lines.length && !(lines[at] ?? "").startsWith("```")) code.push(lines[at] ?? "");
      found.push({ kind: "code", text: code.join("\n") });
    } else if (!line.trim()) flush();
    else if (heading) {
      flush();
      found.push({ kind: "heading", level: heading[1]?.length ?? 1, inline: inline((heading[2] ?? "").replace(/\s#+\s*$/, "")) });
    } else if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) {
      flush();
      found.push({ kind: "rule" });
    } else if (line.startsWith(">")) {
      flush();
      const quoted: Inline[][] = [];
      for (; at < lines.length && (lines[at] ?? "").startsWith(">"); at++) quoted.push(inline((lines[at] ?? "").replace(/^>\s?/, "")));
      at--;
      found.push({ kind: "quote", lines: quoted });
    } else if (BULLET.test(line) && (paragraph.length === 0 || !/^\s*\d/.test(line))) {
      flush();
      const [list, next] = readList(lines, at);
      found.push(list);
      at = next - 1;
    } else paragraph.push(line.trim());
  }
  flush();
  return found;
}

/** The list that begins at a line, and the line behind it. */
function readList(lines: string[], from: number): [Block & { kind: "list" }, number] {
  const first = BULLET.exec(lines[from] ?? "");
  const ordered = first?.[2] !== undefined;
  const items: Item[] = [];
  /** Where items of each depth go, with their indents. */
  let levels: { indent: number; items: Item[] }[] = [{ indent: first?.[1]?.length ?? 0, items }];
  let at = from;
  for (; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const bullet = BULLET.exec(line);
    if (bullet) {
      const indent = bullet[1]?.length ?? 0;
      const isOrdered = bullet[2] !== undefined;
      const deeper = levels.at(-1);
      if (deeper && indent > deeper.indent + 1) {
        const parent = deeper.items.at(-1);
        if (parent) levels.push({ indent, items: parent.children });
      } else levels = levels.filter((level, depth) => depth === 0 || level.indent <= indent + 1);
      // A list of another kind at the margin is another list.
      if (levels.length === 1 && isOrdered !== ordered) break;
      const task = TASK.exec(bullet[3] ?? "");
      levels.at(-1)?.items.push({
        inline: inline(task?.[2] ?? bullet[3] ?? ""),
        checked: task ? task[1] !== " " : null,
        children: [],
        ordered: isOrdered,
      });
    } else if (!line.trim()) {
      const next = lines.slice(at + 1, at + 3).find((other) => other.trim());
      if (!next || !BULLET.test(next)) break;
    } else if (/^\s/.test(line)) {
      const item = levels.at(-1)?.items.at(-1);
      item?.inline.push({ text: ` ${line.trim()}`, kind: "text" });
    } else break;
  }
  return [{ kind: "list", ordered, start: Number(first?.[2] ?? 1), items }, at];
}

/** Marked pieces of a line. A mark without its end is text. */
export function inline(text: string): Inline[] {
  const found: Inline[] = [];
  let plain = "";
  const flush = () => {
    if (plain) found.push({ text: plain, kind: "text" });
    plain = "";
  };
  /** Marks that have no end further on: they are not looked for again, which keeps a text full of stars linear. */
  const open = new Set<string>();
  const ending = (mark: string, from: number): number => {
    if (open.has(mark)) return -1;
    const end = text.indexOf(mark, from);
    if (end < 0) open.add(mark);
    return end;
  };
  for (let at = 0; at < text.length; ) {
    const letter = text[at] ?? "";
    if (letter === "\\" && /[\\`*_[\]#>-]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const mark = letter === "`" ? "`" : (text.startsWith("**", at) || text.startsWith("__", at)) ? letter + letter : letter === "*" || letter === "_" ? letter : "";
    if (mark && !(letter === "_" && /[\p{L}\p{N}]/u.test(text[at - 1] ?? ""))) {
      const end = ending(mark, at + mark.length);
      const inner = end < 0 ? "" : text.slice(at + mark.length, end);
      if (inner && (mark === "`" || (!/^\s|\s$/.test(inner) && inner.length < 2000))) {
        flush();
        found.push({ text: inner, kind: mark === "`" ? "code" : mark.length === 2 ? "strong" : "emphasis" });
        at = end + mark.length;
        continue;
      }
      plain += mark;
      at += mark.length;
      continue;
    }
    plain += letter;
    at += 1;
  }
  flush();
  return found;
}

/** The text without its marks, for programs that know none. */
export function plainText(markdown: string): string {
  const words = (pieces: Inline[]) => pieces.map((piece) => piece.text).join("");
  const item = (entry: Item, depth: number, number: number): string =>
    [`${"  ".repeat(depth)}${entry.ordered ? `${number}.` : "-"} ${words(entry.inline)}`, ...entry.children.map((child, at) => item(child, depth + 1, at + 1))].join("\n");
  return blocks(markdown)
    .map((block) => {
      switch (block.kind) {
        case "heading":
        case "paragraph":
          return words(block.inline);
        case "quote":
          return block.lines.map(words).join("\n");
        case "code":
          return block.text;
        case "rule":
          return "—";
        case "list":
          return block.items.map((entry, at) => item(entry, 0, block.start + at)).join("\n");
      }
    })
    .join("\n\n");
}
