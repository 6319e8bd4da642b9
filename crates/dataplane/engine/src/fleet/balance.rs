//! Keeping workers equally busy: what moves is decided by a [`Placement`], which is told what each part used,
//! as far as it was needed.
//!
//! The life of a balancer:
//! 1. [`Balancer::new`] is told how many of the fleet's workers share the load, the first ones;
//!    [`Balancer::pin`] says which parts stay.
//! 2. [`Balancer::look`] is called again and again, after [`Balancer::pause`] each time. It reads how busy
//!    each worker was, which costs the workers nothing. Only when one is short of time while another has
//!    some, or now and then, is it read what each function used: one worker stands still for that at a time.
//!    Both stand still together only when something moves.
//! 3. When parts or wires come or go the fleet is arranged anew, with each part where it is.
//!
//! Limits: one move at a time. Changes of the wiring are taken in once a second at most; until then new parts
//! stay where they are. Parts on workers that do not share the load are left alone.

use super::Fleet;
use super::counters::GATHER;
use super::observations::Observation;
use super::state::{End, FleetInstance, State};
use crate::control::quiesce::Quiesced;
use crate::ids::SwitchId;
use crate::state::accounting::Calls;
use placement::{Graph, GraphFault, Kind, Move, Part, PartFacts, Placement, Reason};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Cycles, Nanos};

/// How often it is looked whether a worker is short of time, while one has much to do.
const SOON: Duration = Duration::from_millis(5);
/// The same while none has.
const LATER: Duration = Duration::from_millis(20);
/// The same while all have nearly nothing to do, and how often the use of all parts is read in any case.
const RARELY: Duration = Duration::from_millis(200);
/// Most often that changes of the wiring are taken in.
const ARRANGE_EVERY: Nanos = Nanos::from_millis(1000);
/// From here on a worker has much to do, as part of its time.
const MUCH: f64 = 0.5;
/// From here on it may be short of time.
const SHORT: f64 = 0.75;
/// By so much less busy is a worker that has some to spare.
const SPARE: f64 = 0.1;
/// Up to here a worker has nearly nothing to do.
const LITTLE: f64 = 0.1;
/// Looks and moves are not to take more than this part of a worker's time, in percent.
const LOOKING_PERCENT: u64 = 1;

/// The number of no change.
const NEVER: u64 = u64::MAX;

/// What a balancer has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balanced {
    /// Names of the ports and instances that moved.
    pub names: Vec<String>,
    /// The worker where they are now.
    pub to: usize,
    /// Why.
    pub why: Reason,
    /// From when the first worker was stopped until all went on.
    pub stood_still: Nanos,
}

/// See the module's documentation.
pub struct Balancer {
    workers: usize,
    pinned: BTreeMap<FleetInstance, usize>,
    arranged: Option<Arranged>,
    /// How busy each worker had been up to the last look, with which calls, and when that was.
    before: (Vec<(Cycles, Calls)>, Cycles),
    /// When the use of all parts is read at the latest.
    due: Nanos,
    /// When it may be read again.
    not_before: Nanos,
    pause: Duration,
}

/// A fleet as a placement sees it.
struct Arranged {
    placement: Placement,
    ends: Vec<End>,
    names: Vec<String>,
    /// What each part had used, and when.
    used: Vec<Use>,
    /// When each worker's was read, and what others had taken of its time.
    read: Vec<(Cycles, Cycles)>,
    /// What part of a core each part used, when that was last read.
    busy: Vec<f64>,
    /// The number of the fleet's last change that this knows of.
    change: u64,
    at: Nanos,
}

/// What a part has used so far.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    cycles: Cycles,
    calls: u64,
    packets: u64,
    /// Most packets of a call now.
    batch: usize,
}

impl Use {
    /// What was needed of what was used since then.
    fn needed_since(&self, before: &Use) -> Cycles {
        let (calls, packets) =
            (self.calls.saturating_sub(before.calls), self.packets.saturating_sub(before.packets));
        let calls = Calls { calls, packets, room: calls.saturating_mul(self.batch as u64) };
        calls.needed(self.cycles.since(before.cycles))
    }
}

impl Balancer {
    /// For the first `workers` of a fleet.
    pub fn new(workers: usize) -> Balancer {
        Balancer {
            workers,
            pinned: BTreeMap::new(),
            arranged: None,
            before: (Vec::new(), Cycles(0)),
            due: Nanos(0),
            not_before: Nanos(0),
            pause: LATER,
        }
    }

    /// Keeps an instance on a worker.
    pub fn pin(&mut self, instance: FleetInstance, worker: usize) {
        self.pinned.insert(instance, worker);
    }

    /// Lets an instance be where it is served best.
    pub fn unpin(&mut self, instance: FleetInstance) {
        self.pinned.remove(&instance);
    }

    /// How long to wait before the next look.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Looks how busy each worker is, and moves what is to move. `None`: nothing, or the fleet has stopped.
    pub fn look(&mut self, fleet: &Fleet) -> Option<Balanced> {
        let now = fleet.clock.moment();
        let (before, since) = std::mem::replace(&mut self.before, (fleet.called(), now.cycles));
        let passed = now.cycles.since(since).0.max(1) as f64;
        let shared = self.before.0.iter().take(self.workers).zip(&before);
        let loads = shared.map(|((busy, calls), (busy_before, calls_before))| {
            calls.beyond(*calls_before).needed(busy.since(*busy_before)).0 as f64 / passed
        });
        let (least, most) = loads.fold((1.0, 0.0), |(least, most), load| (load.min(least), load.max(most)));
        self.pause = match most {
            _ if most >= MUCH => SOON,
            _ if most >= LITTLE => LATER,
            _ => RARELY,
        };
        let short = most >= SHORT && most - least >= SPARE;
        if now.nanos < self.not_before || !short && now.nanos < self.due {
            return None;
        }
        self.due = now.nanos.saturating_add(RARELY.into());
        let (arranged, workers, pinned) = (self.arranged.take(), self.workers, self.pinned.clone());
        let clock = fleet.clock;
        let (arranged, moved, took) = fleet
            .with(move |fleet, state| {
                // One worker that is in a long call keeps the others from nothing: they are looked at another
                // time.
                if !fleet.gather_until(Instant::now() + GATHER) {
                    return Ok((arranged, None, None));
                }
                let is_current = |seen: &Arranged| {
                    seen.change == state.change || now.nanos < seen.at.saturating_add(ARRANGE_EVERY)
                };
                let Some(mut arranged) = arranged.filter(is_current) else {
                    let began = clock.now();
                    let mut arranged = state.arrange(fleet, workers, &pinned, now.nanos)?;
                    arranged.apply(fleet, state);
                    return Ok::<_, GraphFault>((Some(arranged), None, Some(clock.now().since(began))));
                };
                let looked = arranged.look(fleet, state, &clock);
                let moved = arranged.go_on(fleet, state);
                let stood_still = fleet.still_since().map_or(Nanos(0), |first| clock.now().since(first));
                let moved = moved.map(|(names, to, why)| Balanced { names, to, why, stood_still });
                Ok((Some(arranged), moved, Some(looked.saturating_add(stood_still))))
            })
            .ok()?
            // A part that is pinned to two workers at once was refused before; nothing moves.
            .ok()?;
        self.arranged = arranged;
        let Some(took) = took else {
            self.due = now.nanos;
            return None;
        };
        self.not_before = now.nanos.saturating_add(Nanos(took.0 * 100 / LOOKING_PERCENT));
        moved
    }
}

impl State {
    /// The fleet as a placement sees it.
    fn arrange(
        &self,
        workers: &Quiesced<'_>,
        shared: usize,
        pinned: &BTreeMap<FleetInstance, usize>,
        now: Nanos,
    ) -> Result<Arranged, GraphFault> {
        let (mut graph, mut parts, mut ends) = (Graph::default(), HashMap::new(), Vec::new());
        let mut add = |end: End, at: usize, facts: PartFacts| {
            if at < shared {
                parts.insert(end, Part(ends.len() as u32));
                graph.parts.push(PartFacts { at: Some(at), ..facts });
                ends.push(end);
            }
        };
        for (instance, home) in self.instances() {
            let pinned = pinned.get(&instance).copied();
            add(
                End::Instance(instance, 0),
                home.worker,
                PartFacts { pinned, ..PartFacts::new(Kind::Instance) },
            );
        }
        for (port, home) in self.ports() {
            let stays = workers[home.worker].ports.get(home.id.index()).is_some_and(|node| node.stays);
            let pinned = stays.then_some(home.worker);
            add(End::Port(port), home.worker, PartFacts { pinned, ..PartFacts::new(Kind::Port) });
        }
        let part = |end: End| match end {
            End::Instance(instance, _) => parts.get(&End::Instance(instance, 0)).copied(),
            End::Port(_) => parts.get(&end).copied(),
            End::Switch(..) => None,
        };
        graph.wires = self.neighbours().into_iter().filter_map(|(a, b)| Some((part(a)?, part(b)?))).collect();
        let observed = |seen: &Observation| {
            let (observer, at) = seen.pair()?;
            Some((part(End::Instance(observer, 0))?, part(End::Instance(at, 0))?))
        };
        graph.together = self.observations.iter().filter_map(observed).collect();
        let placement = Placement::new(&graph, shared)?;
        let names = ends.iter().map(|end| self.name_of(workers, *end)).collect();
        let used = ends.iter().map(|end| self.used_by(workers, *end)).collect();
        let present = workers[0].time.clock.read();
        let read = workers.iter().map(|worker| (present, worker.time.spent.withheld)).collect();
        Ok(Arranged { placement, ends, names, used, read, busy: Vec::new(), change: self.change, at: now })
    }

    /// Ends that exchange packets without another in between: those of wires, and those of a switch that only
    /// two are plugged into.
    fn neighbours(&self) -> Vec<(End, End)> {
        let mut plugged: BTreeMap<SwitchId, Vec<End>> = BTreeMap::new();
        let mut pairs = Vec::new();
        for wire in self.wires.values() {
            match (wire.from, wire.to) {
                (End::Switch(id, _), end) | (end, End::Switch(id, _)) => {
                    plugged.entry(id).or_default().push(end)
                }
                pair => pairs.push(pair),
            }
        }
        pairs.extend(
            plugged.into_values().filter_map(|ends| <[End; 2]>::try_from(ends).ok()).map(|[a, b]| (a, b)),
        );
        pairs
    }

    /// What an end has used so far. What ports take is charged to those they feed.
    fn used_by(&self, workers: &Quiesced<'_>, end: End) -> Use {
        let End::Instance(instance, _) = end else { return Use::default() };
        let Some(home) = self.instance(instance) else { return Use::default() };
        let worker = &workers[home.worker];
        worker.instances.get(home.id.index()).map_or_else(Use::default, |one| Use {
            cycles: worker.time.scheduler.used(one.entity),
            calls: one.counters.calls,
            packets: one.counters.packets,
            batch: one.batch,
        })
    }

    fn name_of(&self, workers: &Quiesced<'_>, end: End) -> String {
        let name = match end {
            End::Instance(instance, _) => self.instance(instance).and_then(|home| {
                workers[home.worker].instances.get(home.id.index()).map(|one| one.name.clone())
            }),
            End::Port(port) => self
                .port(port)
                .and_then(|home| workers[home.worker].ports.get(home.id.index()).map(|one| one.name.clone())),
            End::Switch(..) => None,
        };
        name.unwrap_or_default()
    }
}

impl Arranged {
    /// Brings each part where the placement has it: those that are wired to a pinned one, and observers.
    fn apply(&mut self, workers: &mut Quiesced<'_>, state: &mut State) {
        let homes = (0..).zip(&self.ends).map(|(part, end)| (self.placement.worker_of(Part(part)), *end));
        let mut elsewhere: BTreeMap<usize, Vec<End>> = BTreeMap::new();
        for (home, end) in homes.filter(|(home, end)| state.worker_of(*end) != Some(*home)) {
            elsewhere.entry(home).or_default().push(end);
        }
        self.change = state.change;
        for (home, ends) in elsewhere {
            match state.move_to(workers, &ends, home) {
                Ok(_) => self.change = state.change,
                // One of them is in the middle of a call: the fleet is arranged once more.
                Err(_) => self.change = NEVER,
            }
        }
    }

    /// Finds out what each part used since the last time, one worker after the other. Returns for how long
    /// one stood still for that, on average.
    fn look(&mut self, workers: &mut Quiesced<'_>, state: &State, clock: &Clock) -> Nanos {
        let homes: Vec<Option<usize>> = self.ends.iter().map(|end| state.worker_of(*end)).collect();
        self.busy.clear();
        self.busy.resize(homes.len(), 0.0);
        let mut stood_still = 0;
        for (number, read) in self.read.iter_mut().enumerate() {
            let worker = &workers[number];
            let (since, present) = (worker.time.now.nanos, (clock.read(), worker.time.spent.withheld));
            let before = std::mem::replace(read, present);
            // A core is what the worker had of it.
            let had = present.0.since(before.0).since(present.1.since(before.1)).0.max(1) as f64;
            let here = homes.iter().zip(&mut self.busy).zip(self.ends.iter().zip(&mut self.used));
            for ((_, busy), (end, before)) in here.filter(|((home, _), _)| **home == Some(number)) {
                let used = state.used_by(workers, *end);
                *busy = used.needed_since(&std::mem::replace(before, used)).0 as f64 / had;
            }
            workers.release(number);
            stood_still += clock.now().since(since).0;
        }
        Nanos(stood_still / self.read.len().max(1) as u64)
    }

    /// Tells the placement what each part used, and carries out what it answers.
    fn go_on(
        &mut self,
        workers: &mut Quiesced<'_>,
        state: &mut State,
    ) -> Option<(Vec<String>, usize, Reason)> {
        let Move { parts, to, why } = self.placement.observe(&self.busy).or_else(|| self.placement.help())?;
        let ends: Vec<End> = parts.iter().map(|part| self.ends[part.0 as usize]).collect();
        let known = |end: &End| match end {
            End::Instance(instance, _) => state.instance(*instance).is_some(),
            End::Port(port) => state.port(*port).is_some(),
            End::Switch(..) => false,
        };
        let there: Vec<End> = ends.into_iter().filter(known).collect();
        let before = state.change;
        match state.move_to(workers, &there, to) {
            Ok(_) => {
                if self.change == before {
                    self.change = state.change;
                }
                let names = parts.iter().map(|part| self.names[part.0 as usize].clone()).collect();
                Some((names, to, why))
            }
            // One of them is in the middle of a call, which the next look may find ended.
            Err(_) => {
                self.placement.refused();
                None
            }
        }
    }
}
