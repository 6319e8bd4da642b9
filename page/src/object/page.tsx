/** One object: what it is to be, how it is, how it was, and what can be done with it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Refused, askJson, objectPath } from "../api/http";
import { entrance } from "../api/session";
import type { AnyObject, FunctionStatus } from "../api/types";
import { changed } from "../host/follow";
import { History, LastMinute } from "../time/history";
import { useCell } from "../ui/cell";
import { useDraft } from "../ui/draft";
import { bytes, count, digest, nanoseconds, share } from "../ui/format";
import { Figure, Outside, Skeleton, State, Trouble } from "../ui/parts";
import { to } from "../ui/route";
import { Actions } from "./actions";
import { Said } from "./logs";
import { Spec } from "./spec";

/** How often the status is read, in milliseconds. */
const EVERY = 2000;

/** What a new object begins with. */
const FIRST: Record<string, unknown> = {
  function: { image: "monitor" },
  port: { type: "sink" },
  chain: ["port", "function", "port"],
  device: { mode: "bridge", over: {} },
  tenant: {},
  switch: {},
  group: { rules: [] },
  observer: { at: ["function"] },
  wire: ["function:interface", "port"],
  service: { to: "function:interface" },
};

export function ObjectPage({ kind, name }: { kind: string; name: string }) {
  const [object, setObject] = useState<AnyObject | null>(null);
  const [error, setError] = useState<unknown>(null);
  const door = useCell(entrance);
  const touched = useCell(changed);
  const canChange = door.state === "in" && !door.session.read_only && door.session.rights !== "reader";
  const isNew = name === "+";
  const leaving = useRef(new AbortController());

  const read = async (): Promise<void> => {
    try {
      setObject(await askJson<AnyObject>(objectPath(kind, name), { signal: leaving.current.signal }));
      setError(null);
    } catch (failed) {
      if (!leaving.current.signal.aborted) setError(failed);
    }
  };
  useEffect(() => {
    if (isNew) return;
    leaving.current = new AbortController();
    const { signal } = leaving.current;
    let timer: ReturnType<typeof setTimeout>;
    const turn = async (): Promise<void> => {
      if (!document.hidden && entrance.get().state === "in") await read();
      if (!signal.aborted) timer = setTimeout(() => void turn(), EVERY);
    };
    void turn();
    return () => {
      leaving.current.abort();
      clearTimeout(timer);
    };
  }, [kind, name]);
  useEffect(() => {
    if (!isNew && touched?.kind === kind && touched.name === name) void read();
  }, [touched]);

  if (isNew) return <NewObject kind={kind} readOnly={!canChange} />;
  const gone = error instanceof Refused && error.status === 404;
  if (!object) {
    return (
      <div class="view">
        <Heading kind={kind} name={name} />
        {gone ? (
          <p class="nothing">
            There is no {kind} {name}. <a href={to("objects", kind)}>All of them</a>
          </p>
        ) : error ? (
          <Trouble error={error} />
        ) : (
          <Skeleton lines={8} />
        )}
      </div>
    );
  }
  const counted = kind === "function" || kind === "port" || kind === "device";
  return (
    <div class="view">
      <Heading kind={kind} name={name} state={String(object.status?.state ?? "")} />
      {gone && <p class="bad">It was deleted. What is below is how it last was.</p>}
      {kind === "function" ? <FunctionFigures object={object} /> : <OtherStatus object={object} />}
      {counted && <History of={`${kind}/${name}`} />}
      {(kind === "function" || kind === "port") && <LastMinute of={`${kind}/${name}`} />}
      <div class="cards">
        <Spec kind={kind} object={object} name={name} readOnly={!canChange} applied={setObject} />
        <div class="stack">
          {canChange && <Actions object={object} refresh={() => void read()} />}
          {kind === "function" && <Said name={name} />}
        </div>
      </div>
    </div>
  );
}

function Heading({ kind, name, state }: { kind: string; name: string; state?: string }) {
  return (
    <div class="row spread">
      <div class="row">
        <h1>
          <a href={to("objects", kind)}>{kind}</a> {name}
        </h1>
        {state && <State of={state} />}
      </div>
      <div class="row">
        {(kind === "function" || kind === "port" || kind === "device") && (
          <>
            <a class="button" href={`#/packets?at=${encodeURIComponent(name)}`}>
              Follow packets
            </a>
            <a class="button" href={`#/packets?tab=capture&at=${encodeURIComponent(name)}`}>
              Capture
            </a>
          </>
        )}
      </div>
    </div>
  );
}

function NewObject({ kind, readOnly }: { kind: string; readOnly: boolean }) {
  const [name, setName] = useDraft(`new-name:${kind}`);
  return (
    <div class="view">
      <h1>New {kind}</h1>
      {readOnly ? (
        <p class="nothing">This session reads and changes nothing.</p>
      ) : (
        <>
          <label>
            Name
            <input value={name} spellcheck={false} autocomplete="off" maxLength={128} onInput={(event) => setName(event.currentTarget.value.trim())} />
          </label>
          <Spec kind={kind} object={null} name={name} first={JSON.stringify(FIRST[kind] ?? {}, null, 2)} readOnly={false} applied={() => setName("")} />
        </>
      )}
    </div>
  );
}

function FunctionFigures({ object }: { object: AnyObject }) {
  const status = object.status as Partial<FunctionStatus> | undefined;
  if (!status) return null;
  const own = Object.keys(status.drops ?? {}).some((reason) => reason.startsWith("function:"));
  // What it drops by its own verdict is told by its own names for reasons.
  const drops = Object.entries(status.drops ?? {})
    .filter(([reason]) => !(own && reason === "function"))
    .map(([reason, packets]): [string, number] => [reason.replace(/^function:/, ""), packets])
    .sort((a, b) => b[1] - a[1]);
  return (
    <section class="card stack" aria-label="How it is">
      {status.reason && (
        <p class="bad">
          <Outside text={status.reason} />
        </p>
      )}
      <dl class="figures">
        <Figure name="Processor got">{share(status.got_share)}</Figure>
        <Figure name="Promised">{share(status.promised_share)}</Figure>
        <Figure name="Worker">{status.worker ?? "–"}</Figure>
        <Figure name="Queue">{count(status.queue)}</Figure>
        <Figure name="Packets in all">{count(status.packets)}</Figure>
        <Figure name="Bytes in all">{bytes(status.bytes)}</Figure>
        <Figure name="Cycles a packet">{status.packets ? count((status.cycles ?? 0) / status.packets) : "–"}</Figure>
        <Figure name="Latency, half under">{nanoseconds(status.latency?.p50_ns)}</Figure>
        <Figure name="99 of 100 under">{nanoseconds(status.latency?.p99_ns)}</Figure>
        <Figure name="Memory promised">{bytes(status.memory?.promised)}</Figure>
        <Figure name="Faults">
          <span class={status.faults ? "bad" : undefined}>{count(status.faults)}</span>
        </Figure>
        <Figure name="Restarts">{count(status.restarts)}</Figure>
        <Figure name="Image" long>
          <code>{digest(String(status.image ?? ""))}</code>
        </Figure>
        <Figure name="Lost in all" long>
          {drops.length ? drops.map(([reason, packets]) => `${reason} ${count(packets)}`).join(", ") : "none"}
        </Figure>
      </dl>
    </section>
  );
}

/** The status of what is no function: what is simple as figures, the rest as it is. */
function OtherStatus({ object }: { object: AnyObject }) {
  const status = Object.entries(object.status ?? {}).filter(([key]) => key !== "time_ns");
  if (!status.length) return null;
  const simple = status.filter(([, value]) => typeof value !== "object" || value === null);
  const rest = status.filter(([, value]) => typeof value === "object" && value !== null && Object.keys(value).length > 0);
  return (
    <section class="card stack" aria-label="How it is">
      <dl class="figures">
        {simple.map(([key, value]) => (
          <Figure name={key.replace(/_/g, " ")} long={typeof value === "string"}>
            {typeof value === "number" ? count(value) : <Outside text={String(value)} />}
          </Figure>
        ))}
      </dl>
      {rest.map(([key, value]) => (
        <details>
          <summary>{key.replace(/_/g, " ")}</summary>
          <pre class="scroll" tabIndex={0}>
            {JSON.stringify(value, null, 2)}
          </pre>
        </details>
      ))}
    </section>
  );
}
