//! The history of the host: once a second all that is counted is looked at and kept, and clients are answered
//! from that.
//!
//! 1. A thread of its own wakes at each full second since the start, and where there is so much to look at
//!    that this would take more than a hundredth of a processor, at fewer of them ([`history::next_step`]).
//!    It reads the boards on which workers write what they have counted: no worker stops for it.
//! 2. What ports lose is looked at ([`PortHealth`](super::port_health::PortHealth)), the graph is drawn, and
//!    all of it goes to a [`History`].
//! 3. Clients ask for one step of all objects, or one object over time ([`answers`]). The last step is made
//!    into text once, however many ask for it: once for administrators and readers together, and once for
//!    each tenant.

mod answers;
mod columns;

use super::container_readings::ContainerReading;
use super::controller::{Controller, lock};
use super::function_health::{Down, Looked};
use answers::Answers;
use api::{EdgeKind, Graph, GraphEdge, NodeKind};
use columns::{
    DEVICE, EDGE, FUNCTION, HOST, KINDS, POOL, PORT, TENANT, WORKER, parts, reasons, values_of_container,
    values_of_function, values_of_port,
};
use engine::Account;
use history::{History, Limits, next_step};
use launcher::keeper::Phase;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::DropReason;
use telemetry::clock::Cycles;
use wiring::Wiring;

/// How much the history may take: some 4,000 functions in chains, and a quarter of it for one tenant.
const LIMITS: Limits = Limits { bytes: 64 << 20, tenant_bytes: 16 << 20 };

/// After so long it is looked whether the daemon ends.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The history, and what clients were told of its last step.
pub(crate) struct Sampled {
    history: Mutex<History>,
    answers: Mutex<Answers>,
    began: Instant,
    /// As clients are told it.
    started: String,
}

impl Sampled {
    pub(crate) fn new() -> Sampled {
        Sampled {
            history: Mutex::new(History::new(&KINDS, LIMITS)),
            answers: Mutex::default(),
            began: Instant::now(),
            started: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        }
    }

    /// What the history takes.
    pub(super) fn memory(&self) -> Value {
        let history = lock(&self.history);
        json!({
            "bytes": history.bytes(),
            "promised_bytes": history.promised(),
            "limit_bytes": LIMITS.bytes,
            "left_out": history.left_out(),
        })
    }

    /// A tenant is deleted.
    pub(super) fn end_tenant(&self, tenant: &str) {
        lock(&self.history).end_tenant(tenant);
        lock(&self.answers).forget();
    }

    /// The step that it is now.
    fn step(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// When step 0 was, by the clock as it is now, in milliseconds.
    fn start_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.saturating_sub(self.began.elapsed()).as_millis()).unwrap_or(0)
    }
}

/// What the thread remembers from one step to the next.
#[derive(Default)]
struct Sampler {
    known: Known,
    sums: Sums,
}

/// What the wiring says, as long as it is the same. The wiring itself is not kept: it is as large as all that
/// runs.
#[derive(Default)]
struct Known {
    /// Of the graph's edges.
    fingerprint: u64,
    /// Names and owners of the graph's edges, in its order.
    edges: Vec<(String, Option<String>)>,
}

/// Sums over objects that come and go: what each has grown by is added, so that nothing is lost with one that
/// goes.
#[derive(Default)]
struct Sums {
    step: u64,
    functions: HashMap<String, Seen<4>>,
    ports: HashMap<String, Seen<5>>,
    /// Packets, bytes, processor time, drops.
    tenants: HashMap<String, Seen<4>>,
    /// As the columns of the host.
    host: [u64; 6],
}

/// Counters as they were in a step.
#[derive(Clone, Copy)]
struct Seen<const N: usize> {
    step: u64,
    counted: [u64; N],
}

impl<const N: usize> Seen<N> {
    /// What has come since the last step; of one that is new, nothing.
    fn look(all: &mut HashMap<String, Seen<N>>, name: &str, step: u64, counted: [u64; N]) -> [u64; N] {
        match all.get_mut(name) {
            Some(seen) => {
                let before = std::mem::replace(seen, Seen { step, counted }).counted;
                // One that was made anew under its name counts from the beginning.
                let grown = |n: usize| counted[n].checked_sub(before[n]).unwrap_or(counted[n]);
                std::array::from_fn(grown)
            }
            None => {
                all.insert(name.to_owned(), Seen { step, counted });
                [0; N]
            }
        }
    }

    /// Adds to a sum.
    fn add(all: &mut HashMap<String, Seen<N>>, name: &str, step: u64, grown: [u64; N]) {
        if !all.contains_key(name) {
            all.insert(name.to_owned(), Seen { step, counted: [0; N] });
        }
        if let Some(seen) = all.get_mut(name) {
            seen.step = step;
            seen.counted.iter_mut().zip(grown).for_each(|(sum, grown)| *sum += grown);
        }
    }
}

impl Sums {
    fn function(&mut self, name: &str, tenant: Option<&str>, counted: [u64; 4]) {
        let grown = Seen::look(&mut self.functions, name, self.step, counted);
        self.host[5] += grown[2];
        self.host[4] += grown[3];
        if let Some(tenant) = tenant {
            Seen::add(&mut self.tenants, tenant, self.step, grown);
        }
    }

    fn port(&mut self, name: &str, tenant: Option<&str>, counted: [u64; 5]) {
        let grown = Seen::look(&mut self.ports, name, self.step, counted);
        self.host.iter_mut().zip(grown).for_each(|(sum, grown)| *sum += grown);
        if let Some(tenant) = tenant {
            Seen::add(&mut self.tenants, tenant, self.step, [0, 0, 0, grown[4]]);
        }
    }

    /// Forgets what was not there in this step.
    fn end(&mut self) {
        let step = self.step;
        self.functions.retain(|_, seen| seen.step == step);
        self.ports.retain(|_, seen| seen.step == step);
        self.tenants.retain(|_, seen| seen.step == step);
    }
}

impl Controller {
    /// Looks at the host once a second, or more rarely where that costs too much, until the end.
    pub(super) fn sample(self: &std::sync::Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let this = std::sync::Arc::downgrade(self);
        let (ends, began) = (self.ends.clone(), self.sampled.began);
        Builder::new().name("history".into()).spawn(move || {
            let mut sampler = Sampler::default();
            let mut next = next_step(began.elapsed(), Duration::ZERO);
            while !ends.load(Relaxed) {
                let pause = Duration::from_secs(next).saturating_sub(began.elapsed());
                std::thread::sleep(pause.min(LONGEST_SLEEP));
                if pause > LONGEST_SLEEP {
                    continue;
                }
                let Some(this) = this.upgrade() else { return };
                let (at, used, asked) = (began.elapsed(), offload::processor_time(), Instant::now());
                // Workers that have stopped count nothing more.
                if let Ok(account) = this.host.fleet().survey() {
                    lock(&this.told.sink.port_health).look(&account.ports, asked);
                    this.look_at_functions(&account, asked);
                    this.keep_step(&account, &mut sampler);
                }
                let cost = offload::processor_time().since(used);
                next = next_step(at, cost.into());
            }
        })
    }

    /// Looks which functions do not do what they are for, in the sandbox or started by the launcher.
    fn look_at_functions(&self, account: &Account, now: Instant) {
        let wiring = self.host.wiring();
        let functions = account.instances.iter();
        let functions = functions.map(|it| {
            let dropped = &it.ledger.dropped;
            let wrong = dropped[DropReason::BadVerdict] + dropped[DropReason::NoVerdict];
            let down = it.down.as_deref().map(Down::from);
            Looked { name: &it.name, faults: it.faults, wrong, down }
        });
        let launched = wiring.containers.keys().filter_map(|name| {
            let condition = self.containers.get()?.condition(name)?;
            let down = match condition.phase {
                Phase::Down(why) => Some(Down { host: why.to_string(), tenant: why.for_tenant() }),
                Phase::Starting(_) | Phase::Runs => None,
            };
            Some(Looked { name, faults: condition.faults, wrong: 0, down })
        });
        let launched: Vec<_> = launched.collect();
        lock(&self.told.sink.function_health).look(functions.chain(launched), now);
    }

    /// Keeps a step.
    fn keep_step(&self, account: &Account, Sampler { known, sums }: &mut Sampler) {
        let wiring = self.host.wiring();
        let containers = self.container_readings(&wiring, account);
        let graph = self.drawn(&wiring, account, &containers);
        let fingerprint = fingerprint(&graph);
        if known.fingerprint != fingerprint {
            known.fingerprint = fingerprint;
            known.edges = self.edges(graph.clone(), &wiring);
        }
        let mut history = lock(&self.sampled.history);
        history.begin(self.sampled.step());
        sums.step += 1;
        keep_functions(&mut history, account, &wiring, sums);
        keep_containers(&mut history, &containers, sums);
        keep_ports(&mut history, account, &wiring, sums);
        for node in graph.nodes.iter().filter(|node| node.kind == NodeKind::Device) {
            let values = [node.packets.unwrap_or(0), node.bytes.unwrap_or(0), node.drops];
            history.record(DEVICE, &node.name, node.tenant.as_deref(), &values);
        }
        // Of what nothing counts there is no history.
        let counted = |edge: &GraphEdge| edge.there.is_some() || edge.back.is_some();
        for (edge, (name, tenant)) in graph.edges.iter().zip(&known.edges).filter(|(edge, _)| counted(edge)) {
            let (there, back) = (edge.there.unwrap_or_default(), edge.back.unwrap_or_default());
            let values = [there.packets, there.bytes.unwrap_or(0), back.packets, back.bytes.unwrap_or(0)];
            history.record(EDGE, name, tenant.as_deref(), &values);
        }
        for (tenant, sum) in &sums.tenants {
            history.record(TENANT, tenant, Some(tenant), &sum.counted);
        }
        keep_workers(&mut history, account, &self.host.fleet().busy());
        for (pool, free, all) in &account.pools {
            history.record(POOL, pool, None, &[*free as u64, *all as u64]);
        }
        history.record(HOST, "host", None, &sums.host);
        history.end();
        sums.end();
    }

    /// Names and owners of a graph's edges: a tenant's are those between two nodes of the tenant.
    fn edges(&self, mut graph: Graph, wiring: &Wiring) -> Vec<(String, Option<String>)> {
        self.name_parts(&mut graph, wiring);
        let tenants: HashMap<&str, Option<&str>> =
            graph.nodes.iter().map(|node| (node.name.as_str(), node.tenant.as_deref())).collect();
        let owner = |edge: &GraphEdge| {
            let of = |name: &String| tenants.get(name.as_str()).copied().flatten();
            of(&edge.from).filter(|tenant| of(&edge.to) == Some(*tenant)).map(str::to_owned)
        };
        graph.edges.iter().map(|edge| (name_of(edge), owner(edge))).collect()
    }
}

fn keep_functions(history: &mut History, account: &Account, wiring: &Wiring, sums: &mut Sums) {
    let clock = guest_wasm::watchdog::clock();
    for function in &account.instances {
        let tenant = wiring.shown_to(&function.name);
        let values = values_of_function(function, clock);
        sums.function(&function.name, tenant, [values[0], values[1], values[2], values[4]]);
        let Some(at) = history.record(FUNCTION, &function.name, tenant, &values) else { continue };
        if history.wants_minute(at) {
            let own = function.own_drops.iter().map(|(name, count)| (name.as_str(), *count));
            let dropped = &function.ledger.dropped;
            let reasons = reasons(|reason| dropped[reason], function.own_drops.is_empty());
            history.record_minute(at, reasons.chain(own), parts(&function.latencies));
        }
    }
}

fn keep_containers(history: &mut History, containers: &BTreeMap<String, ContainerReading>, sums: &mut Sums) {
    for (name, reading) in containers {
        let values = values_of_container(reading);
        // What its ports lose is in the sums as theirs.
        sums.function(name, Some(&reading.tenant), [values[0], values[1], values[2], 0]);
        let Some(at) = history.record(FUNCTION, name, Some(&reading.tenant), &values) else { continue };
        if history.wants_minute(at) {
            let reasons = reasons(|reason| reading.dropped[reason], true);
            history.record_minute(at, reasons, parts(&reading.latencies));
        }
    }
}

fn keep_ports(history: &mut History, account: &Account, wiring: &Wiring, sums: &mut Sums) {
    for port in &account.ports {
        let tenant = wiring.ports.get(&port.name).map(|port| port.tenant.as_str());
        let values = values_of_port(port);
        let [received, received_bytes, delivered, delivered_bytes, drops, ..] = values;
        sums.port(&port.name, tenant, [received, received_bytes, delivered, delivered_bytes, drops]);
        let Some(at) = history.record(PORT, &port.name, tenant, &values) else { continue };
        if history.wants_minute(at) {
            let dropped = &port.counters.ledger.dropped;
            history.record_minute(at, reasons(|reason| dropped[reason], true), parts(&port.latencies));
        }
    }
}

fn keep_workers(history: &mut History, account: &Account, busy: &[Cycles]) {
    let ns = |cycles: Cycles| guest_wasm::watchdog::clock().span(cycles).0;
    let mut name = String::new();
    for (number, time) in account.workers.iter().enumerate() {
        name.clear();
        // Text can always be written.
        let _ = write!(name, "{number}");
        let functions = busy.get(number).copied().unwrap_or(Cycles(0));
        let values = [ns(functions), ns(time.overhead), ns(time.asleep), ns(time.withheld)];
        history.record(WORKER, &name, None, &values);
    }
}

/// Another number for other edges, or other owners of nodes: devices may have changed already while the
/// wiring that is known is the one before.
fn fingerprint(graph: &Graph) -> u64 {
    let mut hasher = DefaultHasher::new();
    for GraphEdge { kind, from, from_part, to, to_part, .. } in &graph.edges {
        (*kind as u8, from, from_part, to, to_part).hash(&mut hasher);
    }
    graph.nodes.iter().for_each(|node| (&node.name, &node.tenant).hash(&mut hasher));
    // 0 stands for none.
    hasher.finish().max(1)
}

/// An edge by its kind and ends, as the graph has them.
fn name_of(edge: &GraphEdge) -> String {
    let kind = match edge.kind {
        EdgeKind::Wire => "wire",
        EdgeKind::Over => "over",
        EdgeKind::Opens => "opens",
        EdgeKind::Observes => "observes",
        EdgeKind::Leads => "leads",
    };
    let end = |name: &str, part: Option<&str>| match part {
        Some(part) => format!("{name}:{part}"),
        None => name.to_owned(),
    };
    let (from, to) = (end(&edge.from, edge.from_part.as_deref()), end(&edge.to, edge.to_part.as_deref()));
    format!("{kind}/{from}~{to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_what_came_by_functions_that_are_gone() {
        let mut sums = Sums::default();
        let mut step = |functions: &[(&str, u64)]| {
            sums.step += 1;
            for (name, count) in functions {
                sums.function(name, Some("red"), [*count, 10 * count, 3 * count, 2 * count]);
            }
            sums.end();
            let red = sums.tenants.get("red").map(|red| red.counted);
            (red, sums.host[5], sums.functions.len())
        };
        assert_eq!(step(&[("a", 1000), ("b", 50)]), (Some([0; 4]), 0, 2), "what was before is of no step");
        assert_eq!(step(&[("a", 1010), ("b", 60)]), (Some([20, 200, 60, 40]), 60, 2));
        assert_eq!(step(&[("b", 61)]), (Some([21, 210, 63, 42]), 63, 1));
        // It is there again, and b was made anew.
        assert_eq!(step(&[("a", 7), ("b", 3)]), (Some([24, 240, 72, 48]), 72, 2));
        assert_eq!(step(&[("a", 9), ("b", 3)]), (Some([26, 260, 78, 52]), 78, 2));
        assert_eq!(step(&[]), (None, 78, 0));
    }

    #[test]
    fn an_edge_is_named_by_its_ends() {
        let edge = GraphEdge {
            kind: EdgeKind::Wire,
            from: "lan".into(),
            from_part: None,
            to: "fw".into(),
            to_part: Some("inside".into()),
            there: None,
            back: None,
            drops: None,
        };
        assert_eq!(name_of(&edge), "wire/lan~fw:inside");
        let graph = Graph { edges: vec![edge.clone()], ..Graph::default() };
        let other = Graph { edges: vec![GraphEdge { to_part: None, ..edge.clone() }], ..Graph::default() };
        let busy = Graph { edges: vec![GraphEdge { drops: Some(7), ..edge }], ..Graph::default() };
        assert!(fingerprint(&graph) == fingerprint(&busy) && fingerprint(&graph) != fingerprint(&other));
    }
}
