/** Which packets are looked at, where, how many and for how long: asked for in one way, be they followed or captured. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useDraft } from "../ui/draft";
import { Trouble } from "../ui/parts";

type Field = [text: string, set: (text: string) => void];

export interface Pick {
  place: Field;
  filter: Field;
  number: Field;
  time: Field;
}

/** What was typed, kept under a name; `at` is the place that the address names. */
export function usePick(name: string, at: string | null, number: string): Pick {
  const place = useDraft(`${name}-at`, at ?? "");
  const pick = { place, filter: useDraft(`${name}-filter`), number: useDraft(`${name}-count`, number), time: useDraft(`${name}-for`, "30s") };
  useEffect(() => {
    if (at !== null) place[1](at);
  }, [at]);
  return pick;
}

/** The same as a request. What is left empty is the daemon's to choose. */
export function picked({ place: [place], filter: [filter], number: [number], time: [time] }: Pick): Record<string, unknown> {
  return {
    ...(place ? { at: place } : {}),
    ...(filter ? { filter } : {}),
    ...(Number(number) > 0 ? { count: Number(number) } : {}),
    ...(time ? { for: time } : {}),
  };
}

export interface Run {
  running: AbortController | null;
  error: unknown;
  setError: (error: unknown) => void;
  /** Does it, and answers how that came to its end. */
  start: (act: (leaving: AbortController) => Promise<void>) => Promise<"ended" | "stopped" | "failed">;
}

/** One request at a time, which is left with the view. */
export function useRun(): Run {
  const [running, setRunning] = useState<AbortController | null>(null);
  const [error, setError] = useState<unknown>(null);
  const last = useRef<AbortController | null>(null);
  useEffect(() => () => last.current?.abort(), []);
  const start: Run["start"] = async (act) => {
    const leaving = new AbortController();
    last.current = leaving;
    setRunning(leaving);
    setError(null);
    let failed = false;
    try {
      await act(leaving);
    } catch (error) {
      failed = !leaving.signal.aborted;
      if (failed) setError(error);
    }
    const stopped = leaving.signal.aborted;
    leaving.abort();
    setRunning(null);
    return failed ? "failed" : stopped ? "stopped" : "ended";
  };
  return { running, error, setError, start };
}

interface FormProps {
  pick: Pick;
  run: Run;
  labels: { place: string; filter: string; example: string; start: string };
  /** A place has to be named. */
  placed?: boolean;
  /** No packets are chosen: one is made. */
  made?: boolean;
  most?: number;
  begin: () => void;
  /** How it stands. */
  said: string;
  /** Fields beside these. */
  fields?: ComponentChildren;
  /** What stands below the fields. */
  below?: ComponentChildren;
  /** What stands beside the button. */
  beside?: ComponentChildren;
}

export function PickForm({ pick, run, labels, placed, made, most, begin, said, fields, below, beside }: FormProps) {
  const { place, filter, number, time } = pick;
  return (
    <form
      class="card stack"
      onSubmit={(event) => {
        event.preventDefault();
        begin();
      }}
    >
      <div class="fields">
        <label>
          {labels.place}
          <input list="places" required={placed} value={place[0]} spellcheck={false} autocomplete="off" onInput={(event) => place[1](event.currentTarget.value)} />
        </label>
        <label>
          {labels.filter}
          <input value={filter[0]} placeholder={labels.example} spellcheck={false} autocomplete="off" disabled={made} onInput={(event) => filter[1](event.currentTarget.value)} />
        </label>
        <label>
          How many
          <input type="number" min="1" max={most} value={number[0]} onInput={(event) => number[1](event.currentTarget.value)} />
        </label>
        <label>
          For
          <input value={time[0]} placeholder="30s" autocomplete="off" onInput={(event) => time[1](event.currentTarget.value)} />
        </label>
        {fields}
      </div>
      {below}
      <div class="row">
        {run.running ? (
          <button type="button" onClick={() => run.running?.abort()}>
            Stop
          </button>
        ) : (
          <button type="submit" class="first" disabled={placed && !place[0]}>
            {labels.start}
          </button>
        )}
        {beside}
        <span class="dim" role="status">
          {said}
        </span>
      </div>
      <Trouble error={run.error} />
    </form>
  );
}

/** The fields of a packet's headers. */
export function Headers({ of }: { of: { name: string; value: string }[] }) {
  return (
    <table>
      <tbody>
        {of.map((field) => (
          <tr>
            <th scope="row">{field.name}</th>
            <td class="mono">{field.value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A number of a list of packets, by which one is chosen. */
export function Chosen({ number, choose }: { number: number; choose: (number: number) => void }) {
  return (
    <td class="number">
      <button type="button" class="plain" aria-label={`Packet ${number}`} onClick={() => choose(number)}>
        {number}
      </button>
    </td>
  );
}
