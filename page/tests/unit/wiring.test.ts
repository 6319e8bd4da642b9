import assert from "node:assert/strict";
import { test } from "node:test";
import { Host } from "../../mock/host.mjs";
import { about, aboutBits, frame, mapping, structure } from "../../src/host/model";
import { kept, stepOf, type Told } from "../../src/host/follow";
import { itemAt, thickness } from "../../src/wiring/draw";
import { firstGrouping, groups } from "../../src/wiring/groups";
import { type Engine, type Placed, alongALine, between, place } from "../../src/wiring/layout";
import { find, neighbour } from "../../src/wiring/find";
import { hopChanges } from "../../src/packets/hops";
import { guardLabel, guardOf } from "../../src/wiring/guard";

const ASPECT = 1.4;
const NONE: ReadonlySet<string> = new Set();

/** Places in columns, as ELK would: enough to see what the layout makes of it. */
const columns: Engine = async ({ sizes, edges }) => ({
  at: sizes.map(([width], at): [number, number] => [(at % 4) * (width + 80), Math.floor(at / 4) * 100]),
  ways: edges.map(() => []),
});

function host(size: number): { of: ReturnType<typeof structure>; mock: Host } {
  const mock = new Host(size, { startMs: 1_000_000 });
  return { of: structure(mock.graph(), [...mock.objects.get("chain")!.values()]), mock };
}

const overlaps = (placed: Placed): string[] => {
  const found: string[] = [];
  const check = (items: Placed["items"]): void => {
    items.forEach((a, at) => {
      for (const b of items.slice(at + 1)) if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height) found.push(`${a.id} ${b.id}`);
    });
  };
  check(placed.items);
  check(placed.inner);
  return found;
};

test("a thousand functions are twenty folded chains with their ports", () => {
  const { of } = host(1000);
  assert.equal(firstGrouping(of), "chain");
  const all = groups(of, "chain");
  assert.equal(all.length, 20);
  for (const group of all) {
    assert.equal(group.members.length, 52);
    assert.equal(of.nodes[group.members[0]!]!.name, `${group.name}-in`);
    assert.equal(of.nodes[group.members[1]!]!.name, `${group.name}-f00`);
    assert.equal(of.nodes[group.members.at(-1)!]!.name, `${group.name}-out`);
  }
  assert.equal(groups(of, "tenant").length, 3);
  assert.equal(groups(of, "none").length, 0);
  assert.equal(firstGrouping(host(10).of), "none");
});

test("nothing lies over anything else, folded, opened and ungrouped", async () => {
  for (const size of [10, 100, 1000]) {
    const { of } = host(size);
    const all = groups(of, "chain");
    for (const open of [NONE, new Set(all.slice(0, 3).map((group) => group.id)), new Set(all.map((group) => group.id))]) {
      assert.deepEqual(overlaps(await place(of, all, open, ASPECT, columns)), [], `${size} with ${open.size} open`);
    }
    assert.deepEqual(overlaps(await place(of, [], NONE, ASPECT, columns)), [], `${size} ungrouped`);
  }
});

test("each node stands once, and each link ends at what it joins", async () => {
  const { of } = host(100);
  const all = groups(of, "chain");
  const placed = await place(of, all, new Set([all[0]!.id]), ASPECT, columns);
  const seen = [...placed.items.flatMap((item) => (item.group && !item.open ? item.group.members : item.node >= 0 ? [item.node] : [])), ...placed.inner.map((item) => item.node)];
  assert.deepEqual(seen.sort((a, b) => a - b), [...of.nodes.keys()]);
  const drawn = [...placed.links, ...placed.innerLinks].flatMap((link) => link.edges);
  const folded = of.edges.filter((edge) => {
    const group = (node: number): string | undefined => all.find((group) => group.members.includes(node))?.id;
    return group(edge.from) !== undefined && group(edge.from) === group(edge.to) && group(edge.from) !== all[0]!.id;
  });
  assert.equal(drawn.length + folded.length, of.edges.length);
  for (const link of placed.innerLinks) {
    const from = placed.inner[link.from]!;
    const [x, y] = link.points;
    assert.ok(x! >= from.x - 1 && x! <= from.x + from.width + 1 && y! >= from.y - 1 && y! <= from.y + from.height + 1);
  }
});

test("the same graph comes to the same picture", async () => {
  const { of } = host(1000);
  const again = host(1000).of;
  const all = groups(of, "chain");
  assert.deepEqual(await place(of, all, NONE, ASPECT, columns), await place(again, groups(again, "chain"), NONE, ASPECT, columns));
});

test("opening a chain moves nothing above it, and only down what is below", async () => {
  const { of } = host(1000);
  const all = groups(of, "chain");
  const before = await place(of, all, NONE, ASPECT, columns);
  const opened = all[9]!.id;
  const after = await place(of, all, new Set([opened]), ASPECT, columns);
  const at = before.items.find((item) => item.id === opened)!;
  for (const item of before.items) {
    const now = after.items.find((other) => other.id === item.id)!;
    if (item.y < at.y) assert.deepEqual([now.x, now.y], [item.x, item.y], item.id);
    else if (item.y > at.y) assert.ok(now.x === item.x && now.y > item.y, item.id);
  }
  const now = after.items.find((item) => item.id === opened)!;
  assert.deepEqual([now.x, now.y], [at.x, at.y]);
});

test("one more function in a chain leaves all other chains where they are", async () => {
  const { of, mock } = host(100);
  const before = await place(of, groups(of, "chain"), NONE, ASPECT, columns);
  mock.put("function", "extra", { image: "monitor", tenant: "default" });
  const chain = mock.objects.get("chain")!.get("c04")!;
  mock.put("chain", "c04", [...(chain.spec as string[]).slice(0, -1), "extra", "c04-out"]);
  mock.wire();
  const next = structure(mock.graph(), [...mock.objects.get("chain")!.values()]);
  const after = await place(next, groups(next, "chain"), NONE, ASPECT, columns);
  assert.deepEqual(
    after.items.map((item) => [item.id, item.x, item.y]),
    before.items.map((item) => [item.id, item.x, item.y]),
  );
});

test("parts of one shape are laid out once", async () => {
  const { of } = host(100);
  let asked = 0;
  const counting: Engine = (shape) => {
    asked += 1;
    return columns(shape);
  };
  // A star of four is no line: twelve of the same, in one graph.
  const nodes = Array.from({ length: 12 }, (_, star) => ["hub", "a", "b", "c"].map((name) => ({ kind: "function" as const, name: `${name}${star}`, drops: 0 }))).flat();
  const edges = Array.from({ length: 12 }, (_, star) => ["a", "b", "c"].map((name) => ({ kind: "wire" as const, from: `hub${star}`, to: `${name}${star}` }))).flat();
  await place(structure({ time_ns: 0, nodes, edges }, []), [], NONE, ASPECT, counting);
  assert.equal(asked, 1);
  asked = 0;
  await place(structure({ time_ns: 0, nodes, edges }, []), [], NONE, ASPECT, counting);
  assert.equal(asked, 0, "a second time nothing is laid out");
  await place(of, groups(of, "chain"), NONE, ASPECT, counting);
  assert.equal(asked, 0, "lines need no engine");
});

test("a line is placed from its beginning to its end, whichever way its edges are written", () => {
  const line = alongALine({ sizes: [[10, 10], [20, 40], [10, 10]], edges: [[2, 1], [1, 0]] })!;
  assert.ok(line.at[2]![0] < line.at[1]![0] && line.at[1]![0] < line.at[0]![0]);
  assert.equal(line.at[1]![1], 0);
  assert.equal(line.at[0]![1], 15);
  assert.equal(alongALine({ sizes: [[1, 1], [1, 1], [1, 1], [1, 1]], edges: [[0, 1], [0, 2], [0, 3]] }), null);
  assert.equal(alongALine({ sizes: [[1, 1], [1, 1]], edges: [[0, 1], [1, 0]] }), null);
  assert.deepEqual(alongALine({ sizes: [[1, 1]], edges: [] })!.at, [[0, 0]]);
  // A long one runs to and fro: each stands beside or below the one before.
  const long = alongALine({ sizes: Array.from({ length: 52 }, () => [152, 58]), edges: Array.from({ length: 51 }, (_, at) => [at, at + 1]) })!;
  for (let item = 1; item < 52; item += 1) {
    const [dx, dy] = [Math.abs(long.at[item]![0] - long.at[item - 1]![0]), long.at[item]![1] - long.at[item - 1]![1]];
    assert.ok((dx > 152 && dy === 0) || (dx === 0 && dy > 58), `${item}`);
  }
  assert.ok(long.at.some(([, y]) => y > 200));
});

test("without a chain, names of interfaces say which way packets go", async () => {
  const nodes = ["nic", "dev", "ids", "end"].map((name, at) => ({ kind: (["port", "device", "function", "port"] as const)[at]!, name, drops: 0 }));
  const edges = [
    { kind: "over" as const, from: "dev", to: "nic" },
    { kind: "opens" as const, from: "ids", from_part: "left", to: "dev" },
    { kind: "wire" as const, from: "end", to: "ids", to_part: "right" },
  ];
  const placed = await place(structure({ time_ns: 0, nodes, edges }, []), [], NONE, ASPECT, columns);
  const at = (name: string): number => placed.items.find((item) => item.id.endsWith(`/${name}`))!.x;
  assert.ok(at("nic") < at("dev") && at("dev") < at("ids") && at("ids") < at("end"));
  // Each is written against the way that it leads.
  assert.deepEqual(placed.links.map((link) => link.turned), [[true], [true], [true]]);
});

test("ways lead from side to side", () => {
  const [a, b] = [{ x: 0, y: 0, width: 10, height: 10 }, { x: 50, y: 0, width: 10, height: 10 }];
  assert.deepEqual(between(a, b), [10, 5, 50, 5]);
  assert.deepEqual(between(b, a), [50, 5, 10, 5]);
  assert.deepEqual(between(a, { x: 0, y: 50, width: 10, height: 10 }), [5, 10, 5, 50]);
  assert.ok(thickness(0) <= thickness(100) && thickness(100) < thickness(1e6) && thickness(1e12) <= 6);
});

test("what is pressed is found, the innermost first, and arrows go to the nearest in their direction", async () => {
  const { of } = host(100);
  const all = groups(of, "chain");
  const placed = await place(of, all, new Set([all[0]!.id]), ASPECT, columns);
  const first = placed.inner[0]!;
  assert.equal(itemAt(placed, first.x + 5, first.y + 5)?.id, first.id);
  const group = placed.items.find((item) => item.open)!;
  assert.equal(itemAt(placed, group.x + 4, group.y + 4)?.id, group.id);
  assert.equal(itemAt(placed, -500, -500), null);
  assert.equal(neighbour(placed, first.id, 1, 0)?.id, placed.inner[1]!.id);
  assert.equal(neighbour(placed, placed.inner[1]!.id, -1, 0)?.id, first.id);
  assert.equal(neighbour(placed, null, 1, 0) !== null, true);
});

test("a search finds by name, kind, tenant and chain, all words of it", () => {
  const { of } = host(100);
  assert.equal(find(of, "  "), null);
  assert.equal(find(of, "c03-f0")!.size, 10);
  assert.equal(find(of, "GOLD function")!.size, [...of.nodes].filter((node) => node.kind === "function" && node.tenant === "gold").length);
  assert.equal(find(of, "nothing-is-called-so")!.size, 0);
});

test("a frame has rates by node and edge, whatever order the columns come in", () => {
  const { of, mock } = host(10);
  const step = mock.at(100, 0);
  const made = frame(step, mapping(step, of)!);
  const at = of.byId.get("function/edge_firewall")!;
  const work = mock.work("edge_firewall", 100);
  assert.ok(Math.abs(made.pps[at]! - work.packets) <= 1);
  assert.ok(Math.abs(made.dps[at]! - work.drops) <= 1);
  assert.equal(made.bps[at], made.bps[at]);
  assert.equal(made.state[of.byId.get("function/watcher")!], "paused");
  assert.equal(made.promised[at], 0.25);
  // Ten seconds' sums are the same rates.
  const coarse = { ...mock.at(100, 0), seconds: 10 };
  for (const columns of Object.values(coarse.objects) as { values: Record<string, number[]> }[]) for (const [name, values] of Object.entries(columns.values)) if (/packets|drops|_ns/.test(name)) columns.values[name] = values.map((value) => value * (10 / step.seconds));
  const slow = frame(coarse, mapping(coarse, of)!);
  assert.ok(Math.abs(slow.pps[at]! - made.pps[at]!) < 1);
  assert.equal(made.workers.length, 2);
  assert.ok(made.host!.dps > 0);
  assert.equal(mapping(mock.at(100, mock.layout), of), null, "without names there is no mapping");
});

test("between functions that nothing counts, what passes is about what both saw", () => {
  const { of, mock } = host(100);
  const step = mock.at(100, 0);
  const made = frame(step, mapping(step, of)!);
  const edge = of.edges.findIndex((edge) => edge.id === "wire/c03-f01:outside~c03-f02:inside");
  assert.ok(Number.isNaN(made.therePps[edge]!) && Number.isNaN(made.backPps[edge]!));
  const guess = about(of, made, edge);
  const [a, b] = ["function/c03-f01", "function/c03-f02"].map((id) => made.pps[of.byId.get(id)!]!);
  assert.ok(guess > 0 && guess <= Math.min(a!, b!));
  const port = of.edges.findIndex((edge) => edge.id === "wire/c03-in~c03-f00:inside");
  assert.ok(made.therePps[port]! > 0);
  assert.ok(Number.isNaN(about(of, made, port)), "what is counted needs no guess");
});

test("objects of a time when there were others are left out, and break nothing", () => {
  const { of } = host(10);
  const other = new Host(100, { startMs: 1_000_000 });
  const step = other.at(100, 0);
  const made = frame(step, mapping(step, of)!);
  assert.ok([...made.pps].every((value) => Number.isNaN(value)));
});

test("a hop without bytes has those of the one before, and crossings of tenants are told", () => {
  const tenants: Record<string, string> = { "function/a": "red", "function/b": "blue" };
  const [before, after] = ["0200000000020200000000010800", "0200000000020200000000ff0800"];
  const seen = hopChanges(
    { head: before, hops: [{ at: "port/lan", what: "received", after_ns: 0 }, { at: "function/a", what: "called", after_ns: 1 }, { at: "function/b", what: "called", after_ns: 2, head: after }] },
    (at) => tenants[at],
  );
  assert.deepEqual(seen.map((hop) => hop.changes.length), [0, 0, 1]);
  assert.deepEqual(seen[2]!.changes[0], { name: "Ethernet source", before: "02:00:00:00:00:01", after: "02:00:00:00:00:ff" });
  assert.equal(seen[2]!.crossing, "from tenant red to tenant blue");
  assert.equal(seen[1]!.crossing, undefined);
});

test("bits of an edge whose bytes nothing counts are its packets, as long as those of their sender", () => {
  const { of, mock } = host(10);
  const step = mock.at(500, 0);
  const now = frame(step, mapping(step, of)!);
  const edge = (from: string, to: string): number => of.edges.findIndex((edge) => of.nodes[edge.from]!.name === from && of.nodes[edge.to]!.name === to);
  const inner = edge("edge_firewall", "detection");
  assert.ok(now.therePps[inner]! > 0 && now.backPps[inner]! > 0 && Number.isNaN(now.thereBps[inner]));
  const length = (name: string): number => now.bps[of.byId.get(`function/${name}`)!]! / now.pps[of.byId.get(`function/${name}`)!]!;
  const wanted = now.therePps[inner]! * length("edge_firewall") + now.backPps[inner]! * length("detection");
  assert.ok(Math.abs(aboutBits(of, now, inner) - wanted) < 1);
  assert.ok(Number.isNaN(aboutBits(of, now, edge("lan", "edge_firewall"))), "bytes are counted there");
  assert.ok(now.thereBps[edge("lan", "edge_firewall")]! > 0);
  // Where the packets are not known either there is no number.
  const observed = edge("edge_firewall", "flows");
  assert.ok(Number.isNaN(aboutBits(of, now, observed)));
});

test("a container has the numbers of a function, without a worker and a promise", () => {
  const { of, mock } = host(10);
  const step = mock.at(500, 0);
  const now = frame(step, mapping(step, of)!);
  const at = of.byId.get("function/proxy")!;
  assert.ok(now.pps[at]! > 0 && now.bps[at]! > 0 && now.cpu[at]! > 0);
  assert.deepEqual([now.state[at], now.worker[at], now.promised[at]], ["running", NaN, NaN]);
  assert.equal(of.nodes[at]!.chain, "site");
});

test("an event stands where it was, however clocks are set", () => {
  const told = (age: number): Told => ({ time: 0, born: performance.now() - age, key: null, kind: "port", name: "lan", what: "down", text: "" });
  const steps = { first: 0, last: 1000, startMs: 5_000_000, started: "2026-01-02T03:04:05Z" };
  kept.set(steps);
  assert.equal(stepOf(told(20_000)), 980);
  kept.set({ ...steps, startMs: steps.startMs - 86_400_000 });
  assert.equal(stepOf(told(20_000)), 980);
  // A daemon that was started anew has no step for what was before it.
  kept.set({ ...steps, last: 7 });
  assert.deepEqual([stepOf(told(20_000)), stepOf(told(3_000))], [null, 4]);
  kept.set(null);
  assert.equal(stepOf(told(1)), null);
});

test("a guard is told by its device, and by its opener where there are several", () => {
  assert.deepEqual(guardOf("groups@red"), { device: "red" });
  assert.deepEqual(guardOf("groups@red~server:0"), { device: "red", opener: "server:0" });
  assert.equal(guardOf("groups@"), undefined);
  assert.equal(guardOf("groups"), undefined);
  assert.equal(guardOf("my groups@red"), undefined);
  assert.equal(guardLabel({ device: "red" }), "the guard that keeps to the security groups of red");
  assert.equal(guardLabel({ device: "red", opener: "server:0" }), "the guard that keeps to the security groups of red, for server:0");
});
