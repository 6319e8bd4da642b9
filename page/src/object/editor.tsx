/** A spec as text: lines are numbered, faults stand at their place, and keys are suggested. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PlacedFault } from "../api/types";
import { printable } from "../ui/format";
import { type Schemas, type Suggestion, schemas, specSchema, suggest } from "./complete";
import { keyAt, tokens } from "./json_text";

interface Props {
  kind: string;
  label: string;
  text: string;
  change: (text: string) => void;
  faults: PlacedFault[];
  warnings: PlacedFault[];
  readOnly: boolean;
}

/** Longer texts are not coloured: each key would be waited for. */
const COLOURED_MOST = 60_000;

export function Editor({ kind, label, text, change, faults, warnings, readOnly }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [known, setKnown] = useState<Schemas | null>(null);
  const [suggestions, setSuggestions] = useState<Suggestion[]>([]);
  const [chosen, setChosen] = useState(0);
  const put = useRef<number | null>(null);
  const lines = text.split("\n").length;
  const at = (of: PlacedFault[], line: number): PlacedFault[] => of.filter((fault) => fault.line === line);
  const coloured = useMemo(() => (text.length > COLOURED_MOST ? null : tokens(text)), [text]);

  useEffect(() => {
    void schemas().then(setKnown, () => undefined);
  }, []);
  // The text area is as tall as its text; the box scrolls.
  useLayoutEffect(() => {
    area.current?.style.setProperty("height", `${lines * 20 + 16}px`);
    if (put.current !== null) {
      area.current?.setSelectionRange(put.current, put.current);
      put.current = null;
    }
  }, [text, lines]);

  const look = (value: string, place: number, asked: boolean): void => {
    const key = known && !readOnly ? keyAt(value, place) : null;
    const found = key && (asked || key.word !== "") ? suggest(known!, specSchema(known!, kind), key.path, key.word, key.present) : [];
    setSuggestions(found.slice(0, 12));
    setChosen(0);
  };
  const take = (suggestion: Suggestion): void => {
    const place = area.current?.selectionStart ?? 0;
    const key = keyAt(text, place);
    if (!key) return;
    const rest = text.slice(place).replace(/^[\w-]*"?(\s*:\s*)?/, "");
    const typed = `"${suggestion.key}": `;
    put.current = key.from + typed.length;
    setSuggestions([]);
    change(text.slice(0, key.from) + typed + rest);
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
        <ul class="suggestions" role="listbox" aria-label="Keys that may stand here">
          {suggestions.map((suggestion, number) => (
            <li role="option" aria-selected={number === chosen} onMouseDown={(event) => (event.preventDefault(), take(suggestion))}>
              <code>{suggestion.key}</code>
              <span class="dim">{suggestion.about}</span>
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
