/** A packet's way: hop by hop what was decided, what it took, which header fields changed, and why it was lost. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { lines } from "../api/http";
import type { TraceLine, TracedPacket } from "../api/types";
import { wiring } from "../host/follow";
import { useCell } from "../ui/cell";
import { useDraft } from "../ui/draft";
import { clock, count, nanoseconds } from "../ui/format";
import { Outside, Trouble } from "../ui/parts";
import { to } from "../ui/route";
import { build } from "./build";
import { type Change, decode, fromHex, toHex } from "./decode";
import { type Hop, hopChanges } from "./hops";

/** Bytes of each packet that are looked at. */
const HEADS = 192;
/** Packets that are kept here. */
const KEPT = 500;

type Packet = Omit<TracedPacket, "hops"> & { hops: Hop[]; head?: string };

/** The last trace outlives a change of the view. */
let before: { packets: Packet[]; chosen: number | null } = { packets: [], chosen: null };

export function Trace({ at }: { at: string | null }) {
  const [place, setPlace] = useDraft("trace-at", at ?? "");
  const [filter, setFilter] = useDraft("trace-filter");
  const [number, setNumber] = useDraft("trace-count", "10");
  const [time, setTime] = useDraft("trace-for", "30s");
  const [inject, setInject] = useDraft("trace-inject");
  const [packets, setPackets] = useState<Packet[]>(before.packets);
  const [chosen, setChosen] = useState<number | null>(before.chosen);
  const [running, setRunning] = useState<AbortController | null>(null);
  const [said, setSaid] = useState("");
  const [error, setError] = useState<unknown>(null);
  const stop = useRef<AbortController | null>(null);
  useEffect(() => {
    if (at !== null) setPlace(at);
  }, [at]);
  useEffect(() => {
    before = { packets, chosen };
  }, [packets, chosen]);
  useEffect(() => () => stop.current?.abort(), []);

  const start = async (): Promise<void> => {
    const body: Record<string, unknown> = { heads: HEADS, count: Number(number) || 10 };
    if (place) body.at = place;
    if (filter) body.filter = filter;
    if (time) body.for = time;
    if (inject.trim()) {
      const made = build(inject);
      if ("fault" in made) {
        setError(new Error(`The packet to inject: ${made.fault}.`));
        return;
      }
      body.inject = toHex(made.frame);
      // One packet is followed then.
      delete body.filter;
      delete body.count;
    }
    const leaving = new AbortController();
    stop.current = leaving;
    setRunning(leaving);
    setError(null);
    setPackets([]);
    setChosen(null);
    setSaid(inject.trim() ? "Injected; its end is waited for." : "Waiting for packets.");
    try {
      for await (const line of lines<TraceLine>("/v1/traces", { method: "POST", body, signal: leaving.signal })) {
        if (line.trace === "packet") {
          setPackets((all) => [...all, line as unknown as Packet].slice(-KEPT));
          setChosen((chosen) => chosen ?? line.packet);
          setSaid("");
        } else if (line.trace === "ended") {
          setSaid(`${line.packets} packets were followed, at ${line.places} places${line.missed ? `; ${line.missed} more came too fast` : ""}${line.places_left_out ? `; ${line.places_left_out} places were too many to be looked at` : ""}.`);
        }
      }
    } catch (failed) {
      if (!leaving.signal.aborted) setError(failed);
      else setSaid("Stopped.");
    } finally {
      setRunning(null);
    }
  };
  const packet = packets.find((one) => one.packet === chosen);
  return (
    <>
      <form
        class="card stack"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <div class="fields">
          <label>
            At (all ports if empty)
            <input list="places" value={place} spellcheck={false} autocomplete="off" onInput={(event) => setPlace(event.currentTarget.value)} />
          </label>
          <label>
            Which packets (pcap-filter)
            <input value={filter} placeholder="tcp port 80 and dropped" spellcheck={false} autocomplete="off" disabled={inject.trim() !== ""} onInput={(event) => setFilter(event.currentTarget.value)} />
          </label>
          <label>
            How many
            <input type="number" min="1" max="10000" value={number} onInput={(event) => setNumber(event.currentTarget.value)} />
          </label>
          <label>
            For
            <input value={time} placeholder="30s" autocomplete="off" onInput={(event) => setTime(event.currentTarget.value)} />
          </label>
        </div>
        <details open={inject !== ""}>
          <summary>Inject a packet instead</summary>
          <label>
            Such as udp:10.1.0.5:40000-10.2.0.1:53, or an Ethernet frame in hexadecimal. It really goes its way.
            <input value={inject} spellcheck={false} autocomplete="off" onInput={(event) => setInject(event.currentTarget.value)} />
          </label>
        </details>
        <div class="row">
          {running ? (
            <button type="button" onClick={() => running.abort()}>
              Stop
            </button>
          ) : (
            <button type="submit" class="first">
              {inject.trim() ? "Inject and follow" : "Follow"}
            </button>
          )}
          <span class="dim" role="status">
            {said}
          </span>
        </div>
        <Trouble error={error} />
      </form>
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
                    <td class="number">
                      <button type="button" class="plain" aria-label={`Packet ${one.packet}`} onClick={() => setChosen(one.packet)}>
                        {one.packet}
                      </button>
                    </td>
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
          const last = number === hops.length - 1;
          const lost = hop.reason !== undefined && hop.reason !== null;
          return (
            <li class={lost ? "lost" : last ? "ended" : undefined}>
              {crossing && <p class="crossing">Crosses {crossing}: it is copied.</p>}
              <p>
                <a href={to("objects", kind, name)}>{name}</a> <span class="dim">{kind}</span> {hop.what}
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
          <table>
            <tbody>
              {decode(head).fields.map((field) => (
                <tr>
                  <th scope="row">{field.name}</th>
                  <td class="mono">{field.value}</td>
                </tr>
              ))}
            </tbody>
          </table>
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
