//! Who works where: the workers that a wiring asks for, where its ports and functions begin, and who moves when the load does.

use clock::Nanos;
use engine::{Account, End, Fleet, FleetInstance, FleetPort, ThreadPlan, WorkerSettings};
use placement::{Graph, GraphFault, Kind, Move, Part, PartFacts, Placement, Reason};
use std::collections::HashMap;
use wiring::{Endpoint, PortIo, Wiring};

/// The workers of a wiring: what they are made with, and their threads. A worker for ports with `io: thread` comes last.
pub(crate) fn threads(wiring: &Wiring) -> (Vec<WorkerSettings>, Vec<ThreadPlan>) {
    let workers = &wiring.workers;
    let settings = WorkerSettings {
        slice: workers.slice,
        slack: workers.slack,
        spin: workers.spin,
        spin_percent: workers.spin_percent,
        rest: workers.rest,
        ..WorkerSettings::default()
    };
    let mut all = vec![settings; workers.list.len()];
    let mut threads: Vec<_> = (0..)
        .zip(&workers.list)
        .map(|(number, plan): (usize, _)| ThreadPlan {
            name: format!("worker-{number}"),
            processors: plan.processors.clone(),
        })
        .collect();
    if wiring.ports.values().any(|port| port.io == PortIo::Thread) {
        // What it brings is waited for.
        all.push(WorkerSettings { rest: Nanos(0), ..settings });
        threads.push(ThreadPlan { name: "io".to_owned(), processors: None });
    }
    (all, threads)
}

/// On which worker everything is.
pub(crate) struct Places {
    placement: Placement,
    parts: HashMap<String, Part>,
    io: usize,
}

impl Places {
    /// Where everything of a wiring begins.
    ///
    /// # Errors
    /// [`GraphFault`], which a wiring that was checked does not have.
    pub(crate) fn of(wiring: &Wiring) -> Result<Places, GraphFault> {
        let workers = wiring.workers.list.len();
        let homes = wiring.homes();
        let (mut graph, mut parts) = (Graph::default(), HashMap::new());
        let mut add = |name: &String, facts: PartFacts| {
            parts.insert(name.clone(), Part(graph.parts.len() as u32));
            graph.parts.push(facts);
        };
        for name in wiring.instances.keys() {
            let pinned = homes.get(name.as_str()).copied();
            add(name, PartFacts { pinned, ..PartFacts::new(Kind::Instance) });
        }
        // Ports that the I/O worker serves are on none of the others.
        for (name, _) in wiring.ports.iter().filter(|(_, port)| port.io == PortIo::Inline) {
            add(name, PartFacts::new(Kind::Port));
        }
        let part = |end: &Endpoint| match end {
            Endpoint::Switch(_) => None,
            end => parts.get(end.name()).copied(),
        };
        graph.wires = wiring
            .edges
            .iter()
            .filter_map(|edge| {
                let [a, b] = edge.ends();
                Some((part(a)?, part(b)?))
            })
            .collect();
        graph.together = wiring
            .observations
            .iter()
            .filter_map(|seen| Some((*parts.get(&seen.observer)?, *parts.get(&seen.at)?)))
            .collect();
        Ok(Places { placement: Placement::new(&graph, workers)?, parts, io: workers })
    }

    /// The worker of a port or a function.
    pub(crate) fn of_name(&self, name: &str) -> usize {
        self.parts.get(name).map_or(self.io, |part| self.placement.worker_of(*part))
    }

    /// Who keeps the workers equally busy from here on.
    pub(crate) fn balancer(
        self,
        ports: &HashMap<String, FleetPort>,
        instances: &HashMap<String, FleetInstance>,
    ) -> Balancer {
        let mut parts: Vec<_> = self.parts.into_iter().collect();
        parts.sort_by_key(|(_, part)| *part);
        let ends = parts
            .iter()
            .map(|(name, _)| match (instances.get(name), ports.get(name)) {
                (Some(instance), _) => Some(End::Instance(*instance, 0)),
                (None, port) => port.map(|port| End::Port(*port)),
            })
            .collect();
        let names = parts.into_iter().map(|(name, _)| name).collect();
        Balancer { placement: self.placement, names, ends, before: None }
    }
}

/// Moves functions between workers when that keeps the workers busy, and chains together when it can.
pub(crate) struct Balancer {
    placement: Placement,
    /// By part.
    names: Vec<String>,
    ends: Vec<Option<End>>,
    before: Option<Account>,
}

impl Balancer {
    /// Looks at what everybody has used since the last time, and moves whoever is to move. Returns what there is to say of it.
    pub(crate) fn look(&mut self, fleet: &Fleet, now: &Account) -> Option<String> {
        let before = self.before.replace(now.clone())?;
        let core = now.at.cycles.since(before.at.cycles).0.max(1) as f64;
        let used = |account: &Account, name: &str| {
            account.instances.iter().find(|instance| instance.name == name).map_or(0, |found| found.cycles.0)
        };
        let busy: Vec<f64> = self
            .names
            .iter()
            .map(|name| used(now, name).saturating_sub(used(&before, name)) as f64 / core)
            .collect();
        let Move { parts, to, why } = self.placement.observe(&busy)?;
        let index = |part: &Part| part.0 as usize;
        let ends: Vec<End> =
            parts.iter().filter_map(|part| self.ends.get(index(part)).copied().flatten()).collect();
        let names: Vec<&str> =
            parts.iter().filter_map(|part| self.names.get(index(part))).map(String::as_str).collect();
        let why = match why {
            Reason::Relief => "the other one is short of time",
            Reason::Cut => "one worker alone cannot do all of its chain",
            Reason::Join => "it fits together with its chain again",
        };
        match fleet.move_to(&ends, to) {
            Ok(moved) => Some(format!(
                "moved to worker {to} in {:.0} us, because {why}: {}",
                moved.stood_still.0 as f64 / 1e3,
                names.join(", ")
            )),
            // Somebody is in the middle of a call, which the next period may find ended; or all have stopped.
            Err(_) => {
                self.placement.refused();
                None
            }
        }
    }
}
