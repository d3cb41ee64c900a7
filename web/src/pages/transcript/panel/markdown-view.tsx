/** Markdown as elements. */

import { useMemo } from "preact/hooks";
import { blocks, type Block, type Inline, type Item } from "./markdown";

function Pieces({ of }: { of: Inline[] }) {
  return (
    <>
      {of.map((piece, at) => {
        switch (piece.kind) {
          case "strong":
            return <strong key={at}>{piece.text}</strong>;
          case "emphasis":
            return <em key={at}>{piece.text}</em>;
          case "code":
            return <code key={at}>{piece.text}</code>;
          default:
            return piece.text;
        }
      })}
    </>
  );
}

function Items({ items, ordered, start }: { items: Item[]; ordered: boolean; start?: number }) {
  const entries = items.map((item, at) => (
    <li key={at} dir="auto" class={item.checked === null ? undefined : "panel-task"}>
      {item.checked !== null && <input type="checkbox" checked={item.checked} disabled aria-hidden="true" />}
      <span>
        <Pieces of={item.inline} />
      </span>
      {item.children.length > 0 && <Items items={item.children} ordered={item.children[0]?.ordered ?? false} />}
    </li>
  ));
  return ordered ? <ol start={start}>{entries}</ol> : <ul>{entries}</ul>;
}

function One({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading": {
      // The page has its own headings above: those of a text come below them.
      const Heading = block.level <= 1 ? "h3" : block.level === 2 ? "h4" : "h5";
      return (
        <Heading dir="auto">
          <Pieces of={block.inline} />
        </Heading>
      );
    }
    case "paragraph":
      return (
        <p dir="auto">
          <Pieces of={block.inline} />
        </p>
      );
    case "quote":
      return (
        <blockquote>
          {block.lines.map((line, at) => (
            <p key={at} dir="auto">
              <Pieces of={line} />
            </p>
          ))}
        </blockquote>
      );
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      );
    case "rule":
      return <hr />;
    case "list":
      return <Items items={block.items} ordered={block.ordered} start={block.start} />;
  }
}

export function Markdown({ text }: { text: string }) {
  const found = useMemo(() => blocks(text), [text]);
  return (
    <div class="panel-text prose">
      {found.map((block, at) => (
        <One key={at} block={block} />
      ))}
    </div>
  );
}
