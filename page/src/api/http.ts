/** Requests to the daemon's interface, and streams of lines from it. */
import { SECRET_HEADER, ended, secret } from "./session";
import type { Problem } from "./types";

/** A request that the daemon refused: its problem document (RFC 9457). */
export class Refused extends Error {
  constructor(
    readonly problem: Problem,
    readonly answer?: Response,
  ) {
    super(problem.detail || problem.title);
  }
  get status(): number {
    return this.problem.status;
  }
}

/** The daemon could not be reached, or its answer broke off. */
export class Away extends Error {}

export interface Asked {
  method?: string;
  body?: unknown;
  /** The body as it is, with its type. */
  text?: { type: string; body: string };
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Milliseconds after which an answer is not waited for. */
  patience?: number;
  /** Called when the answer begins. */
  opened?: () => void;
}

/** Asks the daemon; the answer is one that it gave to a request that it carries out. */
export async function ask(path: string, asked: Asked = {}): Promise<Response> {
  const headers: Record<string, string> = { ...asked.headers, [SECRET_HEADER]: secret() ?? "" };
  let body: string | undefined;
  if (asked.text) {
    headers["content-type"] = asked.text.type;
    body = asked.text.body;
  } else if (asked.body !== undefined) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(asked.body);
  }
  const waiting = new AbortController();
  const stop = (): void => waiting.abort();
  asked.signal?.addEventListener("abort", stop);
  if (asked.signal?.aborted) stop();
  const timer = asked.patience ? setTimeout(stop, asked.patience) : undefined;
  let answer: Response;
  try {
    answer = await fetch(path.replace(/^\//, ""), { method: asked.method ?? "GET", credentials: "same-origin", headers, body, signal: waiting.signal });
  } catch {
    if (asked.signal?.aborted) throw new DOMException("left", "AbortError");
    throw new Away("the daemon does not answer");
  } finally {
    clearTimeout(timer);
  }
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  if (answer.status === 401) ended(problem.detail);
  throw new Refused(problem, answer);
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const problem = (await answer.json()) as Problem;
    if (typeof problem.detail === "string") return problem;
  } catch {
    // No problem document: another program answers at this address, or the answer broke off.
  }
  return { type: "/problems/internal", title: "No problem document", status: answer.status, detail: `the answer has the status ${answer.status} and says no more` } as Problem;
}

/** The answer's JSON. */
export async function askJson<T>(path: string, asked: Asked = {}): Promise<T> {
  const answer = await ask(path, asked);
  try {
    return (await answer.json()) as T;
  } catch {
    throw new Away("the answer broke off");
  }
}

/** The lines of an answer, each a JSON object, as they come. A line that is no JSON is passed over. */
export async function* lines<T>(path: string, asked: Asked = {}): AsyncGenerator<T> {
  const answer = await ask(path, asked);
  asked.opened?.();
  for await (const line of textLines(answer)) {
    try {
      yield JSON.parse(line) as T;
    } catch {
      // A reader goes on after what it does not know.
    }
  }
}

async function* textLines(answer: Response): AsyncGenerator<string> {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += value;
      let end = rest.indexOf("\n");
      let start = 0;
      while (end >= 0) {
        if (end > start) yield rest.slice(start, end);
        start = end + 1;
        end = rest.indexOf("\n", start);
      }
      rest = rest.slice(start);
    }
    if (rest) yield rest;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** All items of a list, which comes in parts. */
export async function all<T>(path: string, signal?: AbortSignal): Promise<T[]> {
  const items: T[] = [];
  let after = "";
  for (;;) {
    const part: { items: T[]; next?: string } = await askJson(`${path}?limit=1000${after}`, { signal });
    items.push(...part.items);
    if (!part.next) return items;
    after = `&after=${encodeURIComponent(part.next)}`;
  }
}

/** The path of an object: `v1/functions/fw`. */
export function objectPath(kind: string, name: string): string {
  return `/v1/${plural(kind)}/${encodeURIComponent(name)}`;
}

export function plural(kind: string): string {
  return kind === "workers" ? "workers" : kind === "switch" ? "switches" : `${kind}s`;
}

/** The steps that a `Server-Timing` tells, in milliseconds (W3C Server Timing). */
export function serverTiming(header: string | null): { name: string; ms: number }[] {
  return (header ?? "")
    .split(",")
    .map((entry) => {
      const [name = "", ...parameters] = entry.trim().split(";");
      const took = parameters.map((parameter) => /^\s*dur=([0-9.]+)\s*$/.exec(parameter)?.[1]).find(Boolean);
      return { name, ms: Number(took ?? NaN) };
    })
    .filter((step) => step.name !== "" && Number.isFinite(step.ms));
}
