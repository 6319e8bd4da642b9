//! The worker itself: what it owns, and its way around.

use crate::account::PortAccount;
use crate::berth::{Asked, Berth};
use crate::board::{Board, Viewer};
use crate::congestion::{Patience, WIRE_PATIENCE};
use crate::control::Event;
use crate::hands::Remote;
use crate::idle::Outlook;
use crate::ids::{PoolId, SwitchId, Target};
use crate::instance::Instance;
use crate::rest::Rest;
use crate::sparse::Sparse;
use crate::starts::{AtOnce, Background};
use crate::switching::SwitchNode;
use crate::tap::Tap;
use crate::time::{Calls, Mark, NOBODY, WorkerTime, mark_every, suspicious};
use cpu_share::{Claim, EntityId, Scheduler, SchedulerSettings, TenantId};
use guest::{Events, LogLine};
use packet_memory::{Packet, Pool};
use port::{Bell, Port};
use rustix::thread::set_current_timer_slack;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use telemetry::clock::{Clock, Cycles, Moment, Nanos};
use telemetry::{Latencies, Ledger};
use virtual_switch::Route;

/// How a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Longest time to sleep through what comes in, when sleeping and waking cost more than the work that
    /// wakes.
    pub rest: Nanos,
    /// Longest time between two looks at all ports while there is work.
    pub turn: Nanos,
    /// Longest time that stopping waits for packets in flight.
    pub drain: Nanos,
    /// Part of its time in percent that the worker works; it rests for as long, after each turn, as makes up
    /// for it. This is for comparisons: the worker is then as one on a slower core.
    pub duty: Option<u32>,
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
            rest: Nanos(2_000_000),
            turn: Nanos(200_000),
            drain: Nanos::from_millis(500),
            duty: None,
            batch: nf_abi::MAX_BATCH,
        }
    }
}

pub(crate) struct PortNode {
    pub(crate) name: String,
    pub(crate) pool: PoolId,
    pub(crate) port: Box<dyn Port>,
    /// Where received packets go. A port without one is never polled.
    pub(crate) target: Option<Target>,
    /// It is an end of a wire to another worker.
    pub(crate) relay: bool,
    /// The instance that takes what it receives, if that is one alone: then it is polled when that one is to
    /// run.
    pub(crate) consumer: Option<usize>,
    /// Polls in a row that brought nothing.
    pub(crate) idle_polls: u32,
    /// An instance that hands packets to it is throttled when it fills up: it leads to one function or port
    /// of the same tenant.
    pub(crate) presses_back: bool,
    /// Its end in this worker is to be told of the end of the turn.
    pub(crate) unsettled: bool,
    /// For how long an instance that hands packets to it waits for room.
    pub(crate) patience: Patience,
    /// Single packets on their way out, gathered within a hop.
    pub(crate) outgoing: Vec<Packet>,
    /// What the engine counts on the port's behalf.
    pub(crate) ledger: Ledger,
    /// From packets' reception anywhere to when they are handed to the port.
    pub(crate) latencies: Latencies,
    /// Where its account is read by others.
    pub(crate) board: Arc<Board<PortAccount>>,
    /// What is shown the packets that come and go.
    pub(crate) taps: Vec<Box<dyn Tap>>,
}

/// By how much CPU time others may get ahead of an instance that has work now and then, and less than its
/// share, while it waits; see [`cpu_share::SchedulerSettings::wakeup`].
const WAKEUP: Nanos = Nanos(50_000);

/// Between two looks around while there is work passes at least so many times what one costs that brings
/// nothing.
const LOOKS: u64 = 16;

/// By how many nanoseconds the kernel may wake a worker late to wake others with it.
const TIMER_SLACK: u64 = 1_000;

/// What a worker calls with what happens.
pub(crate) type Tell = Arc<dyn Fn(Event) + Send + Sync>;

/// What a worker's step has come to.
enum Step {
    /// It went around once.
    Turned,
    /// The same, and it is time to sleep.
    Tired,
    /// Another thread has asked for something.
    Asked(Asked),
}

/// One thread's engine.
pub struct Worker {
    /// Its number in its fleet.
    pub(crate) number: u16,
    pub(crate) settings: WorkerSettings,
    pub(crate) clock: Clock,
    pub(crate) now: Moment,
    pub(crate) mark: Mark,
    pub(crate) time: WorkerTime,
    /// Cycles that it worked for instances, as of its last turn, for others to read.
    pub(crate) busy: Arc<AtomicU64>,
    /// The same, as far as it was needed.
    pub(crate) needed: Arc<AtomicU64>,
    /// Calls since that was told last.
    pub(crate) calls: Calls,
    /// When it was made.
    pub(crate) made: Cycles,
    pub(crate) pools: Vec<Arc<Pool>>,
    /// Places of pools that were taken out.
    pub(crate) free_pools: Vec<PoolId>,
    pub(crate) ports: Sparse<PortNode>,
    pub(crate) instances: Sparse<Instance>,
    pub(crate) switches: Vec<SwitchNode>,
    /// Instance of each scheduler entity.
    pub(crate) by_entity: Vec<u32>,
    /// The services that each tenant's functions may send to, by the tenant's number.
    pub(crate) services: Vec<BTreeMap<u16, Target>>,
    pub(crate) scheduler: Scheduler,
    /// Tenants in the order they were added, with what they claim.
    pub(crate) tenants: Vec<(TenantId, Claim)>,
    /// The entity that cycles are charged to at present.
    pub(crate) running: EntityId,
    /// Whose turn was interrupted for the ports to have theirs.
    pub(crate) interrupted: Option<EntityId>,
    /// The port that is polled first.
    pub(crate) poll_from: usize,
    /// Wires to other workers that were more than half full when they were last looked at.
    pub(crate) crowded: Vec<usize>,
    /// Instances that wait for others to have room.
    pub(crate) waiting: Vec<usize>,
    /// The instance whose turn it is; none's number when there is none.
    pub(crate) current: usize,
    pub(crate) touched_ports: Vec<usize>,
    /// Wires to other workers that packets passed in this turn.
    pub(crate) unsettled: Vec<usize>,
    /// Packets that ports were handed since the clock was last read: port, reception, how many.
    pub(crate) departed: Vec<(u32, u64, u64)>,
    /// Whether a function or port here reads the flow hash of packets.
    pub(crate) flow_hash: bool,
    /// Emptied vectors, to be used again.
    pub(crate) spare: Vec<Vec<Packet>>,
    /// Routes of the batch that is being switched.
    pub(crate) routes: Vec<Route>,
    /// The instances for which packets were received through a switch, and how many, while a port is polled.
    pub(crate) received_for: Vec<(EntityId, u32)>,
    /// When instances are due, by number; an entry that is not the instance's own time any more counts for
    /// nothing.
    pub(crate) timers: BinaryHeap<Reverse<(Nanos, u32)>>,
    pub(crate) next_maintenance: Nanos,
    /// When ports are looked after next.
    pub(crate) next_upkeep: Nanos,
    /// Ports that are to be looked after.
    pub(crate) maintained: Vec<usize>,
    /// Instances whose starts are under way.
    pub(crate) starting: VecDeque<usize>,
    /// Where starts are made.
    pub(crate) background: Arc<dyn Background>,
    /// Instances that were called since logs were last collected.
    pub(crate) called: Vec<usize>,
    /// Packets received in this turn.
    pub(crate) received: usize,
    /// There are taps, which settle what they keep back.
    pub(crate) tapped: bool,
    /// When ports that have been idle for long are looked at again.
    pub(crate) next_cold: Cycles,
    /// Wakes its thread.
    pub(crate) bell: Arc<Bell>,
    /// How readers of accounts ask.
    pub(crate) viewer: Arc<Viewer>,
    /// How many of their questions were answered.
    pub(crate) shown: u64,
    /// Where its thread leaves it for others.
    pub(crate) berth: Arc<Berth>,
    /// What its thread waits for.
    pub(crate) outlook: Outlook,
    /// When it last had something to do.
    pub(crate) worked_at: Cycles,
    /// A port was closed that its thread may wait for.
    pub(crate) released: bool,
    pub(crate) rest: Rest,
    pub(crate) tell: Tell,
    pub(crate) told_finished: bool,
    /// Ports are not polled any more: what has come in goes out.
    pub(crate) closing: bool,
    // Lengths of time in cycles.
    pub(crate) suspicious: Cycles,
    pub(crate) slice: Cycles,
    pub(crate) mark_every: Cycles,
    pub(crate) wire_patience: Cycles,
    pub(crate) turn_cycles: Cycles,
    pub(crate) wakeup: Cycles,
    /// What the last look around cost that brought nothing.
    pub(crate) look_cost: Cycles,
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
        let (now, bell) = (clock.moment(), Arc::new(Bell::new()?));
        let limits = SchedulerSettings {
            slack: clock.cycles(settings.slack),
            quantum: clock.cycles(settings.quantum),
            wakeup: clock.cycles(settings.slack.min(WAKEUP)),
            period: clock.cycles(settings.period),
        };
        Ok(Worker {
            number: 0,
            settings,
            clock,
            now,
            mark: Mark::now(),
            time: WorkerTime::default(),
            busy: Arc::default(),
            needed: Arc::default(),
            calls: Calls::default(),
            made: now.cycles,
            pools: Vec::new(),
            free_pools: Vec::new(),
            ports: Sparse::new(),
            instances: Sparse::new(),
            switches: Vec::new(),
            by_entity: Vec::new(),
            services: Vec::new(),
            scheduler: Scheduler::new(limits, now.cycles),
            tenants: Vec::new(),
            running: NOBODY,
            interrupted: None,
            poll_from: 0,
            crowded: Vec::new(),
            waiting: Vec::new(),
            current: usize::MAX,
            touched_ports: Vec::new(),
            unsettled: Vec::new(),
            departed: Vec::new(),
            flow_hash: false,
            spare: Vec::new(),
            routes: Vec::new(),
            received_for: Vec::new(),
            timers: BinaryHeap::new(),
            next_maintenance: now.nanos,
            next_upkeep: now.nanos,
            maintained: Vec::new(),
            starting: VecDeque::new(),
            background: Arc::new(AtOnce),
            called: Vec::new(),
            received: 0,
            tapped: false,
            next_cold: Cycles(0),
            viewer: Arc::new(Viewer::new(bell.clone())),
            shown: 0,
            bell,
            berth: Arc::default(),
            outlook: Outlook::default(),
            worked_at: Cycles(0),
            released: false,
            rest: Rest::new(&settings, &clock),
            tell,
            told_finished: false,
            closing: false,
            suspicious: suspicious(&clock, settings.slice),
            slice: clock.cycles(settings.slice),
            mark_every: mark_every(&clock),
            wire_patience: clock.cycles(WIRE_PATIENCE),
            turn_cycles: clock.cycles(settings.turn),
            wakeup: clock.cycles(WAKEUP),
            look_cost: Cycles(0),
        })
    }

    /// How it is reached when it has a thread.
    pub(crate) fn remote(&self) -> Remote {
        Remote { bell: self.bell.clone(), berth: self.berth.clone() }
    }

    /// By which it is woken.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    /// Works until told to stop.
    pub(crate) fn work(mut self: Box<Worker>) -> Box<Worker> {
        // A rest of 50 us is not to become one of 100. A kernel that refuses wakes late, and nothing else.
        let _ = set_current_timer_slack(NonZeroU64::new(TIMER_SLACK));
        // The thread that made the worker may have been another one.
        self.look_at_clocks();
        loop {
            match self.advance() {
                Step::Turned => {}
                Step::Tired => self = self.sleep_in_berth(),
                Step::Asked(Asked::Stop) => return self,
                Step::Asked(Asked::Worker) if self.is_long_idle() => self = self.sleep_in_berth(),
                Step::Asked(_) => self = self.attend(),
            }
        }
    }

    /// One step of a worker that is in no fleet: one turn, and rest when there was nothing to do.
    pub fn step(&mut self) {
        if let Step::Tired = self.advance() {
            self.sleep_alone();
        }
    }

    /// One step, or what is asked for before it.
    #[inline]
    fn advance(&mut self) -> Step {
        let asked = self.berth.asked();
        if asked != Asked::Nothing {
            return Step::Asked(asked);
        }
        let began = self.now.cycles;
        self.received = 0;
        let worked = self.turn();
        if worked {
            self.worked_at = self.now.cycles;
        }
        self.show_busy();
        if !worked {
            self.look_finished();
        }
        let busy = worked && !self.scheduler.is_idle(self.now.cycles);
        if self.rest.turned(began, self.now.cycles, self.received, busy, worked) {
            return Step::Tired;
        }
        if let Some(percent) = self.settings.duty.filter(|_| worked) {
            self.rest_from_work(self.now.cycles.since(began), percent);
        }
        Step::Turned
    }

    /// Goes around once: ports, deadlines, then the instances that have work. Returns whether there was
    /// anything to do.
    pub fn turn(&mut self) -> bool {
        let polled = self.poll_ports();
        let mut worked = polled;
        if self.next_timer() <= self.now.nanos {
            self.look_at_timers();
            worked = true;
        }
        if !self.starting.is_empty() {
            self.take_arrivals();
        }
        self.look_who_waits();
        if self.run_ready(polled) {
            worked = true;
        } else {
            self.switch_account(NOBODY);
        }
        self.mark_time();
        if !self.departed.is_empty() {
            self.count_departed();
        }
        if self.now.nanos >= self.next_maintenance {
            self.maintain();
        }
        if self.is_asked_to_show() {
            self.show_some();
            self.switch_account(NOBODY);
        }
        self.settle_wires();
        worked
    }

    /// Runs instances until none has work, or the ports have waited long enough. `just_read`: so was the
    /// clock.
    fn run_ready(&mut self, just_read: bool) -> bool {
        let Some(first) = self.go_on().or_else(|| self.scheduler.pick(self.now.cycles)) else { return false };
        if !just_read {
            let before = self.now.cycles;
            self.switch_account(first);
            self.look_cost = self.now.cycles.since(before);
        }
        let until = self.now.cycles + self.turn_length();
        let mut index = self.by_entity[first.0 as usize] as usize;
        loop {
            if self.waits_for_room(index) {
                let Some(next) = self.pick() else { break };
                index = next;
                continue;
            }
            let (entity, began) = (self.instances[index].entity, self.now.cycles);
            (self.running, self.current) = (entity, index);
            let handed_to = self.hop(index);
            self.current = usize::MAX;
            self.switch_account(entity);
            self.count_latency(index);
            let instance = &self.instances[index];
            if instance.batch < self.settings.batch {
                self.adapt(index, began);
            }
            let more = self.instances[index].has_work();
            if self.now.cycles >= until {
                for waiting in handed_to.into_iter().chain(more.then_some(index)) {
                    self.wake_instance(waiting);
                }
                self.interrupted = Some(handed_to.map_or(entity, |to| self.instances[to].entity));
                break;
            }
            index = match handed_to {
                Some(to) => {
                    if more {
                        self.wake_instance(index);
                    }
                    to
                }
                // The running instance goes on until it is far enough ahead, its code and data being in the
                // caches.
                None if more && self.scheduler.hand_off(entity, self.now.cycles) => continue,
                None => {
                    if more {
                        self.wake_instance(index);
                    }
                    let Some(next) = self.pick() else { break };
                    next
                }
            };
        }
        self.running = NOBODY;
        true
    }

    /// How long instances run before the ports are looked at again: a packet for one that has used less than
    /// its share waits for this at most, so it is short, unless looking is expensive.
    pub(crate) fn turn_length(&self) -> Cycles {
        Cycles(self.look_cost.0.saturating_mul(LOOKS).max(self.wakeup.0).min(self.turn_cycles.0))
    }

    /// The instance that was interrupted only for the ports to have their turn, if it may go on: its turn is
    /// as long as any other's.
    fn go_on(&mut self) -> Option<EntityId> {
        let interrupted = self.interrupted.take()?;
        let may =
            self.scheduler.is_ready(interrupted) && self.scheduler.hand_off(interrupted, self.now.cycles);
        may.then(|| {
            self.scheduler.deactivate(interrupted);
            interrupted
        })
    }

    /// Whose turn it is.
    #[inline]
    fn pick(&mut self) -> Option<usize> {
        let picked = self.scheduler.pick(self.now.cycles)?;
        Some(self.by_entity[picked.0 as usize] as usize)
    }

    /// Rests for as long as makes what was worked the given part of all.
    #[cold]
    fn rest_from_work(&mut self, worked: Cycles, percent: u32) {
        self.switch_account(NOBODY);
        let percent = u64::from(percent.clamp(1, 100));
        let until = self.now.cycles + Cycles(worked.0 * (100 - percent) / percent);
        while Cycles::now() < until {
            std::hint::spin_loop();
        }
        let before = self.now.cycles;
        self.now = self.clock.moment();
        self.time.resting += self.now.cycles.since(before);
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.tell)(event);
    }

    pub(crate) fn found(&self, instance: &str, events: Events) {
        if !events.is_empty() {
            self.tell(Event::Found { instance: instance.to_owned(), events });
        }
    }

    pub(crate) fn log(&self, instance: &str, lines: Vec<LogLine>) {
        for line in lines {
            self.tell(Event::Log { instance: instance.to_owned(), line });
        }
    }

    /// The switch of a number.
    pub(crate) fn switch(&self, id: SwitchId) -> &SwitchNode {
        &self.switches[id.index()]
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.berth.end();
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
