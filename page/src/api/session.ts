/**
 * The session of this tab: a cookie that scripts do not see, and a secret beside it in `sessionStorage`, which other programs at
 * other ports of the same host do not get.
 */
import { cell } from "../ui/cell";

export interface Session {
  rights: "administrator" | "tenant" | "reader";
  tenant?: string;
  token?: string;
  read_only: boolean;
  expires: string;
  version: string;
  started: string;
  secret?: string;
}

/** Where a session stands: `unknown` until the daemon was asked. */
export type Entrance = { state: "unknown" } | { state: "in"; session: Session } | { state: "out"; why: string };

export const entrance = cell<Entrance>({ state: "unknown" });

const KEY = "superfluid-session";

/** The header that the secret goes in. */
export const SECRET_HEADER = "Superfluid-Session";

export function secret(): string | null {
  return sessionStorage.getItem(KEY);
}

/** The session is over: what is typed stays where it is, and the login is shown over it. */
export function ended(why: string): void {
  sessionStorage.removeItem(KEY);
  if (entrance.get().state !== "out") entrance.set({ state: "out", why });
}

/** The secret of a link that `superfluid page` printed, whole or alone; `null` if there is none. */
export function linkSecret(text: string): string | null {
  return /(?:^|[#&]link=)(sfl_[0-9a-f]{64})(?:$|&|\s)/.exec(text.trim())?.[1] ?? null;
}

async function explained(answer: Response): Promise<string> {
  try {
    const problem = (await answer.json()) as { detail?: unknown };
    if (typeof problem.detail === "string") return problem.detail;
  } catch {
    // What is no problem document says nothing.
  }
  return `the daemon answered with ${answer.status}`;
}

/** Redeems a link, which works once. Answers why it did not, or nothing. */
export async function redeem(link: string): Promise<string | null> {
  let answer: Response;
  try {
    answer = await fetch("session", {
      method: "POST",
      credentials: "same-origin",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ link }),
    });
  } catch {
    return "the daemon does not answer";
  }
  if (!answer.ok) return explained(answer);
  const { secret: fresh, ...session } = (await answer.json()) as Session;
  if (fresh) sessionStorage.setItem(KEY, fresh);
  entrance.set({ state: "in", session });
  return null;
}

/** Goes on with the session that the tab has, or redeems the link that it was opened by. */
export async function enter(): Promise<void> {
  const link = linkSecret(location.hash);
  if (location.hash.includes("link=")) history.replaceState(null, "", location.pathname + location.search);
  if (link) {
    const why = await redeem(link);
    if (why !== null) entrance.set({ state: "out", why });
    return;
  }
  if (!secret()) {
    entrance.set({ state: "out", why: "" });
    return;
  }
  try {
    const answer = await fetch("session", { credentials: "same-origin", headers: { [SECRET_HEADER]: secret() ?? "" } });
    if (answer.ok) entrance.set({ state: "in", session: (await answer.json()) as Session });
    else if (answer.status === 401) ended(await explained(answer));
    else entrance.set({ state: "out", why: await explained(answer) });
  } catch {
    // The daemon is away: the tab waits with what it has, and asks again.
    setTimeout(() => void enter(), 1000);
  }
}

export async function leave(): Promise<void> {
  try {
    await fetch("session", { method: "DELETE", credentials: "same-origin", headers: { [SECRET_HEADER]: secret() ?? "" } });
  } finally {
    ended("You have logged out.");
  }
}
