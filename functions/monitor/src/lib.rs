//! The network function `monitor`: totals, and the flows with the most bytes and packets, as a JSON report.
//!
//! 1. [`Monitor`] is made with room for its flows ([`config`](crate)); memory is bounded from then on.
//! 2. Each packet is looked at once: its EtherType, protocol and size go to the totals, its 5-tuple to the
//!    flow table.
//! 3. A full table gives its smallest flow's place to a new one and remembers by how much counts may be
//!    wrong.
//! 4. The report names totals and top flows, each with its bounds; the state can be handed to another
//!    instance.
//! 5. With a collector, [`tracks`](crate) knows what of each flow is still to be exported, and the
//!    [`exporter`](crate) goes over the table by the timer and sends it in messages of IPFIX
//!    ([`ipfix`](crate)) by the third interface.
//!
//! It observes (its verdicts are ignored then) or stands in line, where it passes every packet to the other
//! interface.
//!
//! Limits: 1,000,000 flows; 32 EtherTypes are counted by name; all fragments of a packet count for the flow
//! without ports.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod config;
mod exporter;
mod flow_id;
mod flow_table;
mod ipfix;
mod monitor;
mod report;
mod sighting;
mod state;
mod totals;
mod tracks;

#[cfg(test)]
mod tests;

pub use monitor::Monitor;

nf_sdk::superfluid_function!(Monitor);

/// The function in Rust that the contract's page shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/nf-abi.md")]
struct ContractPage;
