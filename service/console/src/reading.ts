// Data of a page. It is read when the page opens, when the user presses `r`, and when the window gets the focus. If the
// service does not respond, reading is retried.
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemOf } from './api';
import { AGAIN_MS } from './live';
import { useKeys } from './ui';

/** Statuses of temporary failures: no response, or the service is unavailable. */
const PASSING: ReadonlySet<number> = new Set([0, 502, 503]);

interface Read<T> {
  of: string;
  value: T | undefined;
  problem: Problem | undefined;
  /** Number of successful reads. */
  times: number;
}

export interface Reading<T> extends Read<T> {
  /** Reads the data again, and cancels a read in progress. */
  refresh: () => Promise<void>;
  /** Adds to the data, for example its next page. */
  add: (more: (value: T) => Promise<T>) => Promise<void>;
}

/** Reads data with `read`. `of` names the data: when it changes, the data is read again. */
export function useReading<T>(of: string, read: (signal: AbortSignal) => Promise<T>): Reading<T> {
  const [seen, setSeen] = useState<Read<T>>({ of, value: undefined, problem: undefined, times: 0 });
  const newest = useRef({ of, read });
  newest.current = { of, read };
  const asking = useRef<AbortController | undefined>(undefined);
  const again = useRef<{ timer?: ReturnType<typeof setTimeout>; tries: number }>({ tries: 0 });
  const ask = async (asked: (signal: AbortSignal) => Promise<T>): Promise<void> => {
    asking.current?.abort();
    clearTimeout(again.current.timer);
    const stop = (asking.current = new AbortController());
    const { of } = newest.current;
    try {
      const value = await asked(stop.signal);
      if (stop.signal.aborted) return;
      again.current.tries = 0;
      setSeen((old) => ({ of, value, problem: undefined, times: old.times + 1 }));
    } catch (error) {
      if (stop.signal.aborted) return;
      const problem = problemOf(error);
      // Earlier data stays visible if it has the same name.
      setSeen((old) => ({ ...old, of, value: old.of === of ? old.value : undefined, problem }));
      if (!PASSING.has(problem.status)) return;
      const wait = AGAIN_MS[Math.min(again.current.tries++, AGAIN_MS.length - 1)];
      again.current.timer = setTimeout(() => void refresh(), wait);
    }
  };
  const refresh = (): Promise<void> => ask((signal) => newest.current.read(signal));
  useEffect(() => {
    void refresh();
    const looked = (): void => void refresh();
    addEventListener('focus', looked);
    return () => {
      asking.current?.abort();
      clearTimeout(again.current.timer);
      removeEventListener('focus', looked);
    };
  }, [of]);
  useKeys({ r: () => void refresh() });
  const shown = seen.of === of ? seen : { ...seen, of, value: undefined, problem: undefined };
  const add = async (more: (value: T) => Promise<T>): Promise<void> => {
    const { value } = shown;
    if (value !== undefined) await ask(() => more(value));
  };
  return { ...shown, refresh, add };
}
