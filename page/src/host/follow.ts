/**
 * The host as it is now, or as it was: one question a second, whose answer has all values of one step.
 *
 * 1. Without a structure, or when its layout has changed, the graph and the chains are read.
 * 2. Each second the newest step is asked for, or the step that the slider stands at.
 * 3. Where no answer comes, the last frame stays, marked old, and the question is asked again until there is one.
 */
import { Away, Refused, all, ask as request, askJson, lines } from "../api/http";
import { entrance } from "../api/session";
import type { AnyObject, Graph, HistoryStep, HostEvent } from "../api/types";
import { cell } from "../ui/cell";
import { type Frame, type Mapping, type Structure, frame, mapping, structure } from "./model";

/** Events that are shown at most: older ones are let go. */
export const EVENTS_KEPT = 2000;
/** How long an answer is waited for, in milliseconds. */
const PATIENCE = 5000;

export const wiring = cell<Structure | null>(null);
/** What is shown: of now, or of the past. */
export const shown = cell<Frame | null>(null);
/** Steps that the daemon keeps, and the time of its first. */
export const kept = cell<{ first: number; last: number; startMs: number; started: string } | null>(null);
/** The step that the page shows; `null`: the newest. */
export const at = cell<number | null>(null);
/** Since when the daemon has not answered, and why; `null` while it does. */
export const away = cell<{ since: number; why: string } | null>(null);
/** What is said of the history: that it began anew, that a time is no longer kept. */
export const note = cell<string>("");

export interface Told {
  time: number;
  text: string;
  kind: string;
  name: string;
  what: string;
}
export const events = cell<Told[]>([]);

/** Objects that failed within a time, in milliseconds, by `kind/name`. */
export function failedWithin(ms: number): Set<string> {
  const found = new Set<string>();
  const all = events.get();
  for (let at = all.length - 1; at >= 0 && all.length - at < 500; at -= 1) {
    const { what, time, kind, name } = all[at]!;
    if ((what === "fault" || what === "down") && Math.abs(Date.now() - time) < ms) found.add(`${kind}/${name}`);
  }
  return found;
}
/** The last revision of an object that was told of, by `kind/name`. */
export const revisions = new Map<string, number>();
/** Calls with each object that changed. */
export const changed = cell<{ kind: string; name: string } | null>(null);

let by: Mapping | null = null;
/** The layout that the structure is of; `null`: not known. */
let layout: number | null = null;
let loading: Promise<void> | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
let running = false;

async function load(): Promise<void> {
  const [graph, chains] = await Promise.all([askJson<Graph>("/v1/graph", { patience: 4 * PATIENCE }), all<AnyObject>("/v1/chains")]);
  by = null;
  wiring.set(structure(graph, chains));
}

/** Reads the structure anew, once at a time. */
function reload(): Promise<void> {
  loading ??= load().finally(() => {
    loading = null;
  });
  return loading;
}

async function ask(): Promise<void> {
  if (!wiring.get()) await reload();
  const place = at.get();
  const query = [by && place === null ? `layout=${by.layout}` : "", place === null ? "" : `at=${place}`].filter(Boolean).join("&");
  const answer = await request(`/v1/history${query ? `?${query}` : ""}`, { patience: PATIENCE });
  const text = await answer.text().catch(() => {
    throw new Away("the answer broke off");
  });
  performance.mark("superfluid:update-begin");
  await take(JSON.parse(text) as HistoryStep, place);
  // Views are drawn in a task of their own, which was put before this one.
  await null;
  performance.mark("superfluid:update-end");
  performance.measure("superfluid:update", "superfluid:update-begin", "superfluid:update-end");
}

async function take(step: HistoryStep, place: number | null): Promise<void> {
  const before = kept.get();
  if (before && before.started !== step.started) {
    at.set(null);
    note.set("The daemon was started anew: its history begins there.");
  }
  kept.set({ first: step.first, last: step.last, startMs: step.start_ms, started: step.started });
  if (!by || by.layout !== step.layout) {
    // The past is shown on the wiring of now: what is no longer there is left out.
    if (place === null) {
      if (layout !== null && layout !== step.layout) await reload();
      layout = step.layout;
    }
    by = mapping(step, wiring.get()!);
    if (!by) return;
  }
  if (at.get() === place) shown.set(frame(step, by));
  if (place !== null) by = null;
}

function failed(error: unknown): void {
  if (error instanceof Refused && error.status === 410) {
    at.set(null);
    note.set("That time is no longer kept: the page shows the present.");
    return;
  }
  if (error instanceof Refused && (error.status === 401 || error.status === 403)) return;
  const why = error instanceof Error ? error.message : String(error);
  if (!away.get()) away.set({ since: Date.now(), why });
}

let turning = false;

async function turn(): Promise<void> {
  if (turning) return;
  turning = true;
  const began = performance.now();
  if (entrance.get().state === "in" && !document.hidden) {
    try {
      await ask();
      away.set(null);
    } catch (error) {
      failed(error);
    }
  }
  turning = false;
  if (!running) return;
  const wait = Math.max(50, 1000 - (performance.now() - began));
  clearTimeout(timer);
  timer = setTimeout(() => void turn(), wait);
}

/** Shows the step now, without waiting for the next turn. */
export function show(step: number | null): void {
  at.set(step);
  note.set("");
  if (step === null) by = null;
  void ask().then(
    () => away.set(null),
    (error: unknown) => failed(error),
  );
}

async function followEvents(): Promise<void> {
  let waiting: Told[] = [];
  let redraw: ReturnType<typeof setTimeout> | undefined;
  const put = (told: Told): void => {
    waiting.push(told);
    // However fast they come, the page is drawn four times a second.
    redraw ??= setTimeout(() => {
      redraw = undefined;
      events.set([...events.get(), ...waiting].slice(-EVENTS_KEPT));
      waiting = [];
    }, 250);
    if (waiting.length > EVENTS_KEPT) waiting = waiting.slice(-EVENTS_KEPT);
  };
  let after = -1;
  while (running) {
    if (entrance.get().state !== "in") {
      await new Promise((resolve) => setTimeout(resolve, 500));
      continue;
    }
    try {
      for await (const event of lines<HostEvent>(`/v1/events?follow=true${after >= 0 ? `&after=${after}` : ""}`)) {
        if (!running) return;
        if (event.event === "changed") {
          after = Math.max(after, event.revision - 1);
          const id = `${event.kind}/${event.name}`;
          if ((revisions.get(id) ?? 0) >= event.revision) continue;
          revisions.set(id, event.revision);
          put({ time: Date.now(), kind: event.kind, name: event.name, what: event.happened, text: event.happened === "put" ? `changed, revision ${event.revision}` : "deleted" });
          changed.set({ kind: event.kind, name: event.name });
        } else if (event.event === "notice") {
          put({ time: Date.parse(event.time) || Date.now(), kind: event.kind, name: event.name, what: event.what, text: event.text });
        } else if (event.event === "lost") {
          put({ time: Date.now(), kind: "", name: "", what: "lost", text: `${event.notices} notices came faster than they could be told` });
        } else if (event.event === "alive") {
          after = Math.max(after, event.revision);
        } else if (event.event === "gone") {
          after = event.newest;
        }
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 410) after = -1;
      else if (!(error instanceof Refused) && !(error instanceof Away) && !(error instanceof TypeError)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Begins to follow the host. */
export function follow(): void {
  if (running) return;
  running = true;
  const again = (): void => {
    clearTimeout(timer);
    void turn();
  };
  again();
  void followEvents();
  // What was not to be had before the login is asked for at once.
  entrance.listen((door) => door.state === "in" && again());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) again();
  });
}
