/** Draws the wiring on a canvas: what is out of sight or too small to read is not drawn. */
import { type Frame, type Structure, about, aboutBits } from "../host/model";
import { bitRate, packetRate, share } from "../ui/format";
import type { Item, Link, Placed } from "./layout";
import type { Palette } from "./palette";

export interface Camera {
  x: number;
  y: number;
  /** Pixels of the screen for one of the picture. */
  scale: number;
}

export interface Scene {
  of: Structure;
  placed: Placed;
  frame: Frame | null;
  camera: Camera;
  width: number;
  height: number;
  colours: Palette;
  selected: string | null;
  hovered: string | null;
  /** Nodes that a search found; `null` when nothing is searched. */
  found: ReadonlySet<string> | null;
  /** What is dropped, by reason, where that is known: node to lines. */
  reasons: ReadonlyMap<string, string>;
  /** Nodes that failed within the last minute. */
  failed: ReadonlySet<string>;
  /** Values are of a time before, because the daemon does not answer. */
  old: boolean;
  /** Where labels stand already. */
  labels: [left: number, top: number, right: number, bottom: number][];
}

/** How much of a picture of old values is drawn. */
const OLD = 0.75;
/** Below these scales text is too small to read. */
const NAMES_FROM = 0.42;
const DETAILS_FROM = 0.55;

const sum = (values: Float64Array, of: number[]): number => {
  let total = 0;
  for (const at of of) {
    const value = values[at]!;
    if (value === value) total += value;
  }
  return total;
};

const most = (values: Float64Array, of: number[]): number => {
  let found = NaN;
  for (const at of of) {
    const value = values[at]!;
    if (value === value && !(found >= value)) found = value;
  }
  return found;
};

export function draw(canvas: CanvasRenderingContext2D, scene: Scene): void {
  const { camera, width, height, colours } = scene;
  canvas.clearRect(0, 0, width, height);
  canvas.save();
  canvas.translate(-camera.x * camera.scale, -camera.y * camera.scale);
  canvas.scale(camera.scale, camera.scale);
  canvas.lineJoin = "round";
  canvas.textBaseline = "alphabetic";
  if (scene.old) canvas.globalAlpha = OLD;
  const view = { left: camera.x, top: camera.y, right: camera.x + width / camera.scale, bottom: camera.y + height / camera.scale };
  const seen = (x: number, y: number, w: number, h: number): boolean => x <= view.right && x + w >= view.left && y <= view.bottom && y + h >= view.top;
  const visible = (item: Item): boolean => seen(item.x - 8, item.y - 8, item.width + 16, item.height + 32);
  const { items, inner, links, innerLinks } = scene.placed;
  for (const item of items) if (item.open && visible(item)) openGroup(canvas, scene, item);
  canvas.lineCap = "round";
  for (const link of links) if (crosses(link, seen)) wire(canvas, scene, link);
  for (const link of innerLinks) if (crosses(link, seen)) wire(canvas, scene, link);
  canvas.font = `600 13px ${colours.font}`;
  for (const item of items) {
    if (item.open || !visible(item)) continue;
    if (item.group) folded(canvas, scene, item);
    else node(canvas, scene, item);
  }
  for (const item of inner) if (visible(item)) node(canvas, scene, item);
  canvas.restore();
}

function crosses(link: Link, seen: (x: number, y: number, w: number, h: number) => boolean): boolean {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < link.points.length; at += 2) {
    const [x, y] = [link.points[at]!, link.points[at + 1]!];
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
  return seen(left - 20, top - 20, right - left + 40, bottom - top + 40);
}

const pair = (a: number, b: number): number => (a === a ? a : 0) + (b === b ? b : 0);

/** What an edge's traffic is as a width: a line for nothing, and one more for each factor of ten above 100 pps. */
export function thickness(pps: number): number {
  return pps > 0 ? Math.min(6, 1.2 + Math.max(0, Math.log10(pps) - 2) * 0.8) : 1;
}

function wire(canvas: CanvasRenderingContext2D, scene: Scene, link: Link): void {
  const { frame, colours, camera } = scene;
  const { points } = link;
  if (points.length < 4) return;
  let [there, back, thereBits, backBits] = [0, 0, 0, 0];
  let counted = false;
  let observes = true;
  for (let place = 0; place < link.edges.length; place += 1) {
    const at = link.edges[place]!;
    const edge = scene.of.edges[at]!;
    if (edge.kind !== "observes") observes = false;
    if (!frame) continue;
    if (frame.therePps[at]! >= 0 || (frame.backPps[at]! >= 0 && frame.backPps[at] !== 0)) counted = true;
    const turned = link.turned[place];
    there += pair((turned ? frame.backPps : frame.therePps)[at]!, 0);
    back += pair((turned ? frame.therePps : frame.backPps)[at]!, 0);
    thereBits += pair((turned ? frame.backBps : frame.thereBps)[at]!, 0);
    backBits += pair((turned ? frame.thereBps : frame.backBps)[at]!, 0);
  }
  const guess = !counted && frame && link.edges.length === 1 ? about(scene.of, frame, link.edges[0]!) : NaN;
  const flow = counted ? there + back : pair(guess, 0);
  canvas.strokeStyle = flow > 0 ? colours.accent : colours.wire;
  canvas.lineWidth = camera.scale < 0.3 ? Math.max(1, thickness(flow)) : thickness(flow);
  canvas.setLineDash(observes ? [5, 4] : []);
  canvas.beginPath();
  path(canvas, points);
  canvas.stroke();
  canvas.setLineDash([]);
  if (frame && !observes) losses(canvas, scene, link);
  if (camera.scale < DETAILS_FROM) return;
  let bits = thereBits + backBits > 0 ? bitRate(thereBits + backBits) : "";
  if (!bits && frame && link.edges.length === 1) {
    const likely = aboutBits(scene.of, frame, link.edges[0]!);
    if (likely > 0) bits = `≈ ${bitRate(likely)}`;
  }
  if (counted) label(canvas, scene, link, there, back, bits, "");
  else if (guess >= 0) label(canvas, scene, link, guess, 0, bits, "≈ ");
}

/** Where packets of an edge are lost at its end: a red end. */
function losses(canvas: CanvasRenderingContext2D, scene: Scene, link: Link): void {
  const edge = scene.of.edges[link.edges[0]!]!;
  if (link.edges.length !== 1) return;
  const { points } = link;
  const [there, back] = [pair(scene.frame!.therePps[link.edges[0]!]!, 0), pair(scene.frame!.backPps[link.edges[0]!]!, 0)];
  if (there + back === 0) return;
  const forward = there >= back;
  const into = forward ? edge.to : edge.from;
  if (!(scene.frame!.dps[into]! > 0)) return;
  // The end of the way that is at that node.
  const target = [...scene.placed.items, ...scene.placed.inner].find((item) => item.node === into);
  if (!target) return;
  const middle = target.x + target.width / 2;
  const atEnd = Math.abs(points.at(-2)! - middle) < Math.abs(points[0]! - middle);
  const [x, y] = atEnd ? [points.at(-2)!, points.at(-1)!] : [points[0]!, points[1]!];
  canvas.fillStyle = scene.colours.bad;
  canvas.beginPath();
  canvas.arc(x, y, 5, 0, 7);
  canvas.fill();
}

/** A way with its corners rounded. */
function path(canvas: CanvasRenderingContext2D, points: number[]): void {
  canvas.moveTo(points[0]!, points[1]!);
  for (let at = 2; at < points.length - 2; at += 2) canvas.arcTo(points[at]!, points[at + 1]!, points[at + 2]!, points[at + 3]!, 7);
  canvas.lineTo(points.at(-2)!, points.at(-1)!);
}

function label(canvas: CanvasRenderingContext2D, scene: Scene, link: Link, there: number, back: number, bits: string, about: string): void {
  // On the longest level stretch, which has room for it.
  let [best, length] = [-1, 0];
  for (let at = 0; at + 3 < link.points.length; at += 2) {
    const across = Math.abs(link.points[at + 2]! - link.points[at]!);
    if (link.points[at + 1] === link.points[at + 3] && across > length) [best, length] = [at, across];
  }
  if (best < 0 || length < 30) return;
  if (length < 40) return;
  const inGroup = length < 60;
  const x = (link.points[best]! + link.points[best + 2]!) / 2;
  const y = link.points[best + 1]!;
  const right = link.points[best + 2]! > link.points[best]!;
  const { colours } = scene;
  canvas.fillStyle = colours.dim;
  canvas.textAlign = "center";
  const short = (pps: number): string => packetRate(pps).replace(/\s?pps$/, "");
  if (inGroup) {
    canvas.font = `500 9.5px ${colours.font}`;
    if (there > 0) canvas.fillText(about.trim() + short(there), x, y - 5);
    if (back > 0) canvas.fillText(short(back), x, y + 13);
    return;
  }
  canvas.font = `500 11.5px ${colours.font}`;
  // Packets each way above and below; bits of both under that, where there is room.
  const third = back > 0 && bits !== "" && free(scene, x, y, length, 31);
  if (!third && !free(scene, x, y, length, 17)) return;
  const [forward, backward] = right ? ["▸", "◂"] : ["◂", "▸"];
  const lines: string[] = [];
  if (there > 0 || back === 0) lines.push(about ? about + packetRate(there) : `${packetRate(there)} ${forward}`);
  if (back > 0) lines.push(`${backward} ${packetRate(back)}`);
  if (there > 0) canvas.fillText(lines[0]!, x, y - 6);
  else if (back === 0) return;
  if (back > 0) canvas.fillText(lines.at(-1)!, x, y + 15);
  else if (bits) canvas.fillText(bits, x, y + 15);
  if (third) canvas.fillText(bits, x, y + 29);
}

/** Whether a label has room: two that lie over each other cannot be read. */
function free(scene: Scene, x: number, y: number, length: number, below: number): boolean {
  const half = Math.min(length, 84) / 2;
  for (const [left, top, right, bottom] of scene.labels) if (x + half > left && x - half < right && y + below > top && y - 17 < bottom) return false;
  scene.labels.push([x - half, y - 17, x + half, y + below]);
  return true;
}

function box(canvas: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, radius: number): void {
  canvas.beginPath();
  canvas.roundRect(x, y, width, height, radius);
}

function fitted(canvas: CanvasRenderingContext2D, text: string, width: number): string {
  if (canvas.measureText(text).width <= width) return text;
  let kept = text.length - 1;
  while (kept > 1 && canvas.measureText(`${text.slice(0, kept)}…`).width > width) kept -= Math.max(1, Math.floor(kept / 12));
  return `${text.slice(0, kept)}…`;
}

export function stateColour(state: string, colours: Palette): string {
  if (state === "running" || state === "up") return colours.good;
  if (state === "down") return colours.bad;
  return colours.idle;
}

function outline(canvas: CanvasRenderingContext2D, scene: Scene, id: string): void {
  const { colours } = scene;
  const found = scene.found?.has(id);
  canvas.lineWidth = scene.selected === id ? 3 : found ? 2.5 : scene.hovered === id ? 2 : 1;
  canvas.strokeStyle = scene.selected === id || found ? colours.accent : scene.hovered === id ? colours.dim : colours.line;
  canvas.stroke();
}

const RADIUS: Record<string, number> = { port: 29, service: 29, function: 8, device: 3, switch: 3 };

function node(canvas: CanvasRenderingContext2D, scene: Scene, item: Item): void {
  const { frame, colours, camera } = scene;
  const of = scene.of.nodes[item.node]!;
  const at = item.node;
  const state = frame?.state[at] ?? "unknown";
  const drops = frame?.dps[at] ?? 0;
  const dimmed = scene.found !== null && !scene.found.has(item.id);
  const alpha = canvas.globalAlpha;
  if (dimmed) canvas.globalAlpha = alpha * 0.3;
  canvas.fillStyle = state === "down" ? mix(colours.bad, colours.card) : colours.card;
  box(canvas, item.x, item.y, item.width, item.height, RADIUS[of.kind] ?? 8);
  canvas.fill();
  if (of.kind === "device" || of.kind === "switch") canvas.setLineDash(of.kind === "device" ? [] : [4, 3]);
  outline(canvas, scene, item.id);
  canvas.setLineDash([]);
  const inset = of.kind === "port" || of.kind === "service" ? 18 : 12;
  if (camera.scale < NAMES_FROM) {
    small(canvas, scene, item, state, drops);
    canvas.globalAlpha = alpha;
    return;
  }
  const stated = state !== "unknown";
  if (stated) {
    canvas.fillStyle = stateColour(state, colours);
    canvas.beginPath();
    canvas.arc(item.x + inset + 3, item.y + 15, 4, 0, 7);
    canvas.fill();
  }
  canvas.textAlign = "left";
  canvas.fillStyle = colours.text;
  canvas.font = `600 14px ${colours.font}`;
  const indent = stated ? 13 : 0;
  canvas.fillText(fitted(canvas, of.name, item.width - inset - 17 - indent), item.x + inset + indent, item.y + 19.5);
  if (scene.failed.has(item.id)) {
    canvas.fillStyle = colours.bad;
    canvas.font = `700 13px ${colours.font}`;
    canvas.textAlign = "right";
    canvas.fillText("⚠", item.x + item.width - 9, item.y + 19);
    canvas.textAlign = "left";
  }
  if (camera.scale < DETAILS_FROM) {
    if (drops > 0) dropMark(canvas, scene, item, drops, false);
    canvas.globalAlpha = alpha;
    return;
  }
  canvas.font = `500 12px ${colours.font}`;
  canvas.fillStyle = colours.dim;
  const pps = frame?.pps[at] ?? NaN;
  const stands = state === "paused" || state === "frozen" || state === "starting" || state === "down" || state === "finished" ? state : "";
  const rate = pps === pps ? `${packetRate(pps)}  ${bitRate(frame!.bps[at])}` : of.kind;
  canvas.fillText(fitted(canvas, stands ? `${stands} · ${pps === pps ? packetRate(pps) : ""}` : rate, item.width - 2 * inset), item.x + inset, item.y + 35);
  if (of.kind === "function" && frame) processor(canvas, scene, frame.cpu[at]!, frame.promised[at]!, item.x + inset, item.y + 42, item.width - 2 * inset, frame.worker[at]!);
  if (of.kind === "port") {
    canvas.font = `500 11px ${colours.font}`;
    canvas.fillText("port", item.x + inset, item.y + 49);
  }
  if (of.kind === "function" && frame) queue(canvas, scene, frame.queue[at]! / frame.queueSize[at]!, item);
  if (drops > 0) dropMark(canvas, scene, item, drops, true);
  canvas.globalAlpha = alpha;
}

/** A node too small for text: its state and its share of a core as colour. */
function small(canvas: CanvasRenderingContext2D, scene: Scene, item: Item, state: string, drops: number): void {
  const { colours, frame } = scene;
  const cpu = frame?.cpu[item.node] ?? NaN;
  canvas.fillStyle = drops > 0 || state === "down" ? colours.bad : stateColour(state, colours);
  const width = cpu === cpu ? Math.max(0.06, Math.min(1, cpu / Math.max(frame!.promised[item.node]! || 1, 0.01))) : 1;
  canvas.globalAlpha *= 0.75;
  box(canvas, item.x + 8, item.y + item.height / 2 - 8, (item.width - 16) * width, 16, 4);
  canvas.fill();
  canvas.globalAlpha /= 0.75;
}

/** Processor time got, as a bar; what was promised, as a mark on it. */
function processor(canvas: CanvasRenderingContext2D, scene: Scene, got: number, promised: number, x: number, y: number, width: number, worker: number): void {
  const { colours } = scene;
  if (!(got >= 0)) return;
  const bar = width - 72;
  const full = Math.max(got, promised > 0 ? promised : 0, 0.02) * (promised > got ? 1 : 1.02);
  canvas.fillStyle = colours.line;
  box(canvas, x, y, bar, 6, 3);
  canvas.fill();
  canvas.fillStyle = promised > 0 && got > promised * 1.001 ? colours.warn : colours.accent;
  box(canvas, x, y, Math.max(1, (bar * got) / full), 6, 3);
  canvas.fill();
  if (promised > 0) {
    canvas.fillStyle = colours.text;
    canvas.fillRect(x + (bar * promised) / full - 1, y - 2, 2, 10);
  }
  canvas.font = `500 11px ${colours.font}`;
  canvas.fillStyle = colours.dim;
  canvas.fillText(`${share(got)}${worker === worker ? `  w${worker}` : ""}`, x + bar + 6, y + 6.5);
}

function queue(canvas: CanvasRenderingContext2D, scene: Scene, fill: number, item: Item): void {
  if (!(fill > 0)) return;
  const { colours } = scene;
  const height = (item.height - 12) * Math.min(1, fill);
  canvas.fillStyle = colours.line;
  box(canvas, item.x + 3, item.y + 6, 4, item.height - 12, 2);
  canvas.fill();
  canvas.fillStyle = fill > 0.8 ? colours.bad : fill > 0.5 ? colours.warn : colours.accent;
  box(canvas, item.x + 3, item.y + item.height - 6 - height, 4, height, 2);
  canvas.fill();
}

function dropMark(canvas: CanvasRenderingContext2D, scene: Scene, item: Item, drops: number, detailed: boolean): void {
  const { colours } = scene;
  const text = detailed ? `▼ ${packetRate(drops)} ${scene.reasons.get(item.id) ?? "dropped"}` : `▼ ${packetRate(drops)}`;
  canvas.font = `600 11.5px ${colours.font}`;
  const shown = fitted(canvas, text, item.width + 4);
  const width = canvas.measureText(shown).width + 12;
  const x = item.x + item.width / 2 - width / 2;
  canvas.fillStyle = colours.bad;
  box(canvas, x, item.y + item.height - 5, width, 17, 8.5);
  canvas.fill();
  canvas.fillStyle = colours.card;
  canvas.textAlign = "left";
  canvas.fillText(shown, x + 6, item.y + item.height + 7.5);
}

function folded(canvas: CanvasRenderingContext2D, scene: Scene, item: Item): void {
  const { frame, colours, camera } = scene;
  const group = item.group!;
  const dimmed = scene.found !== null && !group.members.some((member) => scene.found!.has(scene.of.nodes[member]!.id));
  const alpha = canvas.globalAlpha;
  if (dimmed) canvas.globalAlpha = alpha * 0.3;
  // A stack of cards: there is more within.
  canvas.fillStyle = colours.card;
  for (const off of [6, 3, 0]) {
    box(canvas, item.x + off, item.y + off, item.width, item.height, 10);
    canvas.fill();
    canvas.lineWidth = 1;
    canvas.strokeStyle = colours.line;
    canvas.stroke();
  }
  box(canvas, item.x, item.y, item.width, item.height, 10);
  outline(canvas, scene, item.id);
  const functions = group.members.filter((member) => scene.of.nodes[member]!.kind === "function");
  canvas.textAlign = "left";
  if (camera.scale >= NAMES_FROM) {
    canvas.fillStyle = colours.text;
    canvas.font = `650 14px ${colours.font}`;
    canvas.fillText(fitted(canvas, `▸ ${group.name}`, item.width - 92), item.x + 12, item.y + 22);
    canvas.font = `500 11px ${colours.font}`;
    canvas.fillStyle = colours.dim;
    canvas.textAlign = "right";
    canvas.fillText(`${functions.length} functions`, item.x + item.width - 12, item.y + 21.5);
    canvas.textAlign = "left";
  }
  if (frame) {
    cells(canvas, scene, functions, item.x + 12, item.y + 32, item.width - 24, 14);
    if (camera.scale >= DETAILS_FROM) {
      canvas.fillStyle = colours.dim;
      canvas.font = `500 11px ${colours.font}`;
      const got = sum(frame.cpu, functions);
      const promised = sum(frame.promised, functions);
      const part = `${share(got)} of ${share(promised)}`;
      const packets = packetRate(most(frame.pps, group.members));
      const both = `${packets}  ${bitRate(most(frame.bps, group.members))}`;
      const room = item.width - 32 - canvas.measureText(part).width;
      canvas.fillText(canvas.measureText(both).width <= room ? both : packets, item.x + 12, item.y + 62);
      canvas.textAlign = "right";
      canvas.fillText(part, item.x + item.width - 12, item.y + 62);
      canvas.textAlign = "left";
      canvas.fillStyle = colours.line;
      box(canvas, item.x + 12, item.y + 69, item.width - 24, 5, 2.5);
      canvas.fill();
      canvas.fillStyle = colours.accent;
      box(canvas, item.x + 12, item.y + 69, Math.max(1, (item.width - 24) * Math.min(1, got / Math.max(promised, got, 0.001))), 5, 2.5);
      canvas.fill();
    }
    const drops = sum(frame.dps, group.members);
    if (drops > 0 && camera.scale >= NAMES_FROM) dropMark(canvas, scene, item, drops, false);
  }
  canvas.globalAlpha = alpha;
}

/** One cell for each member, in the order of the chain: its state, and where packets are lost. */
function cells(canvas: CanvasRenderingContext2D, scene: Scene, members: number[], x: number, y: number, width: number, height: number): void {
  const { frame, colours } = scene;
  const each = width / members.length;
  const gap = each > 3 ? 1 : 0;
  for (let place = 0; place < members.length; place += 1) {
    const at = members[place]!;
    const state = frame!.state[at]!;
    const lost = frame!.dps[at]! > 0;
    canvas.fillStyle = lost || state === "down" ? colours.bad : stateColour(state, colours);
    if (state === "running" && !lost) canvas.globalAlpha = 0.45;
    canvas.fillRect(x + place * each, y, each - gap, height);
    if (state === "running" && !lost) canvas.globalAlpha = scene.old ? OLD : 1;
  }
}

function openGroup(canvas: CanvasRenderingContext2D, scene: Scene, item: Item): void {
  const { colours, camera, frame } = scene;
  canvas.fillStyle = mix(colours.accent, colours.ground, 0.07);
  box(canvas, item.x, item.y, item.width, item.height, 12);
  canvas.fill();
  outline(canvas, scene, item.id);
  if (camera.scale < NAMES_FROM * 0.7) return;
  canvas.textAlign = "left";
  canvas.fillStyle = colours.text;
  canvas.font = `650 14px ${colours.font}`;
  const name = fitted(canvas, `▾ ${item.group!.name}`, item.width * 0.6);
  canvas.fillText(name, item.x + 14, item.y + 22);
  if (!frame || camera.scale < NAMES_FROM) return;
  const functions = item.group!.members.filter((member) => scene.of.nodes[member]!.kind === "function");
  canvas.font = `500 11px ${colours.font}`;
  canvas.fillStyle = colours.dim;
  canvas.textAlign = "right";
  canvas.fillText(`${functions.length} functions · ${share(sum(frame.cpu, functions))} of ${share(sum(frame.promised, functions))} promised`, item.x + item.width - 14, item.y + 22);
}

/** A colour between two, of which the first has this part. */
export function mix(a: string, b: string, part = 0.18): string {
  return `color-mix(in srgb, ${a} ${Math.round(part * 100)}%, ${b})`;
}

/** The item at a place of the picture: the innermost. */
export function itemAt(placed: Placed, x: number, y: number): Item | null {
  const within = (item: Item): boolean => x >= item.x && x <= item.x + item.width && y >= item.y && y <= item.y + item.height;
  return placed.inner.find(within) ?? placed.items.find(within) ?? null;
}

/** The link that passes nearest to a place, within a distance. */
export function linkAt(placed: Placed, x: number, y: number, near: number): Link | null {
  let best: Link | null = null;
  let least = near;
  for (const link of [...placed.innerLinks, ...placed.links]) {
    for (let at = 0; at + 3 < link.points.length; at += 2) {
      const distance = toSegment(x, y, link.points[at]!, link.points[at + 1]!, link.points[at + 2]!, link.points[at + 3]!);
      if (distance < least) [best, least] = [link, distance];
    }
  }
  return best;
}

function toSegment(x: number, y: number, x1: number, y1: number, x2: number, y2: number): number {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const along = dx || dy ? Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy))) : 0;
  return Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
}
