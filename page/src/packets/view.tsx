/** Packets: followed on their way, or captured where they pass. */
import { useState } from "preact/hooks";
import { entrance } from "../api/session";
import { wiring } from "../host/follow";
import { useCell } from "../ui/cell";
import { Tabs } from "../ui/parts";
import { route } from "../ui/route";
import { Capture } from "./capture";
import { Trace } from "./trace";

type Tab = "trace" | "capture";

/** Names of places, for fields in which one is typed. */
export function Places() {
  const structure = useCell(wiring);
  const ends = new Set<string>();
  for (const node of structure?.nodes ?? []) if (node.kind !== "service" && node.kind !== "switch") ends.add(node.name);
  for (const edge of structure?.edges ?? []) {
    if (edge.fromPart) ends.add(`${structure!.nodes[edge.from]!.name}:${edge.fromPart}`);
    if (edge.toPart) ends.add(`${structure!.nodes[edge.to]!.name}:${edge.toPart}`);
  }
  return (
    <datalist id="places">
      {[...ends].slice(0, 2500).map((end) => (
        <option value={end} />
      ))}
    </datalist>
  );
}

export function Packets() {
  const { query } = useCell(route);
  const door = useCell(entrance);
  const asked: Tab = query.get("tab") === "capture" ? "capture" : "trace";
  const [tab, setTab] = useState<Tab>(asked);
  const [from, setFrom] = useState(asked);
  if (from !== asked) {
    setFrom(asked);
    setTab(asked);
  }
  const reads = door.state === "in" && (door.session.rights === "reader" || door.session.read_only);
  return (
    <div class="view">
      <h1>Packets</h1>
      <Places />
      {reads && <p class="warn">This session reads, and packets are not for reading alone: the daemon will refuse.</p>}
      <Tabs<Tab>
        label="What to do with packets"
        tabs={[
          ["trace", "Follow their way"],
          ["capture", "Capture"],
        ]}
        chosen={tab}
        choose={setTab}
      />
      {tab === "trace" ? <Trace at={query.get("at")} /> : <Capture at={query.get("at")} />}
    </div>
  );
}
