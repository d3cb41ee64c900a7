/** Icons of our own, on a grid of 24: strokes in the colour of the text. */

const PATHS = {
  upload: "M12 16V4M7 9l5-5 5 5M4 16v3a1 1 0 0 0 1 1h14a1 1 0 0 0 1-1v-3",
  download: "M12 4v12M7 11l5 5 5-5M4 20h16",
  mic: "M12 15a3 3 0 0 0 3-3V6a3 3 0 0 0-6 0v6a3 3 0 0 0 3 3ZM6 11v1a6 6 0 0 0 12 0v-1M12 18v3",
  screen: "M3 5h18v11H3zM9 20h6M12 16v4",
  play: "M7 4.5v15l12-7.5z",
  pause: "M8 5v14M16 5v14",
  stop: "M6 6h12v12H6z",
  back: "M11 7 6 12l5 5M6 12h8a5 5 0 0 1 0 10h-1",
  forward: "M13 7l5 5-5 5M18 12h-8a5 5 0 0 0 0 10h1",
  library: "M4 5h16M4 10h16M4 15h10M4 20h10",
  live: "M12 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM8.5 15.5a5 5 0 0 1 0-7M15.5 8.5a5 5 0 0 1 0 7M5.6 18.4a9 9 0 0 1 0-12.8M18.4 5.6a9 9 0 0 1 0 12.8",
  voice: "M4 10v4M8 6v12M12 3v18M16 7v10M20 10v4",
  code: "M9 8l-5 4 5 4M15 8l5 4-5 4",
  admin: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6z",
  account: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4 21a8 8 0 0 1 16 0",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM16 16l5 5",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 12.5l4.5 4.5L19 7",
  plus: "M12 5v14M5 12h14",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v6M14 11v6",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  share: "M12 14V3M8 7l4-4 4 4M6 11H5v10h14V11h-1",
  more: "M6.2 12a1.2 1.2 0 1 1-2.4 0 1.2 1.2 0 0 1 2.4 0ZM13.2 12a1.2 1.2 0 1 1-2.4 0 1.2 1.2 0 0 1 2.4 0ZM20.2 12a1.2 1.2 0 1 1-2.4 0 1.2 1.2 0 0 1 2.4 0Z",
  undo: "M8 5L4 9l4 4M4 9h10a5 5 0 0 1 0 10h-3",
  redo: "M16 5l4 4-4 4M20 9H10a5 5 0 0 0 0 10h3",
  retry: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  warning: "M12 4 2.5 20h19zM12 10v5M12 17.5v.01",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 11v5M12 7.5v.01",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5 19 19M5 19l1.5-1.5M17.5 6.5 19 5",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z",
  globe: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM3 12h18M12 3c3 3 3.5 6 3.5 9s-.5 6-3.5 9c-3-3-3.5-6-3.5-9S9 6 12 3",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  chat: "M4 5h16v11H10l-5 4v-4H4z",
  sparkle: "M12 3l2 6 6 3-6 2-2 6-2-6-6-2 6-3z",
  translate: "M4 6h9M8.5 4v2M11 6c-1 4-4 7-7 8M6 9c1 2 3 4 6 5M12 20l4-10 4 10M13.5 17h5",
  speaker: "M5 9v6h4l5 4V5L9 9zM17 9a4 4 0 0 1 0 6",
  mute: "M5 9v6h4l5 4V5L9 9zM17 10l4 4M21 10l-4 4",
  key: "M8 15a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 11h9M18 11v3M15 11v2",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3 2",
  chevron: "M8 10l4 4 4-4",
  up: "M8 14l4-4 4 4",
  filter: "M4 6h16M7 12h10M10 18h4",
  merge: "M6 4v4c0 4 6 4 6 8v4M18 4v4c0 4-6 4-6 8",
  video: "M3 6h12v12H3zM15 10l6-3v10l-6-3",
  expand: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon. It says nothing to a screen reader: the control around it has a name. */
export function Icon({ name, class: extra }: { name: IconName; class?: string }) {
  return (
    <svg class={`icon-glyph${extra ? ` ${extra}` : ""}`} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
