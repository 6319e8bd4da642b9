//! What a port is: where packets enter and leave the host's functions.
//!
//! The life of a port:
//! 1. It is opened by its driver's own constructor, with its own configuration.
//! 2. [`Port::receive`] moves packets from outside into buffers of the pool; [`Port::transmit`] hands packets
//!    out. Both do what can be done at once and never wait.
//! 3. When there is nothing to do the worker sleeps on [`Port::wake`].
//! 4. What a port depends on may vanish: it says so by [`Port::status`] and tries again in
//!    [`Port::maintain`].
//! 5. [`Port::close`] gives back what its rings still hold; dropping it ends what it has beside the worker.
//!
//! The simple ports live here, beside the trait: [`null`], [`sink`], [`generator`] and [`pcap`], and
//! [`mod@fault`], [`mod@station`] and [`bypass`], which stand before any of them: the first spoils what
//! passes, the second has room for stations of the platform's own, the third has packets pass by what is
//! gone; each in a folder with the same files. [`relay`] is the wire between two workers, and [`striped`]
//! what keeps packets in order between a striped bond and its links. Those that need a driver are crates of
//! their own; what those on interfaces of the kernel share of their life is [`attachment`].
//!
//! Limits: a port is used by one worker at a time and belongs to one pool.

#[macro_use]
mod delegate;

pub mod attachment;
mod bell;
pub mod bypass;
mod condition;
mod counters;
mod event;
pub mod fault;
pub mod generator;
mod merged;
pub mod null;
pub mod pcap;
mod random;
pub mod relay;
pub mod sink;
pub mod station;
mod status;
pub mod striped;
mod sync;
mod taking;
mod unfit;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod testing;

pub use bell::Bell;
pub use condition::Condition;
pub use counters::PortCounters;
pub use status::{PortEvent, PortStatus, Wake};

use packet_memory::{Packet, Pool};
use std::sync::Arc;
use telemetry::clock::Nanos;

/// A place where packets enter and leave.
///
/// Accounting is the port's duty, in its own [`PortCounters`]: each packet appended by `receive` is counted
/// as received (or generated), each packet taken by `transmit` ends as delivered, as dropped for a reason, or
/// is in [`Port::in_flight`] until its completion.
pub trait Port: Send {
    /// Moves up to `budget` packets from outside into buffers of `pool`, appended to `out` in order of
    /// arrival, with timestamp, VLAN tag in place, and offload state. Never waits. With a budget of 0 nothing
    /// is received, and what the port has to do for packets on their way out is done.
    ///
    /// A packet that cannot be taken (no free buffer, longer than a buffer) is counted as received and
    /// dropped.
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>);

    /// Hands all of `packets` out, in order, and leaves the vector empty. Never waits: what the outside
    /// cannot take now is dropped and counted.
    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>);

    /// What the worker is to wait for when it has nothing else to do.
    fn wake(&self) -> Wake<'_>;

    /// How the port is. One that depends on nothing is up.
    fn status(&self) -> PortStatus {
        PortStatus::Up
    }

    /// Longest IP packet, in bytes, that its link takes in one frame; `None` when there is no such bound, or
    /// it is not known. What is still to be segmented counts by its segments.
    fn mtu(&self) -> Option<u32> {
        None
    }

    /// Called about once in 100 ms, also while down: looks after what changes slowly (statistics of the
    /// kernel, an interface that came back). Returns what happened since the last call, oldest first.
    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        Vec::new()
    }

    /// Whether there is anything for [`Port::maintain`] to look after. What there is not is not called.
    fn needs_maintenance(&self) -> bool {
        true
    }

    /// What was counted so far.
    fn counters(&self) -> &PortCounters;

    /// What the port counted beside the packets of its [`PortCounters`], by name: results of its checks, say.
    fn details(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Whether `transmit` reads the packets' flow hash. A hash that is not read is not computed.
    fn reads_flow_hash(&self) -> bool {
        false
    }

    /// Packets that wait outside without loss while the port is not polled. A worker that lets packets gather
    /// does not let more gather.
    fn backlog(&self) -> usize {
        256
    }

    /// Whether what it will receive waits outside of this process. A worker whose wake-ups are moderated lets
    /// such packets wait, and no others.
    fn waits_outside(&self) -> bool {
        true
    }

    /// Packets that wait in the port until a process takes them, at most; `None`: the port leads to a
    /// network, which loses what it cannot take, or has no bound. Senders of the port's tenant are throttled
    /// when it has [`Port::room`] for less than half of that.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// Packets that `transmit` takes now without dropping one for want of room, as far as the port can tell.
    /// One that is down takes all, and drops them for another reason.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Asks to be woken when there is room: the worker is about to sleep. It looks at [`Port::room`] once
    /// more before it does. Only wires to other workers wake it; at others it looks again.
    fn want_room(&self) {}

    /// The worker has come to the end of a turn in which packets passed: a worker or a process that sleeps
    /// and waits for them, or for room, is woken. Wires to other workers are told, and ports with a
    /// [`Port::capacity`].
    fn signal(&mut self) {}

    /// The port as an end of a wire to another worker, if that is what it is: its packets have been
    /// classified and counted before.
    fn relay(&mut self) -> Option<&mut relay::RelayPort> {
        None
    }

    /// Where stations of the platform's own are put at the port, if there is such a place.
    fn stations(&self) -> Option<Arc<station::Stations>> {
        None
    }

    /// Packets in the port's own rings: handed in, not completed.
    fn in_flight(&self) -> u64 {
        0
    }

    /// Ends the port: completes or gives back (counted) what its rings hold, flushes files. One that holds
    /// nothing has nothing to do. Workers stand still meanwhile: what takes the kernel or another thread long
    /// is left to when the port is dropped.
    ///
    /// # Errors
    /// What could not be written, in words for the operator.
    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        Ok(())
    }
}
