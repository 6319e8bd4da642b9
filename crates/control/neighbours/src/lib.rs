//! The neighbours of a virtual device: which stations are on its link, and what the device itself is there.
//! Protocols as state machines without sockets, threads or clocks: time is a parameter, chance comes from a
//! seed.
//!
//! The life of a [`Device`], one for each virtual device that has addresses:
//! 1. [`Device::new`] checks the [`Settings`]. The device begins to make sure that its addresses are its own.
//! 2. [`Device::input`] takes each frame that [`classify`] knows, and changes what it is about. What is none
//!    of these protocols, or for others, has no effect.
//! 3. [`Device::poll`] does what is due. It is called at [`Device::next_deadline`], which is to be asked anew
//!    after each other call; late is allowed.
//! 4. [`Device::next_frame`] is what is to be sent, one frame after the other until there is none: after each
//!    of the other calls. Frames that nothing takes are bounded, and lost after that.
//! 5. [`Device::resolve_for`] asks for an address: its station is known, asked for, or unreachable. An ask is
//!    a lease of five minutes in which the entry is kept fresh: whatever still needs it asks again within it.
//! 6. [`Device::take_changes`] says whether functions see anything else now: [`Device::neighbours`],
//!    [`Device::addresses`], [`Device::routers`], [`Device::mtu`].
//! 7. [`Device::claim`] tells of an address that what opens the device has formed.
//! 8. [`Device::change`] puts other settings into effect and leaves alone what stays.
//! 9. [`Device::stop`] gives back what it holds of others; the frames for that are taken as in 4.
//!
//! | protocol | source |
//! |---|---|
//! | ARP; conflicts, probes, announcements | RFC 826, RFC 5227 |
//! | neighbour discovery, duplicates, addresses and routers by advertisements | RFC 4861, RFC 4862, RFC 6980, RFC 7559, RFC 9131 |
//! | DHCP client for IPv4 | RFC 2131, RFC 2132 |
//! | IGMPv3 and MLDv2 as a member, with queriers of older versions | RFC 2236, RFC 2710, RFC 3376, RFC 3810 |
//! | echo of ICMP and ICMPv6 | RFC 792, RFC 4443 |
//!
//! # Hostile links
//! No entry of the table comes from the link: only asks make them. The table is bounded; when it is full, the
//! oldest entry of the asker without an answer gives way, never one that answered, and an ask that finds none
//! is refused. An [`Asker`] with fewer entries than another one gets one of that one's, the answered ones
//! last; questions are sent for each in turn, and leave a quarter of the burst to what the device itself has
//! to send. A station that claims a neighbour's address gets it only when the known one does not answer any
//! more, which costs one question and a second; so does a router that takes over another one's address
//! (VRRP). What is processed, answered and sent is bounded by a token bucket each ([`Limits`]); an answer
//! that is waited for is processed beyond that, so that a storm keeps nothing from being resolved.
//!
//! An opener forms addresses where the settings let it and a router advertises the network, 16 at most, of
//! each of which something is seen at least every two hours ([`Device::claim`]): it takes no address of
//! another station, and no place of an address of another kind.
//!
//! # Limits
//! Frames are complete: where the checksum of a packet was left to its receiver, as a TAP with offloads does,
//! it is to be finished before [`Device::input`]. Frames with VLAN tags are ignored. A message names the
//! link-layer address of its frame, or has no effect: stations that answer for others from another address
//! than they name are not understood. A station can answer for another one before that does, as ARP and
//! neighbour discovery without SEND have it.
#![forbid(unsafe_code)]

mod addresses;
mod arp;
mod classify;
mod counters;
mod device;
mod dhcp;
mod discovery;
mod echo;
mod frame;
mod groups;
mod outbox;
mod parts;
mod rate;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub use addresses::{Address, AddressState, Origin};
pub use classify::{Protocol, classify};
pub use counters::{Counters, Fault, Input};
pub use device::{Changes, Device, Refusal, Resolution, Unformed};
pub use dhcp::{DhcpLease, DhcpState};
pub use parts::Asker;
pub use settings::{
    CAPACITY, Limits, MAX_ADDRESSES, MAX_SLAAC, MIN_MTU_V6, MTU, Mac, Prefix, Rate, Settings, SettingsError,
    is_unicast,
};
pub use table::{LEASE, Neighbour, NeighbourState};
