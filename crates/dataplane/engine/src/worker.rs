//! A worker: the owners of its state, how it is made, and how its thread goes on.
//!
//! What happens to packets is in [`crate::path`], beginning with [`Worker::turn`]; what is done to a worker
//! between two turns, in [`crate::control`].

use crate::control::board::Viewer;
use crate::control::events::Event;
use crate::control::quiesce::Remote;
use crate::control::upkeep::Upkeep;
use crate::ids::{Holder, PoolId, SwitchId, Target};
use crate::parking::Parking;
use crate::parking::slot::Asked;
use crate::path::devices::IN_A_ROW;
use crate::path::switching::SwitchNode;
use crate::state::Batches;
use crate::state::accounting::{Accounting, NO_INSTANCE};
use crate::state::backpressure::Backpressure;
use crate::state::instances::Instance;
use crate::state::ports::{Polling, PortNode};
use crate::state::sparse::Sparse;
use crate::state::timers::Timers;
use cpu_share::{Claim, TenantId};
use packet_memory::Pool;
use port::Bell;
use rustix::thread::set_current_timer_slack;
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use telemetry::clock::{Clock, Cycles, Nanos};

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// Minimum granularity: the lead in virtual runtime over a waiting instance after which the running one,
    /// or one that is handed packets, gives way.
    pub slack: Nanos,
    /// The quantum: the same, if it is longer, as long as few wait and all of them always have work; see
    /// [`cpu_share::SchedulerSettings`].
    pub quantum: Nanos,
    /// Longest time that one call should take: a function whose calls take longer gets fewer packets at once.
    pub slice: Nanos,
    /// Time over which caps hold.
    pub period: Nanos,
    /// Longest time to look for work before sleeping. [`Nanos::MAX`] never sleeps.
    pub spin: Nanos,
    /// Time spent looking for work, as part of the time spent working, in percent. Without effect when `spin`
    /// has no end.
    pub spin_percent: u32,
    /// Longest interval for which wake-ups are moderated: it is slept through what comes in, when sleeping
    /// and waking cost more than the work that wakes.
    pub moderation: Nanos,
    /// Longest time between two looks at all ports while there is work.
    pub turn: Nanos,
    /// Longest time that stopping waits for packets in flight.
    pub drain: Nanos,
    /// Called after each turn that brought something, with how long that took: measurements make a slower
    /// core of the worker's. That time is the worker's own.
    pub rest: Option<fn(Cycles)>,
    /// Most packets of one call, 1 to [`nf_abi::MAX_BATCH`].
    pub batch: usize,
}

impl Default for WorkerSettings {
    fn default() -> WorkerSettings {
        WorkerSettings {
            slack: Nanos(200_000),
            quantum: Nanos(500_000),
            slice: Nanos(100_000),
            period: Nanos::from_millis(10),
            spin: Nanos(50_000),
            spin_percent: 12,
            moderation: Nanos(2_000_000),
            turn: Nanos(200_000),
            drain: Nanos::from_millis(500),
            rest: None,
            batch: nf_abi::MAX_BATCH,
        }
    }
}

/// By how many nanoseconds the kernel may wake a worker late to wake others with it.
const TIMER_SLACK: u64 = 1_000;

/// What a worker calls with what happens.
pub(crate) type Tell = Arc<dyn Fn(Event) + Send + Sync>;

/// What a worker's step has come to.
enum Step {
    /// It went around once.
    Turned,
    /// The same, and it is time to sleep.
    Idle,
    /// Another thread has asked for something.
    Asked(Asked),
}

/// One thread's engine.
pub struct Worker {
    /// Its number in its fleet.
    pub(crate) number: u16,
    pub(crate) settings: WorkerSettings,
    pub(crate) pools: Vec<Arc<Pool>>,
    /// The tenant of each pool.
    pub(crate) owners: Vec<TenantId>,
    /// Places of pools that were taken out.
    pub(crate) free_pools: Vec<PoolId>,
    pub(crate) ports: Sparse<PortNode>,
    pub(crate) polling: Polling,
    pub(crate) instances: Sparse<Instance>,
    pub(crate) switches: Vec<SwitchNode>,
    /// The services that each tenant's functions may send to, by the tenant's number.
    pub(crate) services: Vec<BTreeMap<u16, Target>>,
    pub(crate) time: Accounting,
    pub(crate) backpressure: Backpressure,
    pub(crate) timers: Timers,
    pub(crate) batches: Batches,
    pub(crate) parking: Parking,
    pub(crate) upkeep: Upkeep,
}

impl Worker {
    /// A worker with nothing to do, and one tenant. `tell` is called with what happens, between turns and
    /// without delay: it must not wait for anything.
    ///
    /// # Errors
    /// The kernel's refusal of an event descriptor.
    pub fn new(
        settings: WorkerSettings,
        clock: Clock,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> io::Result<Worker> {
        let mut worker = Worker::with(settings, clock, Arc::new(tell))?;
        worker.add_tenant(Claim::default());
        Ok(worker)
    }

    pub(crate) fn with(settings: WorkerSettings, clock: Clock, tell: Tell) -> io::Result<Worker> {
        let (time, parking) = (Accounting::new(&settings, clock), Parking::new(&settings, &clock)?);
        let viewer = Arc::new(Viewer::new(parking.bell.clone()));
        let upkeep = Upkeep::new(tell, viewer, time.now.nanos);
        Ok(Worker {
            number: 0,
            settings,
            pools: Vec::new(),
            owners: Vec::new(),
            free_pools: Vec::new(),
            ports: Sparse::default(),
            polling: Polling::default(),
            instances: Sparse::default(),
            switches: Vec::new(),
            services: Vec::new(),
            time,
            backpressure: Backpressure::new(&clock),
            timers: Timers::default(),
            batches: Batches::default(),
            parking,
            upkeep,
        })
    }

    /// How it is reached when it has a thread.
    pub(crate) fn remote(&self) -> Remote {
        Remote { bell: self.parking.bell.clone(), slot: self.parking.slot.clone() }
    }

    /// By which it is woken.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.parking.bell.clone()
    }

    /// The switch of a number.
    pub(crate) fn switch(&self, id: SwitchId) -> &SwitchNode {
        &self.switches[id.index()]
    }

    /// The end that everything reaches which goes to a target, be it behind switches; `None` when that
    /// depends on the packets.
    pub(crate) fn only_end(&self, mut target: Target) -> Option<Holder> {
        for _ in 0..=IN_A_ROW {
            match target {
                Target::Instance(to, _) => return Some(Holder::Instance(to.index())),
                Target::Port(to) => return Some(Holder::Port(to.index())),
                Target::Switch(id, from) => target = self.switch(id).only(from)?,
            }
        }
        None
    }

    /// Works until told to stop.
    pub(crate) fn work(mut self: Box<Worker>) -> Box<Worker> {
        // A sleep of 50 us is not to become one of 100. A kernel that refuses wakes late, and nothing else.
        let _ = set_current_timer_slack(NonZeroU64::new(TIMER_SLACK));
        // The thread that made the worker may have been another one.
        self.time.restart();
        loop {
            match self.advance() {
                Step::Turned => {}
                Step::Idle => self = self.sleep_parked(),
                Step::Asked(Asked::Stop) => return self,
                Step::Asked(Asked::Worker) if self.is_long_idle() => self = self.sleep_parked(),
                Step::Asked(_) => self = self.lend(),
            }
        }
    }

    /// One step of a worker that is in no fleet: one turn, and sleep when there was nothing to do.
    pub fn step(&mut self) {
        if let Step::Idle = self.advance() {
            self.sleep_unparked();
        }
    }

    /// One step, or what is asked for before it.
    #[inline]
    fn advance(&mut self) -> Step {
        let asked = self.parking.slot.asked();
        if asked != Asked::Nothing {
            return Step::Asked(asked);
        }
        let began = self.time.now.cycles;
        self.parking.received = 0;
        let worked = self.turn();
        self.time.show_busy();
        let now = self.time.now.cycles;
        if worked {
            self.parking.worked_at = now;
        }
        let busy = worked && !self.time.scheduler.is_idle(now);
        if self.parking.moderation.turned(began, now, self.parking.received, busy, worked) {
            return Step::Idle;
        }
        if let Some(rest) = self.settings.rest.filter(|_| worked) {
            rest(now.since(began));
            self.time.switch(NO_INSTANCE);
        }
        Step::Turned
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.parking.slot.end();
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("ports", &self.ports.len())
            .field("instances", &self.instances.len())
            .finish_non_exhaustive()
    }
}
