//! What a worker owns, each part with its own state, its invariants and what can be done with that state
//! alone.

pub(crate) mod accounting;
pub(crate) mod backpressure;
pub(crate) mod instances;
pub(crate) mod ports;
pub(crate) mod sparse;
pub(crate) mod timers;

use packet_memory::Packet;
use virtual_device::Way;
use virtual_switch::{Route, SwitchPort};

/// Vectors that are used again and again, so that nothing is allocated on the way of a packet.
#[derive(Default)]
pub(crate) struct Batches {
    /// Emptied batches.
    pub(crate) spare: Vec<Vec<Packet>>,
    /// Routes of the batch that is being switched.
    pub(crate) routes: Vec<Route>,
    /// Ways of the batch that passes a device.
    pub(crate) ways: Vec<Way>,
    /// Packets of it, by their position, that a device sees which does not take them.
    pub(crate) seen: Vec<(usize, SwitchPort)>,
    /// Of the outer IPv4 packet that was made last (RFC 6864).
    pub(crate) identification: u16,
    /// How many devices it has passed since it was handed on.
    pub(crate) in_a_row: u8,
    /// An observer is being called that was shown packets at once.
    pub(crate) showing: bool,
}
