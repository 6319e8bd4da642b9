/** What was typed and not sent: it outlives a change of the view, the end of a session and a reload of the tab. */
import { useState } from "preact/hooks";

const PREFIX = "superfluid-draft:";
/** Longer text is kept while the page is open, not beyond. */
const LONGEST = 256 * 1024;
const open = new Map<string, string>();

export function draft(key: string): string | null {
  return open.get(key) ?? sessionStorage.getItem(PREFIX + key);
}

export function keep(key: string, text: string | null): void {
  if (text === null) {
    open.delete(key);
    sessionStorage.removeItem(PREFIX + key);
    return;
  }
  open.set(key, text);
  try {
    if (text.length <= LONGEST) sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // The browser's store is full: the text stays in memory.
  }
}

/** A field whose text is kept. */
export function useDraft(key: string, initial = ""): [string, (text: string) => void] {
  const [text, setText] = useState(() => draft(key) ?? initial);
  return [
    text,
    (next) => {
      setText(next);
      keep(key, next);
    },
  ];
}
