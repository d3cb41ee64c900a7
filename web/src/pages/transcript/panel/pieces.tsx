/** Small parts that the tabs of the panel share. */

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { common } from "../../../i18n/common";
import { panel } from "../../../i18n/panel";
import { Button } from "../../../ui/button";
import { copyText } from "../../../ui/download";
import { clock, isoDuration } from "../../../ui/format";
import { Icon } from "../../../ui/icon";
import { toast } from "../../../ui/toast";

/** A choice of one of several, each told in a word or two; a check says that it was made already. */
export function Picker<T extends string>({
  label,
  options,
  value,
  onChange,
  small,
}: {
  label: string;
  small?: boolean;
  options: { id: T; label: string; isMade?: boolean }[];
  value: T | null;
  onChange: (id: T) => void;
}) {
  const t = panel();
  const name = useId();
  return (
    <fieldset class={`panel-picker${small ? " small" : ""}`}>
      <legend class="visually-hidden">{label}</legend>
      {options.map((option) => (
        <label key={option.id} class="panel-chip">
          <input type="radio" name={name} value={option.id} checked={option.id === value} onChange={() => onChange(option.id)} />
          <span>
            {option.label}
            {option.isMade && (
              <>
                <Icon name="check" />
                <span class="visually-hidden">({t.made})</span>
              </>
            )}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

/** A moment of the recording, which plays from there. */
export function Time({ at, onSeek }: { at: number; onSeek: (seconds: number) => void }) {
  return (
    <button type="button" class="panel-time numeric" aria-label={panel().jumpTo(clock(at))} onClick={() => onSeek(at)}>
      <time dateTime={isoDuration(at)}>{clock(at)}</time>
    </button>
  );
}

export function CopyButton({ text, label }: { text: () => string; label?: string }) {
  const copy = async () => toast((await copyText(text())) ? common().copied : common().notCopied);
  return (
    <Button small icon="copy" onClick={() => void copy()}>
      {label ?? panel().copyText}
    </Button>
  );
}

/** A text with the names of speakers in place of their labels, which models copy from the transcript. */
export function withSpeakers(text: string): string {
  return text.replaceAll(/\bSPEAKER_\d+\b/g, panel().speaker);
}

/** A row of actions under a result. */
export function Actions({ children }: { children: ComponentChildren }) {
  return <div class="row tight panel-actions">{children}</div>;
}
