/** What the daemon says of a spec while it is typed. */
import { useEffect, useState } from "preact/hooks";
import { askJson, plural } from "../api/http";
import type { CheckReport, PlacedFault } from "../api/types";
import { parse } from "./json_text";

/** How long nothing is typed before the daemon is asked, in milliseconds. */
const PAUSE = 350;

/** The document of one object, its spec as it was typed: what is wrong with it is told with the text's own lines and columns. */
export function documentOf(kind: string, name: string, spec: string): { text: string; line: number } {
  const before =
    kind === "workers" ? `{"superfluid": 1, "workers":\n` : kind === "wire" ? `{"superfluid": 1, "wires": [\n` : `{"superfluid": 1, ${JSON.stringify(plural(kind))}: {${JSON.stringify(name)}:\n`;
  const after = kind === "workers" ? "\n}" : kind === "wire" ? "\n]}" : "\n}}";
  return { text: before + spec + after, line: 1 };
}

/** Takes the document around the spec away from a fault's place. */
export function placed(fault: PlacedFault, kind: string, name: string): PlacedFault {
  const prefixes = [`${plural(kind)}.${name}.`, `${plural(kind)}.${name}`, `${plural(kind)}[0]`, "workers."];
  const prefix = prefixes.find((prefix) => fault.at.startsWith(prefix));
  return { ...fault, at: prefix ? fault.at.slice(prefix.length).replace(/^\./, "") : fault.at, line: fault.line ? fault.line - 1 : undefined };
}

export interface Checked {
  state: "checking" | "checked" | "failed";
  faults: PlacedFault[];
  warnings: PlacedFault[];
  report: CheckReport | null;
}

const NOTHING: Checked = { state: "checked", faults: [], warnings: [], report: null };

/** Asks while one types: when nothing is typed for a moment, and one question at a time. */
export function useCheck(kind: string, name: string, text: string, wanted: boolean): Checked {
  const [checked, setChecked] = useState<Checked>(NOTHING);
  useEffect(() => {
    if (!wanted) {
      setChecked(NOTHING);
      return;
    }
    const parsed = parse(text);
    if ("broken" in parsed) {
      const { message, line, column } = parsed.broken;
      setChecked({ state: "checked", faults: [{ at: "", message, line, column }], warnings: [], report: null });
      return;
    }
    if (!name) return;
    setChecked((before) => ({ ...before, state: "checking" }));
    const leaving = new AbortController();
    const timer = setTimeout(() => {
      askJson<CheckReport>("/v1/check", { method: "POST", text: { type: "application/yaml", body: documentOf(kind, name, text).text }, signal: leaving.signal }).then(
        (report) => setChecked({ state: "checked", faults: report.faults.map((fault) => placed(fault, kind, name)), warnings: report.warnings.map((fault) => placed(fault, kind, name)), report }),
        (error: unknown) => {
          if (leaving.signal.aborted) return;
          const message = error instanceof Error ? error.message : String(error);
          setChecked({ state: "failed", faults: [], warnings: [{ at: "", message: `not checked: ${message}` }], report: null });
        },
      );
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [kind, name, text, wanted]);
  return checked;
}
