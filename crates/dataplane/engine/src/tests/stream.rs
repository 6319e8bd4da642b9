//! Flows of numbered packets: sources that keep a window, and sinks that find what is lost or overtaken.

use super::starts::Later;
use super::*;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What all ports of a test know of its flows.
#[derive(Default)]
pub(super) struct Flows {
    /// Packets of each flow that have arrived.
    arrived: [AtomicU64; 8],
    /// Packets that came before, or again after, another of their flow.
    pub(super) overtaken: AtomicU64,
}

impl Flows {
    pub(super) fn arrived(&self, flow: u8) -> u64 {
        self.arrived[usize::from(flow)].load(SeqCst)
    }
}

/// A port that sends one flow to its neighbour, which has the other of a pair, and takes what is meant for
/// it.
pub(super) struct Stream {
    flow: u8,
    /// Number of the next packet, and how many there are.
    next: u64,
    total: u64,
    /// Most packets that are on their way: less than any queue has room for.
    window: u64,
    flows: Arc<Flows>,
    /// The number expected next of each flow.
    expected: [u64; 8],
    clock: Clock,
    counters: PortCounters,
}

impl Stream {
    pub(super) fn boxed(flow: u8, total: u64, window: u64, flows: &Arc<Flows>, clock: Clock) -> Box<Stream> {
        let (flows, expected) = (flows.clone(), [0; 8]);
        let counters = PortCounters::default();
        Box::new(Stream { flow, next: 0, total, window, flows, expected, clock, counters })
    }

    fn may_send(&self) -> u64 {
        let under_way = self.next - self.flows.arrived(self.flow).min(self.next);
        self.window.saturating_sub(under_way).min(self.total - self.next)
    }
}

impl Port for Stream {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        for _ in 0..self.may_send().min(budget as u64) {
            let Some(mut packet) = pool.allocate() else { return };
            let (to, from) = (self.flow ^ 1, self.flow);
            let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
            frame.extend(self.next.to_le_bytes());
            pool.write(&mut packet, &frame).expect("it fits");
            self.counters.ledger.received += 1;
            self.next += 1;
            out.push(packet);
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        for packet in packets.drain(..) {
            let frame = pool.to_vec(&packet);
            pool.free(packet);
            let (to, flow) = (frame[5], usize::from(frame[11]));
            if to != self.flow {
                // A switch looks for a station that it does not know.
                continue;
            }
            let number = u64::from_le_bytes(frame[14..22].try_into().expect("eight bytes"));
            if number < self.expected[flow] {
                self.flows.overtaken.fetch_add(1, SeqCst);
            }
            self.expected[flow] = number + 1;
            self.flows.arrived[flow].fetch_add(1, SeqCst);
        }
    }
    fn wake(&self) -> Wake<'_> {
        if self.may_send() > 0 {
            Wake::NOW
        } else if self.next < self.total {
            Wake::at(self.clock.now().saturating_add(Nanos(50_000)))
        } else {
            Wake::default()
        }
    }
    fn status(&self) -> PortStatus {
        if self.next < self.total { PortStatus::Up } else { PortStatus::Finished }
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// A fleet and what the test knows of it. Its workers are turned by the test until it is started.
pub(super) struct Rig {
    pub(super) fleet: Arc<Fleet>,
    pub(super) events: Arc<Mutex<Vec<Event>>>,
    pub(super) pools: Vec<(Arc<Pool>, PoolId)>,
    pub(super) flows: Arc<Flows>,
    pub(super) clock: Clock,
    pub(super) queue: usize,
    /// Where its functions are started again.
    pub(super) later: Arc<Later>,
}

impl Rig {
    pub(super) fn new(workers: usize, pools: usize) -> Rig {
        Rig::with(&vec![WorkerSettings { spin: Nanos(0), ..patient() }; workers], pools)
    }

    /// On simulated time, which [`Rig::pass`] lets pass. Its workers get no threads.
    pub(super) fn simulated(workers: usize) -> Rig {
        let settings = WorkerSettings { spin: Nanos(0), ..patient() };
        Rig::simulated_with(&vec![settings; workers], 1)
    }

    pub(super) fn simulated_with(settings: &[WorkerSettings], pools: usize) -> Rig {
        Rig::on(Clock::simulated(), settings, pools)
    }

    /// On time that stands: a worker's thread that sleeps does until it is woken, and for ever if nothing
    /// wakes it.
    pub(super) fn standing(workers: usize) -> Rig {
        let clock = Clock::simulated();
        clock.simulation().expect("it is").stand();
        // A rest has no end either.
        let slice = Nanos(100_000);
        let settings = WorkerSettings { slice, spin: Nanos(0), moderation: Nanos(0), ..patient() };
        Rig::on(clock, &vec![settings; workers], 1)
    }

    pub(super) fn with(settings: &[WorkerSettings], pools: usize) -> Rig {
        Rig::on(Clock::calibrate(), settings, pools)
    }

    fn on(clock: Clock, settings: &[WorkerSettings], pools: usize) -> Rig {
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let tell = move |event| told.lock().expect("not poisoned").push(event);
        let later = Arc::new(Later::default());
        let fleet = Fleet::new(settings, clock, tell).expect("event descriptors");
        let fleet = fleet.with_background(later.clone());
        // Each is another tenant's.
        let take = |owner| {
            let pool = pool(4096);
            let of = cpu_share::TenantId(owner);
            let added = fleet.change(|change| change.add_pool_of(of, pool.clone()));
            let id = added.expect("it runs").expect("few pools");
            (pool, id)
        };
        let pools = (0..pools as u32).map(take).collect();
        let (fleet, flows) = (Arc::new(fleet), Arc::default());
        Rig { fleet, events, pools, flows, clock, queue: 1024, later }
    }

    pub(super) fn stream(&self, worker: usize, pool: usize, flow: u8, total: u64, window: u64) -> FleetPort {
        let port = Stream::boxed(flow, total, window, &self.flows, self.clock);
        self.fleet.add_port(worker, "stream", self.pools[pool].1, port).expect("a worker")
    }

    pub(super) fn script(
        &self,
        worker: usize,
        pool: usize,
        offers: Vec<u8>,
    ) -> (FleetPort, Arc<Mutex<Vec<u8>>>) {
        let (port, sent) = Script::boxed(offers);
        (self.fleet.add_port(worker, "script", self.pools[pool].1, port).expect("a worker"), sent)
    }

    pub(super) fn add(&self, worker: usize, pool: usize, manner: Manner) -> (FleetInstance, Seen) {
        let seen = Seen::default();
        // The first tenant is that of all that are given none.
        let (mut setup, guest) =
            instance(&self.pools[pool], cpu_share::TenantId(0), manner, &seen, self.clock);
        setup.queue = self.queue;
        (self.fleet.add_instance(worker, setup, guest).expect("a worker"), seen)
    }

    pub(super) fn wire(&self, worker: usize) -> FleetInstance {
        self.add(worker, 0, Manner::wire()).0
    }

    pub(super) fn link(&self, a: End, b: End) {
        self.fleet.link(a, b).expect("a free wire");
    }

    pub(super) fn chain(&self, ends: (FleetPort, FleetPort), functions: &[FleetInstance]) {
        let mut last = End::Port(ends.0);
        for &id in functions {
            self.link(last, End::Instance(id, 0));
            last = End::Instance(id, 1);
        }
        self.link(last, End::Port(ends.1));
    }

    /// Two flows, 0 from left to right and 1 back, over a function on each of these workers.
    pub(super) fn both_ways(&self, places: &[usize], total: u64) -> (Vec<FleetPort>, Vec<FleetInstance>) {
        let last = places[places.len() - 1];
        let ports = vec![self.stream(places[0], 0, 0, total, 400), self.stream(last, 0, 1, total, 400)];
        let functions: Vec<_> = places.iter().map(|&worker| self.wire(worker)).collect();
        self.chain((ports[0], ports[1]), &functions);
        (ports, functions)
    }

    /// Turns all workers so often, and looks whether the account balances after each.
    pub(super) fn turn(&self, times: usize) {
        for _ in 0..times {
            for worker in 0..self.fleet.workers() {
                self.fleet.turn(worker);
                self.balanced();
            }
        }
    }

    /// Lets simulated time pass for all workers side by side: each steps from where its own time is.
    pub(super) fn pass(&self, span: Nanos) {
        let time = self.clock.simulation().expect("a simulated clock");
        let began = self.clock.now();
        let until = began.saturating_add(span);
        time.set_horizon(until);
        let mut present = vec![began; self.fleet.workers()];
        while let Some(worker) =
            (0..present.len()).filter(|worker| present[*worker] < until).min_by_key(|worker| present[*worker])
        {
            time.set(present[worker]);
            super::pass(&self.clock, LEAST);
            self.fleet.step(worker);
            present[worker] = self.clock.now();
        }
        time.set(present.into_iter().max().unwrap_or(until));
    }

    /// Lets simulated time pass until so many packets of these flows have arrived.
    pub(super) fn pass_until_arrived(&self, flows: &[u8], total: u64) {
        let began = self.clock.now();
        while !flows.iter().all(|&flow| self.flows.arrived(flow) >= total) {
            self.pass(Nanos::from_millis(1));
            let account = self.balanced();
            assert!(self.clock.now().since(began) < Nanos::from_millis(5_000), "they stay: {account:#?}");
        }
    }

    pub(super) fn balanced(&self) -> Account {
        let account = self.fleet.account(false).expect("it has not stopped");
        account.balance().expect("balanced at any time");
        account
    }

    /// Waits until a condition holds, for 20 s at most; the account balances meanwhile, for which threads
    /// that sleep may be woken.
    pub(super) fn wait(&self, what: &str, mut until: impl FnMut() -> bool) {
        let begin = std::time::Instant::now();
        while !until() {
            let account = self.balanced();
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}: {account:#?}");
            std::thread::yield_now();
        }
    }

    /// The same, and wakes none.
    pub(super) fn wait_asleep(&self, what: &str, mut until: impl FnMut() -> bool) {
        let begin = std::time::Instant::now();
        while !until() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}: it is slept through");
            std::thread::yield_now();
        }
    }

    /// Waits until so many packets of these flows have arrived.
    pub(super) fn arrive(&self, flows: &[u8], total: u64) {
        self.wait("all arrive", || flows.iter().all(|&flow| self.flows.arrived(flow) >= total));
    }

    pub(super) fn start(&self) {
        self.fleet.start(&[]).expect("threads");
    }

    pub(super) fn stop(&self) -> Account {
        let account = self.fleet.stop().expect("it has not stopped");
        assert_whole(&account);
        assert_eq!(self.flows.overtaken.load(SeqCst), 0, "no packet overtakes another of its flow");
        account
    }
}
