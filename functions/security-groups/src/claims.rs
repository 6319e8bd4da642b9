//! Addresses that the opener forms itself (RFC 4862, RFC 8981), which the platform is told of.
//!
//! 1. The opener probes for an address, announces it, or asks for a neighbour from it, in one of the networks
//!    in which it may form some. It is not the device's: the packet is dropped as `spoofed`.
//! 2. After the batch the platform is told, by an ask behind `inside`. It decides, and probes for the address
//!    in the opener's place.
//! 3. The table of devices has the address among the device's own, and packets from it pass.
//! 4. Addresses that packets come from are told of again every [`RENEWED`], so that the platform keeps them.
//!
//! Limits: [`AT_ONCE`] new ones in a batch, and [`RATE`] in a second: what an opener makes up keeps nothing
//! but its own addresses waiting.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use nf_sdk::{Host, Limiter, Nanos};

/// The interface that the opener is at.
const INSIDE: u16 = 0;
/// New addresses that are told of in a batch, in a second, and at once after a pause.
const AT_ONCE: usize = 8;
const RATE: u64 = 4;
const BURST: u64 = 16;
/// Addresses in use that are remembered, as many as a device may have and more.
const MOST_USED: usize = 32;
/// After this those in use are told of again.
const RENEWED: Nanos = Nanos::from_secs(600);

/// Bytes of the prefix of a network.
const PREFIX: usize = 8;

/// What the opener claims, and uses.
#[derive(Debug)]
pub struct Claims {
    networks: Vec<[u8; PREFIX]>,
    new: Vec<[u8; 16]>,
    used: Vec<[u8; 16]>,
    limiter: Limiter,
    renewed: Option<Nanos>,
}

impl Claims {
    /// In networks with these prefixes.
    pub fn new(networks: Vec<[u8; PREFIX]>) -> Claims {
        Claims {
            networks,
            new: Vec::new(),
            used: Vec::new(),
            limiter: Limiter::new(RATE, BURST),
            renewed: None,
        }
    }

    /// Whether the opener may form addresses at all.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        !self.networks.is_empty()
    }

    fn note(list: &mut Vec<[u8; 16]>, networks: &[[u8; PREFIX]], address: [u8; 16], most: usize) {
        let is_in = address.first_chunk().is_some_and(|prefix| networks.contains(prefix));
        if is_in && list.len() < most && !list.contains(&address) {
            list.push(address);
        }
    }

    /// The opener claims an address that is not the device's.
    pub fn claimed(&mut self, address: [u8; 16]) {
        Claims::note(&mut self.new, &self.networks, address, AT_ONCE);
    }

    /// A packet came from an address of the device.
    pub fn used(&mut self, address: [u8; 16]) {
        Claims::note(&mut self.used, &self.networks, address, MOST_USED);
    }

    /// Tells the platform.
    pub fn tell(&mut self, host: &mut Host, now: Nanos) {
        // What the host has no room for is claimed or used again.
        for address in self.new.drain(..) {
            if self.limiter.take(now) {
                let _ = host.ask(INSIDE, IpAddr::V6(Ipv6Addr::from_octets(address)));
            }
        }
        let renewed = *self.renewed.get_or_insert(now);
        if now.since(renewed) < RENEWED {
            return;
        }
        self.renewed = Some(now);
        for address in self.used.drain(..) {
            let _ = host.ask(INSIDE, IpAddr::V6(Ipv6Addr::from_octets(address)));
        }
    }
}
