//! Virtual devices (MVMP, section 3.1): where functions meet the network, independent of how many ports there
//! are and how they are organised.
//!
//! It moves no packet. The sender of a batch asks where it goes, in its own context and at its own expense;
//! workers share a device behind an `Arc`. A device is a program that does not change: a change makes a new
//! one, which takes counters, learned addresses and the state of links over from the one before, and replaces
//! it at a quiescent point.
//!
//! 1. [`DeviceSettings`] name the plugs, which are numbers of ends: one for each port, one for each opener
//!    (a function, or the head of a chain). [`Device::new`] works out what is decided at each plug.
//! 2. [`Device::whole`] says where all of a batch goes that comes in by one plug, if that does not depend on
//!    its packets; else [`Device::decide`] opens the decisions for it, and [`Decisions::next`] decides on
//!    each.
//! 3. A [`Way`] is one plug, several ([`Device::plug`] names them: the first one gets the packet itself, each
//!    further one a copy), or none.
//! 4. What comes from a port goes to the openers that receive: the only one, one by the symmetric flow hash,
//!    or each ([`Share`]).
//! 5. What an opener sends goes by the mode:
//!
//! | mode | from an opener of one side | from another opener |
//! |---|---|---|
//! | [`Mode::Direct`] | that port | the first port |
//! | [`Mode::Bond`] | that port | a port by [`Balance`], of those that are up |
//! | [`Mode::Bridge`], two ports | that port | the port that the packet did not come by; both when it came by none |
//! | [`Mode::Bridge`], more | that port | where the destination was heard, else all but the one it came by |
//! | [`Mode::Rootless`] | - | the other openers that receive, by [`Share`] |
//!
//!    What a port's `send` says comes before the mode, for openers of the whole device.
//! 6. Outside of a port packets may have headers that openers do not see: [`Device::tunnels`] says which ones
//!    are to be taken off and put on there.
//! 7. [`Device::longest`] is how long a frame may be that leaves by a port, as its link says.
//! 8. [`PortDevices`] are the devices at one port: [`PortDevices::decide`] asks the port's classifier which
//!    of them takes a packet, and which others see it.
//! 9. Each worker tells its own [`Counts`] what comes in and which way it goes; [`Device::counters`] adds up.
//!
//! Packets of one flow keep their order in everything but [`Balance::RoundRobin`].
//!
//! # Limits
//! A device has at most [`MAX_PORTS`] ports; those beyond are used, but a packet does not remember them. By
//! which port a packet came is in its record, and is what the last device said by a port of which it came: a
//! bridge of two ports whose opener sends what came by another device takes that number for its own. Such an
//! opener opens a side. Flowlets are told apart by [`FLOWLETS`] slots: flows that share one pause together.
//! Links that are down are left out by a bond of whatever balance, until none is up.
//!
//! # Cost
//! Where all of a batch goes one way, a decision costs 5 ns a batch; else 2 to 8 ns a packet (bonds, bridges
//! of two), and up to 17 ns for a bridge of three (a busy machine): `cargo test --release -p virtual_device
//! -- --ignored --nocapture cost`. A batch of 32 takes 106 instructions more for a hop over a rootless device
//! of two openers than over a plain wire (cachegrind of the engine's `cost_of_` tests).
#![forbid(unsafe_code)]

mod at_port;
mod bond;
mod bridge;
mod counters;
mod decisions;
mod device;
mod limits;
mod settings;
#[cfg(test)]
mod tests;

pub use at_port::{HEAD, Policies, PortDevices};
pub use bond::FLOWLETS;
pub use bridge::Station;
pub use counters::{Counts, DeviceCounters, Entered, PortDevicesCounters};
pub use decisions::{Decisions, Several, Way};
pub use device::{Device, Straight};
pub use settings::{Balance, DeviceSettings, MAX_PORTS, Mode, NextHop, Opener, Share, Tunnels};
pub use virtual_switch::SwitchPort;
