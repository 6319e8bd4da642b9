//! The worker itself: what it owns, and its way around.

use crate::account::Account;
use crate::classify::classify_for;
use crate::control::{Command, Event, Mailbox, Remote};
use crate::fault::Life;
use crate::idle::Spin;
use crate::instance::{Instance, InstanceSetup, Observer};
use crate::tap::{Passage, Tap};
use clock::{Clock, Cycles, Moment, Nanos};
use cpu_share::{Claim, EntityId, Scheduler, SchedulerSettings, TenantId};
use guest::{Events, Guest, LogLine};
use nf_abi::MAX_BATCH;
use packet_memory::{Packet, Pool};
use port::{Port, PortStatus};
use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use telemetry::{DropReason, Ledger};

/// Number of a pool of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub(crate) u16);

/// Number of a port of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortId(pub(crate) u16);

/// Number of an instance of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstanceId(pub(crate) u16);

/// Where a packet can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// To an instance, by this interface of it.
    Instance(InstanceId, u16),
    /// Out by a port.
    Port(PortId),
}

/// Why a wire was not laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The instance has no such interface.
    #[error("the instance has {interfaces} interfaces, there is no interface {interface}")]
    NoInterface {
        /// The number asked for.
        interface: u16,
        /// How many there are.
        interfaces: u16,
    },
    /// Something is wired there already.
    #[error("something is wired there already")]
    Taken,
    /// The worker has no number left for another port, pool or instance.
    #[error("a worker has at most 65,536 pools, ports and instances each")]
    TooMany,
}

/// How a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// By how much CPU time a hand-off may run ahead of those that wait.
    pub slack: Nanos,
    /// Longest time to look for work before sleeping.
    pub spin: Nanos,
    /// Longest time between two looks at the ports while there is work.
    pub turn: Nanos,
    /// Longest time that stopping waits for packets in flight.
    pub drain: Nanos,
}

impl Default for WorkerSettings {
    fn default() -> WorkerSettings {
        WorkerSettings {
            slack: Nanos(200_000),
            spin: Nanos(20_000),
            turn: Nanos(200_000),
            drain: Nanos::from_millis(500),
        }
    }
}

/// How often ports are looked after.
const MAINTENANCE: Nanos = Nanos::from_millis(100);

/// Over how long caps hold.
const PERIOD: Nanos = Nanos::from_millis(10);

/// The scheduler, and the time at which the worker last looked at the clock.
pub(crate) struct Shares {
    scheduler: Scheduler,
    now: Cycles,
}

impl Shares {
    /// [`Scheduler::hand_off`] at the time of the last look.
    #[inline]
    pub(crate) fn hand_off(&mut self, id: EntityId) -> bool {
        self.scheduler.hand_off(id, self.now)
    }
}

impl Deref for Shares {
    type Target = Scheduler;

    fn deref(&self) -> &Scheduler {
        &self.scheduler
    }
}

impl DerefMut for Shares {
    fn deref_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }
}

pub(crate) struct PortNode {
    pub(crate) name: String,
    pub(crate) pool: PoolId,
    pub(crate) port: Box<dyn Port>,
    /// Where received packets go. A port without one is never polled.
    pub(crate) target: Option<Target>,
    /// Single packets on their way out, gathered within a hop.
    pub(crate) outgoing: Vec<Packet>,
    /// What the engine counts on the port's behalf.
    pub(crate) ledger: Ledger,
    /// Who looks at what comes and goes.
    pub(crate) taps: Vec<Box<dyn Tap>>,
}

/// One thread's engine.
pub struct Worker {
    pub(crate) settings: WorkerSettings,
    pub(crate) clock: Clock,
    pub(crate) now: Moment,
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) ports: Vec<PortNode>,
    pub(crate) instances: Vec<Instance>,
    /// Instance of each scheduler entity; the worker's own has none.
    by_entity: Vec<Option<usize>>,
    pub(crate) services: BTreeMap<u16, Target>,
    pub(crate) scheduler: Shares,
    /// Whose all instances are.
    tenant: TenantId,
    /// Whom cycles are charged to at present.
    pub(crate) running: EntityId,
    /// Who is charged while nobody's packets are worked on.
    pub(crate) overhead: EntityId,
    pub(crate) touched_ports: Vec<usize>,
    /// Whether anybody here reads the flow hash of packets.
    flow_hash: bool,
    /// Emptied vectors, to be used again.
    pub(crate) spare: Vec<Vec<Packet>>,
    pub(crate) next_timer: Nanos,
    pub(crate) next_maintenance: Nanos,
    pub(crate) mailbox: Mailbox,
    spin: Spin,
    tell: Box<dyn FnMut(Event) + Send>,
    told_finished: bool,
}

impl Worker {
    /// A worker with nothing to do. `tell` is called with what happens, between turns and without delay: it must not
    /// wait for anything.
    ///
    /// # Errors
    /// The kernel's refusal of an event descriptor.
    pub fn new(
        settings: WorkerSettings,
        clock: Clock,
        tell: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Worker> {
        let now = clock.moment();
        let shares = SchedulerSettings { slack: clock.cycles(settings.slack), period: clock.cycles(PERIOD) };
        let mut scheduler = Scheduler::new(shares, now.cycles);
        let overhead = scheduler.add_overhead();
        let tenant = scheduler.add_tenant(Claim::default());
        Ok(Worker {
            settings,
            clock,
            now,
            pools: Vec::new(),
            ports: Vec::new(),
            instances: Vec::new(),
            by_entity: vec![None],
            services: BTreeMap::new(),
            scheduler: Shares { scheduler, now: now.cycles },
            tenant,
            running: overhead,
            overhead,
            touched_ports: Vec::new(),
            flow_hash: false,
            spare: Vec::new(),
            next_timer: Nanos::MAX,
            next_maintenance: now.nanos,
            mailbox: Mailbox::new()?,
            spin: Spin::new(clock.cycles(settings.spin)),
            tell: Box::new(tell),
            told_finished: false,
        })
    }

    /// By which the worker is spoken to from elsewhere.
    pub fn remote(&self) -> Remote {
        self.mailbox.remote()
    }

    /// Takes a pool in.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_pool(&mut self, pool: Arc<Pool>) -> Result<PoolId, WireError> {
        self.pools.push(pool);
        numbered(self.pools.len()).map(PoolId)
    }

    /// Takes a port in. Nothing is received until it is linked.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_port(&mut self, name: &str, pool: PoolId, port: Box<dyn Port>) -> Result<PortId, WireError> {
        let (name, outgoing) = (name.to_owned(), Vec::with_capacity(MAX_BATCH));
        self.flow_hash |= port.reads_flow_hash();
        let (ledger, taps) = (Ledger::default(), Vec::new());
        self.ports.push(PortNode { name, pool, port, target: None, outgoing, ledger, taps });
        numbered(self.ports.len()).map(PortId)
    }

    /// Takes an instance in, with its first guest.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_instance(
        &mut self,
        setup: InstanceSetup,
        guest: Box<dyn Guest>,
    ) -> Result<InstanceId, WireError> {
        let id = numbered(self.instances.len() + 1).map(InstanceId)?;
        let entity = self.scheduler.add(self.tenant, Claim::default());
        self.flow_hash |= setup.flow_hash;
        self.by_entity.push(Some(self.instances.len()));
        self.instances.push(Instance::new(setup, entity, guest, self.clock.moment()));
        self.after_call(usize::from(id.0));
        Ok(id)
    }

    /// Lays a wire between two ends, both ways.
    ///
    /// # Errors
    /// [`WireError`], and nothing is laid.
    pub fn link(&mut self, a: Target, b: Target) -> Result<(), WireError> {
        if a == b {
            return Err(WireError::Taken);
        }
        self.check_free(a)?;
        self.check_free(b)?;
        *self.end(a)? = Some(b);
        *self.end(b)? = Some(a);
        Ok(())
    }

    /// Lays a wire one way: packets that leave by `from` go to `to`, and nothing comes back. A port that only sends is
    /// not polled.
    ///
    /// # Errors
    /// [`WireError`], and nothing is laid.
    pub fn lead(&mut self, from: Target, to: Target) -> Result<(), WireError> {
        if from == to {
            return Err(WireError::Taken);
        }
        self.check_free(from)?;
        self.check_free(to)?;
        *self.end(from)? = Some(to);
        Ok(())
    }

    /// Shows the packets of an instance (those that come in by one interface, or all) to another first.
    pub fn observe(&mut self, observer: InstanceId, at: InstanceId, interface: Option<u16>) {
        self.instances[usize::from(observer.0)].is_observer = true;
        self.instances[usize::from(at.0)].observers.push(Observer { instance: observer, interface });
    }

    /// Enters a service into the table.
    pub fn serve(&mut self, service: u16, target: Target) {
        self.services.insert(service, target);
    }

    fn end(&mut self, of: Target) -> Result<&mut Option<Target>, WireError> {
        match of {
            Target::Port(port) => Ok(&mut self.ports[usize::from(port.0)].target),
            Target::Instance(id, interface) => {
                let links = &mut self.instances[usize::from(id.0)].links;
                let interfaces = links.len() as u16;
                links.get_mut(usize::from(interface)).ok_or(WireError::NoInterface { interface, interfaces })
            }
        }
    }

    fn check_free(&mut self, end: Target) -> Result<(), WireError> {
        if self.end(end)?.is_some() { Err(WireError::Taken) } else { Ok(()) }
    }

    /// Works until told to stop, then drains and ends.
    pub fn run(mut self) -> Account {
        while !self.step() {}
        self.stop()
    }

    /// One step of [`Worker::run`]: messages, one turn, and rest when there was nothing to do. Returns whether it was told to
    /// stop.
    pub fn step(&mut self) -> bool {
        while let Some(command) = self.mailbox.next() {
            match command {
                Command::Stop => return true,
                Command::Account { with_reports, answer } => {
                    let account = self.account(with_reports);
                    // Whoever asked may have gone.
                    let _ = answer.send(account);
                }
            }
            self.switch_account(self.overhead);
        }
        if self.turn() {
            self.spin.found_work();
        } else {
            self.look_finished();
            if self.spin.found_nothing(self.now.cycles) {
                self.sleep();
                self.switch_account(self.overhead);
            }
        }
        false
    }

    /// Goes around once: ports, then whoever has work, then what is due. Returns whether there was anything to do.
    pub fn turn(&mut self) -> bool {
        let mut worked = false;
        for index in 0..self.ports.len() {
            worked |= self.poll_port(index);
        }
        worked |= self.run_ready(worked);
        self.switch_account(self.overhead);
        if self.now.nanos >= self.next_timer {
            self.run_timers();
            worked = true;
        }
        if self.now.nanos >= self.next_maintenance {
            self.maintain();
        }
        worked
    }

    /// Receives a batch from a port and queues it, in the account of the instance that it is for.
    fn poll_port(&mut self, index: usize) -> bool {
        let node = &mut self.ports[index];
        let Some(target) = node.target else {
            // It only sends; what it delays or has to complete goes on all the same.
            let pool = &self.pools[usize::from(node.pool.0)];
            node.port.receive(pool, self.now.nanos, 0, &mut Vec::new());
            return false;
        };
        let mut batch = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(MAX_BATCH));
        let pool = &self.pools[usize::from(node.pool.0)];
        node.port.receive(pool, self.now.nanos, MAX_BATCH, &mut batch);
        if batch.is_empty() {
            self.spare.push(batch);
            return false;
        }
        match target {
            Target::Instance(to, interface) => {
                let to = usize::from(to.0);
                let receiver = &self.instances[to];
                self.running = receiver.entity;
                // Mostly all of a batch can be queued, and then it moves as a whole.
                let whole = receiver.pool == node.pool && receiver.queue.room() >= batch.len();
                if whole {
                    classify_for(pool, &mut batch, interface, nf_abi::HOP_BUDGET - 1, self.flow_hash);
                } else {
                    classify_for(pool, &mut batch, 0, nf_abi::HOP_BUDGET, self.flow_hash);
                }
                if !node.taps.is_empty() {
                    self.show_port(index, &batch, Passage::Received);
                }
                if whole {
                    let receiver = &mut self.instances[to];
                    receiver.queue.push_batch(batch, &mut self.spare);
                    self.scheduler.activate(receiver.entity);
                } else {
                    self.enqueue_received(index, to, interface, batch);
                }
                self.switch_account(self.overhead);
            }
            Target::Port(out) => {
                classify_for(pool, &mut batch, 0, nf_abi::HOP_BUDGET, self.flow_hash);
                if !node.taps.is_empty() {
                    self.show_port(index, &batch, Passage::Received);
                }
                self.pass_through(index, out, &mut batch);
                self.spare.push(batch);
            }
        }
        true
    }

    /// Queues what a port received one by one: into another pool, or as far as there is room.
    #[cold]
    fn enqueue_received(&mut self, port: usize, to: usize, interface: u16, mut batch: Vec<Packet>) {
        let same_pool = self.instances[to].pool == self.ports[port].pool;
        for packet in batch.drain(..) {
            if same_pool {
                self.enqueue(to, interface, packet);
            } else {
                self.enter_pool(port, to, interface, packet);
            }
        }
        self.spare.push(batch);
    }

    /// Runs instances until none has work, or the ports have waited long enough. `just_read`: so was the clock.
    fn run_ready(&mut self, mut just_read: bool) -> bool {
        let Some(first) = self.scheduler.pick(self.now.cycles) else { return false };
        let until = self.now.cycles + self.clock.cycles(self.settings.turn);
        let mut next = self.by_entity[first.0 as usize];
        while let Some(index) = next {
            let entity = self.instances[index].entity;
            if std::mem::take(&mut just_read) {
                self.running = entity;
            } else {
                self.switch_account(entity);
            }
            let handed_to = self.hop(index);
            if !self.instances[index].queue.is_empty() {
                self.scheduler.activate(entity);
            }
            if self.now.cycles >= until {
                if let Some(to) = handed_to {
                    self.scheduler.activate(self.instances[to].entity);
                }
                break;
            }
            next = handed_to.or_else(|| {
                let picked = self.scheduler.pick(self.now.cycles)?;
                self.by_entity[picked.0 as usize]
            });
        }
        true
    }

    /// Reads the clock, charges what has passed to whoever was running, and lets another run. Returns who was.
    #[inline]
    pub(crate) fn switch_account(&mut self, to: EntityId) -> EntityId {
        let cycles = Cycles::now();
        self.scheduler.charge(self.running, cycles.since(self.now.cycles));
        self.now = Moment { cycles, nanos: self.clock.nanos(cycles) };
        self.scheduler.now = cycles;
        std::mem::replace(&mut self.running, to)
    }

    /// Timers of functions, packets held too long, and restarts.
    fn run_timers(&mut self) {
        self.next_timer = Nanos::MAX;
        let now = self.now;
        let mut expired = Vec::new();
        for index in 0..self.instances.len() {
            let entity = self.instances[index].entity;
            let due = match &mut self.instances[index].life {
                Life::Up { guest, .. } => {
                    guest.slots().expire(now.nanos, &mut expired);
                    guest.deadline().is_some_and(|deadline| deadline <= now.nanos)
                }
                Life::Down { retry_at, .. } => {
                    self.next_timer = self.next_timer.min(*retry_at);
                    false
                }
            };
            for packet in expired.drain(..) {
                self.drop_packet(index, packet, DropReason::HoldExpired);
            }
            if due {
                self.switch_account(entity);
                let called = match &mut self.instances[index].life {
                    Life::Up { guest, .. } => guest.timer(self.now),
                    Life::Down { .. } => Ok(()),
                };
                if let Err(fault) = called {
                    self.bury(index, &fault, None);
                }
                self.switch_account(self.overhead);
            }
            self.after_call(index);
        }
        self.restart_due();
    }

    /// What is looked after now and then: ports, log lines.
    fn maintain(&mut self) {
        self.next_maintenance = self.now.nanos.saturating_add(MAINTENANCE);
        for index in 0..self.ports.len() {
            for event in self.ports[index].port.maintain(self.now.nanos) {
                let port = self.ports[index].name.clone();
                self.tell(Event::Port { port, event });
            }
        }
        self.settle_taps();
        for index in 0..self.instances.len() {
            if let Life::Up { guest, .. } = &mut self.instances[index].life {
                let (lines, events) = (guest.take_log(), guest.take_events());
                if !lines.is_empty() || !events.is_empty() {
                    let name = self.instances[index].name.clone();
                    self.log(&name, lines);
                    self.found(&name, events);
                }
            }
        }
    }

    /// Drains, drops what is still held, closes the ports, and gives the final account.
    pub fn stop(mut self) -> Account {
        let until = self.clock.now().saturating_add(self.settings.drain);
        // From here on ports are not polled: what has come in goes out.
        let targets: Vec<_> = self.ports.iter_mut().map(|node| node.target.take()).collect();
        let busy = |worker: &mut Worker| worker.instances.iter_mut().any(|instance| instance.in_flight() > 0);
        while busy(&mut self) && self.clock.now() < until {
            if !self.turn() {
                std::thread::yield_now();
            }
        }
        for (node, target) in self.ports.iter_mut().zip(targets) {
            node.target = target;
        }
        let mut account = self.account(true);
        let mut held = Vec::new();
        for index in 0..self.instances.len() {
            while let Some(mut batch) = self.instances[index].queue.pop() {
                held.append(&mut batch);
            }
            if let Life::Up { guest, .. } = &mut self.instances[index].life {
                guest.surrender(&mut held);
            }
            for packet in held.drain(..) {
                self.drop_packet(index, packet, DropReason::HeldAtStop);
            }
        }
        for index in 0..self.ports.len() {
            let pool = self.pools[usize::from(self.ports[index].pool.0)].clone();
            if let Err(reason) = self.ports[index].port.close(&pool) {
                let port = self.ports[index].name.clone();
                self.tell(Event::Port { port, event: port::PortEvent::WentDown(reason) });
            }
        }
        self.maintain();
        // The functions' reports are of the time before the ports were closed; the counts are of now.
        let reports: Vec<_> = account.instances.drain(..).map(|instance| instance.report).collect();
        account = self.account(false);
        for (instance, report) in account.instances.iter_mut().zip(reports) {
            instance.report = report;
        }
        account
    }

    /// Tells once when there is nothing more to come.
    fn look_finished(&mut self) {
        if self.told_finished || self.ports.is_empty() {
            return;
        }
        let mut finished = false;
        for node in self.ports.iter().filter(|node| node.target.is_some()) {
            let wake = node.port.wake();
            if node.port.status() == PortStatus::Finished {
                finished = true;
            } else if wake.readable.is_some() || wake.at.is_some() {
                return;
            }
        }
        if finished && self.instances.iter_mut().all(|instance| instance.in_flight() == 0) {
            self.told_finished = true;
            self.tell(Event::Finished);
        }
    }

    pub(crate) fn tell(&mut self, event: Event) {
        (self.tell)(event);
    }

    pub(crate) fn found(&mut self, instance: &str, events: Events) {
        if !events.is_empty() {
            self.tell(Event::Found { instance: instance.to_owned(), events });
        }
    }

    pub(crate) fn log(&mut self, instance: &str, lines: Vec<LogLine>) {
        for line in lines {
            self.tell(Event::Log { instance: instance.to_owned(), line });
        }
    }
}

fn numbered(count: usize) -> Result<u16, WireError> {
    u16::try_from(count - 1).map_err(|_| WireError::TooMany)
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("ports", &self.ports.len())
            .field("instances", &self.instances.len())
            .finish_non_exhaustive()
    }
}
