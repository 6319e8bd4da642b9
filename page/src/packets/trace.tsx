/** A packet's way: hop by hop what was decided, what it took, which header fields changed, and why it was lost. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { lines } from "../api/http";
import type { TraceLine, TracedPacket } from "../api/types";
import { wiring } from "../host/follow";
import { useCell } from "../ui/cell";
import { useDraft } from "../ui/draft";
import { clock, count, nanoseconds } from "../ui/format";
import { Outside } from "../ui/parts";
import { to } from "../ui/route";
import { build } from "./build";
import { type Change, decode, fromHex, toHex } from "./decode";
import { Chosen, Headers, PickForm, picked, usePick, useRun } from "./form";
import { type Hop, hopChanges } from "./hops";

/** Bytes of each packet that are looked at. */
const HEADS = 192;
/** Packets that are kept here. */
const KEPT = 500;

type Packet = Omit<TracedPacket, "hops"> & { hops: Hop[]; head?: string };

/** The last trace outlives a change of the view. */
let before: { packets: Packet[]; chosen: number | null } = { packets: [], chosen: null };

export function Trace({ at }: { at: string | null }) {
  const pick = usePick("trace", at, "10");
  const run = useRun();
  const [inject, setInject] = useDraft("trace-inject");
  const [packets, setPackets] = useState<Packet[]>(before.packets);
  const [chosen, setChosen] = useState<number | null>(before.chosen);
  const [said, setSaid] = useState("");
  useEffect(() => {
    before = { packets, chosen };
  }, [packets, chosen]);

  const begin = async (): Promise<void> => {
    const body: Record<string, unknown> = { ...picked(pick), heads: HEADS };
    if (inject.trim()) {
      const made = build(inject);
      if ("fault" in made) {
        run.setError(new Error(`The packet to inject: ${made.fault}.`));
        return;
      }
      body.inject = toHex(made.frame);
      // One packet is followed then.
      delete body.filter;
      delete body.count;
    }
    setPackets([]);
    setChosen(null);
    setSaid(inject.trim() ? "Injected; its end is waited for." : "Waiting for packets.");
    const how = await run.start(async ({ signal }) => {
      for await (const line of lines<TraceLine>("/v1/traces", { method: "POST", body, signal })) {
        if (line.trace === "packet") {
          setPackets((all) => [...all, line as unknown as Packet].slice(-KEPT));
          setChosen((chosen) => chosen ?? line.packet);
          setSaid("");
        } else if (line.trace === "ended") {
          setSaid(`${line.packets} packets were followed, at ${line.places} places${line.missed ? `; ${line.missed} more came too fast` : ""}${line.places_left_out ? `; ${line.places_left_out} places were too many to be looked at` : ""}.`);
        }
      }
    });
    if (how !== "ended") setSaid(how === "stopped" ? "Stopped." : "");
  };
  const packet = packets.find((one) => one.packet === chosen);
  const making = inject.trim() !== "";
  return (
    <>
      <PickForm
        pick={pick}
        run={run}
        labels={{ place: "At (all ports if empty)", filter: "Which packets (pcap-filter)", example: "tcp port 80 and dropped", start: making ? "Inject and follow" : "Follow" }}
        made={making}
        most={10000}
        begin={() => void begin()}
        said={said}
        below={
          <details open={inject !== ""}>
            <summary>Inject a packet instead</summary>
            <label>
              Such as udp:10.1.0.5:40000-10.2.0.1:53, or an Ethernet frame in hexadecimal. It really goes its way.
              <input value={inject} spellcheck={false} autocomplete="off" onInput={(event) => setInject(event.currentTarget.value)} />
            </label>
          </details>
        }
      />
      {packets.length > 0 && (
        <div class="cards">
          <section class="card scroll" tabIndex={0} role="region" aria-label="Packets that were followed">
            <table>
              <thead>
                <tr>
                  <th class="number">No.</th>
                  <th>Packet</th>
                  <th>End</th>
                  <th class="number">Took</th>
                </tr>
              </thead>
              <tbody>
                {packets.map((one) => (
                  <tr class="choice" aria-selected={one.packet === chosen} onClick={() => setChosen(one.packet)}>
                    <Chosen number={one.packet} choose={setChosen} />
                    <td class="wide">
                      <Outside text={one.what} />
                      {one.copy_of ? <span class="dim"> (a copy of {one.copy_of})</span> : null}
                    </td>
                    <td class={`when ${one.end === "dropped" || one.end === "lost" ? "bad" : one.end === "transmitted" || one.end === "consumed" ? "good" : "dim"}`}>{one.end}</td>
                    <td class="number">{nanoseconds(one.took_ns)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
          {packet && <Way packet={packet} />}
        </div>
      )}
    </>
  );
}

function Way({ packet }: { packet: Packet }) {
  const structure = useCell(wiring);
  const hops = useMemo(
    () => hopChanges(packet, (at) => structure?.nodes[structure.byId.get(at) ?? -1]?.tenant || undefined),
    [packet, structure],
  );
  const head = packet.head ? fromHex(packet.head) : null;
  return (
    <section class="card stack" aria-label={`The way of packet ${packet.packet}`}>
      <div class="row spread">
        <h2>
          Packet {packet.packet}, {packet.length} bytes, {clock(Date.parse(packet.time))}
        </h2>
        <span class={`tag ${packet.end === "dropped" || packet.end === "lost" ? "bad" : "good"}`}>{packet.end}</span>
      </div>
      <p>
        <Outside text={packet.what} />
      </p>
      <ol class="way">
        {hops.map(({ hop, changes, crossing }, number) => {
          const [kind = "", name = hop.at] = hop.at.split(/\/(.*)/s);
          // A port of this form is an interface of a container.
          const container = kind === "port" && name.includes(":") ? name.slice(0, name.indexOf(":")) : null;
          const last = number === hops.length - 1;
          const lost = hop.reason !== undefined && hop.reason !== null;
          return (
            <li class={lost ? "lost" : last ? "ended" : undefined}>
              {crossing && <p class="crossing">Crosses {crossing}: it is copied.</p>}
              <p>
                <a href={container === null ? to("objects", kind, name) : to("objects", "function", container)}>{name}</a> <span class="dim">{kind}</span> {hop.what}
                {hop.in ? ` at ${hop.in}` : ""}
                {hop.verdict ? ` · verdict ${hop.verdict}` : ""}
                {hop.out ? ` ${hop.out}` : ""}
              </p>
              {lost && <p class="bad">Lost: {hop.reason}</p>}
              <p class="dim">
                after {nanoseconds(hop.after_ns)}
                {hop.waited_ns ? ` · waited ${nanoseconds(hop.waited_ns)}` : ""}
                {hop.cycles ? ` · ${count(hop.cycles)} cycles` : ""}
                {hop.batch ? `, in a batch of ${hop.batch}` : ""}
              </p>
              {changes.length > 0 && <Changes of={changes} />}
            </li>
          );
        })}
      </ol>
      {head && (
        <details>
          <summary>All header fields, as it was first seen</summary>
          <Headers of={decode(head).fields} />
        </details>
      )}
    </section>
  );
}

function Changes({ of }: { of: Change[] }) {
  return (
    <table class="changes">
      <thead>
        <tr>
          <th>Changed field</th>
          <th>before</th>
          <th>after</th>
        </tr>
      </thead>
      <tbody>
        {of.map((change) => (
          <tr>
            <td>{change.name}</td>
            <td class="mono">{change.before === undefined ? <span class="dim">was not there</span> : <del>{change.before}</del>}</td>
            <td class="mono">{change.after === undefined ? <span class="dim">taken off</span> : <ins>{change.after}</ins>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
