/** How an object was over the last minutes or the last hour, and the latency and reasons of its last minute. */
import { useEffect, useState } from "preact/hooks";
import { askJson } from "../api/http";
import type { HistoryOf, HistoryPart } from "../api/types";
import { at, kept } from "../host/follow";
import { useCell } from "../ui/cell";
import { Chart, type Line } from "../ui/chart";
import { bitRate, clock, count, nanoseconds, packetRate, share } from "../ui/format";
import { Skeleton, Trouble } from "../ui/parts";

/** Seconds between two questions about one object. */
const EVERY = 2;

/** The history of an object, asked for again and again; `wanted` tells when to begin. */
export function useHistory(of: string, seconds: number, wanted = true): { history: HistoryOf | null; error: unknown } {
  const [history, setHistory] = useState<HistoryOf | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const leaving = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const turn = async (): Promise<void> => {
      try {
        if (!document.hidden) {
          setHistory(await askJson<HistoryOf>(`/v1/history?of=${encodeURIComponent(of)}&seconds=${seconds}`, { signal: leaving.signal }));
          setError(null);
        }
      } catch (failed) {
        if (!leaving.signal.aborted) setError(failed);
      }
      if (!leaving.signal.aborted) timer = setTimeout(() => void turn(), EVERY * 1000 * (seconds > 600 ? 5 : 1));
    };
    setHistory(null);
    if (wanted) void turn();
    return () => {
      leaving.abort();
      clearTimeout(timer);
    };
  }, [of, seconds, wanted]);
  return { history, error };
}

/** Times in seconds and values of a column, coarse before fine. */
export function column(history: HistoryOf, name: string, each: (value: number, seconds: number) => number): { x: number[]; values: (number | null)[] } {
  const x: number[] = [];
  const values: (number | null)[] = [];
  const add = (part: HistoryPart | undefined): void => {
    const found = part?.values[name];
    if (!part || !found) return;
    found.forEach((value, place) => {
      x.push(history.start_ms / 1000 + part.from + place * part.seconds);
      values.push(value === null || value === undefined ? null : each(value, part.seconds));
    });
  };
  add(history.coarse);
  add(history.fine);
  return { x, values };
}

const perSecond = (value: number, seconds: number): number => value / seconds;
const bits = (value: number, seconds: number): number => (8 * value) / seconds;
const core = (value: number, seconds: number): number => value / seconds / 1e9;

interface Drawn {
  label: string;
  lines: [name: string, column: string, colour: string, each: (value: number, seconds: number) => number][];
  value: (value: number | null | undefined) => string;
}

function charts(of: string): Drawn[] {
  const kind = of.slice(0, of.indexOf("/"));
  const rate = (lines: Drawn["lines"]): Drawn => ({ label: "Packets per second", lines, value: packetRate });
  switch (kind) {
    case "function":
      return [
        rate([["packets", "packets", "--accent", perSecond], ["lost", "drops", "--bad", perSecond]]),
        { label: "Bits per second", lines: [["bits", "bytes", "--accent", bits]], value: bitRate },
        { label: "Processor time", lines: [["got", "cpu_ns", "--good", core]], value: share },
        { label: "Queue", lines: [["packets", "queue", "--warn", (value) => value]], value: count },
      ];
    case "port":
      return [
        rate([["received", "received", "--accent", perSecond], ["delivered", "delivered", "--good", perSecond], ["lost", "drops", "--bad", perSecond]]),
        { label: "Bits per second", lines: [["received", "received_bytes", "--accent", bits], ["delivered", "delivered_bytes", "--good", bits]], value: bitRate },
      ];
    case "edge":
      return [rate([["there", "there", "--accent", perSecond], ["back", "back", "--good", perSecond]])];
    case "worker":
      return [{ label: "Time of the worker", lines: [["functions", "functions_ns", "--accent", core], ["looking", "overhead_ns", "--warn", core], ["asleep", "asleep_ns", "--idle", core]], value: share }];
    default:
      return [rate([["packets", "packets", "--accent", perSecond], ["lost", "drops", "--bad", perSecond]])];
  }
}

export function History({ of, small, seconds = 600 }: { of: string; small?: boolean; seconds?: number }) {
  const { history, error } = useHistory(of, seconds);
  const place = useCell(at);
  const steps = useCell(kept);
  if (!history) return error ? <Trouble error={error} /> : <Skeleton lines={small ? 2 : 5} />;
  const drawn = charts(of).slice(0, small ? 1 : undefined);
  const mark = place === null || !steps ? null : steps.startMs / 1000 + place;
  return (
    <div class={small ? "stack" : "cards small"}>
      {drawn.map(({ label, lines, value }) => {
        const columns = lines.map(([, name, , each]) => column(history, name, each));
        const made: Line[] = lines.map(([name, , colour], number) => ({ name, colour, values: columns[number]!.values, fill: number === 0 }));
        const { x } = columns[0]!;
        const short = (x.at(-1) ?? 0) - (x[0] ?? 0) < 240;
        return (
          <div class={small ? undefined : "card stack"}>
            {!small && <h2>{label}</h2>}
            <Chart label={`${label} of ${of}`} x={columns[0]!.x} lines={made} time xValue={(at) => clock(at * 1000).slice(0, short ? 8 : 5)} value={value} height={small ? 130 : 150} mark={mark} />
          </div>
        );
      })}
    </div>
  );
}

/** The last minute: how long packets took, and why some were lost. */
export function LastMinute({ of }: { of: string }) {
  const { history } = useHistory(of, 1);
  if (!history) return <Skeleton lines={4} />;
  const { latency, drops } = history.minute ?? {};
  const reasons = Object.entries(drops ?? {}).sort((a, b) => b[1] - a[1]);
  const total = latency?.counts.reduce((sum, count) => sum + count, 0) ?? 0;
  let [first, last] = [0, 0];
  if (latency) {
    first = latency.counts.findIndex((count) => count > 0);
    last = latency.counts.findLastIndex((count) => count > 0);
  }
  return (
    <div class="cards">
      <section class="card stack">
        <h2>Latency, the last minute</h2>
        {total === 0 ? (
          <p class="nothing">No packet had an end in the last minute.</p>
        ) : (
          <Chart
            label="Packets by how long they took at most"
            x={Array.from({ length: last - first + 1 }, (_, at) => at)}
            names={Array.from({ length: last - first + 1 }, (_, at) => (first + at < latency!.bounds_ns.length ? nanoseconds(latency!.bounds_ns[first + at]) : "longer"))}
            lines={[{ name: `${count(total)} packets, by how long they took at most`, colour: "--accent", values: latency!.counts.slice(first, last + 1), bars: true }]}
            value={count}
          />
        )}
      </section>
      <section class="card stack">
        <h2>Lost, the last minute</h2>
        {reasons.length === 0 ? (
          <p class="nothing">No packet was lost in the last minute.</p>
        ) : (
          <table>
            <thead>
              <tr>
                <th>Reason</th>
                <th class="number">Packets</th>
              </tr>
            </thead>
            <tbody>
              {reasons.map(([reason, packets]) => (
                <tr>
                  <td>
                    <code>{reason}</code>
                  </td>
                  <td class="number bad">{count(packets)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
    </div>
  );
}
