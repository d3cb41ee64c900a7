/** Undo and redo of texts and speakers across segments. What is typed in one go in one segment is one step. */

export interface Change {
  index: number;
  before: string;
  after: string;
  /** What of the segment: its text unless this says its speaker, of whom an empty one is nobody. */
  of?: "speaker";
}

/** The history after a step was taken back or made again, and what that brings back. */
export interface Stepped {
  history: History;
  texts: { index: number; text: string }[];
  speakers: { index: number; speaker: string }[];
}

interface Step {
  changes: Change[];
  /** When it was last added to; what follows later is a step of its own. */
  at: number;
  /** Whether more typing may join it. */
  isOpen: boolean;
}

/** Immutable: a new one for each change. */
export interface History {
  done: readonly Step[];
  undone: readonly Step[];
}

export const EMPTY: History = { done: [], undone: [] };

const TOGETHER = 1200;
const MOST = 500;

/** Adds typing in a segment, to the step before where that was in the same one and not long ago. */
export function typed(history: History, change: Change, now: number): History {
  if (change.before === change.after) return history;
  const last = history.done.at(-1);
  const only = last?.changes.length === 1 ? last.changes[0] : undefined;
  if (last?.isOpen && !only?.of && only?.index === change.index && only.after === change.before && now - last.at < TOGETHER) {
    const step: Step = { changes: [{ index: change.index, before: only.before, after: change.after }], at: now, isOpen: true };
    return { done: [...history.done.slice(0, -1), step], undone: [] };
  }
  return { done: [...history.done.slice(-MOST + 1), { changes: [change], at: now, isOpen: true }], undone: [] };
}

/** Adds changes that belong together: a replacement everywhere. */
export function together(history: History, changes: readonly Change[], now: number): History {
  const real = changes.filter((change) => change.before !== change.after);
  if (real.length === 0) return history;
  return { done: [...history.done.slice(-MOST + 1), { changes: real, at: now, isOpen: false }], undone: [] };
}

/** Ends the step that typing would join: the segment was left. */
export function closed(history: History): History {
  const last = history.done.at(-1);
  if (!last?.isOpen) return history;
  return { ...history, done: [...history.done.slice(0, -1), { ...last, isOpen: false }] };
}

/** The history without the last step, and what it brings back. */
export function undo(history: History): Stepped | null {
  const step = history.done.at(-1);
  if (!step) return null;
  return {
    history: { done: history.done.slice(0, -1), undone: [...history.undone, { ...step, isOpen: false }] },
    ...broughtBack(step, "before"),
  };
}

/** The history with the step that was undone last, and what it brings back. */
export function redo(history: History): Stepped | null {
  const step = history.undone.at(-1);
  if (!step) return null;
  return {
    history: { done: [...history.done, step], undone: history.undone.slice(0, -1) },
    ...broughtBack(step, "after"),
  };
}

function broughtBack(step: Step, side: "before" | "after"): Pick<Stepped, "texts" | "speakers"> {
  return {
    texts: step.changes.filter((change) => !change.of).map((change) => ({ index: change.index, text: change[side] })),
    speakers: step.changes.filter((change) => change.of === "speaker").map((change) => ({ index: change.index, speaker: change[side] })),
  };
}
