/**
 * Where everything stands. Each connected part of the graph is laid out by itself, so that a change in one leaves the others as they
 * are; parts of one shape are laid out once; and the same graph always comes to the same picture.
 *
 * 1. Nodes, folded groups and open groups become items with a size; the members of an open group stand in rows within it.
 * 2. Items that are connected form a part. A part that is a line is placed at once; others are given to ELK.
 * 3. Parts stand in rows, in the order of their names.
 */
import type { Structure } from "../host/model";
import type { Group } from "./groups";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Item extends Box {
  /** The node's, or the group's. */
  id: string;
  /** The place of a node in the structure; −1 of a group. */
  node: number;
  group?: Group;
  open: boolean;
}

export interface Link {
  /** Edges of the structure that it stands for. */
  edges: number[];
  /** Which of them are written the other way. */
  turned: boolean[];
  from: number;
  to: number;
  /** Corners of its way, from the one item to the other: x and y in turns. */
  points: number[];
}

export interface Placed {
  items: Item[];
  /** Nodes within open groups. */
  inner: Item[];
  links: Link[];
  /** Links within open groups: to the next member, and to those that are wired to another. */
  innerLinks: Link[];
  width: number;
  height: number;
}

export const NODE = { width: 152, height: 58 };
export const FOLDED = { width: 212, height: 84 };
const HEAD = 34;
const MARGIN = 14;
const GAP = { x: 28, y: 28 };
const PARTS = { x: 56, y: 44 };
/** Items of a line that stand in one row, and the room between rows of a longer one. */
const LONG = 14;
const BETWEEN = 44;
/** Wires between two items on a line. */
const ALONG = 72;

/** A part of the graph to lay out: sizes, and edges between their numbers. */
export interface Shape {
  sizes: [number, number][];
  edges: [number, number][];
}
/** Where its items stand, and corners of its edges. */
export interface Outcome {
  at: [number, number][];
  ways: number[][];
}
export type Engine = (shape: Shape) => Promise<Outcome>;

const known = new Map<string, Promise<Outcome>>();
/** Shapes that are kept: more than a host has that changes all day. */
const KNOWN_MOST = 400;

function rowsOf(members: number): { columns: number; rows: number } {
  const columns = members <= 6 ? members : Math.ceil(Math.sqrt(members * 0.9));
  return { columns, rows: Math.ceil(members / columns) };
}

/** The size of an open group. */
export function openSize(members: number): { width: number; height: number } {
  const { columns, rows } = rowsOf(members);
  return {
    width: 2 * MARGIN + columns * NODE.width + (columns - 1) * GAP.x,
    height: HEAD + MARGIN + rows * NODE.height + (rows - 1) * GAP.y,
  };
}

/** Lays a structure out. */
export async function place(of: Structure, groups: Group[], open: ReadonlySet<string>, aspect: number, engine: Engine): Promise<Placed> {
  const items: Item[] = [];
  const itemOf = new Int32Array(of.nodes.length).fill(-1);
  for (const group of groups) {
    for (const member of group.members) itemOf[member] = items.length;
    const isOpen = open.has(group.id);
    const size = isOpen ? openSize(group.members.length) : FOLDED;
    items.push({ id: group.id, node: -1, group, open: isOpen, x: 0, y: 0, ...size });
  }
  of.nodes.forEach((node, at) => {
    if (itemOf[at] !== -1) return;
    itemOf[at] = items.length;
    items.push({ id: node.id, node: at, open: false, x: 0, y: 0, ...NODE });
  });

  const links: Link[] = [];
  const innerEdges: number[] = [];
  const byEnds = new Map<number, Link>();
  of.edges.forEach((edge, at) => {
    const from = itemOf[edge.from]!;
    const to = itemOf[edge.to]!;
    if (from === to) {
      if (items[from]!.open) innerEdges.push(at);
      return;
    }
    const [low, high] = from < to ? [from, to] : [to, from];
    const ends = low * items.length + high;
    const link = byEnds.get(ends);
    if (link) link.edges.push(at);
    else {
      const made: Link = { edges: [at], turned: [], from, to, points: [] };
      byEnds.set(ends, made);
      links.push(made);
    }
  });
  directed(of, links, itemOf);
  for (const link of links) link.turned = link.edges.map((edge) => itemOf[of.edges[edge]!.from] !== link.from);

  const parts = partsOf(items, links);
  const placed = await Promise.all(parts.map((part) => shaped(part, items, links, engine)));
  const { width, height } = inRows(parts, placed, items, links, aspect);
  const inner: Item[] = [];
  const innerAt = new Map<number, number>();
  for (const item of items) if (item.open && item.group) within(of, item, item.group, inner, innerAt);
  const innerLinks = innerEdges.map((edge): Link => {
    const from = innerAt.get(of.edges[edge]!.from)!;
    const to = innerAt.get(of.edges[edge]!.to)!;
    return { edges: [edge], turned: [false], from, to, points: between(inner[from]!, inner[to]!) };
  });
  // What leads to a member of an open group is drawn to it.
  for (const link of links) intoGroups(of, link, items, inner, innerAt);
  return { items, inner, links, innerLinks, width, height };
}

/** Turns links so that they lead the way that packets of a chain go: from its beginning to its end. */
function directed(of: Structure, links: Link[], itemOf: Int32Array): void {
  const before = new Map<string, boolean>();
  const byName = new Map(of.nodes.map((node, at) => [node.name, at]));
  for (const chain of of.chains) {
    for (let place = 1; place < chain.members.length; place += 1) {
      const from = itemOf[byName.get(chain.members[place - 1]!) ?? -1];
      const to = itemOf[byName.get(chain.members[place]!) ?? -1];
      if (from !== undefined && to !== undefined && !before.has(`${to}>${from}`)) before.set(`${from}>${to}`, true);
    }
  }
  for (const link of links) {
    const edge = of.edges[link.edges[0]!]!;
    if (link.edges.length === 1 && leadsBack(edge, of)) [link.from, link.to] = [link.to, link.from];
    if (before.has(`${link.to}>${link.from}`) && !before.has(`${link.from}>${link.to}`)) [link.from, link.to] = [link.to, link.from];
  }
}

/** Interfaces that packets mostly come in by, where no chain says so. */
const INWARD = /^(left|inside|in|ingress|lan|client|clients|a|0|suspicious)$/;
/** And those that they mostly leave by. */
const OUTWARD = /^(right|outside|out|egress|wan|server|servers)$/;

/** Whether packets mostly go the other way along an edge than it is written: from a port to a device, from that to what opens it. */
function leadsBack(edge: Structure["edges"][0], of: Structure): boolean {
  if (edge.kind === "over") return of.nodes[edge.from]!.kind === "device";
  if (edge.kind === "wire") return (!!edge.fromPart && INWARD.test(edge.fromPart) && !INWARD.test(edge.toPart ?? "")) || (!!edge.toPart && OUTWARD.test(edge.toPart) && !OUTWARD.test(edge.fromPart ?? ""));
  if (edge.kind === "opens") return edge.fromPart !== undefined && INWARD.test(edge.fromPart);
  return false;
}

interface Part {
  items: number[];
  links: number[];
  name: string;
}

function partsOf(items: Item[], links: Link[]): Part[] {
  const parent = Int32Array.from(items, (_, at) => at);
  const root = (at: number): number => {
    let found = at;
    while (parent[found] !== found) found = parent[found] = parent[parent[found]!]!;
    return found;
  };
  for (const link of links) parent[root(link.from)] = root(link.to);
  const parts = new Map<number, Part>();
  items.forEach((item, at) => {
    const of = root(at);
    const part = parts.get(of);
    // A part is called after the first of its groups, or of its nodes.
    const name = `${item.group ? 0 : 1}${item.id}`;
    if (!part) parts.set(of, { items: [at], links: [], name });
    else {
      part.items.push(at);
      if (name < part.name) part.name = name;
    }
  });
  links.forEach((link, at) => parts.get(root(link.from))!.links.push(at));
  // What is joined to nothing comes last.
  const alone = (part: Part): number => (part.items.length === 1 && !items[part.items[0]!]!.group ? 1 : 0);
  return [...parts.values()].sort((a, b) => alone(a) - alone(b) || (a.name < b.name ? -1 : 1));
}

async function shaped(part: Part, items: Item[], links: Link[], engine: Engine): Promise<Outcome> {
  const number = new Map(part.items.map((item, at) => [item, at]));
  const shape: Shape = {
    sizes: part.items.map((item) => [items[item]!.width, items[item]!.height]),
    edges: part.links.map((link) => [number.get(links[link]!.from)!, number.get(links[link]!.to)!]),
  };
  const line = alongALine(shape);
  if (line) return line;
  const key = JSON.stringify(shape);
  const before = known.get(key);
  if (before) return before;
  const outcome = engine(shape);
  if (known.size >= KNOWN_MOST) known.delete(known.keys().next().value!);
  known.set(key, outcome);
  // What failed is asked for again.
  outcome.catch(() => known.delete(key));
  return outcome;
}

interface Onward {
  to: number;
  edge: number;
  back: boolean;
}

/** A part that is one line, from left to right; `null` if it is not. */
export function alongALine(shape: Shape): Outcome | null {
  const count = shape.sizes.length;
  if (shape.edges.length !== count - 1) return null;
  const next = new Map<number, Onward[]>();
  shape.edges.forEach(([from, to], edge) => {
    next.set(from, [...(next.get(from) ?? []), { to, edge, back: false }]);
    next.set(to, [...(next.get(to) ?? []), { to: from, edge, back: true }]);
  });
  if ([...next.values()].some((ends) => ends.length > 2)) return null;
  const ends = [...Array(count).keys()].filter((at) => (next.get(at)?.length ?? 0) < 2);
  // It begins where an edge leads away from.
  const first = ends.find((end) => next.get(end)?.every((edge) => !edge.back)) ?? ends[0];
  if (first === undefined) return null;
  let at: number = first;
  const height = Math.max(...shape.sizes.map(([, height]) => height));
  const places: [number, number][] = new Array<[number, number]>(count);
  const ways: number[][] = new Array<number[]>(shape.edges.length);
  // A long line runs to and fro, in rows that fit a screen.
  if (count > LONG && height <= FOLDED.height) {
    const width = Math.max(...shape.sizes.map(([width]) => width));
    const columns = Math.ceil(Math.sqrt(count * 1.4));
    let before = -1;
    for (let placed = 0; placed < count; placed += 1) {
      const row = Math.floor(placed / columns);
      const column = row % 2 === 0 ? placed % columns : columns - 1 - (placed % columns);
      const [own, tall] = shape.sizes[at]!;
      places[at] = [column * (width + ALONG) + (width - own) / 2, row * (height + BETWEEN) + (height - tall) / 2];
      const onward: Onward | undefined = next.get(at)?.find((edge) => edge.edge !== before);
      if (!onward) break;
      before = onward.edge;
      at = onward.to;
    }
    shape.edges.forEach(([from, to], edge) => {
      const box = (item: number): Box => ({ x: places[item]![0], y: places[item]![1], width: shape.sizes[item]![0], height: shape.sizes[item]![1] });
      if (places[from] && places[to]) ways[edge] = between(box(from), box(to));
    });
    return places.includes(undefined as never) ? null : { at: places, ways };
  }
  let x = 0;
  let came = -1;
  for (let placed = 0; placed < count; placed += 1) {
    places[at] = [x, (height - shape.sizes[at]![1]) / 2];
    x += shape.sizes[at]![0];
    const onward: Onward | undefined = next.get(at)?.find((edge) => edge.edge !== came);
    if (!onward) break;
    const way = [x, height / 2, x + ALONG, height / 2];
    ways[onward.edge] = onward.back ? reversed(way) : way;
    x += ALONG;
    came = onward.edge;
    at = onward.to;
  }
  return places.includes(undefined as never) ? null : { at: places, ways };
}

function reversed(points: number[]): number[] {
  const turned: number[] = [];
  for (let at = points.length - 2; at >= 0; at -= 2) turned.push(points[at]!, points[at + 1]!);
  return turned;
}

/** Puts parts beside and under each other, and moves their items and links there. */
function inRows(parts: Part[], placed: Outcome[], items: Item[], links: Link[], aspect: number): { width: number; height: number } {
  const sizes = parts.map((part, at) => {
    let [width, height] = [0, 0];
    part.items.forEach((item, number) => {
      const [x, y] = placed[at]!.at[number]!;
      width = Math.max(width, x + items[item]!.width);
      height = Math.max(height, y + items[item]!.height);
    });
    for (const way of placed[at]!.ways) {
      for (let point = 0; point < (way?.length ?? 0); point += 2) {
        width = Math.max(width, way[point]!);
        height = Math.max(height, way[point + 1]!);
      }
    }
    return { width, height };
  });
  // The number in a row depends on how many there are, not on how large they are at the moment: opening one moves few others.
  const typical = (values: number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 1;
  const width = typical(sizes.map((size) => size.width)) + PARTS.x;
  const height = typical(sizes.map((size) => size.height)) + PARTS.y;
  const across = Math.max(1, Math.round(Math.sqrt((parts.length * height * aspect) / width)));
  let [x, y, tallest, widest] = [0, 0, 0, 0];
  parts.forEach((part, at) => {
    if (at % across === 0 && at > 0) {
      x = 0;
      y += tallest + PARTS.y;
      tallest = 0;
    }
    const outcome = placed[at]!;
    part.items.forEach((item, number) => {
      items[item]!.x = x + outcome.at[number]![0];
      items[item]!.y = y + outcome.at[number]![1];
    });
    part.links.forEach((link, number) => {
      const way = outcome.ways[number];
      const { from, to } = links[link]!;
      links[link]!.points = way?.length ? way.map((value, coordinate) => value + (coordinate % 2 === 0 ? x : y)) : between(items[from]!, items[to]!);
    });
    x += sizes[at]!.width + PARTS.x;
    widest = Math.max(widest, x - PARTS.x);
    tallest = Math.max(tallest, sizes[at]!.height);
  });
  return { width: widest, height: y + tallest };
}

/** The members of an open group, in rows: every other one runs back, so that neighbours stay neighbours. */
function within(of: Structure, item: Item, group: Group, inner: Item[], innerAt: Map<number, number>): void {
  const { columns } = rowsOf(group.members.length);
  group.members.forEach((member, place) => {
    const row = Math.floor(place / columns);
    const column = row % 2 === 0 ? place % columns : columns - 1 - (place % columns);
    innerAt.set(member, inner.length);
    inner.push({
      id: of.nodes[member]!.id,
      node: member,
      open: false,
      x: item.x + MARGIN + column * (NODE.width + GAP.x),
      y: item.y + HEAD + row * (NODE.height + GAP.y),
      ...NODE,
    });
  });
}

/** A way between two boxes: from side to side where they stand beside each other, else from edge to edge. */
export function between(from: Box, to: Box): number[] {
  const middle = (box: Box): [number, number] => [box.x + box.width / 2, box.y + box.height / 2];
  const [fromX, fromY] = middle(from);
  const [toX, toY] = middle(to);
  if (from.x + from.width <= to.x) return bend(from.x + from.width, fromY, to.x, toY);
  if (to.x + to.width <= from.x) return bend(from.x, fromY, to.x + to.width, toY);
  return fromY < toY ? [fromX, from.y + from.height, toX, to.y] : [fromX, from.y, toX, to.y + to.height];
}

function bend(x1: number, y1: number, x2: number, y2: number): number[] {
  if (Math.abs(y1 - y2) < 1) return [x1, y1, x2, y2];
  const half = (x1 + x2) / 2;
  return [x1, y1, half, y1, half, y2, x2, y2];
}

function intoGroups(of: Structure, link: Link, items: Item[], inner: Item[], innerAt: Map<number, number>): void {
  const edge = of.edges[link.edges[0]!]!;
  for (const [item, end] of [
    [link.from, "from"],
    [link.to, "to"],
  ] as const) {
    if (!items[item]!.open || link.edges.length !== 1) continue;
    const target = inner[innerAt.get(edge.from) ?? innerAt.get(edge.to) ?? -1];
    const other = inner[innerAt.get(edge.to) ?? -1];
    const member = [target, other].find((found) => found && inside(found, items[item]!));
    if (!member) continue;
    const [x, y] = [member.x + member.width / 2, member.y + member.height / 2];
    const { points } = link;
    const at = end === "from" ? 0 : points.length - 2;
    const [edgeX] = [points[at]!];
    // From the group's border along its margin to the member.
    const side = edgeX <= items[item]!.x + 1 ? member.x : edgeX >= items[item]!.x + items[item]!.width - 1 ? member.x + member.width : x;
    const lane = edgeX <= items[item]!.x + 1 ? items[item]!.x + MARGIN / 2 : items[item]!.x + items[item]!.width - MARGIN / 2;
    const more = side === x ? [x, y] : [lane, points[at + 1]!, lane, y, side, y];
    if (end === "from") link.points = [...reversed(more), ...points];
    else link.points = [...points, ...more];
  }
}

const inside = (box: Box, of: Box): boolean => box.x >= of.x && box.y >= of.y && box.x < of.x + of.width && box.y < of.y + of.height;
