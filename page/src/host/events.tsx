/** What happened on the host in the last hour, and what happens, as it comes. */
import { useState } from "preact/hooks";
import { useCell } from "../ui/cell";
import { moment } from "../ui/format";
import { Outside } from "../ui/parts";
import { to } from "../ui/route";
import { EVENTS_KEPT, type Told, events, eventsSince, kept, show, stepOf } from "./follow";

/** Lines that are drawn at once. */
const SHOWN = 300;

export function Events() {
  const all = useCell(events);
  const since = useCell(eventsSince);
  const steps = useCell(kept);
  const began = since !== null && steps !== null && Math.abs(since - Date.parse(steps.started)) < 5000;
  const [filter, setFilter] = useState("");
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? all.filter((event) => words.every((word) => `${event.kind}/${event.name} ${event.what} ${event.text}`.toLowerCase().includes(word))) : all;
  return (
    <div class="view">
      <div class="row spread">
        <h1>Events</h1>
        <label>
          Filter
          <input type="search" placeholder="name, kind, text" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        </label>
      </div>
      <p class="dim">
        {all.length === EVENTS_KEPT ? `The last ${EVENTS_KEPT}` : all.length} events. {since !== null && `All since ${moment(since)} are here${began ? ", when the daemon was started" : ""}. `}
        What a function found before this page was opened is on its own page.
      </p>
      {found.length === 0 ? (
        <p class="nothing">{all.length ? "None of them is like that." : "Nothing has happened yet."}</p>
      ) : (
        <div class="card scroll" tabIndex={0} role="region" aria-label="Events">
          <table class="events">
            <thead>
              <tr>
                <th>Time</th>
                <th>Object</th>
                <th>What</th>
                <th>In words</th>
              </tr>
            </thead>
            <tbody>
              {found.slice(-SHOWN).reverse().map((event) => (
                <tr>
                  <td class="mono when">
                    <Time of={event} />
                  </td>
                  <td>{event.name ? <a href={to("objects", event.kind, event.name)}>{`${event.kind}/${event.name}`}</a> : ""}</td>
                  <td>
                    <span class={`tag ${event.what === "fault" || event.what === "down" ? "bad" : event.what === "restarted" || event.what === "up" ? "good" : ""}`}>{event.what}</span>
                  </td>
                  <td>
                    <Outside text={event.text} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

/** When it was, and the way to how the host was then. */
function Time({ of }: { of: Told }) {
  const step = stepOf(of);
  const when = moment(of.time);
  if (step === null) return <>{when}</>;
  return (
    <button type="button" class="plain" aria-label={`Show the page as it was at ${when}`} onClick={() => show(step)}>
      {when}
    </button>
  );
}
