// A daemon of the program under test, with a folder of its own, and its page in Chromium.
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../../dist");

/** The program: SUPERFLUID names it. */
export function program() {
  const path = process.env.SUPERFLUID;
  if (!path || !existsSync(path)) throw new Error(`SUPERFLUID: found ${path ? `\`${path}\`` : "nothing"}; allowed: the path of the program`);
  return path;
}

/** Starts a daemon that serves its page, with a document applied. */
export async function daemon(yaml) {
  const folder = mkdtempSync(join(tmpdir(), "superfluid-page-"));
  chmodSync(folder, 0o700);
  const socket = join(folder, "s");
  const child = spawn(program(), ["daemon", "--socket", socket, "--state", join(folder, "state"), "--page", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (text) => (log += text));
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const run = (...words) => {
    const done = spawnSync(program(), [...words, "--socket", socket], { encoding: "utf8", timeout: 60_000 });
    if (done.status !== 0) throw new Error(`superfluid ${words.join(" ")}: ${done.stderr || done.error || `ended with ${done.status}`}\n${log}`);
    return done.stdout;
  };
  run("health", "--wait", "30s");
  const file = join(folder, "host.yaml");
  writeFileSync(file, yaml);
  run("apply", "-f", file);
  return {
    folder,
    run,
    /** A link with the rights of the socket, or of a token's file. */
    link: (token) => run("page", ...(token ? ["--token-file", token] : [])).trim(),
    get: (kind, name) => JSON.parse(run("get", kind, name, "-o", "json")),
    close: async () => {
      child.kill("SIGTERM");
      const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(late);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** With PAGE_DIST the files are those of dist/, for work on a page that is not in the program yet. */
export async function files(context) {
  if (!process.env.PAGE_DIST) return;
  const types = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
  await context.route(/^http:\/\/[^/]+\/(?!v1\/|session)/, (route) => {
    const path = new URL(route.request().url()).pathname;
    const name = path === "/" ? "index.html" : path.slice(1);
    return route.fulfill({ body: readFileSync(join(dist, name)), contentType: types[name.slice(name.lastIndexOf(".") + 1)] ?? "text/plain" });
  });
}
