/** ELK, in a worker that is loaded when a part of the graph is more than a line. */
import ELK, { type ElkExtendedEdge } from "elkjs/lib/elk-api.js";
import type { Engine, Outcome, Shape } from "./layout";

/** The worker's file, which the build names. */
declare const ELK_WORKER: string;

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.layered.spacing.nodeNodeBetweenLayers": "72",
  "elk.spacing.nodeNode": "26",
  "elk.spacing.edgeNode": "14",
  "elk.spacing.edgeEdge": "12",
  "elk.spacing.portPort": "22",
  // The order of names decides where there is a choice: a small change of the graph is a small change of the picture.
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.cycleBreaking.strategy": "GREEDY",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
  "elk.separateConnectedComponents": "false",
  "elk.padding": "[top=0,left=0,bottom=0,right=0]",
};

let elk: InstanceType<typeof ELK> | null = null;

function engine(): InstanceType<typeof ELK> {
  elk ??= new ELK({ workerFactory: () => new Worker(ELK_WORKER) });
  return elk;
}

export const layered: Engine = async (shape: Shape): Promise<Outcome> => {
  const done = await engine().layout({
    id: "part",
    layoutOptions: OPTIONS,
    children: shape.sizes.map(([width, height], at) => ({ id: String(at), width, height })),
    edges: shape.edges.map(([from, to], at) => ({ id: `e${at}`, sources: [String(from)], targets: [String(to)] })),
  });
  const at = shape.sizes.map((_, number): [number, number] => {
    const child = done.children?.[number];
    return [child?.x ?? 0, child?.y ?? 0];
  });
  const ways = shape.edges.map((_, number) => {
    const section = (done.edges?.[number] as ElkExtendedEdge | undefined)?.sections?.[0];
    if (!section) return [];
    return [section.startPoint, ...(section.bendPoints ?? []), section.endPoint].flatMap((point) => [point.x, point.y]);
  });
  return { at, ways };
};
