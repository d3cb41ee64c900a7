/** The keys of the page, wherever the focus is. What is typed is never taken for one. */

import { useEffect, useRef } from "preact/hooks";
import type { Player } from "./player";
import type { Reader } from "./reader";

interface Keys {
  reader: Reader;
  player: Player;
  /** Whether single letters and signs do anything. */
  areOn: boolean;
  onHelp: () => void;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}

export function useKeys(keys: Keys): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { reader, player, areOn, onHelp } = now.current;
      if (event.defaultPrevented || event.isComposing) return;
      if (document.querySelector("dialog[open]")) return;
      const target = event.target instanceof HTMLElement ? event.target : null;
      if (target?.closest('[role="menu"]')) return;
      const withControl = event.ctrlKey || event.metaKey;
      const key = event.key.toLowerCase();
      const isInText = target?.isContentEditable ?? false;

      if (withControl && !event.altKey) {
        // A second time it is the browser's own search.
        if (key === "f" && !event.shiftKey && !(reader.isFinding.peek() && target?.closest(".transcript-find"))) {
          event.preventDefault();
          if (reader.isFinding.peek()) document.querySelector<HTMLInputElement>(".transcript-find input")?.focus();
          else reader.openFind();
        } else if ((key === "z" || key === "y") && (isInText || !isTyping(target))) {
          event.preventDefault();
          if (key === "y" || event.shiftKey) reader.redo();
          else reader.undo();
        } else if (event.key === " " && !isTyping(target)) {
          event.preventDefault();
          player.toggle();
        }
        return;
      }
      if (event.altKey || isTyping(target) || !areOn) return;
      const isButton = target?.closest("button, a, summary, [role=tab], [role=button]");
      if (event.key === " " && !event.shiftKey && !isButton && player.isThere.peek()) player.toggle();
      else if (event.key === "ArrowLeft" && !event.shiftKey && player.isThere.peek()) player.skip(-5);
      else if (event.key === "ArrowRight" && !event.shiftKey && player.isThere.peek()) player.skip(5);
      else if (event.key === "<") player.stepSpeed(-1);
      else if (event.key === ">") player.stepSpeed(1);
      else if (key === "n") reader.stepUnsure(event.shiftKey ? -1 : 1);
      else if (event.key === "?") onHelp();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}
