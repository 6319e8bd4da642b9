/** A spec as text: lines are numbered, faults stand at their place, and keys are suggested. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PlacedFault } from "../api/types";
import { printable } from "../ui/format";
import { suggest } from "./complete";
import { placeAt, tokens } from "./json_text";

interface Props {
  kind: string;
  name: string;
  label: string;
  text: string;
  change: (text: string) => void;
  faults: PlacedFault[];
  warnings: PlacedFault[];
  readOnly: boolean;
}

/** How long nothing is typed before suggestions are asked for, in milliseconds. */
const PAUSE = 300;
/** Longer texts are not coloured: each key would be waited for. */
const COLOURED_MOST = 60_000;

export function Editor({ kind, name, label, text, change, faults, warnings, readOnly }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [suggestions, setSuggestions] = useState<string[]>([]);
  const [chosen, setChosen] = useState(0);
  const put = useRef<number | null>(null);
  const lines = text.split("\n").length;
  const at = (of: PlacedFault[], line: number): PlacedFault[] => of.filter((fault) => fault.line === line);
  const coloured = useMemo(() => (text.length > COLOURED_MOST ? null : tokens(text)), [text]);

  const asking = useRef<{ timer?: ReturnType<typeof setTimeout>; leaving?: AbortController }>({});
  useEffect(() => () => stopAsking(), []);
  // The text area is as tall as its text; the box scrolls.
  useLayoutEffect(() => {
    area.current?.style.setProperty("height", `${lines * 20 + 16}px`);
    if (put.current !== null) {
      area.current?.setSelectionRange(put.current, put.current);
      put.current = null;
    }
  }, [text, lines]);

  const stopAsking = (): void => {
    clearTimeout(asking.current.timer);
    asking.current.leaving?.abort();
  };
  /** Asks for what may stand at a place, a moment after the last key or at once. */
  const look = (value: string, at: number, asked: boolean): void => {
    stopAsking();
    const place = readOnly ? null : placeAt(value, at);
    if (!place || (!asked && place.word === "")) {
      setSuggestions([]);
      return;
    }
    asking.current.timer = setTimeout(
      () => {
        const leaving = new AbortController();
        asking.current.leaving = leaving;
        suggest(kind, name, value, at, leaving.signal).then(
          (found) => {
            if (area.current?.selectionStart !== at) return;
            setSuggestions(found?.words ?? []);
            setChosen(0);
          },
          // Without an answer one types without suggestions.
          () => setSuggestions([]),
        );
      },
      asked ? 0 : PAUSE,
    );
  };
  const take = (word: string): void => {
    const place = placeAt(text, area.current?.selectionStart ?? 0);
    if (!place) return;
    const rest = text.slice(area.current?.selectionStart ?? 0).replace(place.kind === "key" ? /^[\w-]*"?(\s*:[ ]*)?/ : /^[\w.-]*"?/, "");
    const typed = place.kind === "key" ? `"${word}": ` : /^(\d+|true|false|null)$/.test(word) ? word : `"${word}"`;
    put.current = place.from + typed.length;
    setSuggestions([]);
    change(text.slice(0, place.from) + typed + rest);
    area.current?.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      look(text, area.current?.selectionStart ?? 0, true);
      return;
    }
    if (suggestions.length) {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step) {
        event.preventDefault();
        setChosen((chosen + step + suggestions.length) % suggestions.length);
        return;
      }
      if (event.key === "Enter" || event.key === "Tab") {
        event.preventDefault();
        take(suggestions[chosen]!);
        return;
      }
      if (event.key === "Escape") {
        event.stopPropagation();
        setSuggestions([]);
        return;
      }
    }
    if (event.key === "Enter" && !readOnly) {
      // A new line begins where the last one does.
      event.preventDefault();
      const place = area.current?.selectionStart ?? 0;
      const before = text.slice(0, place);
      const indent = /(?:^|\n)([ ]*)[^\n]*$/.exec(before)?.[1] ?? "";
      const deeper = /[{[]\s*$/.test(before) ? "  " : "";
      put.current = place + 1 + indent.length + deeper.length;
      change(`${before}\n${indent}${deeper}${text.slice(area.current?.selectionEnd ?? place)}`);
    }
  };
  const jump = (fault: PlacedFault): void => {
    if (!fault.line || !area.current) return;
    const place = text.split("\n").slice(0, fault.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + (fault.column ?? 1) - 1;
    area.current.focus();
    area.current.setSelectionRange(place, place);
    box.current?.scrollTo({ top: Math.max(0, (fault.line - 4) * 20) });
  };
  return (
    <div class="stack">
      <div class="editor" ref={box}>
        <div class="lines" aria-hidden="true">
          {Array.from({ length: lines }, (_, line) => {
            const wrong = at(faults, line + 1);
            const odd = at(warnings, line + 1);
            return (
              <div>
                <span class={wrong.length ? "fault" : odd.length ? "warning" : undefined} title={[...wrong, ...odd].map((fault) => fault.message).join("\n") || undefined}>
                  {line + 1}
                </span>
              </div>
            );
          })}
        </div>
        <div class="text">
          <pre aria-hidden="true">{coloured ? coloured.map((token) => (token.kind === "mark" || token.kind === "space" ? token.text : <span class={token.kind}>{token.text}</span>)) : text}{"\n"}</pre>
          <textarea
            ref={area}
            aria-label={label}
            aria-invalid={faults.length > 0}
            aria-describedby="editor-faults"
            spellcheck={false}
            autocapitalize="off"
            autocomplete="off"
            wrap="off"
            readOnly={readOnly}
            value={text}
            onInput={(event) => {
              change(event.currentTarget.value);
              look(event.currentTarget.value, event.currentTarget.selectionStart, false);
            }}
            onKeyDown={onKey}
            onBlur={() => setTimeout(() => setSuggestions([]), 150)}
          />
        </div>
      </div>
      {suggestions.length > 0 && (
        <ul class="suggestions" role="listbox" aria-label="What may stand here">
          {suggestions.map((word, number) => (
            <li role="option" aria-selected={number === chosen} onMouseDown={(event) => (event.preventDefault(), take(word))}>
              <code>{word}</code>
            </li>
          ))}
        </ul>
      )}
      <div id="editor-faults" aria-live="polite">
        <ul class="faults">
          {[...faults.map((fault) => [fault, "bad"] as const), ...warnings.map((fault) => [fault, "warn"] as const)].map(([fault, tone]) => (
            <li>
              <button type="button" class="plain" onClick={() => jump(fault)}>
                <span class={tone}>
                  {fault.line ? `${fault.line}:${fault.column ?? 1} ` : ""}
                  {fault.at ? `${printable(fault.at)}: ` : ""}
                  {printable(fault.message)}
                </span>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
