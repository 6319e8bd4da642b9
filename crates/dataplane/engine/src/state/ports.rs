//! The ports of a worker, and what it notes about them as a whole.
//!
//! What holds: a port without a target is never polled for packets. A port's `consumer` is the one instance
//! that everything it receives goes to, and is in that instance's `feeds`, and the other way round.

use crate::control::account::PortAccount;
use crate::control::board::Board;
use crate::control::tap::Tap;
use crate::ids::{PoolId, Target};
use crate::path::observers::Observer;
use crate::state::backpressure::WireWait;
use crate::worker::Worker;
use cpu_share::Meter;
use packet_memory::Packet;
use port::Port;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use telemetry::clock::{Clock, Cycles};
use telemetry::{Latencies, Ledger};

/// A port as the worker keeps it.
pub(crate) struct PortNode {
    pub(crate) name: String,
    pub(crate) pool: PoolId,
    pub(crate) port: Box<dyn Port>,
    /// Where received packets go. A port without one is never polled.
    pub(crate) target: Option<Target>,
    /// It is an end of a wire to another worker.
    pub(crate) relay: bool,
    /// Packets come to it from a function, on another worker or in a process, and not from a network: work
    /// has been put into them, and an instance that is throttled takes them all the same. Two that would not
    /// take from each other would wait for ever.
    pub(crate) internal: bool,
    /// The instance that takes what it receives, if that is one alone: then it is polled when that one is to
    /// run.
    pub(crate) consumer: Option<usize>,
    /// What is charged for it where no instance is, if it belongs to something that has no turns here.
    pub(crate) meter: Option<Arc<Meter>>,
    /// What is charged for polling it where no instance is: its own meter, or else that of the port that it
    /// leads to.
    pub(crate) payer: Option<Arc<Meter>>,
    /// It is not moved to another worker for the sake of others.
    pub(crate) stays: bool,
    /// Polls in a row that brought nothing.
    pub(crate) idle_polls: u32,
    /// An instance of its tenant that hands packets to it is throttled when it has room for fewer than so
    /// many; 0: never, as for ports without a bound, and wires that lead to several or to another tenant.
    pub(crate) watermark: usize,
    /// Its end in this worker is to be told of the end of the turn.
    pub(crate) to_signal: bool,
    /// For how long an instance that hands packets to it waits for room.
    pub(crate) wait: WireWait,
    /// What the engine counts on the port's behalf.
    pub(crate) ledger: Ledger,
    /// From packets' reception anywhere to when they are handed to the port.
    pub(crate) latencies: Latencies,
    /// Where its account is read by others.
    pub(crate) board: Arc<Board<PortAccount>>,
    /// What is shown the packets that come and go.
    pub(crate) taps: Vec<Box<dyn Tap>>,
    /// The same, of instances and other ports.
    pub(crate) observers: Vec<Observer>,
    /// Packets that it should have been shown as an observer and was not, on all workers.
    pub(crate) missed: Arc<AtomicU64>,
}

impl PortNode {
    /// There are taps or observers to be shown what comes and goes.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        !self.taps.is_empty() || !self.observers.is_empty()
    }

    /// More than half of it is used, and it may be waited for.
    #[inline]
    pub(crate) fn is_filling_up(&self) -> bool {
        self.port.room() < self.watermark && self.is_responsive()
    }

    /// Whether it can be waited for: what leads out of the engine takes nothing any more after
    /// [`WIRE_WAIT`](crate::state::backpressure::WIRE_WAIT) in which nothing moved.
    #[inline]
    pub(crate) fn is_responsive(&self) -> bool {
        self.relay || !self.wait.over
    }

    /// Counts how long the packets took that it is about to be handed. All of a batch count as its first.
    #[inline]
    pub(crate) fn count_latency(&mut self, clock: &Clock, batch: &[Packet]) {
        let received = batch.first().map_or(0, |packet| packet.record().timestamp);
        if received != 0 && !self.relay {
            self.latencies.record(clock.now().0.saturating_sub(received), batch.len() as u64);
        }
    }
}

/// What a worker notes about its ports as a whole.
#[derive(Default)]
pub(crate) struct Polling {
    /// The port that is polled first.
    pub(crate) first: usize,
    /// When ports that have been idle for long are looked at again.
    pub(crate) next_cold: Cycles,
    /// Wires to other workers that packets passed in this turn.
    pub(crate) to_signal: Vec<usize>,
    /// Ports that are to be looked after.
    pub(crate) maintained: Vec<usize>,
    /// Whether a function or port here reads the flow hash of packets.
    pub(crate) flow_hash: bool,
    /// Ports are not polled any more: what has come in goes out.
    pub(crate) closing: bool,
}

impl Worker {
    /// Packets have passed a wire to or from another worker: its end is told so when the turn is over.
    #[inline]
    pub(crate) fn note_passage(&mut self, port: usize) {
        if !std::mem::replace(&mut self.ports[port].to_signal, true) {
            self.polling.to_signal.push(port);
        }
    }

    /// Tells wires to other workers that the turn is over.
    #[inline]
    pub(crate) fn signal_wires(&mut self) {
        while let Some(port) = self.polling.to_signal.pop() {
            if let Some(node) = self.ports.get_mut(port) {
                node.to_signal = false;
                node.port.signal();
            }
        }
    }
}
