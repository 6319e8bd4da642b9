/** The objects of a kind: how each is, with a filter. */
import type { ComponentChild } from "preact";
import { useEffect, useState } from "preact/hooks";
import { all, plural } from "../api/http";
import { entrance } from "../api/session";
import { KINDS, type AnyObject, type Kind } from "../api/types";
import { changed, shown, wiring } from "../host/follow";
import { useCell } from "../ui/cell";
import { useDraft } from "../ui/draft";
import { packetRate, share } from "../ui/format";
import { Skeleton, State, Trouble } from "../ui/parts";
import { go, to } from "../ui/route";
import { Images, Snapshots } from "./stores";

/** Rows that are drawn at once. */
const SHOWN = 400;

/** A spec in one line. */
function brief(spec: unknown): string {
  const text = Array.isArray(spec) ? spec.map((end) => (typeof end === "string" ? end : JSON.stringify(end))).join(" – ") : JSON.stringify(spec ?? {});
  return text.length > 140 ? `${text.slice(0, 140)}…` : text;
}

const lists = new Map<string, AnyObject[]>();

/** What the daemon keeps beside objects. */
const STORES: Record<string, () => ComponentChild> = { images: () => <Images />, snapshots: () => <Snapshots /> };

function Kinds({ chosen }: { chosen: string }) {
  const kinds = [...KINDS.map((kind) => [kind, plural(kind)] as const), ...Object.keys(STORES).map((store) => [store, store] as const)];
  return (
    <nav class="row" aria-label="Kinds">
      {kinds.map(([of, name]) => (
        <a class={`tag ${of === chosen ? "good" : ""}`} href={to("objects", of)} aria-current={of === chosen ? "page" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}

export function Objects({ kind }: { kind: string }) {
  const store = STORES[kind];
  if (!store) return <ObjectList kind={kind} />;
  return (
    <div class="view">
      <h1>Objects</h1>
      <Kinds chosen={kind} />
      {store()}
    </div>
  );
}

function ObjectList({ kind }: { kind: string }) {
  const known = (KINDS as readonly string[]).includes(kind) ? (kind as Kind) : "function";
  const [items, setItems] = useState<AnyObject[] | null>(lists.get(known) ?? null);
  const [error, setError] = useState<unknown>(null);
  const [filter, setFilter] = useDraft("list-filter");
  const touched = useCell(changed);
  const [structure, frame] = [useCell(wiring), useCell(shown)];
  const door = useCell(entrance);
  const changes = door.state === "in" && !door.session.read_only && door.session.rights !== "reader";
  const mine = touched?.kind === known ? touched : null;
  useEffect(() => setItems(lists.get(known) ?? null), [known]);
  useEffect(() => {
    const leaving = new AbortController();
    // Many may change at once: one list is read for all of them.
    const timer = setTimeout(
      () =>
        void all<AnyObject>(`/v1/${plural(known)}`, leaving.signal).then(
          (found) => {
            lists.set(known, found);
            setItems(found);
            setError(null);
          },
          (failed: unknown) => !leaving.signal.aborted && setError(failed),
        ),
      mine ? 400 : 0,
    );
    return () => {
      leaving.abort();
      clearTimeout(timer);
    };
  }, [known, mine]);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = items?.filter((object) => words.every((word) => `${object.name} ${JSON.stringify(object.spec)}`.toLowerCase().includes(word)));
  const live = known === "function" || known === "port" || known === "device";
  return (
    <div class="view">
      <div class="row spread">
        <h1>Objects</h1>
        {changes && (
          <button type="button" onClick={() => go("objects", known, "+")}>
            New {known}
          </button>
        )}
      </div>
      <Kinds chosen={known} />
      <label>
        Filter
        <input type="search" value={filter} placeholder="name or what stands in the spec" onInput={(event) => setFilter(event.currentTarget.value)} />
      </label>
      <Trouble error={error} />
      {!found ? (
        !error && <Skeleton lines={6} />
      ) : found.length === 0 ? (
        <p class="nothing">{items!.length ? "None is like that." : `There are no ${plural(known)}.`}</p>
      ) : (
        <div class="card scroll" tabIndex={0} role="region" aria-label={plural(known)}>
          <table>
            <thead>
              <tr>
                <th>Name</th>
                {live && <th>State</th>}
                {live && <th class="number">Packets</th>}
                {live && <th class="number">Lost</th>}
                {known === "function" && <th class="number">Processor</th>}
                {known === "function" && <th class="number">Promised</th>}
                <th>Spec</th>
                <th class="number">Version</th>
              </tr>
            </thead>
            <tbody>
              {found.slice(0, SHOWN).map((object) => {
                const at = structure?.byId.get(`${known}/${object.name}`) ?? -1;
                const values = frame && structure && frame.pps.length === structure.nodes.length && at >= 0 ? frame : null;
                const state = values && values.state[at] !== "unknown" ? values.state[at]! : String(object.status?.state ?? "");
                return (
                  <tr>
                    <td class="when">
                      <a href={to("objects", known, object.name)}>{object.name}</a>
                    </td>
                    {live && <td>{state && <State of={state} />}</td>}
                    {live && <td class="number">{packetRate(values?.pps[at])}</td>}
                    {live && <td class={`number ${values && values.dps[at]! > 0 ? "bad" : ""}`}>{packetRate(values?.dps[at])}</td>}
                    {known === "function" && <td class="number">{share(values?.cpu[at])}</td>}
                    {known === "function" && <td class="number">{share(values?.promised[at])}</td>}
                    <td class="mono dim wide">{brief(object.spec)}</td>
                    <td class="number">{object.version}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {found && found.length > SHOWN && <p class="dim">The first {SHOWN} of {found.length}: the filter finds the others.</p>}
    </div>
  );
}
