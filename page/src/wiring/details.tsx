/** What is selected in the wiring: its values now, how they were, and what can be done with it. */
import { shown } from "../host/follow";
import { type Frame, type Structure, about, aboutBits } from "../host/model";
import { History } from "../time/history";
import { useCell } from "../ui/cell";
import { bitRate, count, packetRate, share } from "../ui/format";
import { Figure, State } from "../ui/parts";
import { to } from "../ui/route";
import type { Group } from "./groups";
import { guardLabel, guardOf } from "./guard";
import { reasons } from "./reasons";

interface Props {
  structure: Structure;
  groups: Group[];
  selected: string | null;
  open: ReadonlySet<string>;
  toggle: (id: string) => void;
  reveal: (id: string) => void;
}

/** What is selected, in a sentence for screen readers. */
export function describe(structure: Structure, groups: Group[], selected: string | null, frame: Frame | null): string {
  if (!selected) return "";
  const group = groups.find((group) => group.id === selected);
  if (group) return `${group.kind} ${group.name}, ${group.members.length} members`;
  const at = structure.byId.get(selected);
  if (at === undefined) return selected;
  const node = structure.nodes[at]!;
  const parts = [`${node.kind} ${node.name}`];
  if (frame && frame.pps.length === structure.nodes.length) {
    if (frame.state[at] !== "unknown") parts.push(frame.state[at]!);
    if (frame.pps[at]! >= 0) parts.push(packetRate(frame.pps[at]));
    if (frame.dps[at]! > 0) parts.push(`${packetRate(frame.dps[at])} lost`);
  }
  return parts.join(", ");
}

export function Details(props: Props) {
  const { structure, groups, selected, reveal } = props;
  const last = useCell(shown);
  const frame = last?.pps.length === structure.nodes.length ? last : null;
  if (!selected) return <Overview structure={structure} frame={frame} reveal={reveal} />;
  if (selected.startsWith("edge/")) {
    const edge = structure.edges.findIndex((edge) => `edge/${edge.id}` === selected);
    if (edge >= 0) return <EdgeDetails structure={structure} edge={edge} frame={frame} reveal={reveal} />;
  }
  const group = groups.find((group) => group.id === selected);
  if (group) return <GroupDetails {...props} group={group} frame={frame} />;
  const at = structure.byId.get(selected);
  if (at === undefined) return <p class="nothing">{selected} is there no more.</p>;
  return <NodeDetails structure={structure} at={at} frame={frame} reveal={reveal} />;
}

function Overview({ structure, frame, reveal }: { structure: Structure; frame: Frame | null; reveal: (id: string) => void }) {
  const by = (kind: string): number => structure.nodes.filter((node) => node.kind === kind).length;
  const losing = frame ? [...frame.dps.keys()].filter((at) => frame.dps[at]! > 0).sort((a, b) => frame.dps[b]! - frame.dps[a]!) : [];
  const still = frame ? [...frame.state.keys()].filter((at) => frame.state[at] === "down") : [];
  const busy = frame ? [...frame.cpu.keys()].filter((at) => frame.cpu[at]! > 0).sort((a, b) => frame.cpu[b]! - frame.cpu[a]!) : [];
  const why = useCell(reasons);
  return (
    <>
      <h2>The host</h2>
      <dl class="figures">
        <Figure name="Functions">{by("function")}</Figure>
        <Figure name="Ports">{by("port")}</Figure>
        <Figure name="Devices">{by("device")}</Figure>
        <Figure name="Chains">{structure.chains.length}</Figure>
        {frame?.host && <Figure name="Received">{packetRate(frame.host.pps)}</Figure>}
        {frame?.host && <Figure name="Bits">{bitRate(frame.host.bps)}</Figure>}
        {frame?.host && <Figure name="Lost">{packetRate(frame.host.dps)}</Figure>}
        {frame?.host && <Figure name="Processor">{share(frame.host.cpu)}</Figure>}
      </dl>
      {still.length > 0 && <Ranking title="Down" structure={structure} nodes={still.slice(0, 8)} value={() => "down"} reveal={reveal} />}
      {losing.length > 0 && (
        <Ranking title="Where packets are lost" structure={structure} nodes={losing.slice(0, 8)} value={(at) => `${packetRate(frame!.dps[at])} ${why.get(structure.nodes[at]!.id) ?? ""}`} reveal={reveal} lost />
      )}
      {busy.length > 0 && <Ranking title="Where processor time goes" structure={structure} nodes={busy.slice(0, 8)} value={(at) => `${share(frame!.cpu[at])}${frame!.promised[at]! >= 0 ? ` of ${share(frame!.promised[at])}` : ""}`} reveal={reveal} />}
      {frame && frame.pools.length > 0 && (
        <>
          <h3>Packet memory</h3>
          {frame.pools.map((pool) => (
            <p class="row spread">
              <span>{pool.name}</span>
              <span class={pool.free < pool.buffers * 0.1 ? "bad" : "dim"}>
                {count(pool.free)} of {count(pool.buffers)} free
              </span>
            </p>
          ))}
        </>
      )}
    </>
  );
}

function Ranking({ title, structure, nodes, value, reveal, lost }: { title: string; structure: Structure; nodes: number[]; value: (at: number) => string; reveal: (id: string) => void; lost?: boolean }) {
  return (
    <section>
      <h3>{title}</h3>
      <ul class="outline ranking">
        {nodes.map((at) => (
          <li>
            <button type="button" onClick={() => reveal(structure.nodes[at]!.id)}>
              <span class="name">{structure.nodes[at]!.name}</span>
              <span class={lost ? "lost" : "rate"}>{value(at)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function NodeDetails({ structure, at, frame, reveal }: { structure: Structure; at: number; frame: Frame | null; reveal: (id: string) => void }) {
  const node = structure.nodes[at]!;
  const why = useCell(reasons).get(node.id);
  const isFunction = node.kind === "function";
  const guard = isFunction ? guardOf(node.name) : undefined;
  const state = frame?.state[at];
  return (
    <>
      <div class="row spread">
        <h2>{node.name}</h2>
        {state && state !== "unknown" && <State of={state} />}
      </div>
      <p class="dim">
        {node.kind}
        {node.tenant && ` of tenant ${node.tenant}`}
        {node.chain && `, in chain ${node.chain}`}
        {isFunction && frame && frame.worker[at]! >= 0 && `, on worker ${frame.worker[at]}`}
        {guard && `, ${guardLabel(guard)}`}
      </p>
      <dl class="figures">
        <Figure name="Packets">{packetRate(frame?.pps[at])}</Figure>
        <Figure name="Bits">{bitRate(frame?.bps[at])}</Figure>
        {isFunction && <Figure name="Processor">{share(frame?.cpu[at])}</Figure>}
        {isFunction && <Figure name="Promised">{share(frame?.promised[at])}</Figure>}
        {frame && frame.queue[at]! >= 0 && <Figure name={isFunction ? "Queue" : "In its rings"}>{count(frame.queue[at])}</Figure>}
        <Figure name="Lost">
          <span class={frame && frame.dps[at]! > 0 ? "bad" : undefined}>{packetRate(frame?.dps[at])}</span>
        </Figure>
      </dl>
      {why && frame && frame.dps[at]! > 0 && <p class="bad">Lost for: {why}</p>}
      {node.kind !== "service" && node.kind !== "switch" && <History of={node.id} small />}
      <div class="row">
        {node.kind !== "service" && (
          <a class="button" href={guard ? to("objects", "device", guard.device) : to("objects", node.kind, node.name)}>
            Open{guard ? ` ${guard.device}` : ""}
          </a>
        )}
        {(isFunction || node.kind === "port" || node.kind === "device") && (
          <a class="button" href={`#/packets?at=${encodeURIComponent(node.name)}`}>
            Follow packets
          </a>
        )}
      </div>
      <h3>Joined to</h3>
      <ul class="outline">
        {structure.edgesOf[at]!.slice(0, 60).map((place) => {
          const edge = structure.edges[place]!;
          const other = edge.from === at ? edge.to : edge.from;
          const part = edge.from === at ? edge.fromPart : edge.toPart;
          const [out, back] = edge.from === at ? [frame?.therePps[place], frame?.backPps[place]] : [frame?.backPps[place], frame?.therePps[place]];
          return (
            <li>
              <button type="button" onClick={() => reveal(structure.nodes[other]!.id)}>
                <span class="name">
                  {part ? `${part} – ` : ""}
                  {structure.nodes[other]!.name}
                </span>
                <span class="rate">{out !== undefined && out >= 0 ? `▸ ${packetRate(out)}` : edge.kind}</span>
                {back !== undefined && back > 0 && <span class="rate">◂ {packetRate(back)}</span>}
              </button>
            </li>
          );
        })}
      </ul>
    </>
  );
}

function GroupDetails({ structure, group, frame, open, toggle, reveal }: Props & { group: Group; frame: Frame | null }) {
  const functions = group.members.filter((at) => structure.nodes[at]!.kind === "function");
  const add = (values: Float64Array | undefined): number => (values ? functions.reduce((total, at) => total + (values[at]! >= 0 ? values[at]! : 0), 0) : NaN);
  const losing = frame ? group.members.filter((at) => frame.dps[at]! > 0).sort((a, b) => frame.dps[b]! - frame.dps[a]!) : [];
  const states = new Map<string, number>();
  if (frame) for (const at of functions) states.set(frame.state[at]!, (states.get(frame.state[at]!) ?? 0) + 1);
  const isOpen = open.has(group.id);
  return (
    <>
      <h2>{group.name}</h2>
      <p class="dim">
        {group.kind} of {functions.length} functions
      </p>
      <div class="row">{[...states].map(([state, number]) => <span class="tag"><span class={`dot ${state}`} aria-hidden="true" />{number} {state}</span>)}</div>
      <dl class="figures">
        <Figure name="Processor">{share(add(frame?.cpu))}</Figure>
        <Figure name="Promised">{share(add(frame?.promised))}</Figure>
        <Figure name="Lost">{packetRate(frame ? group.members.reduce((total, at) => total + frame.dps[at]!, 0) : null)}</Figure>
      </dl>
      {losing.length > 0 && <Ranking title="Where packets are lost" structure={structure} nodes={losing.slice(0, 8)} value={(at) => packetRate(frame!.dps[at])} reveal={reveal} lost />}
      <div class="row">
        <button type="button" onClick={() => toggle(group.id)}>
          {isOpen ? "Fold" : "Unfold"}
        </button>
        <a class="button" href={to("objects", group.kind, group.name)}>
          Open
        </a>
      </div>
    </>
  );
}

function EdgeDetails({ structure, edge, frame, reveal }: { structure: Structure; edge: number; frame: Frame | null; reveal: (id: string) => void }) {
  const { from, to: end, fromPart, toPart, kind, id, counted } = structure.edges[edge]!;
  const [a, b] = [structure.nodes[from]!, structure.nodes[end]!];
  const name = (node: { name: string }, part?: string): string => (part ? `${node.name}:${part}` : node.name);
  const guess = frame && !(frame.therePps[edge]! >= 0) ? about(structure, frame, edge) : NaN;
  const bits = frame ? aboutBits(structure, frame, edge) : NaN;
  const place = kind === "wire" ? id.slice(id.indexOf("/") + 1) : kind === "over" || kind === "opens" ? (kind === "opens" ? name(a, fromPart) : b.name) : a.name;
  return (
    <>
      <h2>
        {name(a, fromPart)} – {name(b, toPart)}
      </h2>
      <p class="dim">{kind}</p>
      <table>
        <thead>
          <tr>
            <th>Way</th>
            <th class="number">Packets</th>
            <th class="number">Bits</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td>to {b.name}</td>
            <td class="number">{packetRate(frame?.therePps[edge])}</td>
            <td class="number">{bitRate(frame?.thereBps[edge])}</td>
          </tr>
          <tr>
            <td>to {a.name}</td>
            <td class="number">{packetRate(frame?.backPps[edge])}</td>
            <td class="number">{bitRate(frame?.backBps[edge])}</td>
          </tr>
        </tbody>
      </table>
      {bits >= 0 && <p class="dim">Bits of both ways together: about {bitRate(bits)}. Bytes are not counted here; these are the packets, as long as those of the function that sends them are in the mean.</p>}
      {guess >= 0 && <p class="dim">Between these functions nothing is counted. Both ways together it is about {packetRate(guess)}: what the one was shown and did not lose.</p>}
      {counted.some(Boolean) ? <History of={`edge/${id}`} small /> : !(guess >= 0) && <p class="dim">Nothing counts what passes here.</p>}
      <div class="row">
        <a class="button" href={`#/packets?tab=capture&at=${encodeURIComponent(place)}`}>
          Capture here
        </a>
        <button type="button" onClick={() => reveal(a.id)}>
          {a.name}
        </button>
        <button type="button" onClick={() => reveal(b.id)}>
          {b.name}
        </button>
      </div>
    </>
  );
}
