/** Why packets are lost, of the nodes that lose most: each is asked for while the wiring is looked at. */
import { askJson } from "../api/http";
import type { HistoryOf } from "../api/types";
import { shown, wiring } from "../host/follow";
import { cell } from "../ui/cell";

/** How many nodes are asked about, and how often, in milliseconds. */
const ASKED = 6;
const EVERY = 5000;

/** Reasons of the last minute, the most frequent first, by node. */
export const reasons = cell<ReadonlyMap<string, string>>(new Map());

async function look(): Promise<void> {
  const [structure, frame] = [wiring.get(), shown.get()];
  if (!structure || !frame || frame.dps.length !== structure.nodes.length) return;
  const losing = [...frame.dps.keys()].filter((at) => frame.dps[at]! > 0).sort((a, b) => frame.dps[b]! - frame.dps[a]!);
  const found = new Map<string, string>();
  for (const at of losing.slice(0, ASKED)) {
    const { id } = structure.nodes[at]!;
    try {
      const told = await askJson<HistoryOf>(`/v1/history?of=${encodeURIComponent(id)}&seconds=1`);
      const drops = Object.entries(told.minute?.drops ?? {}).sort((a, b) => b[1] - a[1]);
      if (drops.length) found.set(id, drops.slice(0, 2).map(([reason]) => reason).join(", ") + (drops.length > 2 ? ", …" : ""));
    } catch {
      // Gone meanwhile, or the daemon is away, which the page says.
    }
  }
  reasons.set(found);
}

/** Asks until the function that it answers is called. */
export function watchReasons(): () => void {
  let left = false;
  let timer: ReturnType<typeof setTimeout>;
  const turn = async (): Promise<void> => {
    if (!document.hidden) await look();
    if (!left) timer = setTimeout(() => void turn(), EVERY);
  };
  timer = setTimeout(() => void turn(), 300);
  return () => {
    left = true;
    clearTimeout(timer);
  };
}
