//! Which of two sides the packets of a capture came from, so that one capture enters a chain at both of its
//! ends.
//!
//! 1. [`Sides::of`] is asked for each packet, in recorded order.
//! 2. With a prefix, what has its source address there is from inside. Without one, so is what the opener of
//!    a connection sent: the sender of its first packet that the capture has; of a SYN and ACK its receiver.
//!    What an end sends to itself is from its opener.
//! 3. Everything else, and what is no IP, is from outside.
//!
//! Openers are remembered in two generations of [`GENERATION`] connections: when the younger one is full the
//! older one is forgotten. What is used is in the younger one.
//!
//! Limits: a fragment without ports counts as its addresses and protocol say; a connection that was forgotten
//! is opened by whichever end sends next.

use packet::FlowKey;
use std::collections::HashMap;
use std::net::IpAddr;

/// Connections in a generation; a bound on memory, about 14 MiB for both.
const GENERATION: usize = 1 << 16;

/// A side of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Enters by the port that reads the capture.
    Inside,
    /// Enters by the port that is the other side.
    Outside,
}

/// How the sides of a capture are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// By source addresses: this prefix is inside.
    Prefix(IpAddr, u8),
    /// By connections: their openers are inside.
    Openers,
}

/// Tells sides apart.
#[derive(Debug)]
pub struct SideFinder {
    sides: Sides,
    /// By a connection's key with the lower end first: whether that end opened it.
    young: HashMap<FlowKey, bool>,
    old: HashMap<FlowKey, bool>,
}

impl SideFinder {
    /// Knows no connection yet.
    pub fn new(sides: Sides) -> SideFinder {
        SideFinder { sides, young: HashMap::new(), old: HashMap::new() }
    }

    /// Where a frame came from.
    pub fn of(&mut self, frame: &[u8]) -> Side {
        let Some(network) = packet::dissect(frame).ok().and_then(|dissection| dissection.network) else {
            return Side::Outside;
        };
        let inside = match self.sides {
            Sides::Prefix(prefix, length) => is_within(network.source, prefix, length),
            Sides::Openers => {
                let tcp_flags = frame.get(network.l4_offset + 13).copied();
                let answers = network.protocol == packet::protocol::TCP
                    && network.transport != packet::Transport::Opaque
                    && tcp_flags.is_some_and(|flags| flags & SYN_ACK == SYN_ACK);
                self.is_opener(network.flow_key(), answers)
            }
        };
        if inside { Side::Inside } else { Side::Outside }
    }

    /// Whether the sender of a packet opened its connection. `answers`: the packet says itself that it did
    /// not.
    fn is_opener(&mut self, sent: FlowKey, answers: bool) -> bool {
        let reversed = sent.reversed();
        let (key, is_lower) = if sent <= reversed { (sent, true) } else { (reversed, false) };
        if let Some(lower_opened) = self.young.get(&key) {
            return *lower_opened == is_lower;
        }
        let lower_opened = self.old.remove(&key).unwrap_or(is_lower != answers || sent == reversed);
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, lower_opened);
        lower_opened == is_lower
    }
}

/// TCP's flags SYN and ACK (RFC 9293, section 3.1).
const SYN_ACK: u8 = 0x12;

fn is_within(address: IpAddr, prefix: IpAddr, length: u8) -> bool {
    let shared = |difference: u128, bits: u32| match bits.saturating_sub(length.into()) {
        128 => true,
        behind => difference >> behind == 0,
    };
    match (address, prefix) {
        (IpAddr::V4(address), IpAddr::V4(prefix)) => {
            shared((address.to_bits() ^ prefix.to_bits()).into(), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(prefix)) => shared(address.to_bits() ^ prefix.to_bits(), 128),
        _ => false,
    }
}
