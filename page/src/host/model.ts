/**
 * What a host is made of, and what it does at one step of its history. The structure changes seldom; frames come each second and are
 * columns beside the structure's nodes and edges, so that a thousand of them are made and drawn without objects.
 */
import type { AnyObject, Graph, HistoryStep } from "../api/types";

export type NodeKind = "port" | "device" | "switch" | "function" | "service";

export interface Node {
  /** `function/fw`. */
  id: string;
  kind: NodeKind;
  name: string;
  tenant: string;
  /** The first chain that it is in, in the order of names. */
  chain?: string;
  /** The place in that chain. */
  place: number;
  /** Whether it counts packets. */
  counts: boolean;
}

export interface Edge {
  /** As the history names it: `wire/lan~fw:inside`. */
  id: string;
  kind: string;
  from: number;
  to: number;
  fromPart?: string;
  toPart?: string;
  /** Whether it is known how many packets pass there, and back. */
  counted: [there: boolean, back: boolean];
  /** The same of their bytes: between functions they are not. */
  sized: [there: boolean, back: boolean];
}

export interface Chain {
  name: string;
  members: string[];
}

export interface Structure {
  nodes: Node[];
  edges: Edge[];
  byId: Map<string, number>;
  chains: Chain[];
  /** Edges at each node, by their places in `edges`. */
  edgesOf: number[][];
}

/** The name of what an end names: `fw:inside` is of `fw`. */
export function endName(end: unknown): string {
  const text = typeof end === "string" ? end : typeof (end as { to?: unknown })?.to === "string" ? (end as { to: string }).to : "";
  const colon = text.indexOf(":");
  return colon < 0 ? text : text.slice(0, colon);
}

const there = (value: unknown): boolean => value !== undefined && value !== null;

export function structure(graph: Graph, chainObjects: AnyObject[]): Structure {
  const nodes: Node[] = graph.nodes.map((node) => ({
    id: `${node.kind}/${node.name}`,
    kind: node.kind as NodeKind,
    name: node.name,
    tenant: node.tenant ?? "",
    place: 0,
    counts: there(node.packets),
  }));
  const byId = new Map(nodes.map((node, at) => [node.id, at]));
  // Ports, devices, functions and switches share one space of names; services are numbers.
  const byName = new Map(nodes.map((node, at) => [node.name, at]));
  const chains = chainObjects
    .map((object) => ({ name: object.name, members: Array.isArray(object.spec) ? object.spec.map(endName) : [] }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const chain of chains) {
    chain.members.forEach((member, place) => {
      const node = nodes[byName.get(member) ?? -1];
      if (node?.kind === "function" && node.chain === undefined) {
        node.chain = chain.name;
        node.place = place;
      }
    });
  }
  const edges: Edge[] = [];
  const edgesOf: number[][] = nodes.map(() => []);
  for (const edge of graph.edges) {
    const from = byName.get(edge.from);
    const to = byName.get(edge.to);
    if (from === undefined || to === undefined) continue;
    const end = (name: string, part?: string | null): string => (part ? `${name}:${part}` : name);
    edgesOf[from]!.push(edges.length);
    if (to !== from) edgesOf[to]!.push(edges.length);
    edges.push({
      id: `${edge.kind}/${end(edge.from, edge.from_part)}~${end(edge.to, edge.to_part)}`,
      kind: edge.kind,
      from,
      to,
      fromPart: edge.from_part ?? undefined,
      toPart: edge.to_part ?? undefined,
      counted: [there(edge.there), there(edge.back)],
      sized: [there(edge.there?.bytes), there(edge.back?.bytes)],
    });
  }
  return { nodes, edges, byId, chains, edgesOf };
}

export type State = "running" | "paused" | "frozen" | "down" | "starting" | "up" | "finished" | "unknown";
const FUNCTION_STATES: State[] = ["running", "paused", "frozen", "down", "starting"];
const PORT_STATES: State[] = ["up", "down", "finished"];

/** Rates and states at one step, in the order of the structure's nodes and edges. `NaN`: nothing counts it. */
export interface Frame {
  step: number;
  /** When, in milliseconds since the Unix epoch. */
  time: number;
  seconds: number;
  /** Packets, bits, drops, in a second. */
  pps: Float64Array;
  bps: Float64Array;
  dps: Float64Array;
  /** Share of a core got, promised. */
  cpu: Float64Array;
  promised: Float64Array;
  queue: Float64Array;
  /** How many packets a queue has room for. */
  queueSize: Float64Array;
  worker: Float64Array;
  state: State[];
  therePps: Float64Array;
  thereBps: Float64Array;
  backPps: Float64Array;
  backBps: Float64Array;
  workers: WorkerLoad[];
  pools: { name: string; free: number; buffers: number }[];
  host: { pps: number; bps: number; delivered: number; dps: number; cpu: number } | null;
}

export interface WorkerLoad {
  number: number;
  /** Shares of the step's time. */
  functions: number;
  overhead: number;
  asleep: number;
  withheld: number;
}

/**
 * About how many packets pass a wire between two functions, both ways together, where nothing counts them: what the one was shown and
 * did not lose, at most what the other was shown. Of functions with more than two wires nothing is known.
 */
export function about(of: Structure, frame: Frame, edge: number): number {
  const { from, to, kind } = of.edges[edge]!;
  if (kind !== "wire" || of.nodes[from]!.kind !== "function" || of.nodes[to]!.kind !== "function") return NaN;
  const wires = (node: number): number => of.edgesOf[node]!.filter((at) => of.edges[at]!.kind !== "observes").length;
  if (wires(from) > 2 || wires(to) > 2) return NaN;
  const left = (node: number): number => frame.pps[node]! - frame.dps[node]!;
  return Math.max(0, Math.min(Math.max(left(from), left(to)), frame.pps[from]!, frame.pps[to]!));
}

/**
 * About how many bits pass an edge of which no bytes are counted, both ways together: its packets, each as long as those that the node
 * which sends them had in the mean. `NaN`: bytes are counted there, or the packets are not known either.
 */
export function aboutBits(of: Structure, frame: Frame, edge: number): number {
  if (of.edges[edge]!.sized.some(Boolean)) return NaN;
  const { from, to } = of.edges[edge]!;
  const length = (node: number): number => frame.bps[node]! / frame.pps[node]!;
  const bits = (pps: number, node: number, other: number): number => (pps > 0 ? pps * (length(node) || length(other)) : 0);
  const [out, back] = [frame.therePps[edge]!, frame.backPps[edge]!];
  if (out >= 0 || back >= 0) return bits(out, from, to) + bits(back, to, from);
  return about(of, frame, edge) * (length(from) || length(to));
}

/** Which columns of the history belong to which node and edge, kept while neither changes. */
export interface Mapping {
  layout: number;
  of: Structure;
  nodes: Record<string, Int32Array>;
  edges: Int32Array;
  names: Record<string, string[]>;
}

/** Makes a mapping of an answer that has names; `null` if it has none. */
export function mapping(step: HistoryStep, of: Structure): Mapping | null {
  const nodes: Record<string, Int32Array> = {};
  const names: Record<string, string[]> = {};
  for (const [kind, columns] of Object.entries(step.objects)) {
    if (!columns.names) return null;
    names[kind] = columns.names;
    if (kind === "edge") continue;
    nodes[kind] = Int32Array.from(columns.names, (name) => of.byId.get(`${kind}/${name}`) ?? -1);
  }
  const byEdge = new Map(of.edges.map((edge, at) => [edge.id, at]));
  const edges = Int32Array.from(names.edge ?? [], (name) => byEdge.get(name) ?? -1);
  return { layout: step.layout, of, nodes, edges, names };
}

/** Stands for no worker. */
const NO_WORKER = 1023;

/** Packets that a queue has room for, where the daemon does not say. */
const QUEUE = 1024;

const nothing = (length: number): Float64Array => new Float64Array(length).fill(NaN);

/** The frame of an answer whose layout is that of the mapping. */
export function frame(step: HistoryStep, by: Mapping): Frame {
  const size = by.of.nodes.length;
  const links = by.of.edges.length;
  const made: Frame = {
    step: step.at,
    time: step.start_ms + step.at * 1000,
    seconds: step.seconds,
    pps: nothing(size),
    bps: nothing(size),
    dps: new Float64Array(size),
    cpu: nothing(size),
    promised: nothing(size),
    queue: nothing(size),
    queueSize: new Float64Array(size).fill(QUEUE),
    worker: nothing(size),
    state: new Array<State>(size).fill("unknown"),
    therePps: nothing(links),
    thereBps: nothing(links),
    backPps: nothing(links),
    backBps: nothing(links),
    workers: [],
    pools: [],
    host: null,
  };
  const each = 1 / step.seconds;
  const fill = (target: Float64Array, where: Int32Array | undefined, column: number[] | undefined, by: number): void => {
    if (!where || !column) return;
    for (let at = 0; at < where.length; at += 1) {
      const to = where[at]!;
      const value = column[at];
      if (to >= 0 && value !== undefined && value !== null) target[to] = value * by;
    }
  };
  const states = (where: Int32Array | undefined, column: number[] | undefined, names: State[]): void => {
    if (!where || !column) return;
    for (let at = 0; at < where.length; at += 1) if (where[at]! >= 0) made.state[where[at]!] = names[column[at]!] ?? "unknown";
  };
  const { function: functions, port: ports, device: devices, edge: edges } = step.objects;
  const { nodes } = by;
  if (functions) {
    fill(made.pps, nodes.function, functions.values.packets, each);
    fill(made.bps, nodes.function, functions.values.bytes, 8 * each);
    fill(made.dps, nodes.function, functions.values.drops, each);
    fill(made.cpu, nodes.function, functions.values.cpu_ns, 1e-9 * each);
    fill(made.promised, nodes.function, functions.values.promised, 1e-3);
    fill(made.queue, nodes.function, functions.values.queue, 1);
    fill(made.queueSize, nodes.function, functions.values.queue_size, 1);
    fill(made.worker, nodes.function, functions.values.worker, 1);
    states(nodes.function, functions.values.state, FUNCTION_STATES);
    // Containers are on no worker, and are promised nothing.
    for (const at of nodes.function ?? []) if (at >= 0 && made.worker[at] === NO_WORKER) made.worker[at] = made.promised[at] = NaN;
  }
  if (ports) {
    const both = (a: number[] | undefined, b: number[] | undefined): number[] | undefined => a?.map((value, at) => value + (b?.[at] ?? 0));
    fill(made.pps, nodes.port, both(ports.values.received, ports.values.delivered), each);
    fill(made.bps, nodes.port, both(ports.values.received_bytes, ports.values.delivered_bytes), 8 * each);
    fill(made.dps, nodes.port, ports.values.drops, each);
    fill(made.queue, nodes.port, ports.values.in_flight, 1);
    states(nodes.port, ports.values.state, PORT_STATES);
  }
  if (devices) {
    fill(made.pps, nodes.device, devices.values.packets, each);
    fill(made.bps, nodes.device, devices.values.bytes, 8 * each);
    fill(made.dps, nodes.device, devices.values.drops, each);
  }
  if (edges) {
    fill(made.therePps, by.edges, edges.values.there, each);
    fill(made.thereBps, by.edges, edges.values.there_bytes, 8 * each);
    fill(made.backPps, by.edges, edges.values.back, each);
    fill(made.backBps, by.edges, edges.values.back_bytes, 8 * each);
  }
  by.of.nodes.forEach((node, at) => {
    if (node.kind === "device" && !node.counts) made.pps[at] = made.bps[at] = NaN;
  });
  by.of.edges.forEach(({ counted, sized }, at) => {
    if (!counted[0]) made.therePps[at] = NaN;
    if (!counted[1]) made.backPps[at] = NaN;
    if (!sized[0]) made.thereBps[at] = NaN;
    if (!sized[1]) made.backBps[at] = NaN;
  });
  const all = 1e-9 * each;
  const workers = step.objects.worker?.values;
  by.names.worker?.forEach((name, at) => {
    made.workers.push({
      number: Number(name),
      functions: (workers?.functions_ns?.[at] ?? 0) * all,
      overhead: (workers?.overhead_ns?.[at] ?? 0) * all,
      asleep: (workers?.asleep_ns?.[at] ?? 0) * all,
      withheld: (workers?.withheld_ns?.[at] ?? 0) * all,
    });
  });
  const pools = step.objects.pool?.values;
  by.names.pool?.forEach((name, at) => made.pools.push({ name, free: pools?.free?.[at] ?? 0, buffers: pools?.buffers?.[at] ?? 0 }));
  const host = step.objects.host?.values;
  if (host) {
    made.host = {
      pps: (host.received?.[0] ?? 0) * each,
      bps: (host.received_bytes?.[0] ?? 0) * 8 * each,
      delivered: (host.delivered?.[0] ?? 0) * each,
      dps: (host.drops?.[0] ?? 0) * each,
      cpu: (host.cpu_ns?.[0] ?? 0) * all,
    };
  }
  return made;
}
