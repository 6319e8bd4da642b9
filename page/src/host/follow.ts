/**
 * The host as it is now, or as it was: one question a second, whose answer has all values of one step.
 *
 * 1. Without a structure, or when its layout has changed, the graph and the chains are read.
 * 2. Each second the newest step is asked for, or the step that the slider stands at.
 * 3. Where no answer comes, the last frame stays, marked old, and the question is asked again until there is one.
 *
 * Events are followed as they come; when that begins, those of the hour before are asked for.
 */
import { Away, Refused, all, ask as request, askJson, lines } from "../api/http";
import { type Session, entrance } from "../api/session";
import type { AnyObject, Graph, HistoryStep, HostEvent, PastEvents } from "../api/types";
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
  /** As the clock was then, of the daemon's host or, of what is told without a time, of this one. */
  time: number;
  /** When it was by the clock of this tab, which nothing sets: `performance.now()`. */
  born: number;
  /** What tells it from others; `null`: nothing. */
  key: string | null;
  text: string;
  kind: string;
  name: string;
  what: string;
}
export const events = cell<Told[]>([]);
/** Since when all events are known; `null` until the daemon has said it. */
export const eventsSince = cell<number | null>(null);

/** How long ago an event was, in milliseconds. */
export const ageOf = (event: Told): number => performance.now() - event.born;

/** The step that an event belongs to, if the daemon that runs now has one. */
export function stepOf(event: Told): number | null {
  const steps = kept.get();
  if (!steps) return null;
  const step = Math.round(steps.last - ageOf(event) / 1000);
  // What comes with the daemon's start belongs to its first step.
  return step < steps.first - 2 ? null : Math.max(steps.first, Math.min(step, steps.last));
}

/** Objects that failed within a time before what is shown, in milliseconds, by `kind/name`. */
export function failedWithin(ms: number): Set<string> {
  const found = new Set<string>();
  const [all, place, steps] = [events.get(), at.get(), kept.get()];
  const shownAge = place === null || !steps ? 0 : (steps.last - place - 1) * 1000;
  for (let number = all.length - 1; number >= 0; number -= 1) {
    const { what, kind, name } = all[number]!;
    const age = ageOf(all[number]!) - shownAge;
    if (age >= ms) break;
    if (age >= 0 && (what === "fault" || what === "down")) found.add(`${kind}/${name}`);
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

/** What tells one event from another, so that what is told twice is shown once. */
const known = new Set<string>();
let waiting: Told[] = [];
let redraw: ReturnType<typeof setTimeout> | undefined;
let after = -1;

function put(told: Omit<Told, "born">, age: number): void {
  if (told.key !== null) {
    if (known.has(told.key)) return;
    if (known.size > 4 * EVENTS_KEPT) {
      known.clear();
      for (const { key } of [...events.get(), ...waiting]) if (key !== null) known.add(key);
    }
    known.add(told.key);
  }
  waiting.push({ ...told, born: performance.now() - age });
  // However fast they come, the page is drawn four times a second.
  redraw ??= setTimeout(() => {
    redraw = undefined;
    const all = [...events.get(), ...waiting];
    waiting = [];
    events.set(all.sort((a, b) => a.born - b.born).slice(-EVENTS_KEPT));
  }, 250);
  if (waiting.length > 2 * EVENTS_KEPT) waiting = waiting.slice(-EVENTS_KEPT);
}

function changedTo(kind: string, name: string, what: string, revision: number, time: number, age: number): void {
  put({ key: `${kind}/${name}@${revision}`, time, kind, name, what, text: what === "put" ? `changed, revision ${revision}` : "deleted" }, age);
}

function noticed(kind: string, name: string, what: string, text: string, time: string, age: number): void {
  put({ key: `${time} ${kind}/${name} ${what} ${text}`, time: Date.parse(time) || Date.now(), kind, name, what, text }, age);
}

/** Reads what happened before this page followed. The graph stands first. */
async function readPast(): Promise<void> {
  if (!shown.get()) {
    await new Promise<void>((resolve) => {
      const stop = shown.listen((frame) => {
        if (!frame) return;
        stop();
        resolve();
      });
    });
  }
  const past = await askJson<PastEvents>(`/v1/past-events?limit=${EVENTS_KEPT}`, { patience: 4 * PATIENCE });
  for (const { kind, name, what, time, age_ms: age, text, revision } of past.items) {
    if (revision !== undefined && revision !== null) changedTo(kind, name, what, revision, Date.parse(time), age);
    else noticed(kind, name, what, text ?? "", time, age);
  }
  eventsSince.set(Date.parse(past.since));
}

function heard(event: HostEvent): void {
  switch (event.event) {
    case "changed": {
      after = Math.max(after, event.revision - 1);
      const id = `${event.kind}/${event.name}`;
      if ((revisions.get(id) ?? 0) >= event.revision) return;
      revisions.set(id, event.revision);
      changedTo(event.kind, event.name, event.happened, event.revision, Date.now(), 0);
      return changed.set({ kind: event.kind, name: event.name });
    }
    case "notice":
      return noticed(event.kind, event.name, event.what, event.text, event.time, 0);
    case "lost":
      return put({ key: null, time: Date.now(), kind: "", name: "", what: "lost", text: `${event.notices} notices came faster than they could be told` }, 0);
    case "alive":
      after = Math.max(after, event.revision);
      return;
    case "gone":
      after = event.newest;
  }
}

/** The stream that is followed, which ends with the session at this end too. */
let stream: AbortController | null = null;

async function followEvents(): Promise<void> {
  while (running) {
    if (entrance.get().state !== "in") {
      await new Promise((resolve) => setTimeout(resolve, 500));
      continue;
    }
    // Where that fails, so does the stream, and both are asked for again.
    const opened = (): void => void readPast().catch(() => undefined);
    const { signal } = (stream = new AbortController());
    try {
      for await (const event of lines<HostEvent>(`/v1/events?follow=true${after >= 0 ? `&after=${after}` : ""}`, { opened, signal })) {
        if (!running) return;
        heard(event);
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 410) after = -1;
      else if (!signal.aborted && !(error instanceof Refused) && !(error instanceof Away) && !(error instanceof TypeError)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

let seenBy: string | null = null;

/** Another session's reader is shown nothing of what the one before was. */
function forgetOthers(session: Session): void {
  const who = `${session.rights} ${session.tenant ?? ""}`;
  if (seenBy !== null && seenBy !== who) {
    [waiting, after, by, layout] = [[], -1, null, null];
    known.clear();
    revisions.clear();
    events.set([]);
    eventsSince.set(null);
    at.set(null);
    shown.set(null);
    kept.set(null);
    wiring.set(null);
  }
  seenBy = who;
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
  entrance.listen((door) => {
    if (door.state === "out") stream?.abort();
    if (door.state !== "in") return;
    forgetOthers(door.session);
    again();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) again();
  });
}
