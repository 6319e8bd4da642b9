/** Changes of objects: asked for, followed to their end, with how long each step took. */
import { Refused, ask, askJson, serverTiming } from "../api/http";
import type { AnyObject, Difference, Operation } from "../api/types";

export interface Step {
  name: string;
  ms: number;
}

export interface Outcome {
  /** The object, where the answer has it. */
  object: AnyObject | null;
  difference: Difference | null;
  steps: Step[];
  /** From the click to the answer, in milliseconds. */
  took: number;
}

export interface Progress {
  what: string;
  state: string;
  since: number;
}

/** How often an operation is asked about, in milliseconds. */
const EVERY = 400;

/** Asks for a change and waits for its end; `progress` is told of what takes long. */
export async function change(path: string, asked: { method: string; body?: unknown; headers?: Record<string, string> }, progress: (of: Progress | null) => void): Promise<Outcome> {
  const began = performance.now();
  const since = Date.now();
  const answer = await ask(path, { ...asked, headers: { prefer: "server-timing", ...asked.headers } });
  let steps = serverTiming(answer.headers.get("server-timing"));
  const body = answer.status === 204 ? null : ((await answer.json()) as unknown);
  if (answer.status !== 202) {
    return { object: isObject(body) ? body : null, difference: isDifference(body) ? body : null, steps, took: performance.now() - began };
  }
  let operation = body as Operation;
  while (operation.state === "waiting" || operation.state === "running") {
    progress({ what: operation.what, state: operation.state, since });
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    operation = await askJson<Operation>(`/v1/operations/${encodeURIComponent(operation.id)}`);
  }
  progress(null);
  if (operation.state === "failed") {
    throw operation.problem ? new Refused(operation.problem) : new Error(`${operation.what}: it failed and says no more`);
  }
  const told = Date.parse(operation.ended ?? "") - Date.parse(operation.asked);
  if (!steps.length && Number.isFinite(told)) steps = [{ name: operation.what, ms: told }];
  return { object: null, difference: operation.difference ?? null, steps, took: performance.now() - began };
}

const isObject = (body: unknown): body is AnyObject => typeof body === "object" && body !== null && "kind" in body && "version" in body;
const isDifference = (body: unknown): body is Difference => typeof body === "object" && body !== null && "created" in body;
