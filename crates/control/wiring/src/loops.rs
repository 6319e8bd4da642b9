//! Loops: ways by which a frame comes back to where it was.
//!
//! A *hub* hands a frame to all others that are wired to it: a switch, and a rootless device. A function is
//! taken to let what comes by interface 0 leave by 1 and the other way round, as in chains
//! ([`SENDING_INTERFACES`]) and as one that fails open does. Devices over ports end a way: what their openers
//! send leaves the host. Then
//!
//! | what leads round | is |
//! |---|---|
//! | functions, one after the other, from a hub back to the same hub | a [`Loop`] |
//! | functions that are wired in a ring | a [`Loop`] |
//! | ways from one hub to another beside another way between them | a [`Detour`]: the platform does not know whether one of the functions ends frames, as a router does |
//!
//! What goes round when packets pass, be it by services or by what functions make of packets, is bounded by
//! the hop budget.

use crate::{Endpoint, Instance, SENDING_INTERFACES, Wiring, container_port};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use virtual_device::Mode;

/// A way that leads back to where it began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loop {
    /// Where it begins.
    pub first: Endpoint,
    /// Where it ends.
    pub second: Endpoint,
    /// The switch or device that both are at; `None`: they are wired to each other.
    pub hub: Option<String>,
}

/// A second way between two switches or rootless devices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Detour {
    /// Where the first way leaves one of them.
    pub first: Endpoint,
    /// Where the second way leaves it.
    pub second: Endpoint,
    /// Which it leaves, and which it comes to.
    pub hubs: [String; 2],
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loop { first, second, hub } = self;
        match hub {
            Some(hub) => write!(f, "`{first}` and `{second}` are both at `{hub}`: frames would go round"),
            None => write!(f, "`{first}` and `{second}` lead into each other: packets would go round"),
        }
    }
}

/// What a wire leads to.
#[derive(Clone)]
enum Next<'a> {
    End(&'a Endpoint),
    Hub(&'a str),
}

/// The ways through a wiring.
struct Ways<'a> {
    wiring: &'a Wiring,
    next: BTreeMap<&'a Endpoint, Next<'a>>,
    /// Interfaces of containers: the port of the other side.
    sides: BTreeMap<Endpoint, Endpoint>,
}

impl Wiring {
    /// The loops in it.
    pub fn loops(&self) -> Vec<Loop> {
        let ways = Ways::of(self);
        let mut loops: Vec<Loop> = ways
            .between_hubs()
            .filter(|way| way.hubs[0] == way.hubs[1])
            // Two interfaces of one function at a device are told with what opens it.
            .filter(|way| {
                way.first.function() != way.last.function() || !self.devices.contains_key(way.hubs[0])
            })
            .map(|way| Loop { first: way.first, second: way.last, hub: Some(way.hubs[0].to_owned()) })
            .collect();
        loops.extend(ways.rings());
        loops.sort();
        loops
    }

    /// The ways that are a second one between two hubs.
    pub fn detours(&self) -> Vec<Detour> {
        let ways = Ways::of(self);
        // What has been found to be connected: for each hub the others, and where the way there begins.
        let mut known: BTreeMap<&str, Vec<(&str, Endpoint)>> = BTreeMap::new();
        let mut detours = Vec::new();
        for way in ways.between_hubs().filter(|way| way.hubs[0] != way.hubs[1]) {
            let [from, to] = way.hubs;
            if let Some(first) = first_of_way(&known, from, to) {
                let hubs = [from.to_owned(), to.to_owned()];
                detours.push(Detour { first, second: way.first, hubs });
                continue;
            }
            known.entry(from).or_default().push((to, way.first));
            known.entry(to).or_default().push((from, way.last));
        }
        detours
    }
}

/// Where a way from one hub to another begins, if there is one.
fn first_of_way(known: &BTreeMap<&str, Vec<(&str, Endpoint)>>, from: &str, to: &str) -> Option<Endpoint> {
    let mut seen = BTreeSet::from([from]);
    let mut waiting: VecDeque<(&str, Option<&Endpoint>)> = VecDeque::from([(from, None)]);
    while let Some((hub, first)) = waiting.pop_front() {
        if hub == to {
            return first.cloned();
        }
        for (other, end) in known.get(hub).into_iter().flatten() {
            if seen.insert(*other) {
                waiting.push_back((*other, first.or(Some(end))));
            }
        }
    }
    None
}

/// A way from hub to hub.
struct Way<'a> {
    /// Where it leaves the first one.
    first: Endpoint,
    /// Where it comes to the second one.
    last: Endpoint,
    hubs: [&'a str; 2],
}

impl<'a> Ways<'a> {
    fn of(wiring: &'a Wiring) -> Ways<'a> {
        let observers: BTreeSet<&str> =
            wiring.observations.iter().map(|seen| seen.observer.as_str()).collect();
        let mut next = BTreeMap::new();
        let mut openers: BTreeMap<&str, Vec<&Endpoint>> = BTreeMap::new();
        for edge in &wiring.edges {
            match edge.ends() {
                [Endpoint::Switch(hub), end] | [end, Endpoint::Switch(hub)] => {
                    next.insert(end, Next::Hub(hub.as_str()));
                }
                [Endpoint::Device(opening), end] | [end, Endpoint::Device(opening)] => {
                    let device = wiring.devices.get(&opening.device);
                    // An observer sends there and gets nothing.
                    if device.is_some_and(|it| it.mode == Mode::Rootless) && !observers.contains(end.name()) {
                        openers.entry(&opening.device).or_default().push(end);
                    }
                }
                [a, b] => {
                    next.insert(a, Next::End(b));
                    next.insert(b, Next::End(a));
                }
            }
        }
        for (device, ends) in openers {
            match ends.as_slice() {
                [a, b] if a.function() != b.function() => {
                    next.insert(*a, Next::End(b));
                    next.insert(*b, Next::End(a));
                }
                _ => next.extend(ends.iter().map(|end| (*end, Next::Hub(device)))),
            }
        }
        let mut sides = BTreeMap::new();
        for (name, container) in &wiring.containers {
            if let [a, b, ..] = &container.interfaces[..] {
                let [a, b] = [a, b].map(|it| Endpoint::Port(container_port(name, &it.name)));
                sides.insert(a.clone(), b.clone());
                sides.insert(b, a);
            }
        }
        Ways { wiring, next, sides }
    }

    /// By which interface that leaves which comes by another.
    fn through(&self, end: &Endpoint) -> Option<Endpoint> {
        match end {
            Endpoint::Interface(name, number) if *number < SENDING_INTERFACES => {
                let has_both = |it: &&Instance| it.interfaces >= SENDING_INTERFACES;
                self.wiring.instances.get(name).filter(has_both)?;
                Some(Endpoint::Interface(name.clone(), 1 - number))
            }
            Endpoint::Port(_) => self.sides.get(end).cloned(),
            Endpoint::Interface(..) | Endpoint::Switch(_) | Endpoint::Device(_) => None,
        }
    }

    /// Each way from a hub through functions to a hub, once.
    fn between_hubs(&self) -> impl Iterator<Item = Way<'a>> + '_ {
        self.next.iter().filter_map(move |(end, next)| {
            let Next::Hub(from) = next else { return None };
            let mut at = (*end).clone();
            // No function is passed twice, because each interface has one wire.
            for _ in 0..=self.next.len() {
                let out = self.through(&at)?;
                match self.next.get(&out)? {
                    Next::End(peer) => at = (*peer).clone(),
                    Next::Hub(to) => {
                        let way = Way { first: (*end).clone(), last: out, hubs: [*from, *to] };
                        return (way.first < way.last).then_some(way);
                    }
                }
            }
            None
        })
    }

    /// Functions that are wired in a ring.
    fn rings(&self) -> Vec<Loop> {
        let (mut rings, mut seen) = (Vec::new(), BTreeSet::new());
        for start in self.next.keys() {
            let mut at = (*start).clone();
            while seen.insert(at.clone()) {
                let Some(out) = self.through(&at) else { break };
                let Some(Next::End(peer)) = self.next.get(&out) else { break };
                // The same way the other way round.
                seen.insert(out.clone());
                if peer == start {
                    rings.push(Loop { first: (*peer).clone(), second: out, hub: None });
                    break;
                }
                at = (*peer).clone();
            }
        }
        rings
    }
}
