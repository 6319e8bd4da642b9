/** Workers as lanes: which functions share a core, which moved, and how long each slept. */
import { useRef } from "preact/hooks";
import { events, shown, wiring } from "../host/follow";
import { useCell } from "../ui/cell";
import { clock, share } from "../ui/format";
import { Outside, Skeleton } from "../ui/parts";
import { go } from "../ui/route";

/** Functions that have a part of a lane of their own; the others share one. */
const APART = 24;
/** How long a move is marked, in milliseconds. */
const MARKED = 30_000;
/** Moves that are listed. */
const LISTED = 30;

export function Workers() {
  const [structure, frame] = [useCell(wiring), useCell(shown)];
  const balanced = useCell(events).filter((event) => event.what === "moved").slice(-LISTED).reverse();
  const before = useRef(new Map<string, { worker: number; moved: number; from: number }>());
  if (!structure || !frame || frame.worker.length !== structure.nodes.length) {
    return (
      <div class="view">
        <h1>Workers</h1>
        <Skeleton lines={5} />
      </div>
    );
  }
  const lanes = new Map<number, number[]>();
  for (const load of frame.workers) lanes.set(load.number, []);
  structure.nodes.forEach((node, at) => {
    const worker = frame.worker[at]!;
    if (!(worker >= 0)) return;
    const known = before.current.get(node.id);
    if (!known) before.current.set(node.id, { worker, moved: -Infinity, from: worker });
    else if (known.worker !== worker) before.current.set(node.id, { worker, moved: frame.time, from: known.worker });
    const lane = lanes.get(worker);
    if (lane) lane.push(at);
    else lanes.set(worker, [at]);
  });
  const moves = [...before.current].filter(([, { moved }]) => Math.abs(frame.time - moved) < MARKED).sort((a, b) => b[1].moved - a[1].moved);
  return (
    <div class="view">
      <div class="row spread">
        <h1>Workers</h1>
        <span class="dim">shares of a core at {clock(frame.time)}</span>
      </div>
      {[...lanes].sort((a, b) => a[0] - b[0]).map(([number, functions]) => {
        const load = frame.workers.find((load) => load.number === number);
        const busy = functions.filter((at) => frame.cpu[at]! > 0.0005).sort((a, b) => frame.cpu[b]! - frame.cpu[a]!);
        const apart = busy.slice(0, APART);
        const others = busy.slice(APART).reduce((sum, at) => sum + frame.cpu[at]!, 0);
        const got = busy.reduce((sum, at) => sum + frame.cpu[at]!, 0);
        const rest = Math.max(0, (load?.functions ?? got) - got);
        const width = (part: number) => (element: HTMLElement | null) => element?.style.setProperty("width", `${(Math.min(1, part) * 100).toFixed(2)}%`);
        return (
          <section class="card lane" aria-label={`Worker ${number}`}>
            <h2>
              Worker {number}
              <br />
              <span class="dim">{share(load ? load.functions + load.overhead : got)} busy</span>
            </h2>
            <div class="bar">
              {apart.map((at) => {
                const node = structure.nodes[at]!;
                const moved = frame.time - (before.current.get(node.id)?.moved ?? -Infinity) < MARKED;
                const said = `${node.name}: ${share(frame.cpu[at])} of ${share(frame.promised[at])} promised${moved ? ", moved here" : ""}`;
                return (
                  <button type="button" class={[moved ? "moved" : "", frame.cpu[at]! > 0.03 ? "named" : ""].join(" ")} ref={width(frame.cpu[at]!)} title={said} aria-label={said} onClick={() => go("objects", "function", node.name)}>
                    {frame.cpu[at]! > 0.03 ? node.name : ""}
                  </button>
                );
              })}
              {others > 0 && (
                <span class="rest overhead" ref={width(others)} title={`${busy.length - APART} others: ${share(others)}`}>
                  {others > 0.05 ? `${busy.length - APART} others` : ""}
                </span>
              )}
              {rest > 0.001 && (
                <span class="rest overhead" ref={width(rest)} title={`ports and switches: ${share(rest)}`}>
                  {rest > 0.05 ? "ports" : ""}
                </span>
              )}
              {load && load.overhead > 0.001 && (
                <span class="rest overhead" ref={width(load.overhead)} title={`looking around: ${share(load.overhead)}`}>
                  {load.overhead > 0.08 ? "looking" : ""}
                </span>
              )}
              {load && load.asleep > 0.001 && (
                <span class="rest" ref={width(load.asleep)} title={`asleep: ${share(load.asleep)}`}>
                  {load.asleep > 0.06 ? "asleep" : ""}
                </span>
              )}
            </div>
            <p class="under">
              {functions.length} functions, {busy.length} at work
              {load && ` · asleep ${share(load.asleep)} · looking around ${share(load.overhead)} · withheld ${share(load.withheld)}`}
            </p>
          </section>
        );
      })}
      {moves.length > 0 && (
        <section class="card stack">
          <h2>Moved lately</h2>
          <ul>
            {moves.slice(0, LISTED).map(([id, { moved, from, worker }]) => (
              <li>
                {clock(moved)} {id.slice(id.indexOf("/") + 1)}: from worker {from} to worker {worker}
              </li>
            ))}
          </ul>
        </section>
      )}
      {balanced.length > 0 && (
        <section class="card stack" aria-label="Moves of the last hour">
          <h2>The balancer, in the last hour</h2>
          <ul>
            {balanced.map((event) => (
              <li>
                {clock(event.time)} <Outside text={event.text} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {lanes.size === 0 && <p class="nothing">Workers are shown to administrators and readers of the host.</p>}
    </div>
  );
}
