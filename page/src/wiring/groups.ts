/** Which nodes stand alone, and which stand together as a chain or a tenant that can be folded. */
import type { Structure } from "../host/model";

export type Grouping = "chain" | "tenant" | "none";

export interface Group {
  /** `chain/edge` or `tenant/red`. */
  id: string;
  kind: "chain" | "tenant";
  name: string;
  /** Places in the structure's nodes, in the order of the chain. */
  members: number[];
}

/** Functions up to which nothing is folded at first. */
const FEW = 24;
/** A chain with fewer functions is as readable unfolded. */
const LEAST = 3;

export function groups(of: Structure, by: Grouping): Group[] {
  if (by === "none") return [];
  const found = new Map<string, Group>();
  of.nodes.forEach((node, at) => {
    if (node.kind !== "function") return;
    const name = by === "chain" ? node.chain : node.tenant;
    if (!name) return;
    const id = `${by}/${name}`;
    let group = found.get(id);
    if (!group) found.set(id, (group = { id, kind: by, name, members: [] }));
    group.members.push(at);
  });
  for (const group of found.values()) {
    group.members.sort((a, b) => of.nodes[a]!.place - of.nodes[b]!.place || a - b);
    if (group.kind === "chain") withEnds(of, group);
  }
  return [...found.values()].filter((group) => group.members.length >= LEAST).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Ports that lead to a chain's functions and to nothing else stand with it. */
function withEnds(of: Structure, group: Group): void {
  const members = new Set(group.members);
  const chain = of.chains.find((chain) => chain.name === group.name);
  if (!chain) return;
  const end = (name: string | undefined): number | null => {
    const at = of.byId.get(`port/${name}`);
    if (at === undefined || members.has(at)) return null;
    const alone = of.edgesOf[at]!.every((edge) => members.has(of.edges[edge]!.from === at ? of.edges[edge]!.to : of.edges[edge]!.from));
    return alone ? at : null;
  };
  const first = end(chain.members[0]);
  const last = end(chain.members.at(-1));
  if (first !== null) group.members.unshift(first);
  if (last !== null && last !== first) group.members.push(last);
}

/** How a host is grouped when nothing was chosen. */
export function firstGrouping(of: Structure): Grouping {
  const functions = of.nodes.filter((node) => node.kind === "function");
  if (functions.length <= FEW) return "none";
  return functions.filter((node) => node.chain !== undefined).length * 2 >= functions.length ? "chain" : "tenant";
}
