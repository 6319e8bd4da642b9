//! Inside hosts and their mappings.
//!
//! A mapping gives an inside end one outside end for all that it talks to (endpoint-independent mapping, RFC
//! 4787 REQ-1, RFC 5382 REQ-1). It lasts as long as it has sessions; that of a forwarded port lasts for ever.
//! A host lasts as long as it has mappings, and its mappings have one outside address (RFC 4787 REQ-2).

use crate::ports::Ports;
use crate::session::InsideEnds;
use crate::settings::Settings;
use nf_sdk::index::Index;
use nf_sdk::keyed_hash::{KeyedHash, two};
use nf_sdk::slab::Slab;
use nf_sdk::wire::{Address, Port};
use nf_sdk::{HalfLine, Line, Secret};

/// The words of a host.
mod host {
    pub const ADDRESS: usize = 0;
    /// Four words: of IPv4 the first three are 0.
    pub const WORDS: usize = 4;
    /// VLANs, and in the lowest bit whether it is of IPv6.
    pub const KIND: usize = 4;
    /// Sessions that count for its limit.
    pub const SESSIONS: usize = 5;
    pub const PORTS: usize = 6;
    pub const MAPPINGS: usize = 7;
    /// The place of its outside address in the pool.
    pub const OUTSIDE: usize = 8;
    /// Its Ethernet address in two words; zeros while it is not known.
    pub const MAC: usize = 9;
}

/// The words of a mapping.
mod mapping {
    pub const HOST: usize = 0;
    /// Protocol and VLANs.
    pub const KIND: usize = 1;
    /// Inside port in the lower half, outside port in the upper.
    pub const PORTS: usize = 2;
    pub const OUTSIDE: usize = 3;
    pub const SESSIONS: usize = 4;
    pub const FLAGS: usize = 5;
}

/// In a mapping's flags: it is in use.
const USED: u32 = 1;
/// In a mapping's flags: of a forwarded port.
const LASTING: u32 = 2;

/// Where packets for a mapping go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The inside end's address: four words, of IPv4 the last alone.
    pub address: [u32; 4],
    /// It is of IPv6.
    pub is_v6: bool,
    /// The inside port.
    pub port: Port,
    /// The mapping's number.
    pub mapping: u32,
    /// It is a forwarded port.
    pub is_forwarded: bool,
}

/// Why there is no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMapping {
    /// The host has as many ports or sessions as one may have.
    HostLimit,
    /// The host's outside address has no free port.
    NoPort,
    /// There is no room for another host or mapping.
    Full,
}

/// Hosts and mappings.
pub struct Bindings {
    hosts: Slab<Line>,
    host_index: Index,
    mappings: Slab<HalfLine>,
    inside: Index,
    outside: Index,
    /// Ports of the pool.
    pub ports: Ports,
    hash: KeyedHash<4>,
    /// Chooses outside ends, which others see.
    secret: Secret,
    paired: bool,
    host_ports: u32,
    host_sessions: u32,
}

/// What is worked out of an inside end: by which hashes its host and its mapping are found, and the number
/// that chooses its outside port, if it was needed yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashes {
    host: u64,
    mapping: u64,
    chance: Option<u64>,
}

const VLANS: u32 = !0xff;

fn address_words(ends: &InsideEnds) -> [u32; 4] {
    [ends.upper[0], ends.upper[1], ends.upper[2], ends.inside]
}

/// An inside end; what it talks to is no part of it. Of IPv4 the first two words tell all.
fn inside_words(ends: &InsideEnds) -> [u64; 4] {
    let [a, b, c] = ends.upper;
    let port = u64::from(ends.ports & 0xffff);
    [two(ends.inside, ends.kind), port, two(a, b), two(c, u32::from(ends.is_v6))]
}

/// A number that others cannot foresee, for the outside port of an inside end. Not inlined: compilers move
/// what it computes to where it may not be needed.
#[inline(never)]
fn chance(secret: &Secret, ends: &InsideEnds) -> u64 {
    let words @ [address, port, ..] = inside_words(ends);
    if ends.is_v6 { secret.number(&words) } else { secret.number(&[address, port]) }
}

fn host_kind(ends: &InsideEnds) -> u32 {
    ends.kind & VLANS | u32::from(ends.is_v6)
}

impl Bindings {
    /// Takes the memory, and makes the mappings of forwarded ports; `None` when there is not as much.
    pub fn new(settings: &Settings, secret: &Secret) -> Option<Bindings> {
        // A forwarded port may be its host's only one.
        let forwards = settings.forwards.len();
        let (hosts, mappings) = (settings.max_hosts + forwards, settings.max_sessions + forwards);
        let mut bindings = Bindings {
            hosts: Slab::new(hosts)?,
            host_index: Index::new(hosts)?,
            mappings: Slab::new(mappings)?,
            inside: Index::new(mappings)?,
            outside: Index::new(mappings)?,
            ports: Ports::new(settings),
            hash: KeyedHash::new(secret.seed("mappings")),
            secret: *secret,
            paired: settings.paired,
            host_ports: settings.host_ports,
            host_sessions: settings.host_sessions,
        };
        bindings.forward(settings).then_some(bindings)
    }

    /// Makes the mappings of forwarded ports; false when there is no room for them.
    fn forward(&mut self, settings: &Settings) -> bool {
        settings.forwards.iter().all(|forward| {
            let (inside, port) = forward.inside;
            let ends = InsideEnds {
                inside,
                ports: u32::from(port.swap_bytes()),
                kind: u32::from(forward.protocol),
                ..InsideEnds::default()
            };
            let Some(place) = self.ports.find(forward.outside.0) else { return false };
            let hashes = self.hashes(&ends);
            let known = self.find_host(&ends, &hashes);
            let Some(host) = known.or_else(|| self.add_host(&ends, &hashes, place)) else { return false };
            self.ports.take(place, forward.protocol, forward.outside.1)
                && self.add(host, &ends, &hashes, (place, forward.outside.1), USED | LASTING).is_some()
        })
    }

    /// Hosts that have mappings.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Mappings, those of forwarded ports included.
    pub fn mappings(&self) -> usize {
        self.mappings.len()
    }

    fn host_hash(&self, ends: &InsideEnds) -> u64 {
        let [a, b, c] = ends.upper;
        let first = two(ends.inside, host_kind(ends));
        // The rest is zeros, whose hash is the same for all.
        if ends.is_v6 {
            self.hash.of_first(&[first, two(a, b), u64::from(c)])
        } else {
            self.hash.of_first(&[first])
        }
    }

    /// The hash of an inside end; what it talks to is no part of it.
    fn inside_hash(&self, ends: &InsideEnds) -> u64 {
        let words @ [address, port, ..] = inside_words(ends);
        if ends.is_v6 { self.hash.of(&words) } else { self.hash.of_first(&[address, port]) }
    }

    /// What is worked out of an inside end before it is looked for.
    #[inline(always)]
    pub fn hashes(&self, ends: &InsideEnds) -> Hashes {
        Hashes { host: self.host_hash(ends), mapping: self.inside_hash(ends), chance: None }
    }

    /// The place in the pool of the outside address of a new host, which others cannot foresee either.
    #[inline(never)]
    fn choose(&self, ends: &InsideEnds) -> u32 {
        if self.ports.addresses() == 1 {
            return 0;
        }
        let [a, b, c, d] = address_words(ends);
        let chosen = if ends.is_v6 {
            self.secret.number(&[two(a, b), two(c, d), u64::from(host_kind(ends))])
        } else {
            self.secret.number(&[two(d, host_kind(ends))])
        };
        self.ports.choose(chosen >> 48)
    }

    /// The inside end of a mapping.
    fn inside_end(&self, mapping: u32) -> InsideEnds {
        let [number, kind, ports, ..] = self.mappings.get(mapping).0;
        let line = &self.hosts.get(number).0;
        let mut ends = InsideEnds { kind, ports: ports & 0xffff, inside: line[3], ..InsideEnds::default() };
        ends.upper.copy_from_slice(&line[..3]);
        ends.is_v6 = line[host::KIND] & 1 != 0;
        ends
    }

    /// Reads the lines of the indexes in which an inside end is looked for, to have them in the cache.
    #[inline(always)]
    pub fn touch_index(&self, hashes: &Hashes) -> u32 {
        self.host_index.touch(hashes.host) ^ self.inside.touch(hashes.mapping)
    }

    /// The place in the pool of the outside address that an inside end's host probably has, and the mapping
    /// that it probably has itself.
    #[inline(always)]
    pub fn probable(&self, hashes: &Hashes) -> (u32, u32) {
        let host = self.hosts.get(self.host_index.probable(hashes.host));
        (host.0[host::OUTSIDE], self.inside.probable(hashes.mapping))
    }

    /// The outside end of a mapping, if that probably is the inside end's.
    #[inline(always)]
    pub fn probable_end(&self, ends: &InsideEnds, mapping: u32) -> Option<(Address, Port)> {
        let line = &self.mappings.get(mapping).0;
        let differs = line[mapping::KIND] ^ ends.kind | (line[mapping::PORTS] ^ ends.ports) & 0xffff;
        (differs == 0).then(|| self.outside_end(mapping))
    }

    /// Reads the word of an outside port, in host order.
    #[inline(always)]
    pub fn touch_port(&self, place: u32, protocol: u8, port: u16) -> u32 {
        self.ports.touch(place, protocol, port)
    }

    /// Where the search for an outside port would begin, by the place in the pool of the outside address: at
    /// the inside port while that is free.
    #[inline(always)]
    pub fn search_begins(&self, ends: &InsideEnds, hashes: &mut Hashes, place: u32) -> u16 {
        let (protocol, wanted) = (ends.kind as u8, (ends.ports as u16).swap_bytes());
        if self.ports.is_own_free(place, protocol, wanted) {
            return wanted;
        }
        let chance = chance(&self.secret, ends);
        hashes.chance = Some(chance);
        self.ports.search_begins(protocol, wanted, chance)
    }

    /// The outside port that it probably ends at.
    #[inline(always)]
    pub fn probable_port(&self, ends: &InsideEnds, place: u32, begin: u16) -> Port {
        let (protocol, wanted) = (ends.kind as u8, (ends.ports as u16).swap_bytes());
        self.ports.probable(place, protocol, wanted, begin).swap_bytes()
    }

    /// Reads the line of the index in which a mapping to this outside end is noted.
    #[inline(always)]
    pub fn touch_outside(&self, address: Address, protocol: u8, port: Port) -> u32 {
        self.outside.touch(self.outside_hash(address, protocol, port))
    }

    fn outside_hash(&self, address: Address, protocol: u8, port: Port) -> u64 {
        self.hash.of_first(&[two(address, u32::from(port) | u32::from(protocol) << 16)])
    }

    fn find_host(&self, ends: &InsideEnds, hashes: &Hashes) -> Option<u32> {
        let words = address_words(ends);
        self.host_index.find(hashes.host, |number| {
            let line = &self.hosts.get(number).0;
            line[..host::WORDS] == words && line[host::KIND] == host_kind(ends)
        })
    }

    fn add_host(&mut self, ends: &InsideEnds, hashes: &Hashes, outside: u32) -> Option<u32> {
        let mut line = Line([0; 16]);
        line.0[host::ADDRESS..host::WORDS].copy_from_slice(&address_words(ends));
        line.0[host::KIND] = host_kind(ends);
        line.0[host::OUTSIDE] = outside;
        let number = self.hosts.take(line)?;
        if !self.host_index.insert(hashes.host, number) {
            self.hosts.give_back(number);
            return None;
        }
        Some(number)
    }

    fn remove_host(&mut self, number: u32) {
        let line = &self.hosts.get(number).0;
        let mut ends = InsideEnds { kind: line[host::KIND] & VLANS, ..InsideEnds::default() };
        ends.upper.copy_from_slice(&line[..3]);
        ends.inside = line[3];
        ends.is_v6 = line[host::KIND] & 1 != 0;
        self.host_index.remove(self.host_hash(&ends), number);
        self.hosts.give_back(number);
    }

    /// Notes a mapping to a port of an address of the pool.
    fn add(
        &mut self,
        host: u32,
        ends: &InsideEnds,
        hashes: &Hashes,
        (place, port): (u32, u16),
        flags: u32,
    ) -> Option<u32> {
        let outside = self.ports.address(place);
        let wire = port.swap_bytes();
        let mut line = HalfLine([0; 8]);
        line.0[mapping::HOST] = host;
        line.0[mapping::KIND] = ends.kind;
        line.0[mapping::PORTS] = ends.ports & 0xffff | u32::from(wire) << 16;
        line.0[mapping::OUTSIDE] = outside;
        line.0[mapping::FLAGS] = flags;
        let number = self.mappings.take(line)?;
        if !self.inside.insert(hashes.mapping, number) {
            self.mappings.give_back(number);
            return None;
        }
        if !self.outside.insert(self.outside_hash(outside, ends.kind as u8, wire), number) {
            self.inside.remove(hashes.mapping, number);
            self.mappings.give_back(number);
            return None;
        }
        let line = &mut self.hosts.get_mut(host).0;
        line[host::MAPPINGS] += 1;
        if flags & LASTING == 0 {
            line[host::PORTS] += 1;
        }
        Some(number)
    }

    /// The mapping of an inside end, if it has one.
    pub fn find(&self, ends: &InsideEnds) -> Option<u32> {
        let hashes = self.hashes(ends);
        let host = self.find_host(ends, &hashes)?;
        self.find_of(host, ends, &hashes)
    }

    fn find_of(&self, host: u32, ends: &InsideEnds, hashes: &Hashes) -> Option<u32> {
        let (kind, port) = (ends.kind, ends.ports as u16);
        self.inside.find(hashes.mapping, |number| {
            let line = &self.mappings.get(number).0;
            line[mapping::HOST] == host
                && line[mapping::KIND] == kind
                && line[mapping::PORTS] as u16 == port
                && line[mapping::FLAGS] & USED != 0
        })
    }

    /// The mapping of an inside end, which is made if it has none. A host's Ethernet address is noted on the
    /// way.
    pub fn obtain(&mut self, ends: &InsideEnds, hashes: &Hashes, mac: [u32; 2]) -> Result<u32, NoMapping> {
        let known = self.find_host(ends, hashes);
        if let Some(host) = known {
            let line = &mut self.hosts.get_mut(host).0;
            line[host::MAC..host::MAC + 2].copy_from_slice(&mac);
            if line[host::SESSIONS] >= self.host_sessions {
                return Err(NoMapping::HostLimit);
            }
            if let Some(mapping) = self.find_of(host, ends, hashes) {
                return Ok(mapping);
            }
            if self.hosts.get(host).0[host::PORTS] >= self.host_ports {
                return Err(NoMapping::HostLimit);
            }
        }
        if self.mappings.is_full() {
            return Err(NoMapping::Full);
        }
        let host = match known {
            Some(host) => host,
            None => {
                let host = self.add_host(ends, hashes, self.choose(ends)).ok_or(NoMapping::Full)?;
                self.hosts.get_mut(host).0[host::MAC..host::MAC + 2].copy_from_slice(&mac);
                host
            }
        };
        let mapping = self.allocate(host, ends, hashes);
        if mapping.is_err() && self.hosts.get(host).0[host::MAPPINGS] == 0 {
            self.remove_host(host);
        }
        mapping
    }

    fn allocate(&mut self, host: u32, ends: &InsideEnds, hashes: &Hashes) -> Result<u32, NoMapping> {
        let (protocol, wanted) = (ends.kind as u8, (ends.ports as u16).swap_bytes());
        let own = self.hosts.get(host).0[host::OUTSIDE];
        let count = self.ports.addresses() as u32;
        let others = if self.paired { 1 } else { count };
        for place in (own..count).chain(0..own).take(others as usize) {
            let port = if self.ports.take_own(place, protocol, wanted) {
                Some(wanted)
            } else {
                let chance = hashes.chance.unwrap_or_else(|| chance(&self.secret, ends));
                self.ports.take_other(place, protocol, wanted, chance)
            };
            if let Some(port) = port {
                return self.add(host, ends, hashes, (place, port), USED).ok_or_else(|| {
                    self.ports.give_back(place, protocol, port);
                    NoMapping::Full
                });
            }
        }
        Err(NoMapping::NoPort)
    }

    /// Makes a mapping as another instance had it; `None` when its outside end is not free, is not in the
    /// pool or there is no room.
    pub fn restore(&mut self, ends: &InsideEnds, outside: (Address, Port), mac: [u32; 2]) -> Option<u32> {
        let place = self.ports.find(outside.0)?;
        let hashes = self.hashes(ends);
        let known = self.find_host(ends, &hashes);
        if let Some(mapping) = known.and_then(|host| self.find_of(host, ends, &hashes)) {
            let line = &self.mappings.get(mapping).0;
            let is_same =
                line[mapping::OUTSIDE] == outside.0 && (line[mapping::PORTS] >> 16) as u16 == outside.1;
            return is_same.then_some(mapping);
        }
        let (protocol, port) = (ends.kind as u8, outside.1.swap_bytes());
        if !self.ports.take(place, protocol, port) {
            return None;
        }
        let host = known.or_else(|| self.add_host(ends, &hashes, place));
        let mapping = host.and_then(|host| self.add(host, ends, &hashes, (place, port), USED));
        match (host, mapping) {
            (Some(host), Some(_)) => {
                self.hosts.get_mut(host).0[host::MAC..host::MAC + 2].copy_from_slice(&mac);
            }
            (host, _) => {
                self.ports.give_back(place, protocol, port);
                if let Some(host) = host.filter(|host| self.hosts.get(*host).0[host::MAPPINGS] == 0) {
                    self.remove_host(host);
                }
            }
        }
        mapping
    }

    /// Where a packet for this outside end goes.
    pub fn target(&self, address: Address, kind: u32, port: Port) -> Option<Target> {
        let number = self.outside.find(self.outside_hash(address, kind as u8, port), |number| {
            let line = &self.mappings.get(number).0;
            line[mapping::OUTSIDE] == address
                && (line[mapping::PORTS] >> 16) as u16 == port
                && line[mapping::KIND] == kind
                && line[mapping::FLAGS] & USED != 0
        })?;
        let line = &self.mappings.get(number).0;
        let host = &self.hosts.get(line[mapping::HOST]).0;
        let mut address = [0; 4];
        address.copy_from_slice(&host[..host::WORDS]);
        Some(Target {
            address,
            is_v6: host[host::KIND] & 1 != 0,
            port: line[mapping::PORTS] as u16,
            mapping: number,
            is_forwarded: line[mapping::FLAGS] & LASTING != 0,
        })
    }

    /// The outside end of a mapping.
    pub fn outside_end(&self, mapping: u32) -> (Address, Port) {
        let line = &self.mappings.get(mapping).0;
        (line[mapping::OUTSIDE], (line[mapping::PORTS] >> 16) as u16)
    }

    /// The Ethernet address of a mapping's host; zeros while it is not known.
    pub fn mac(&self, mapping: u32) -> [u32; 2] {
        let host = &self.hosts.get(self.mappings.get(mapping).0[mapping::HOST]).0;
        [host[host::MAC], host[host::MAC + 1]]
    }

    /// A session uses the mapping from now on, and may count for the limit of the mapping's host.
    pub fn hold(&mut self, mapping: u32, counted: bool) {
        let line = &mut self.mappings.get_mut(mapping).0;
        line[mapping::SESSIONS] += 1;
        let host = line[mapping::HOST];
        self.hosts.get_mut(host).0[host::SESSIONS] += u32::from(counted);
    }

    /// A session counts for the limit of the mapping's host from now on.
    pub fn count(&mut self, mapping: u32) {
        let host = self.mappings.get(mapping).0[mapping::HOST];
        self.hosts.get_mut(host).0[host::SESSIONS] += 1;
    }

    /// A session does not use the mapping any more; the last one takes it along, and its host with the last
    /// mapping.
    pub fn release(&mut self, mapping: u32, counted: bool) {
        let line = &mut self.mappings.get_mut(mapping).0;
        line[mapping::SESSIONS] -= 1;
        let host = line[mapping::HOST];
        self.hosts.get_mut(host).0[host::SESSIONS] -= u32::from(counted);
        self.drop_unused(mapping);
    }

    /// Takes a mapping away that has no sessions.
    pub fn drop_unused(&mut self, mapping: u32) {
        let [host, kind, ports, outside, sessions, flags, ..] = self.mappings.get(mapping).0;
        if sessions != 0 || flags & LASTING != 0 || flags & USED == 0 {
            return;
        }
        let outside_port = (ports >> 16) as u16;
        self.inside.remove(self.inside_hash(&self.inside_end(mapping)), mapping);
        self.outside.remove(self.outside_hash(outside, kind as u8, outside_port), mapping);
        self.mappings.give_back(mapping);
        if let Some(place) = self.ports.find(outside) {
            self.ports.give_back(place, kind as u8, outside_port.swap_bytes());
        }
        let line = &mut self.hosts.get_mut(host).0;
        line[host::PORTS] -= 1;
        line[host::MAPPINGS] -= 1;
        if line[host::MAPPINGS] == 0 {
            self.remove_host(host);
        }
    }
}
