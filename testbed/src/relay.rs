//! The simplest engine there can be: what comes in by one port goes out by the other.

use crate::TestbedError;
use packet_memory::{Packet, Pool};
use port::{Port, PortCounters, PortEvent};
use port_af_packet::{AfPacketPort, Settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use telemetry::clock::{Clock, Nanos};

const BATCH: usize = 64;
const MAINTENANCE: Nanos = Nanos::from_millis(100);

/// Two ports and the pool between them.
pub struct Relay {
    /// Where packets live.
    pub pool: Arc<Pool>,
    /// The ports, `lan` first.
    pub ports: [Box<dyn Port>; 2],
}

/// What a relay saw.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Counters of the ports, `lan` first.
    pub ports: [PortCounters; 2],
    /// Events of the ports, oldest first.
    pub events: [Vec<PortEvent>; 2],
    /// What the ports counted beside packets, `lan` first.
    pub details: [Vec<(&'static str, u64)>; 2],
    /// How often the relay was awake.
    pub rounds: u64,
    /// Bytes of the longest packet.
    pub longest: u32,
    /// Packets that were still to be segmented.
    pub segmented: u64,
    /// Buffers missing from the pool at the end.
    pub leaked: usize,
}

impl Relay {
    /// Opens two ports on interfaces of the kernel by packet sockets.
    ///
    /// # Errors
    /// [`TestbedError::Port`].
    pub fn open(pool: Pool, lan: Settings, wan: Settings) -> Result<Relay, TestbedError> {
        let ports = [AfPacketPort::open(lan)?, AfPacketPort::open(wan)?];
        Ok(Relay::between(Arc::new(pool), ports.map(|port| -> Box<dyn Port> { Box::new(port) })))
    }

    /// A relay between ports of any kind that were opened before, `lan` first.
    pub fn between(pool: Arc<Pool>, ports: [Box<dyn Port>; 2]) -> Relay {
        Relay { pool, ports }
    }

    /// Moves packets until `stop`.
    pub fn run(mut self, stop: &AtomicBool) -> Account {
        let clock = Clock::calibrate();
        let mut account = Account::default();
        let mut packets = Vec::with_capacity(BATCH);
        let mut maintained = Nanos(0);
        while !stop.load(Ordering::Relaxed) {
            account.rounds += 1;
            let now = clock.now();
            if now.since(maintained) >= MAINTENANCE {
                maintained = now;
                for (port, events) in self.ports.iter_mut().zip(&mut account.events) {
                    events.extend(port.maintain(now));
                }
            }
            if self.forward(now, &mut packets, &mut account) == 0 {
                self.sleep(clock.now());
            }
        }
        for (n, port) in self.ports.iter_mut().enumerate() {
            account.events[n].extend(port.maintain(clock.now()));
            if let Err(reason) = port.close(&self.pool) {
                account.events[n].push(PortEvent::WentDown(reason));
            }
            account.ports[n] = port.counters().clone();
            account.details[n] = port.details();
        }
        account.leaked = self.pool.config().buffers as usize - self.pool.available();
        account
    }

    fn forward(&mut self, now: Nanos, packets: &mut Vec<Packet>, account: &mut Account) -> usize {
        let mut moved = 0;
        for (from, to) in [(0, 1), (1, 0)] {
            self.ports[from].receive(&self.pool, now, BATCH, packets);
            moved += packets.len();
            for packet in packets.iter() {
                account.longest = account.longest.max(packet.length());
                account.segmented += u64::from(packet.record().gso_type != 0);
            }
            self.ports[to].transmit(&self.pool, now, packets);
        }
        moved
    }

    fn sleep(&self, now: Nanos) {
        let wakes = [self.ports[0].wake(), self.ports[1].wake()];
        let mut waits: Vec<PollFd<'_>> = wakes
            .iter()
            .filter_map(|wake| Some(PollFd::from_borrowed_fd(wake.readable?, PollFlags::IN)))
            .collect();
        let due = wakes.iter().filter_map(|wake| wake.at).map(|at| at.since(now));
        let limit = due.min().unwrap_or(MAINTENANCE).min(MAINTENANCE);
        let limit = Timespec { tv_sec: 0, tv_nsec: limit.0 as i64 };
        // An interrupted sleep is a short one.
        let _ = poll(&mut waits, Some(&limit));
    }

    /// Runs on a thread of its own.
    pub fn start(self) -> RunningRelay {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || self.run(&stop)
        });
        RunningRelay { stop, thread }
    }
}

/// A relay on its own thread.
pub struct RunningRelay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Account>,
}

impl RunningRelay {
    /// Stops it; it may sleep for a tenth of a second first.
    ///
    /// # Panics
    /// When the relay did.
    pub fn stop(self) -> Account {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
