//! Hosts that carry out what is wanted: stock images on a real fleet, with ports that need no kernel.

mod desired;
mod device_changes;
mod devices;
mod hand_over;
mod lives;
mod memory;
mod moves;
mod own;
mod plans;
mod restoring;
mod services;
mod shares;
mod taking;

use crate::{
    Beginning, CarriedOut, Catalog, Checked, Desired, Host, Material, ObjectChange, PrepareError, Succession,
    TakenOver, WORKERS_LATER,
};
use api::{Fault, Kind};
use engine::Account;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};
use wiring::{Plan, WorkerPlan, Workers};

/// A host, and what is wanted of it.
struct Rig {
    host: Host,
    desired: Desired,
    catalog: Catalog,
}

impl Rig {
    /// A host with so many workers, whose threads have not started.
    fn new(workers: usize) -> Rig {
        let plan = Workers { list: vec![WorkerPlan::default(); workers], ..Workers::default() };
        let host = Host::new(&plan, false, |_| {}).expect("a host");
        let mut desired = Desired::default();
        desired.take_over([put(Kind::Workers, "workers", json!({"count": workers}))]);
        Rig { host, desired, catalog: Catalog::new(Path::new(".")) }
    }

    fn check(&self, changes: &[ObjectChange]) -> Result<Plan, Vec<Fault>> {
        self.check_anew(changes, &[]).map(|checked| checked.plan)
    }

    fn check_anew(&self, changes: &[ObjectChange], anew: &[String]) -> Result<Checked, Vec<Fault>> {
        let material = Material::of(&self.catalog);
        loop {
            let checked = self.desired.check(changes, anew, &self.host, &material);
            if !material.gather() {
                return checked;
            }
        }
    }

    /// Does what is wanted, which has to be right.
    fn apply(&mut self, changes: &[ObjectChange]) -> CarriedOut {
        self.apply_with(changes, HashMap::new())
    }

    fn apply_with(&mut self, changes: &[ObjectChange], beginnings: HashMap<String, Beginning>) -> CarriedOut {
        let anew: Vec<String> = beginnings.keys().cloned().collect();
        let checked = self.check_anew(changes, &anew).expect("right");
        let prepared = self.host.prepare(checked.plan, beginnings, &self.catalog).expect("it can be made");
        let done = self.host.carry_out(prepared).expect("it has not stopped");
        assert_eq!(done.troubles, [""; 0]);
        self.desired.take_over(changes.iter().cloned());
        done
    }

    /// Lets another guest take over from the function `f`.
    fn take_over(&self, instance: &wiring::Instance) -> Result<TakenOver, PrepareError> {
        self.host.take_over("f", instance, &self.catalog)
    }

    fn account(&self) -> Account {
        let account = self.host.fleet().account(false).expect("it has not stopped");
        account.balance().expect("balanced");
        account
    }

    /// All that can be seen of a host whose workers stand still.
    fn picture(&self) -> String {
        let Account {
            at: _,
            at_one_moment: _,
            ledger,
            in_flight,
            ports,
            instances,
            switches,
            devices,
            port_devices,
            workers: _,
            pools,
        } = self.account();
        format!(
            "{:?}\n{ledger:?} {in_flight} {ports:?} {instances:?} {switches:?} {devices:?} {port_devices:?} {pools:?}",
            self.host.wiring()
        )
    }

    fn packets(&self, function: &str) -> u64 {
        self.host.account_of(function).expect("it is there").packets
    }

    /// Waits until a function has got more packets.
    fn moves(&self, function: &str) {
        let before = self.packets(function);
        wait(&format!("packets pass {function}"), || self.packets(function) > before + 100);
    }
}

/// Waits for half a minute at most.
fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let began = Instant::now();
    while !until() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn put(kind: Kind, name: &str, spec: Value) -> ObjectChange {
    ObjectChange { kind, name: name.to_owned(), spec: Some(spec) }
}

fn delete(kind: Kind, name: &str) -> ObjectChange {
    ObjectChange { kind, name: name.to_owned(), spec: None }
}

fn function(name: &str, spec: Value) -> ObjectChange {
    put(Kind::Function, name, spec)
}

/// A tenant with a source and a sink, and a forwarder between them, which comes last.
fn chain() -> Vec<ObjectChange> {
    vec![
        put(Kind::Tenant, "default", json!({"pool": {"buffers": 2048, "pages": "ordinary"}})),
        put(Kind::Port, "source", json!({"type": "generator", "rate": "50kpps", "flows": 10})),
        put(Kind::Port, "out", json!({"type": "sink"})),
        function("f", forwarder(json!({"left": "source", "right": "out"}))),
    ]
}

/// One that stalls only when the machine does.
fn forwarder(attach: Value) -> Value {
    json!({"image": "forwarder", "max_call": "10s", "attach": attach})
}

/// Two functions of a host that has ended.
pub(crate) fn two_instances() -> [engine::FleetInstance; 2] {
    let mut rig = Rig::new(1);
    let mut changes = chain();
    changes.push(function("g", forwarder(json!({}))));
    rig.apply(&changes);
    let deployed = rig.host.deployed();
    ["f", "g"].map(|name| deployed.instances[name])
}
