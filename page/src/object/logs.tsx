/** What a function said, what it found and what happened to it, and what it reports of itself. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Refused, askJson, lines } from "../api/http";
import type { FunctionEvent, LogLine } from "../api/types";
import { moment, printable } from "../ui/format";
import { Outside, Skeleton, Tabs, Trouble } from "../ui/parts";

/** Lines that are kept here: the daemon has the others as long as it keeps them. */
const KEPT = 1000;

/** Follows a stream of lines: those that come at once are drawn at once. */
function useLines<T>(path: string): { lines: T[]; error: unknown } {
  const [found, setFound] = useState<T[]>([]);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const leaving = new AbortController();
    let waiting: T[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    setFound([]);
    const read = async (): Promise<void> => {
      for await (const line of lines<T>(path, { signal: leaving.signal })) {
        waiting.push(line);
        if (waiting.length > KEPT) waiting = waiting.slice(-KEPT);
        timer ??= setTimeout(() => {
          timer = undefined;
          const more = waiting;
          waiting = [];
          setFound((before) => [...before, ...more].slice(-KEPT));
        }, 200);
      }
    };
    read().catch((failed: unknown) => {
      if (!leaving.signal.aborted) setError(failed);
    });
    return () => {
      leaving.abort();
      clearTimeout(timer);
    };
  }, [path]);
  return { lines: found, error };
}

type Tab = "events" | "log" | "report";

export function Said({ name }: { name: string }) {
  const [tab, setTab] = useState<Tab>("events");
  return (
    <section class="card stack" aria-label="What it says">
      <Tabs<Tab>
        label="What it says"
        tabs={[
          ["events", "Found and failed"],
          ["log", "Log"],
          ["report", "Report"],
        ]}
        chosen={tab}
        choose={setTab}
      />
      {tab === "events" ? <Found name={name} /> : tab === "log" ? <Log name={name} /> : <Report name={name} />}
    </section>
  );
}

/** A list that stays at its end while its end is seen. */
function useAtEnd(count: number): { current: HTMLUListElement | null } {
  const list = useRef<HTMLUListElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    const element = list.current;
    if (!element) return;
    const seen = (): void => {
      follows.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 30;
    };
    element.addEventListener("scroll", seen);
    return () => element.removeEventListener("scroll", seen);
  }, []);
  useEffect(() => {
    if (follows.current && list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [count]);
  return list;
}

function Log({ name }: { name: string }) {
  const { lines: all, error } = useLines<LogLine>(`/v1/functions/${encodeURIComponent(name)}/logs?follow=true&after=0`);
  const list = useAtEnd(all.length);
  return (
    <>
      <Trouble error={error} />
      <ul class="lines-view" ref={list} tabIndex={0} aria-label="Log">
        {all.map((line) => (
          <li>
            <time>{moment(Date.parse(line.time))}</time>
            <span class={line.severity === "error" ? "bad" : line.severity === "warning" ? "warn" : "dim"}>{line.severity}</span>
            <span class="grow">{printable(line.text)}</span>
          </li>
        ))}
        {all.length === 0 && !error && <li class="dim">It has said nothing yet.</li>}
      </ul>
    </>
  );
}

function Found({ name }: { name: string }) {
  const { lines: all, error } = useLines<FunctionEvent>(`/v1/functions/${encodeURIComponent(name)}/events?follow=true&after=0`);
  const list = useAtEnd(all.length);
  return (
    <>
      <Trouble error={error} />
      <ul class="lines-view" ref={list} tabIndex={0} aria-label="Found and failed">
        {all.map((event) => (
          <li>
            <time>{moment(Date.parse(event.time))}</time>
            <span class={event.what === "fault" ? "bad" : event.what === "restarted" ? "good" : event.what === "alert" ? "warn" : "dim"}>{event.what}</span>
            <span class="grow">{printable(event.text ?? (event.alert !== undefined ? alertText(event.alert) : event.lost ? `${event.lost} were lost` : ""))}</span>
          </li>
        ))}
        {all.length === 0 && !error && <li class="dim">It has found nothing, and has not failed.</li>}
      </ul>
    </>
  );
}

/** An alert in one line: what it says first, then all of it. */
function alertText(alert: unknown): string {
  const of = alert as { alert?: { signature?: unknown }; message?: unknown };
  const first = typeof of?.alert?.signature === "string" ? of.alert.signature : typeof of?.message === "string" ? of.message : "";
  return `${first ? `${first}  ` : ""}${JSON.stringify(alert)}`;
}

function Report({ name }: { name: string }) {
  const [report, setReport] = useState<{ time: string; current: boolean; report: unknown } | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const leaving = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const turn = async (): Promise<void> => {
      try {
        setReport(await askJson(`/v1/functions/${encodeURIComponent(name)}/report`, { signal: leaving.signal }));
        setError(null);
      } catch (failed) {
        if (!leaving.signal.aborted) setError(failed);
      }
      // It is a call into the function, which is charged for it: seldom.
      if (!leaving.signal.aborted) timer = setTimeout(() => void turn(), 5000);
    };
    void turn();
    return () => {
      leaving.abort();
      clearTimeout(timer);
    };
  }, [name]);
  if (error instanceof Refused && error.status === 404) return <p class="nothing">It has nothing to report.</p>;
  if (error && !report) return <Trouble error={error} />;
  if (!report) return <Skeleton />;
  return (
    <>
      <p class="dim">
        {report.current ? "As it is" : "As it was when it could last be asked"}, {moment(Date.parse(report.time))}
      </p>
      <Tree value={report.report} />
    </>
  );
}

/** JSON as it is, in tables where it has the form of one. */
function Tree({ value }: { value: unknown }) {
  if (Array.isArray(value) && value.length > 0 && value.every((row) => typeof row === "object" && row !== null && !Array.isArray(row))) {
    const rows = value.slice(0, 200) as Record<string, unknown>[];
    const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].slice(0, 12);
    return (
      <div class="scroll" tabIndex={0} role="region" aria-label="Rows">
        <table>
          <thead>
            <tr>{columns.map((column) => <th>{printable(column)}</th>)}</tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>
                {columns.map((column) => (
                  <td>{typeof row[column] === "object" && row[column] !== null ? <code>{printable(JSON.stringify(row[column]))}</code> : row[column] === undefined ? "" : <Outside text={String(row[column])} />}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    );
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return (
      <div class="stack">
        {Object.entries(value).map(([key, inner]) =>
          typeof inner === "object" && inner !== null ? (
            <section class="stack">
              <h3>{printable(key)}</h3>
              <Tree value={inner} />
            </section>
          ) : (
            <p>
              <span class="dim">{printable(key)}</span> <Outside text={String(inner)} />
            </p>
          ),
        )}
      </div>
    );
  }
  return <code>{printable(JSON.stringify(value))}</code>;
}
