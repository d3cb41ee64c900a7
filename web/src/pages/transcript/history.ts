/** Undo and redo of texts across segments. What is typed in one go in one segment is one step. */

export interface Change {
  index: number;
  before: string;
  after: string;
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
  if (last?.isOpen && only?.index === change.index && only.after === change.before && now - last.at < TOGETHER) {
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

/** The history without the last step, and the texts it brings back. */
export function undo(history: History): { history: History; texts: { index: number; text: string }[] } | null {
  const step = history.done.at(-1);
  if (!step) return null;
  return {
    history: { done: history.done.slice(0, -1), undone: [...history.undone, { ...step, isOpen: false }] },
    texts: step.changes.map(({ index, before }) => ({ index, text: before })),
  };
}

/** The history with the step that was undone last, and its texts. */
export function redo(history: History): { history: History; texts: { index: number; text: string }[] } | null {
  const step = history.undone.at(-1);
  if (!step) return null;
  return {
    history: { done: [...history.done, step], undone: history.undone.slice(0, -1) },
    texts: step.changes.map(({ index, after }) => ({ index, text: after })),
  };
}
