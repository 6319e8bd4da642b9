/** The wiring as a list: the same for readers who see no picture, and what a search found. */
import { shown } from "../host/follow";
import type { Frame, Structure } from "../host/model";
import { useCell } from "../ui/cell";
import { packetRate } from "../ui/format";
import type { Group } from "./groups";

/** Lines that are shown at most: a search finds the others. */
const SHOWN = 250;

interface Props {
  structure: Structure;
  groups: Group[];
  open: ReadonlySet<string>;
  found: ReadonlySet<string> | null;
  selected: string | null;
  select: (id: string | null) => void;
  toggle: (id: string) => void;
  reveal: (id: string) => void;
}

function Line({ structure, at, frame, selected, reveal }: { structure: Structure; at: number; frame: Frame | null; selected: string | null; reveal: (id: string) => void }) {
  const node = structure.nodes[at]!;
  const drops = frame?.dps[at] ?? 0;
  const state = frame?.state[at] ?? "unknown";
  return (
    <li>
      <button type="button" aria-current={selected === node.id} onClick={() => reveal(node.id)}>
        <span class={`dot ${state}`} aria-hidden="true" />
        <span class="name">{node.name}</span>
        {state !== "running" && state !== "up" && state !== "unknown" ? <span class="rate">{state}</span> : null}
        {drops > 0 ? <span class="lost">▼ {packetRate(drops)}</span> : <span class="rate">{frame && frame.pps[at]! >= 0 ? packetRate(frame.pps[at]) : node.kind}</span>}
      </button>
    </li>
  );
}

export function Outline({ structure, groups, open, found, selected, select, toggle, reveal }: Props) {
  const last = useCell(shown);
  const frame = last?.pps.length === structure.nodes.length ? last : null;
  const line = (at: number) => <Line structure={structure} at={at} frame={frame} selected={selected} reveal={reveal} />;
  if (found) {
    const nodes = [...structure.nodes.keys()].filter((at) => found.has(structure.nodes[at]!.id));
    return (
      <>
        <p class="dim" role="status">
          {nodes.length === 0 ? "Nothing is called so." : `${nodes.length} found${nodes.length > SHOWN ? `, the first ${SHOWN} of them here` : ""}`}
        </p>
        <ul class="outline">{nodes.slice(0, SHOWN).map(line)}</ul>
      </>
    );
  }
  const grouped = new Set(groups.flatMap((group) => group.members));
  const alone = [...structure.nodes.keys()].filter((at) => !grouped.has(at));
  return (
    <ul class="outline">
      {groups.map((group) => {
        const isOpen = open.has(group.id);
        let lost = 0;
        if (frame) for (const at of group.members) lost += frame.dps[at]!;
        return (
          <li>
            <button
              type="button"
              aria-expanded={isOpen}
              aria-current={selected === group.id}
              onClick={() => {
                select(group.id);
                toggle(group.id);
              }}
            >
              <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
              <span class="name">{group.name}</span>
              {lost > 0 ? <span class="lost">▼ {packetRate(lost)}</span> : <span class="rate">{group.members.length}</span>}
            </button>
            {isOpen && <ul class="outline">{group.members.slice(0, SHOWN).map(line)}</ul>}
          </li>
        );
      })}
      {alone.slice(0, SHOWN).map(line)}
      {alone.length > SHOWN && <li class="dim">and {alone.length - SHOWN} more: a search finds them</li>}
    </ul>
  );
}
