//! Where things run: the workers that a wiring asks for, and where its ports and functions begin.

use engine::{ThreadPlan, WorkerSettings};
use placement::{Graph, GraphFault, Kind, Part, PartFacts, Placement};
use std::collections::HashMap;
use telemetry::clock::Nanos;
use wiring::{Edge, Endpoint, Observation, PortIo, Wiring, Workers, container_of_port};

/// What workers are made with, and their threads. If `io`, one for ports with `io: thread` comes last.
pub(crate) fn threads(workers: &Workers, io: bool) -> (Vec<WorkerSettings>, Vec<ThreadPlan>) {
    let settings = WorkerSettings {
        slice: workers.slice,
        slack: workers.slack,
        quantum: workers.quantum,
        spin: workers.spin,
        spin_percent: workers.spin_percent,
        moderation: workers.moderation,
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
    if io {
        // What it brings is waited for.
        all.push(WorkerSettings { moderation: Nanos(0), ..settings });
        threads.push(ThreadPlan { name: "io".to_owned(), processors: None });
    }
    (all, threads)
}

/// On which worker everything is.
pub(crate) struct InitialPlacement {
    placement: Placement,
    parts: HashMap<String, Part>,
    io: usize,
}

impl InitialPlacement {
    /// Where everything of a wiring begins.
    ///
    /// # Errors
    /// [`GraphFault`], which a wiring that was checked does not have.
    pub(crate) fn of(wiring: &Wiring) -> Result<InitialPlacement, GraphFault> {
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
        let near = near_containers(wiring);
        for (name, _) in wiring.ports.iter().filter(|(_, port)| port.io == PortIo::Inline) {
            let pinned = near.get(name.as_str()).copied();
            add(name, PartFacts { pinned, ..PartFacts::new(Kind::Port) });
        }
        let part = |end: &Endpoint| match end {
            Endpoint::Switch(_) | Endpoint::Device(_) => None,
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
        // What a device connects: its ports, and those that open it.
        for (name, device) in &wiring.devices {
            let openers = wiring.edges.iter().filter_map(Edge::opening);
            let openers = openers.filter(|(_, opening)| opening.device == *name).map(|(end, _)| end.name());
            let ends = device.over.keys().map(String::as_str).chain(openers);
            let known: Vec<Part> = ends.filter_map(|name| parts.get(name).copied()).collect();
            graph.wires.extend(known.windows(2).map(|pair| (pair[0], pair[1])));
        }
        let beside = |seen: &Observation| {
            let at = seen.at.beside().filter(|_| wiring.instances.contains_key(&seen.observer))?;
            Some((*parts.get(&seen.observer)?, *parts.get(at)?))
        };
        // What an observer need not be beside, it is served best beside.
        for seen in wiring.observations.iter().filter(|seen| beside(seen).is_none()) {
            let Some(observer) = parts.get(&seen.observer).copied() else { continue };
            let near = seen.at.names().filter_map(|name| parts.get(name).copied());
            graph.wires.extend(near.map(|at| (observer, at)));
        }
        graph.together = wiring.observations.iter().filter_map(beside).collect();
        Ok(InitialPlacement { placement: Placement::new(&graph, workers)?, parts, io: workers })
    }

    /// The worker of a port or a function.
    pub(crate) fn of_name(&self, name: &str) -> usize {
        self.parts.get(name).map_or(self.io, |part| self.placement.worker_of(*part))
    }
}

/// Ports of containers that stay on a worker, and those that are wired to them, with that worker.
fn near_containers(wiring: &Wiring) -> HashMap<&str, usize> {
    let worker = |port: &str| wiring.containers.get(container_of_port(port)?)?.worker;
    let mut near = HashMap::new();
    if wiring.containers.values().all(|container| container.worker.is_none()) {
        return near;
    }
    for edge in &wiring.edges {
        let [a, b] = edge.ends();
        if let (Endpoint::Port(a), Endpoint::Port(b)) = (a, b)
            && let Some(there) = worker(a).or_else(|| worker(b))
        {
            near.insert(a.as_str(), worker(a).unwrap_or(there));
            near.insert(b.as_str(), worker(b).unwrap_or(there));
        }
    }
    let own = wiring.ports.keys().filter_map(|port| Some((port.as_str(), worker(port)?)));
    near.extend(own);
    near
}

#[cfg(test)]
mod tests {
    use super::threads;
    use crate::catalog::Catalog;
    use engine::WorkerSettings;
    use std::path::Path;
    use wiring::{Wiring, Workers};

    #[test]
    fn defaults_are_the_engines_wherever_they_stand() {
        let told = |workers: &[WorkerSettings]| format!("{workers:?}");
        let engine = told(&[WorkerSettings::default()]);
        let wiring = Wiring { workers: Workers::default(), ..Wiring::default() };
        assert_eq!(told(&threads(&wiring.workers, false).0), engine, "the wiring's");
        let catalog = Catalog::new(Path::new("."));
        // Without the section, and by its schema.
        for text in ["superfluid: 1\n", "superfluid: 1\nworkers: {}\n", "superfluid: 1\nworkers: 1\n"] {
            let read = config::check("test.yaml", text, &catalog).expect("a file without anything is good");
            assert_eq!(told(&threads(&read.wiring.workers, false).0), engine, "{text:?}");
        }
    }
}
