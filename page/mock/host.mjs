// A host that is not there: what it is made of, and what it does at each second, worked out from the second alone.

/** A number from 0 to 1 that is the same for the same text. */
function part(text) {
  let hash = 2166136261;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 16777619);
  return ((hash >>> 0) % 10007) / 10007;
}

const two = (value) => String(value).padStart(2, "0");

/** Packets a second of something, at a second. */
function rate(name, step, base) {
  const own = part(name);
  return Math.round(base * (0.75 + 0.2 * Math.sin(step / (20 + 40 * own) + own * 6) + 0.05 * Math.sin(step * (1 + own))));
}

const KIND_PLURALS = { workers: "workers", switch: "switches" };
export const plural = (kind) => KIND_PLURALS[kind] ?? `${kind}s`;
const KINDS = ["function", "port", "chain", "device", "switch", "group", "wire", "observer", "service", "tenant", "workers"];

export class Host {
  constructor(size, { startMs = Date.now() - 3_000_000 } = {}) {
    this.startMs = startMs;
    this.started = new Date(startMs).toISOString();
    this.layout = 1;
    this.revision = 0;
    this.objects = new Map();
    this.state = new Map();
    this.faults = [];
    this.snapshots = [];
    this.events = [];
    /** What happened to what runs; with the times of changes, by revision, it is the past. */
    this.notices = [];
    this.times = new Map();
    this.nodes = [];
    this.edges = [];
    for (const kind of KINDS) this.objects.set(kind, new Map());
    this.put("workers", "workers", size >= 100 ? 4 : 2);
    if (size <= 10) this.small();
    else this.large(size, size >= 1000 ? 50 : 10);
    for (const revision of this.times.keys()) this.times.set(revision, startMs);
    this.happen(size <= 10 ? "detection" : `c02-f0${size >= 1000 ? 7 : 3}`);
    this.wire();
  }

  /** What happened before any page was opened. */
  happen(failed) {
    const ago = (minutes, kind, name, what, text) => this.notice({ kind, name, what, text }, Date.now() - minutes * 60_000);
    ago(41, "port", failed === "detection" ? "wan" : "c04-out", "down", "the link is down");
    ago(40, "port", failed === "detection" ? "wan" : "c04-out", "up", "the link is up");
    ago(25, "function", failed, "fault", "trapped: out of bounds memory access at process+0x1c4; started again in 10 ms");
    ago(24.99, "function", failed, "restarted", "it runs again");
    for (const minutes of [31, 18, 7]) ago(minutes, "workers", "workers", "moved", `${failed === "detection" ? "flows" : "c01-f05, c01-f06"} moved to worker ${minutes % 2}`);
  }

  notice(notice, time = Date.now()) {
    this.notices.push({ time: new Date(time).toISOString(), ...notice });
  }

  /** The events of the last hour. */
  past(limit) {
    const age = (time) => Date.now() - time;
    const changes = this.events.map(({ revision, kind, name, happened }) => ({ time: this.times.get(revision) ?? this.startMs, kind, name, what: happened, revision }));
    const notices = this.notices.map((notice) => ({ ...notice, time: Date.parse(notice.time) }));
    const items = [...changes, ...notices].filter((one) => one.time >= this.startMs).sort((a, b) => a.time - b.time).map((one) => ({ ...one, time: new Date(one.time).toISOString(), age_ms: age(one.time) }));
    return { since: this.started, items: items.slice(-limit) };
  }

  put(kind, name, spec) {
    this.revision += 1;
    this.objects.get(kind).set(name, { kind, name, version: this.revision, spec });
    this.events.push({ event: "changed", revision: this.revision, kind, name, happened: "put" });
    this.times.set(this.revision, Date.now());
    return this.objects.get(kind).get(name);
  }

  remove(kind, name) {
    this.revision += 1;
    this.objects.get(kind).delete(name);
    this.events.push({ event: "changed", revision: this.revision, kind, name, happened: "deleted" });
    this.times.set(this.revision, Date.now());
    this.wire();
  }

  small() {
    for (const tenant of ["default", "blue", "red"]) this.put("tenant", tenant, tenant === "default" ? {} : { cpu: { weight: tenant === "red" ? 300 : 100 } });
    this.put("port", "lan", { type: "af_packet", interface: "sf-lan" });
    this.put("port", "wan", { type: "af_packet", interface: "sf-wan" });
    this.put("port", "source", { type: "generator", tenant: "blue", flows: 100, rate: "50kpps" });
    this.put("port", "end", { type: "sink", tenant: "red", check: "checksums" });
    this.put("port", "nic3", { type: "af_xdp", interface: "eth3" });
    this.put("port", "copies", { type: "sink" });
    this.put("device", "names", { mode: "direct", over: { nic3: { receive: "udp port 53" } } });
    this.put("device", "suspects", { mode: "rootless" });
    this.put("switch", "yard", {});
    this.put("group", "web", { tenant: "red", rules: [{ direction: "in", protocol: "tcp", ports: "443", from: "0.0.0.0/0" }] });
    this.put("function", "edge_firewall", {
      image: "firewall",
      config: {
        default_action: "drop",
        rules: [
          { name: "ping", action: "accept", from: "inside", protocol: "icmp", icmp_type: 8 },
          { name: "web", action: "accept", from: "inside", protocol: "tcp", destination_ports: 80 },
          { name: "no-way-in", action: "drop", from: "outside" },
        ],
      },
    });
    this.put("function", "detection", { image: "dpi", config: { rules: "edge.rules" } });
    this.put("function", "fair", { image: "policer", config: { policers: [{ name: "pings", protocol: "icmp", key: ["source"], packet_rate: "100pps" }] } });
    this.put("function", "flows", { image: "monitor", config: { top: 5 } });
    this.put("function", "blue_forwarder", { image: "forwarder", tenant: "blue", config: { mode: "swap" } });
    this.put("function", "red_forwarder", { image: "forwarder", tenant: "red", config: { mode: "swap" }, cpu: { cap: "5%" } });
    this.put("function", "resolver", { image: "forwarder", attach: { left: "names" }, config: { reflect: true } });
    this.put("function", "ids", { image: "monitor", attach: { left: "names", right: "suspects" } });
    this.put("function", "watcher", { image: "monitor", attach: { left: "suspects", right: "copies" } });
    this.put("port", "dmz", { type: "af_packet", interface: "sf-dmz" });
    this.put("port", "web", { type: "af_packet", interface: "sf-web" });
    this.put("function", "proxy", { guest: "container", image: "registry.example/nf/haproxy:3", interfaces: { inside: {}, outside: {} }, memory: "256MiB", cpu: { cap: "50%" } });
    this.put("chain", "site", ["dmz", "proxy", "web"]);
    this.put("function", "gateway", { image: "nat", tenant: "red", config: { pool: ["198.51.100.7/32"] } });
    this.put("chain", "edge", ["lan", "edge_firewall", "detection", "fair", "wan"]);
    this.put("chain", "handover", ["source", "blue_forwarder", "gateway", "red_forwarder", "end"]);
    this.put("observer", "flows", { at: ["edge_firewall"] });
    this.put("service", "red:7", "gateway:inside");
    this.state.set("function/watcher", "paused");
    this.snapshot("monday", "edge_firewall");
  }

  large(size, length) {
    const tenants = ["default", "gold", "iron"];
    for (const tenant of tenants) this.put("tenant", tenant, {});
    const chains = Math.ceil(size / length);
    for (let chain = 0; chain < chains; chain += 1) {
      const name = `c${two(chain)}`;
      const tenant = tenants[chain % tenants.length];
      this.put("port", `${name}-in`, { type: "generator", tenant, rate: "50kpps" });
      this.put("port", `${name}-out`, { type: "sink", tenant });
      const members = [];
      for (let at = 0; at < length; at += 1) {
        const member = `${name}-f${two(at)}`;
        members.push(member);
        this.put("function", member, { image: at % 5 === 0 ? "firewall" : "forwarder", tenant, config: at % 5 === 0 ? { default_action: "accept" } : { mode: "swap" } });
      }
      this.put("chain", name, [`${name}-in`, ...members, `${name}-out`]);
    }
    this.state.set(`function/c02-f0${length > 10 ? 7 : 3}`, "down");
    this.state.set("function/c05-f04", "paused");
  }

  snapshot(name, of) {
    this.snapshots.push({ name, function: of, image: `sha256:${"3f".repeat(32)}`, saved: new Date(this.startMs + 60_000).toISOString(), bytes: 1_310_720, tenant: "default", spec: this.objects.get("function").get(of)?.spec });
  }

  /** Works the graph out from the objects. */
  wire() {
    this.layout += 1;
    const has = (kind, name) => this.objects.get(kind).has(name);
    const tenantOf = (kind, name) => this.objects.get(kind).get(name)?.spec?.tenant ?? (kind === "switch" ? undefined : "default");
    this.nodes = [];
    for (const kind of ["port", "device", "switch", "function"]) {
      for (const name of this.objects.get(kind).keys()) this.nodes.push({ kind, name, tenant: tenantOf(kind, name), drops: 0 });
    }
    this.edges = [];
    for (const service of this.objects.get("service").values()) {
      const [to, part] = service.spec.split(":");
      this.nodes.push({ kind: "service", name: service.name, tenant: tenantOf("function", to), drops: 0 });
      this.edges.push({ kind: "leads", from: service.name, to, to_part: part });
    }
    for (const chain of this.objects.get("chain").values()) {
      for (let at = 1; at < chain.spec.length; at += 1) {
        const [from, to] = [chain.spec[at - 1], chain.spec[at]];
        if (![from, to].every((end) => has("port", end) || has("function", end))) continue;
        this.edges.push({ kind: "wire", from, from_part: has("function", from) ? "outside" : undefined, to, to_part: has("function", to) ? "inside" : undefined });
      }
    }
    for (const device of this.objects.get("device").values()) {
      for (const port of Object.keys(device.spec.over ?? {})) this.edges.push({ kind: "over", from: device.name, to: port });
    }
    for (const made of this.objects.get("function").values()) {
      for (const [part, end] of Object.entries(made.spec.attach ?? {})) {
        if (has("device", end)) this.edges.push({ kind: "opens", from: made.name, from_part: part, to: end });
        else if (has("port", end)) this.edges.push({ kind: "wire", from: made.name, from_part: part, to: end });
      }
    }
    for (const observer of this.objects.get("observer").values()) {
      for (const place of observer.spec.at) if (has("function", observer.name) && has("function", place)) this.edges.push({ kind: "observes", from: place, to: observer.name });
    }
  }

  now() {
    return Math.floor((Date.now() - this.startMs) / 1000);
  }

  first() {
    return Math.max(0, this.now() - 3600);
  }

  graph() {
    return { time_ns: Date.now() * 1e6, nodes: this.nodes.map((node) => ({ ...node, state: this.stateOf(node), ...(node.name === "suspects" || node.kind === "service" || node.kind === "switch" ? {} : { packets: 1 }) })), edges: this.edges.map((edge) => ({ ...edge, ...this.counts(edge) })) };
  }

  /** Functions that are containers are on no worker, and are promised nothing. */
  isContainer(name) {
    return this.objects.get("function").get(name)?.spec.guest === "container";
  }

  /** What is known of an edge: packets and bytes next to ports, and of short chains packets between functions too. */
  counts(edge) {
    const inner = this.objects.get("function").has(edge.from) && this.objects.get("function").has(edge.to);
    if (["observes", "over", "leads"].includes(edge.kind) || (inner && this.nodes.length > 60)) return {};
    const way = inner ? { packets: 1 } : { packets: 1, bytes: 100 };
    return { there: way, back: way };
  }

  stateOf(node) {
    return this.state.get(`${node.kind}/${node.name}`) ?? (node.kind === "function" ? "running" : node.kind === "port" ? "up" : undefined);
  }

  /** What a function does in a second. */
  work(name, step) {
    const stands = this.state.get(`function/${name}`);
    const base = this.nodes.length > 200 ? 45_000 : { edge_firewall: 182_000, detection: 141_000, fair: 141_000, flows: 90_000, blue_forwarder: 50_000, gateway: 50_000, red_forwarder: 41_000, resolver: 12_000, ids: 12_000, watcher: 0, proxy: 24_000 }[name] ?? 20_000;
    const packets = stands && stands !== "running" ? 0 : rate(name.replace(/-f\d+$/, ""), step, base);
    const cost = { detection: 2600, edge_firewall: 640, flows: 900 }[name] ?? 260 + 300 * part(name);
    let drops = 0;
    if (name === "edge_firewall" && this.objects.get("function").get(name)?.spec.config?.default_action === "drop") drops = Math.round(packets * 0.23);
    if (name === "red_forwarder") drops = Math.round(rate(name, step, 9_000));
    if (/^c0[37]-f1[1-2]$/.test(name) || /^c03-f02$/.test(name)) drops = rate(name, step, 700);
    const cpu = Math.min(0.96, this.nodes.length > 200 ? 0.0032 * (0.5 + part(name)) : (packets * cost) / 1e9);
    return { packets, drops, cpu, bytes: packets * Math.round(120 + 700 * part(`${name} size`)), queue: Math.round((drops > 0 ? 830 : 20) * (0.4 + part(`${name}${step >> 2}`))) };
  }

  workerOf(name, step) {
    if (this.isContainer(name)) return 1023;
    const workers = this.objects.get("workers").get("workers").spec;
    // Now and then a function moves.
    if (name === "flows") return Math.floor(step / 45) % workers;
    return Math.floor(part(name) * 977) % workers;
  }

  promised(name) {
    if (this.isContainer(name)) return 0;
    return this.nodes.length > 200 ? 0.004 : { detection: 0.5, edge_firewall: 0.25, red_forwarder: 0.05 }[name] ?? 0.15;
  }

  /** All objects at a step. */
  at(step, layout) {
    const seconds = step < this.now() - 600 ? 10 : 1;
    const named = layout !== this.layout;
    const by = (kind) => this.nodes.filter((node) => node.kind === kind);
    const code = { running: 0, paused: 1, frozen: 2, down: 3 };
    const functions = by("function");
    const works = functions.map((node) => this.work(node.name, step));
    const ports = by("port");
    const flow = (port) => {
      const chain = [...this.objects.get("chain").values()].find((chain) => chain.spec[0] === port || chain.spec.at(-1) === port);
      if (!chain) return { in: port === "nic3" ? 24_000 : 0, out: port === "nic3" ? 12_000 : 0 };
      const inner = chain.spec.slice(1, -1).filter((name) => this.objects.get("function").has(name));
      const first = this.work(inner[0] ?? "", step);
      const last = this.work(inner.at(-1) ?? "", step);
      const through = Math.max(0, Math.min(first.packets - first.drops, last.packets - last.drops));
      return chain.spec[0] === port ? { in: first.packets, out: port === "lan" ? Math.round(through * 0.4) : 0 } : { in: port === "wan" ? Math.round(through * 0.4) : 0, out: through };
    };
    const flows = ports.map((port) => flow(port.name));
    const column = (of, each) => of.map(each);
    const lost = works.reduce((sum, one) => sum + one.drops, 0);
    const received = flows.reduce((sum, one) => sum + one.in, 0);
    const delivered = flows.reduce((sum, one) => sum + one.out, 0);
    const times = (value) => Math.round(value * seconds);
    // Of edges of which nothing is known there is no history.
    const known = this.edges.filter((edge) => this.counts(edge).there);
    const edges = known.map((edge) => {
      const from = this.objects.get("function").has(edge.from) ? this.work(edge.from, step) : null;
      const to = this.objects.get("function").has(edge.to) ? this.work(edge.to, step) : null;
      const there = from ? Math.max(0, from.packets - from.drops) : (to?.packets ?? 0);
      // What opens a device by its left gets packets from there.
      if (edge.kind === "opens" && edge.from_part === "left") return { there: 0, back: from?.packets ?? 0 };
      return { there, back: /^(lan|edge_firewall|detection|fair)$/.test(edge.from) ? Math.round((there ?? 0) * 0.4) : 0 };
    });
    const workers = this.objects.get("workers").get("workers").spec;
    const loads = Array.from({ length: workers }, (_, worker) => {
      const busy = Math.min(0.97, works.reduce((sum, one, at) => sum + (this.workerOf(functions[at].name, step) === worker ? one.cpu : 0), 0) + 0.03);
      return { busy, overhead: (1 - busy) * 0.2, asleep: (1 - busy) * 0.77, withheld: (1 - busy) * 0.03 };
    });
    const ns = (share) => Math.round(share * 1e9 * seconds);
    const columns = (nodes, values) => ({ ...(named ? { names: nodes.map((node) => node.name), tenants: nodes.map((node) => node.tenant ?? "") } : {}), values });
    const tenants = [...this.objects.get("tenant").keys()];
    return {
      started: this.started,
      start_ms: this.startMs,
      first: this.first(),
      last: this.now(),
      at: step,
      seconds,
      layout: this.layout,
      objects: {
        function: columns(functions, {
          packets: column(works, (one) => times(one.packets)),
          bytes: column(works, (one) => times(one.bytes)),
          cpu_ns: column(works, (one) => ns(one.cpu)),
          queue: column(works, (one) => one.queue),
          drops: column(works, (one) => times(one.drops)),
          state: column(functions, (node) => code[this.stateOf(node)] ?? 0),
          worker: column(functions, (node) => this.workerOf(node.name, step)),
          promised: column(functions, (node) => Math.round(this.promised(node.name) * 1000)),
        }),
        port: columns(ports, {
          received: column(flows, (one) => times(one.in)),
          received_bytes: column(flows, (one) => times(one.in * 410)),
          delivered: column(flows, (one) => times(one.out)),
          delivered_bytes: column(flows, (one) => times(one.out * 410)),
          drops: column(ports, () => 0),
          in_flight: column(flows, (one) => Math.round(one.in / 9000)),
          state: column(ports, (node) => ({ up: 0, down: 1, finished: 2 })[this.stateOf(node)] ?? 0),
        }),
        device: columns(by("device"), { packets: column(by("device"), (node) => times(rate(node.name, step, 24_000))), bytes: column(by("device"), (node) => times(rate(node.name, step, 24_000) * 90)), drops: column(by("device"), () => 0) }),
        edge: {
          ...(named ? { names: known.map((edge) => `${edge.kind}/${edge.from}${edge.from_part ? `:${edge.from_part}` : ""}~${edge.to}${edge.to_part ? `:${edge.to_part}` : ""}`) } : {}),
          values: { there: edges.map((one) => one.there && times(one.there)), there_bytes: edges.map((one, at) => this.counts(known[at]).there.bytes && one.there && times(one.there * 410)), back: edges.map((one) => times(one.back)), back_bytes: edges.map((one) => times(one.back * 410)) },
        },
        worker: { ...(named ? { names: loads.map((_, at) => String(at)) } : {}), values: { functions_ns: loads.map((one) => ns(one.busy)), overhead_ns: loads.map((one) => ns(one.overhead)), asleep_ns: loads.map((one) => ns(one.asleep)), withheld_ns: loads.map((one) => ns(one.withheld)) } },
        pool: { ...(named ? { names: tenants } : {}), values: { free: tenants.map((name) => Math.round(8192 * (0.3 + 0.6 * part(name)))), buffers: tenants.map(() => 8192) } },
        tenant: { ...(named ? { names: tenants } : {}), values: { packets: tenants.map((name) => times(rate(name, step, 100_000))), bytes: tenants.map((name) => times(rate(name, step, 100_000) * 410)), cpu_ns: tenants.map(() => ns(0.2)), drops: tenants.map(() => 0) } },
        host: { ...(named ? { names: ["host"] } : {}), values: { received: [times(received)], received_bytes: [times(received * 410)], delivered: [times(delivered)], delivered_bytes: [times(delivered * 410)], drops: [times(lost)], cpu_ns: [ns(loads.reduce((sum, one) => sum + one.busy, 0))] } },
      },
    };
  }

  /** One object over time. */
  of(id, seconds) {
    const kind = id.slice(0, id.indexOf("/"));
    const name = id.slice(kind.length + 1);
    const last = this.now();
    const first = Math.max(this.first(), last - seconds);
    const fine = Math.max(first, last - 600);
    const single = (step) => {
      const all = this.at(step, 0).objects[kind];
      const at = all?.names?.indexOf(name) ?? -1;
      if (at < 0) return null;
      return Object.fromEntries(Object.entries(all.values).map(([column, values]) => [column, values[at]]));
    };
    if (!single(last)) return null;
    // A host of a thousand functions is worked out every now and then: seconds between are as the one before.
    const every = this.nodes.length > 200 ? 60 : 1;
    const span = (from, to, step) => {
      const values = {};
      let last = null;
      const one = (at) => (last && (at - from) / step % every ? last : (last = single(at)));
      for (let at = from; at < to; at += step) for (const [column, value] of Object.entries(one(at) ?? {})) (values[column] ??= []).push(value);
      return { from, seconds: step, values };
    };
    const work = kind === "function" ? this.work(name, last) : { drops: 0, packets: 0 };
    const bounds = Array.from({ length: 24 }, (_, at) => 128 * 2 ** at);
    return {
      started: this.started,
      start_ms: this.startMs,
      of: id,
      first: this.first(),
      last,
      fine: span(fine, last + 1, 1),
      coarse: span(first, fine, 10),
      minute: {
        drops: work.drops ? { [name === "edge_firewall" ? "function" : "queue-full"]: work.drops * 55, ...(name === "red_forwarder" ? { "no-route": 321 } : { "function-trapped": 4 }) } : {},
        latency: { bounds_ns: bounds, counts: [...bounds, 0].map((bound) => (work.packets ? Math.round(work.packets * 60 * Math.exp(-((Math.log2(bound || 1) - 12.4) ** 2) / 3)) : 0)) },
      },
    };
  }

  status(kind, name) {
    if (kind === "function") {
      const work = this.work(name, this.now());
      const since = this.now();
      return {
        state: this.state.get(`function/${name}`) ?? "running",
        ...(this.state.get(`function/${name}`) === "down" ? { reason: "it trapped: out of bounds memory access; it is started again in 4 s" } : {}),
        ...(this.isContainer(name) ? {} : { worker: this.workerOf(name, since) }),
        image: `sha256:${"3f".repeat(32)}`,
        packets: work.packets * since,
        bytes: work.bytes * since,
        calls: Math.round((work.packets * since) / 21),
        cycles: Math.round(work.cpu * 2.6e9 * since),
        promised_share: this.promised(name),
        got_share: work.cpu,
        queue: work.queue,
        drops: work.drops ? { function: work.drops * since } : {},
        latency: { mean_ns: 5200, p50_ns: 4096, p99_ns: 32768 },
        memory: { private: 1 << 21, page_tables: 8192, runtime: 65536, promised: 5 << 20, disk: 1_310_720 },
        faults: this.state.get(`function/${name}`) === "down" ? 3 : 0,
        restarts: 0,
      };
    }
    if (kind === "port") return { state: "up", received: 1_928_331, delivered: 1_928_001, driver: "af_packet" };
    if (kind === "device") return { time_ns: Date.now() * 1e6, state: "up", laid: "device", ports: [], openers: [{ opener: "resolver:left", tenant: "default", order: 1, observes: false }], copied: 12, drops: {}, addresses: [], neighbours: 2, warnings: [] };
    return undefined;
  }
}
