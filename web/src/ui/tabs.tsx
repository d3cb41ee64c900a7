/** Tabs by the pattern of the ARIA guide: one stop of the tab key, arrows move between them. */

import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";

export function Tabs<T extends string>({
  label,
  tabs,
  current,
  onChange,
  children,
}: {
  label: string;
  tabs: { id: T; label: string }[];
  current: T;
  onChange: (id: T) => void;
  /** The panel of the current tab. */
  children: ComponentChildren;
}) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const at = tabs.findIndex((tab) => tab.id === current);
    const isRtl = getComputedStyle(event.currentTarget as Element).direction === "rtl";
    const step = isRtl ? -1 : 1;
    const to = { ArrowRight: at + step, ArrowLeft: at - step, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const index = (to + tabs.length) % tabs.length;
    const tab = tabs[index];
    if (!tab) return;
    onChange(tab.id);
    (list.current?.children[index] as HTMLElement | undefined)?.focus();
  };
  return (
    <div class="stack">
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={onKeyDown}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${id}-${tab.id}`}
            aria-selected={tab.id === current}
            aria-controls={tab.id === current ? `${id}-panel` : undefined}
            tabIndex={tab.id === current ? 0 : -1}
            onClick={() => onChange(tab.id)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${current}`} tabIndex={-1}>
        {children}
      </div>
    </div>
  );
}
