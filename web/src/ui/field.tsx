/** A control with its label, a hint and what is wrong with it, tied together for screen readers. */

import type { ComponentChildren, InputHTMLAttributes, PartialInputHTMLAttributes, PartialSelectHTMLAttributes, SelectHTMLAttributes, TextareaHTMLAttributes } from "preact";
import { useId } from "preact/hooks";

interface Around {
  label: string;
  hint?: ComponentChildren;
  /** What is wrong with the value. */
  wrong?: string | null | undefined;
  /** Only screen readers hear the label. */
  hideLabel?: boolean;
}

function Frame({ id, label, hint, wrong, hideLabel, children }: Around & { id: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={id} class={hideLabel ? "visually-hidden" : undefined}>
        {label}
      </label>
      {children}
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {wrong && (
        <span class="wrong" id={`${id}-wrong`} role="alert">
          {wrong}
        </span>
      )}
    </div>
  );
}

function described(id: string, { hint, wrong }: Pick<Around, "hint" | "wrong">) {
  const ids = [hint && `${id}-hint`, wrong && `${id}-wrong`].filter(Boolean).join(" ");
  return { "aria-describedby": ids || undefined, "aria-invalid": wrong ? true : undefined };
}

type Input = Omit<PartialInputHTMLAttributes<HTMLInputElement>, "label">;

export function TextField({ label, hint, wrong, hideLabel, ...rest }: Around & Input) {
  const id = useId();
  return (
    <Frame {...{ id, label, hint, wrong }} hideLabel={hideLabel ?? false}>
      <input type="text" class="input" {...described(id, { hint, wrong })} {...(rest as InputHTMLAttributes<HTMLInputElement>)} id={id} />
    </Frame>
  );
}

type Area = Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "label">;

export function TextArea({ label, hint, wrong, hideLabel, ...rest }: Around & Area) {
  const id = useId();
  return (
    <Frame {...{ id, label, hint, wrong }} hideLabel={hideLabel ?? false}>
      <textarea class="input" dir="auto" {...described(id, { hint, wrong })} {...rest} id={id} />
    </Frame>
  );
}

type Choice = Omit<PartialSelectHTMLAttributes<HTMLSelectElement>, "label">;

export function Select({ label, hint, wrong, hideLabel, options, ...rest }: Around & Choice & { options: { value: string; label: string }[] }) {
  const id = useId();
  return (
    <Frame {...{ id, label, hint, wrong }} hideLabel={hideLabel ?? false}>
      <select class="input" {...described(id, { hint, wrong })} {...(rest as SelectHTMLAttributes<HTMLSelectElement>)} id={id}>
        {options.map((option) => (
          <option key={option.value} value={option.value} selected={option.value === rest.value}>
            {option.label}
          </option>
        ))}
      </select>
    </Frame>
  );
}

/** A box to tick, with its words beside it. */
export function Check({ label, hint, ...rest }: { label: ComponentChildren; hint?: string } & Omit<Input, "hint">) {
  const id = useId();
  return (
    <label class="check">
      <input {...(rest as object)} type="checkbox" aria-describedby={hint ? `${id}-hint` : undefined} />
      <span>
        {label}
        {hint && (
          <span class="soft small" id={`${id}-hint`} style={{ display: "block" }}>
            {hint}
          </span>
        )}
      </span>
    </label>
  );
}
