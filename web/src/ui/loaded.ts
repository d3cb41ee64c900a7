/** Something that is loaded when a component appears, again when its key changes, and on request. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort } from "../api/client";

export interface Loaded<T> {
  /** The value; the one before stays while a newer one is loaded for the same key. */
  value: T | null;
  error: unknown;
  isLoading: boolean;
  reload: () => void;
  set: (value: T) => void;
}

export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: unknown; isLoading: boolean }>({ key, value: null, error: null, isLoading: true });
  const [round, setRound] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({ key, value: before.key === key ? before.value : null, error: null, isLoading: true }));
    loader.current(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setState({ key, value, error: null, isLoading: false });
      },
      (error: unknown) => {
        if (!abort.signal.aborted && !isAbort(error)) setState((before) => ({ ...before, error, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [key, round]);
  return {
    value: state.key === key ? state.value : null,
    error: state.key === key ? state.error : null,
    isLoading: state.key === key ? state.isLoading : true,
    reload: useCallback(() => setRound((before) => before + 1), []),
    set: useCallback((value: T) => setState((before) => ({ ...before, value, error: null })), []),
  };
}

/** Calls `then` every `seconds` while the page is looked at. */
export function useInterval(seconds: number | null, then: () => void): void {
  const call = useRef(then);
  call.current = then;
  useEffect(() => {
    if (seconds === null) return;
    const timer = setInterval(() => {
      if (!document.hidden) call.current();
    }, seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}
