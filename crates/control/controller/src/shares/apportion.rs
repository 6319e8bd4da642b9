//! What containers may use of the processors next, worked out of what they and their worker used lately: a
//! state machine without a clock of its own.
//!
//! 1. [`Apportionment::decide`] is told what was read over a span: of each container what the engine used for
//!    its packets and what its processes used, of a worker how long it ran and how long it waited for a
//!    processor.
//! 2. Those beside a worker are due what they are promised of its core, and what the functions of the worker
//!    leave, by weight; no container more than its cap. Others are due their cap.
//! 3. What a container is due is the sum of both: its processes may use what the engine does not, and the
//!    engine for its packets what the processes do not, or half.
//! 4. A container that wanted all and was given less, or more, than it was due is owed the difference, up to
//!    [`CREDIT`]: so it gets what it is due in the long run, whatever the kernel makes of a quota. Where all
//!    was used and less was there than was due, all were due that much less.
//! 5. Functions use what they want as long as no container is short. When one is, and nothing of the core is
//!    idle, their tenants are held to what they are promised ([`Decision::hold`]), until the core has time to
//!    spare.
//!
//! Times are parts of one processor: 1 is a whole one.

use std::collections::BTreeMap;

/// Of the processors beside a worker this much is given to no container beyond its promise.
const HEADROOM: f64 = 0.02;
/// The least that processes may use, so that they can show that they want more.
const FLOOR: f64 = 0.02;
/// Processes that used so much of what they might have want more.
const GREEDY: f64 = 0.9;
/// One that wants no more may want so much more soon.
const ROOM: f64 = 0.05;
/// The most that is owed, or was given too much, in seconds of a processor.
const CREDIT: f64 = 0.1;
/// Over how many seconds what is owed is given.
const REPAID: f64 = 0.5;
/// One that wants more and gets less than it is promised, by more than this, is short.
const SHORT: f64 = 0.01;
/// A core with less idle time is busy, and one with more has time to spare.
const BUSY: f64 = 0.05;
const SPARE: f64 = 0.12;

/// What a worker did over a span, in parts of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WorkerSpan {
    /// Processors that it may run on.
    pub(super) processors: f64,
    /// Its thread had one.
    pub(super) ran: f64,
    /// Its thread waited for one.
    pub(super) waited: f64,
}

/// What a container did over a span, in processors, and what it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ContainerSpan {
    pub(super) weight: f64,
    pub(super) cap: Option<f64>,
    /// The part of its worker's core, where it stays beside one.
    pub(super) promised: Option<f64>,
    /// For its packets.
    pub(super) engine: f64,
    pub(super) processes: f64,
}

/// What a container may use next, in processors; `None`: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Grant {
    pub(super) processes: Option<f64>,
    /// For its packets.
    pub(super) engine: Option<f64>,
}

/// What is to be set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    pub(super) grants: BTreeMap<String, Grant>,
    /// The tenants of the worker are to be held to what they are promised.
    pub(super) hold: bool,
}

/// What is known of a container from one span to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    grant: Grant,
    /// What it was due, both together.
    due: Option<f64>,
    /// What it is owed, in seconds of a processor.
    credit: f64,
}

/// See the module's documentation. There is one for the containers beside each worker, and one for all
/// others.
#[derive(Debug, Default)]
pub(super) struct Apportionment {
    known: BTreeMap<String, Known>,
    hold: bool,
}

/// Which of its parts wanted more than it might use.
#[derive(Clone, Copy, Debug, Default)]
struct Greed {
    processes: bool,
    engine: bool,
}

impl Greed {
    fn any(self) -> bool {
        self.processes || self.engine
    }
}

impl Known {
    fn greed(&self, span: &ContainerSpan) -> Greed {
        let at = |used: f64, most: Option<f64>| most.is_none_or(|most| used >= GREEDY * most);
        Greed {
            processes: at(span.processes, self.grant.processes),
            engine: at(span.engine, self.grant.engine),
        }
    }

    /// Takes note of what it used, when so much of what was due was there.
    fn settle(&mut self, seconds: f64, span: &ContainerSpan, greed: Greed, there: f64) {
        let Some(due) = self.due else { return };
        let owed = self.credit + (due * there - span.engine - span.processes) * seconds;
        // What one does not want is not owed to it.
        let most = if greed.any() { CREDIT } else { 0.0 };
        self.credit = owed.clamp(-CREDIT, most);
    }

    /// Divides what it is due.
    fn divide(&mut self, due: f64, span: &ContainerSpan, greed: Greed) -> Grant {
        let sum = (due + self.credit / REPAID).max(FLOOR);
        // One that has just come has shown nothing yet.
        let new = self.due.is_none();
        self.due = Some(due);
        let wanted = if greed.processes && !new { f64::INFINITY } else { span.processes + ROOM };
        let engine = (sum - wanted).max(sum / 2.0);
        let expected = if greed.engine && !new { engine } else { span.engine.min(engine) };
        self.grant = Grant { processes: Some((sum - expected).max(FLOOR)), engine: Some(engine) };
        self.grant
    }
}

impl Apportionment {
    /// What containers may use next, after a span of so many seconds.
    pub(super) fn decide(
        &mut self,
        seconds: f64,
        worker: Option<&WorkerSpan>,
        containers: &BTreeMap<String, ContainerSpan>,
    ) -> Decision {
        self.known.retain(|name, _| containers.contains_key(name));
        let greeds: BTreeMap<&str, Greed> = containers
            .iter()
            .map(|(name, span)| (name.as_str(), self.known.entry(name.clone()).or_default().greed(span)))
            .collect();
        let there = worker.map_or(1.0, |worker| self.there(worker, containers, &greeds));
        let mut short = false;
        for (name, span) in containers {
            let known = self.known.entry(name.clone()).or_default();
            let promised = span.promised.unwrap_or(0.0).min(span.cap.unwrap_or(f64::INFINITY));
            // Its processes may be kept from the quota that they have by the worker itself.
            short |= span.engine + span.processes < promised - SHORT
                && span.processes > FLOOR / 2.0
                && known.due.is_some();
            known.settle(seconds, span, greeds[name.as_str()], there);
        }
        let dues = match worker {
            Some(worker) => {
                self.hold_or_not(worker, containers, short);
                self.dues(worker, containers, &greeds)
            }
            None => containers.iter().map(|(name, span)| (name.as_str(), span.cap)).collect(),
        };
        let mut decision = Decision { hold: self.hold, ..Decision::default() };
        for (name, span) in containers {
            let known = self.known.entry(name.clone()).or_default();
            let grant = match dues.get(name.as_str()).copied().flatten() {
                Some(due) => known.divide(due, span, greeds[name.as_str()]),
                None => {
                    *known = Known::default();
                    Grant::default()
                }
            };
            decision.grants.insert(name.clone(), grant);
        }
        decision
    }

    /// What part of all that was due was there: what none had is owed to none.
    fn there(
        &self,
        worker: &WorkerSpan,
        containers: &BTreeMap<String, ContainerSpan>,
        greeds: &BTreeMap<&str, Greed>,
    ) -> f64 {
        let (mut due, mut got) = (0.0, 0.0);
        for (name, span) in containers.iter().filter(|(name, _)| greeds[name.as_str()].any()) {
            due += self.known.get(name).and_then(|known| known.due).unwrap_or(0.0);
            got += span.engine + span.processes;
        }
        let there = got + idle(worker, containers).max(0.0);
        if there < due { there / due } else { 1.0 }
    }

    /// Whether the tenants of the worker are to be held to their promises.
    fn hold_or_not(
        &mut self,
        worker: &WorkerSpan,
        containers: &BTreeMap<String, ContainerSpan>,
        short: bool,
    ) {
        let idle = idle(worker, containers);
        if self.hold {
            self.hold = idle < SPARE;
        } else {
            self.hold = short && idle < BUSY;
        }
    }

    /// What each is due of the processors beside a worker.
    fn dues<'a>(
        &self,
        worker: &WorkerSpan,
        containers: &'a BTreeMap<String, ContainerSpan>,
        greeds: &BTreeMap<&str, Greed>,
    ) -> BTreeMap<&'a str, Option<f64>> {
        let engine: f64 = containers.values().map(|span| span.engine).sum();
        let promised: f64 = containers.values().filter_map(|span| span.promised).sum();
        // What functions want, and what the worker itself needs.
        let others = (worker.ran + worker.waited - engine).max(0.0);
        let whole = promised.max(worker.processors - others - HEADROOM);
        let want = |name: &str, span: &ContainerSpan| {
            let most = span.cap.unwrap_or(f64::INFINITY);
            if greeds[name].any() { most } else { most.min(span.engine + span.processes + ROOM) }
        };
        let wants: Vec<(f64, f64)> =
            containers.iter().map(|(name, span)| (span.weight, want(name, span))).collect();
        let level = level(whole, wants);
        containers
            .iter()
            .map(|(name, span)| {
                let own = span.promised.unwrap_or(0.0).min(span.cap.unwrap_or(f64::INFINITY));
                (name.as_str(), Some((span.weight * level).min(want(name, span)).max(own)))
            })
            .collect()
    }
}

/// What nothing used of the processors beside a worker.
fn idle(worker: &WorkerSpan, containers: &BTreeMap<String, ContainerSpan>) -> f64 {
    worker.processors - worker.ran - containers.values().map(|span| span.processes).sum::<f64>()
}

/// How much there is for each unit of weight, when `whole` is shared by weight and none takes more than it
/// wants.
fn level(whole: f64, mut wants: Vec<(f64, f64)>) -> f64 {
    wants.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (mut whole, mut weights) = (whole, wants.iter().map(|(weight, _)| weight).sum::<f64>());
    for (weight, want) in wants {
        if want / weight >= whole / weights {
            return (whole / weights).max(0.0);
        }
        whole -= want;
        weights -= weight;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests;
