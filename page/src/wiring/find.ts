/** Finding nodes: by what is typed, and by going from one to the next. */
import type { Structure } from "../host/model";
import type { Item, Placed } from "./layout";

/** Names that a search finds. */
export function find(of: Structure, text: string): Set<string> | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const found = new Set<string>();
  for (const node of of.nodes) {
    const told = `${node.id} ${node.tenant} ${node.chain ?? ""}`.toLowerCase();
    if (words.every((word) => told.includes(word))) found.add(node.id);
  }
  return found;
}

/** The nearest item in a direction, seen from the one that is selected. */
export function neighbour(placed: Placed, selected: string | null, dx: number, dy: number): Item | null {
  const all = [...placed.items.filter((item) => !item.open), ...placed.inner];
  const from = all.find((item) => item.id === selected) ?? placed.items.find((item) => item.id === selected);
  if (!from) return all[0] ?? null;
  let best: Item | null = null;
  let least = Infinity;
  for (const item of all) {
    if (item === from) continue;
    const [x, y] = [item.x + item.width / 2 - from.x - from.width / 2, item.y + item.height / 2 - from.y - from.height / 2];
    const along = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (along <= 4) continue;
    const far = along + 2.5 * aside;
    if (far < least) [best, least] = [item, far];
  }
  return best;
}
