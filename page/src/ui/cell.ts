/** A value that views follow: set it, and what reads it by {@link useCell} is drawn anew. */
import { useEffect, useReducer } from "preact/hooks";

export interface Cell<T> {
  /** The value now. */
  get(): T;
  /** Sets it, and tells those that listen where it differs. */
  set(value: T): void;
  /** Calls `told` on each change, until the function that it answers is called. */
  listen(told: (value: T) => void): () => void;
}

export function cell<T>(initial: T): Cell<T> {
  let value = initial;
  const listeners = new Set<(value: T) => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const told of [...listeners]) told(next);
    },
    listen(told) {
      listeners.add(told);
      return () => void listeners.delete(told);
    },
  };
}

/** The value of a cell, for a component that is drawn anew when it changes. */
export function useCell<T>(of: Cell<T>): T {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const before = of.get();
    const stop = of.listen(() => redraw(undefined));
    // What changed between drawing and listening.
    if (!Object.is(before, of.get())) redraw(undefined);
    return stop;
  }, [of]);
  return of.get();
}
