//! What tells flows apart: addresses, ports and protocol, packed into five words that compare and hash
//! quickly.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use nf_sdk::keyed_hash::KeyedHash;

/// Bit of the last word: the addresses are of IPv6.
const IPV6: u64 = 1;
/// Bit of the last word: the first packet went from the second end to the first. It tells no flows apart.
const REVERSED: u64 = 2;
/// Bit of the last word: nothing came since the flow was exported last. It tells no flows apart.
const RESTING: u64 = 4;
/// Bit of the last word: the packets are in a tunnel, whose path the table knows.
const TUNNELLED: u64 = 8;
/// Bits of the last word, from here on, that say when the last packet came, in milliseconds without the upper
/// bits.
const STAMP_AT: u32 = 4;
/// How many milliseconds it takes until they are the same again.
const STAMP_ROUND: u64 = 1 << 20;
const STAMP: u64 = (STAMP_ROUND - 1) << STAMP_AT;
/// All bits of the last word that make it the flow that it is.
const IDENTITY: u64 = 0xffff_ffff_ff00_0000 | TUNNELLED | IPV6;

/// A flow: two ends and a protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowId {
    /// Address of one end, address of the other, then its port, the other's, protocol (8 bits), and the bits
    /// above.
    words: [u64; 5],
}

/// One end of a flow: address and port. Ends have an order, which is how both directions come to one
/// identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    high: u64,
    low: u64,
    port: u16,
}

impl End {
    #[inline(always)]
    pub(crate) fn v4(address: u32, port: u16) -> End {
        End { high: 0, low: u64::from(address), port }
    }

    #[inline(always)]
    pub(crate) fn v6(high: u64, low: u64, port: u16) -> End {
        End { high, low, port }
    }

    pub(crate) fn new(address: IpAddr, port: u16) -> End {
        match address {
            IpAddr::V4(address) => End::v4(address.to_bits(), port),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                End::v6((bits >> 64) as u64, bits as u64, port)
            }
        }
    }
}

impl FlowId {
    /// The flow of a packet from `source` to `destination`, which are of one family.
    #[inline(always)]
    pub(crate) fn new(ipv6: bool, source: End, destination: End, protocol: u8, merged: bool) -> FlowId {
        let reversed = merged && destination < source;
        let (one, other) = if reversed { (destination, source) } else { (source, destination) };
        let last = u64::from(one.port) << 48
            | u64::from(other.port) << 32
            | u64::from(protocol) << 24
            | if reversed { REVERSED } else { 0 }
            | if ipv6 { IPV6 } else { 0 };
        FlowId { words: [one.high, one.low, other.high, other.low, last] }
    }

    /// Whether they are the same flow.
    #[inline(always)]
    pub(crate) fn is(&self, other: &FlowId) -> bool {
        let [a, b] = [&self.words, &other.words];
        let different =
            (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | ((a[4] ^ b[4]) & IDENTITY);
        different == 0
    }

    /// Source and destination of the first packet.
    pub(crate) fn ends(&self) -> [(IpAddr, u16); 2] {
        let [a, b, c, d, last] = self.words;
        let address = |high: u64, low: u64| {
            if self.is_ipv6() {
                IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
            } else {
                IpAddr::V4(Ipv4Addr::from_bits(low as u32))
            }
        };
        let (one, other) = ((address(a, b), (last >> 48) as u16), (address(c, d), (last >> 32) as u16));
        if last & REVERSED != 0 { [other, one] } else { [one, other] }
    }

    /// Whether the addresses are of IPv6.
    #[inline(always)]
    pub(crate) fn is_ipv6(&self) -> bool {
        self.words[4] & IPV6 != 0
    }

    /// The same flow in a tunnel.
    pub(crate) fn inside(mut self) -> FlowId {
        self.words[4] |= TUNNELLED;
        self
    }

    /// Whether its packets are in a tunnel.
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        self.words[4] & TUNNELLED != 0
    }

    /// The protocol.
    #[inline(always)]
    pub(crate) fn protocol(&self) -> u8 {
        (self.words[4] >> 24) as u8
    }

    /// Notes when a packet came, beside what tells flows apart; whether the flow was resting.
    #[inline(always)]
    pub(crate) fn stamp(&mut self, ms: u64) -> bool {
        let last = self.words[4];
        self.words[4] = last & !(STAMP | RESTING) | (ms & (STAMP_ROUND - 1)) << STAMP_AT;
        last & RESTING != 0
    }

    /// When the last packet came, if that is less than 17 minutes before `now`, in milliseconds.
    pub(crate) fn stamped(&self, now: u64) -> u64 {
        let stamp = (self.words[4] & STAMP) >> STAMP_AT;
        now.saturating_sub(now.wrapping_sub(stamp) & (STAMP_ROUND - 1))
    }

    /// The next packet is to begin anew.
    pub(crate) fn rest(&mut self) {
        self.words[4] |= RESTING;
    }

    /// For the state that is handed on.
    pub(crate) fn to_bytes(mut self) -> [u8; 40] {
        self.words[4] &= IDENTITY | REVERSED;
        let mut bytes = [0; 40];
        for (place, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` when they are the bytes of no flow.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<FlowId> {
        let (chunks, []) = <&[u8; 40]>::try_from(bytes).ok()?.as_chunks::<8>() else { return None };
        let mut words = [0; 5];
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        let ipv4 = words[4] & IPV6 == 0;
        let narrow = words[0] == 0 && words[2] == 0 && (words[1] | words[3]) >> 32 == 0;
        (words[4] & !(IDENTITY | REVERSED) == 0 && (!ipv4 || narrow)).then_some(FlowId { words })
    }
}

/// Hashes flows with a key that strangers do not know, so that they cannot choose flows that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowHash(KeyedHash<6>);

impl FlowHash {
    /// Stretches a seed to a key.
    pub(crate) fn new(seed: u64) -> FlowHash {
        FlowHash(KeyedHash::new(seed))
    }

    /// The hash of a flow.
    #[inline(always)]
    pub(crate) fn of(&self, flow: &FlowId) -> u64 {
        let [a, b, c, d, last] = flow.words;
        self.0.of_first(&[a, b, c, d, last & IDENTITY])
    }

    /// The same of a flow in a tunnel, by whose path flows are told apart too.
    pub(crate) fn of_inside(&self, flow: &FlowId, path: u64) -> u64 {
        let [a, b, c, d, last] = flow.words;
        self.0.of(&[a, b, c, d, last & IDENTITY, path])
    }
}
