// A daemon that is not there, for work on the page and for its tests: the interface, sessions and headers of the real one, over a host
// that is worked out (host.mjs).
//
//   node mock/serve.mjs [FUNCTIONS] [PORT]        prints a link
//
// `POST /mock` with JSON makes it misbehave: {"away": true}, {"hang": true}, {"expire": true}, {"touch": ["function", "fw"]},
// {"notice": {...}}, {"restart": true}.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { Host, plural } from "./host.mjs";
import { captureEnd, captureHead, captured, trace } from "./packets.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "../dist");
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml", txt: "text/plain; charset=utf-8" };
const KINDS = ["function", "port", "chain", "device", "switch", "group", "wire", "observer", "service", "tenant", "workers"];

/** Serves a host. Answers its address, and what makes a link and ends it. */
export async function serve({ functions = 10, port = 0, rights = { rights: "administrator", read_only: false } } = {}) {
  const mock = { host: new Host(functions), links: new Set(), sessions: new Set(), rights, away: false, hang: false, wake: new Set(), alerts: null, logs: null, requests: [] };
  const server = createServer((request, answer) => {
    handle(mock, request, answer).catch((error) => {
      if (!answer.headersSent) problem(answer, 500, "internal", String(error?.stack ?? error));
      else answer.destroy();
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}`;
  return {
    address,
    mock,
    link: () => {
      const link = `sfl_${randomBytes(32).toString("hex")}`;
      mock.links.add(link);
      return `${address}/#link=${link}`;
    },
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

function json(answer, body, status = 200, headers = {}) {
  answer.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers });
  answer.end(JSON.stringify(body));
}

function problem(answer, status, kind, detail, faults) {
  json(answer, { type: `/problems/${kind}`, title: kind.replace(/-/g, " "), status, detail, ...(faults ? { faults } : {}) }, status, { "content-type": "application/problem+json" });
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function handle(mock, request, answer) {
  answer.setHeader("content-security-policy", POLICY);
  answer.setHeader("x-content-type-options", "nosniff");
  answer.setHeader("referrer-policy", "no-referrer");
  const url = new URL(request.url, "http://mock");
  if (url.pathname === "/mock") return control(mock, JSON.parse(await bodyOf(request)), answer);
  if (mock.away) return request.socket.destroy();
  if (mock.hang && url.pathname.startsWith("/v1")) return undefined;
  mock.requests.push(`${request.method} ${url.pathname}`);
  if (url.pathname === "/session") return session(mock, request, answer);
  if (!url.pathname.startsWith("/v1/")) return file(url.pathname, request, answer);
  const secret = request.headers["superfluid-session"];
  if (!mock.sessions.has(secret) || !(request.headers.cookie ?? "").includes(secret)) return problem(answer, 401, "unauthorized", "this session has ended");
  return api(mock, request, answer, url);
}

function control(mock, wanted, answer) {
  if ("away" in wanted) mock.away = wanted.away;
  if ("hang" in wanted) mock.hang = wanted.hang;
  if (wanted.expire) mock.sessions.clear();
  if (wanted.touch) {
    const [kind, name] = wanted.touch;
    const object = mock.host.objects.get(kind).get(name);
    mock.host.put(kind, name, { ...object.spec, max_call: "7ms" });
  }
  if (wanted.restart) mock.host = new Host(10, { startMs: Date.now() - 5000 });
  if (wanted.notice) mock.host.notice(wanted.notice);
  if (wanted.alerts) mock.alerts = wanted.alerts;
  if (wanted.logs) mock.logs = wanted.logs;
  for (const wake of mock.wake) wake();
  answer.end("{}");
}

async function session(mock, request, answer) {
  const secret = request.headers["superfluid-session"];
  const document = { ...mock.rights, idle_seconds: 3600, expires: new Date(Date.now() + 4e7).toISOString(), version: "0.1.0", started: mock.host.started };
  if (request.method === "POST") {
    const { link } = JSON.parse(await bodyOf(request));
    if (!mock.links.delete(link)) return problem(answer, 401, "unauthorized", "the link is unknown, was used, or is older than 60 s");
    const fresh = randomBytes(32).toString("hex");
    mock.sessions.add(fresh);
    return json(answer, { ...document, secret: fresh }, 200, { "set-cookie": `superfluid-mock=${fresh}; HttpOnly; SameSite=Strict; Path=/` });
  }
  if (!mock.sessions.has(secret)) return problem(answer, 401, "unauthorized", "this session has ended");
  if (request.method === "DELETE") {
    mock.sessions.delete(secret);
    answer.writeHead(204);
    return answer.end();
  }
  return json(answer, document);
}

function file(path, request, answer) {
  const name = normalize(path === "/" ? "/index.html" : path);
  const full = join(dist, name);
  if (!full.startsWith(dist) || !existsSync(full)) return problem(answer, 404, "not-found", `there is nothing at ${path}`);
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
  const body = readFileSync(full);
  const packed = /gzip/.test(request.headers["accept-encoding"] ?? "");
  answer.writeHead(200, { "content-type": type, ...(packed ? { "content-encoding": "gzip" } : {}), "cache-control": name.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache" });
  answer.end(packed ? gzipSync(body) : body);
}

const STEPS = "parse;dur=0.041, turn;dur=0.003, compare;dur=0.122, check;dur=0.310, memory;dur=0.055, image;dur=0.021, shell;dur=0.480, hand-over;dur=0.212, commit;dur=0.096, workers;dur=0.150, finish;dur=0.034, audit;dur=0.020, total;dur=1.561";
const timed = (request) => (request.headers.prefer === "server-timing" ? { "server-timing": STEPS } : {});

async function api(mock, request, answer, url) {
  const { host } = mock;
  const [, , first, name, action] = url.pathname.split("/").map(decodeURIComponent);
  const query = url.searchParams;
  switch (first) {
    case "graph":
      return json(answer, host.graph());
    case "history": {
      if (query.has("of")) {
        const of = host.of(query.get("of"), Number(query.get("seconds") ?? 600));
        return of ? json(answer, of) : problem(answer, 404, "not-found", "there is nothing of this name");
      }
      const at = query.has("at") ? Number(query.get("at")) : host.now();
      if (at < host.first()) return problem(answer, 410, "gone", "that is no longer kept");
      return json(answer, host.at(at, Number(query.get("layout") ?? 0)));
    }
    case "openapi.json":
      return json(answer, JSON.parse(readFileSync(join(here, "../../docs/openapi.json"))));
    case "events":
      return stream(mock, request, answer, eventLines(mock, query));
    case "past-events":
      return json(answer, host.past(Number(query.get("limit") ?? 1000)));
    case "check":
      return check(mock, JSON.parse(await bodyOf(request)), answer);
    case "images":
      return json(answer, { items: ["firewall", "dpi", "monitor", "forwarder", "policer", "nat"].map((reference) => ({ reference, digest: `sha256:${"3f".repeat(32)}`, bytes: 91_000, compiled: true, functions: 2, version: "0.1.0", summary: `The stock image ${reference}.` })) });
    case "operations":
      if (mock.slow) return json(answer, { id: name, what: "compiling firewall", state: "running", asked: new Date().toISOString() });
      return json(answer, { id: name, what: "compiling firewall", state: "done", asked: new Date(Date.now() - 1400).toISOString(), ended: new Date().toISOString(), difference: { dry_run: false, revision: host.revision, created: [], changed: [], unchanged: [], deleted: [], restarted: [] } });
    case "snapshots":
      return snapshots(mock, request, answer, name, action);
    case "traces":
      return traces(mock, request, answer);
    case "captures":
      return capture(request, answer, JSON.parse(await bodyOf(request)));
  }
  const kind = KINDS.find((kind) => plural(kind) === first);
  if (!kind) return problem(answer, 404, "not-found", `there is nothing at ${url.pathname}`);
  if (name === undefined) {
    const items = [...host.objects.get(kind).values()].map((object) => ({ ...object, status: host.status(kind, object.name) }));
    return json(answer, { items, revision: host.revision });
  }
  return object(mock, request, answer, kind, name, action, query);
}

async function object(mock, request, answer, kind, name, action, query) {
  const { host } = mock;
  const found = host.objects.get(kind).get(name);
  const whole = () => {
    const now = host.objects.get(kind).get(name);
    return { ...now, status: host.status(kind, name) };
  };
  if (action) {
    if (!found) return problem(answer, 404, "not-found", `there is no ${kind}/${name}`);
    switch (action) {
      case "pause":
      case "resume":
      case "restart":
        host.state.set(`function/${name}`, action === "pause" ? "paused" : "running");
        host.put(kind, name, found.spec);
        for (const wake of mock.wake) wake();
        return json(answer, whole(), 200, timed(request));
      case "upgrade": {
        const { image } = JSON.parse(await bodyOf(request));
        if (image === "missing") return problem(answer, 422, "invalid", "the image cannot be used", [{ at: "image", message: "found `missing`; allowed: `firewall`, `monitor`" }]);
        host.put(kind, name, { ...found.spec, image });
        for (const wake of mock.wake) wake();
        return json(answer, { id: "7", what: `compiling ${image}`, state: "running", asked: new Date().toISOString() }, 202, { location: "/v1/operations/7" });
      }
      case "snapshots": {
        const { name: called } = JSON.parse(await bodyOf(request));
        host.snapshot(called, name);
        return json(answer, host.snapshots.at(-1), 201, timed(request));
      }
      case "logs":
        return stream(mock, request, answer, logLines(mock, name));
      case "events":
        return stream(mock, request, answer, foundLines(mock, name));
      case "report":
        if (name !== "edge_firewall") return problem(answer, 404, "not-found", "it has nothing to report");
        return json(answer, { time: new Date().toISOString(), current: true, report: { connections: 1841, rules: [{ name: "ping", hits: 9120 }, { name: "web", hits: 120_331 }, { name: "no-way-in", hits: 801 }] } });
    }
    return problem(answer, 404, "not-found", `there is nothing at ${action}`);
  }
  if (request.method === "GET") return found ? json(answer, whole(), 200, { etag: `"${found.version}"` }) : problem(answer, 404, "not-found", `there is no ${kind}/${name}`);
  const match = request.headers["if-match"];
  if (match && match !== `"${found?.version}"`) return problem(answer, 412, "precondition-failed", `If-Match: ${kind}/${name}: found version ${found?.version}; allowed: version ${match.replace(/"/g, "")}`);
  if (request.headers["if-none-match"] === "*" && found) return problem(answer, 412, "precondition-failed", `If-None-Match: ${kind}/${name} exists`);
  if (request.method === "DELETE") {
    const named = [...host.objects.get("chain").values()].find((chain) => chain.spec.includes(name));
    if (named) return problem(answer, 409, "conflict", `${kind}/${name} is needed`, [{ at: `chains.${named.name}`, message: `names \`${name}\`` }]);
    host.remove(kind, name);
    for (const wake of mock.wake) wake();
    return json(answer, { dry_run: false, revision: host.revision, created: [], changed: [], unchanged: [], deleted: [{ kind, name }], restarted: [] });
  }
  const { spec } = JSON.parse(await bodyOf(request));
  const faults = faultsOf(kind, spec);
  if (faults.length) return problem(answer, 422, "invalid", "the object is wrong", faults);
  if (spec.image === "forgetful" && query.get("allow_restart") !== "true") return problem(answer, 422, "invalid", "the change is refused", [{ at: "", message: "it would begin anew and lose what it knows; allowed: with `allow_restart=true`" }]);
  host.put(kind, name, spec);
  host.wire();
  for (const wake of mock.wake) wake();
  return json(answer, whole(), found ? 200 : 201, timed(request));
}

function faultsOf(kind, spec) {
  const faults = [];
  if (kind === "function") {
    if (!spec.image) faults.push({ at: "image", message: "missing" });
    const keys = ["image", "config", "tenant", "cpu", "max_call", "attach", "memory", "quota", "fail", "restart"];
    for (const key of Object.keys(spec)) if (!keys.includes(key)) faults.push({ at: key, message: `unknown key \`${key}\`; allowed: ${keys.join(", ")}` });
    const action = spec.config?.default_action;
    if (action !== undefined && !["accept", "drop"].includes(action)) faults.push({ at: "config.default_action", message: `found the text "${action}"; allowed: one of accept, drop` });
  }
  return faults;
}

function check(mock, document, answer) {
  const faults = [];
  for (const kind of KINDS) {
    const section = document[plural(kind)];
    if (!section || typeof section !== "object" || Array.isArray(section)) continue;
    for (const [name, spec] of Object.entries(section)) {
      for (const fault of faultsOf(kind, spec)) {
        const key = fault.at.split(".").at(-1);
        const text = JSON.stringify(spec, null, 2).split("\n");
        const line = text.findIndex((line) => line.includes(`"${key}"`));
        faults.push({ at: `${plural(kind)}.${name}.${fault.at}`, message: fault.message, ...(line >= 0 ? { line: line + 2, column: text[line].search(/\S/) + 1 } : {}) });
      }
    }
  }
  json(answer, { faults, warnings: [], ...(faults.length ? {} : { difference: { dry_run: true, revision: mock.host.revision, created: [], changed: [], unchanged: [], deleted: [], restarted: [] } }) });
}

async function snapshots(mock, request, answer, name, action) {
  const { host } = mock;
  if (name === undefined) return json(answer, { items: host.snapshots });
  const found = host.snapshots.find((snapshot) => snapshot.name === name);
  if (!found) return problem(answer, 404, "not-found", `there is no snapshot/${name}`);
  if (request.method === "DELETE") {
    host.snapshots = host.snapshots.filter((snapshot) => snapshot !== found);
    return json(answer, { deleted: name });
  }
  if (action === "restore") {
    const { function: becomes } = JSON.parse(await bodyOf(request));
    host.put("function", becomes, found.spec);
    host.wire();
    return json(answer, { ...host.objects.get("function").get(becomes), status: host.status("function", becomes) }, 201, timed(request));
  }
  return json(answer, found);
}

/** Writes what a generator gives, until the client leaves. */
async function stream(mock, request, answer, source) {
  answer.writeHead(200, { "content-type": "application/jsonl", "cache-control": "no-store" });
  // A client knows that it follows before the first line comes.
  answer.flushHeaders();
  let left = false;
  answer.on("close", () => {
    left = true;
    void source.return();
  });
  for await (const line of source) {
    if (left) return;
    if (line !== null) answer.write(`${JSON.stringify(line)}\n`);
  }
  answer.end();
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function* eventLines(mock, query) {
  let after = query.has("after") ? Number(query.get("after")) : mock.host.revision;
  let notices = mock.host.notices.length;
  for (;;) {
    for (const event of mock.host.events.filter((event) => event.revision > after)) {
      after = event.revision;
      yield event;
    }
    for (const notice of mock.host.notices.slice(notices)) yield { event: "notice", ...notice };
    notices = mock.host.notices.length;
    await new Promise((resolve) => {
      const wake = () => {
        mock.wake.delete(wake);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(wake, 300);
      mock.wake.add(wake);
    });
    // Leaves when the client has left: a line that is nothing looks whether it has.
    yield null;
  }
}

async function* logLines(mock, name) {
  const texts = mock.logs ?? ["started", "12 rules read from edge.rules", "table of connections: 1,841 of 65,536"];
  let number = 0;
  for (const text of texts) {
    number += 1;
    yield { number, time: new Date(Date.now() - 60_000 + number * 500).toISOString(), severity: number % 7 === 2 ? "warning" : "notice", text: String(text).replace("{name}", name) };
  }
  for (;;) {
    await pause(300);
    yield null;
  }
}

async function* foundLines(mock, name) {
  const alerts = mock.alerts ?? (name === "detection" ? ["ET SCAN Possible Nmap User-Agent Observed", "GPL ICMP_INFO PING *NIX"] : []);
  let number = 0;
  const line = (of) => ({ number: (number += 1), time: new Date(Date.now() - 30_000 + number * 900).toISOString(), ...of });
  for (const signature of alerts) yield line({ what: "alert", alert: { event_type: "alert", src_ip: "10.83.0.1", dest_ip: "10.83.0.2", alert: { signature, severity: 2 } } });
  if (mock.host.state.get(`function/${name}`) === "down") yield line({ what: "fault", text: "trapped: out of bounds memory access at process+0x1c4" });
  for (;;) {
    await pause(300);
    yield null;
  }
}

async function traces(mock, request, answer) {
  const asked = JSON.parse(await bodyOf(request));
  if (asked.inject && (asked.filter || asked.count)) return problem(answer, 422, "invalid", "inject: one packet is followed then; allowed: without `filter` and `count`");
  return stream(mock, request, answer, traceLines(asked));
}

async function* traceLines(asked) {
  const most = asked.inject ? 1 : Math.min(asked.count ?? 10, 12);
  for (let number = 1; number <= most; number += 1) {
    await pause(40);
    yield trace(number, asked.at);
  }
  yield { trace: "ended", packets: most, missed: 3, places: 14, places_left_out: 0 };
}

async function capture(request, answer, asked) {
  answer.writeHead(200, { "content-type": "application/x-pcapng" });
  let left = false;
  answer.on("close", () => (left = true));
  answer.write(captureHead());
  const most = Math.min(asked.count ?? 1000, 60);
  for (let number = 0; number < most && !left; number += 1) {
    answer.write(captured(number, number % 5 === 4 ? "edge_firewall: drop, function" : "edge_firewall: to outside"));
    if (number % 10 === 0) await pause(30);
  }
  answer.end(captureEnd(2));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const served = await serve({ functions: Number(process.argv[2] ?? 10), port: Number(process.argv[3] ?? 0) });
  console.log(served.link());
}
