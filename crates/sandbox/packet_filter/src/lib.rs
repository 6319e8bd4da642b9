//! What functions that filter share: rules, connections and the way of a batch through both. The stock
//! functions `firewall` and `security-groups` are made of it.
//!
//! A packet's way:
//! 1. [`header`] reads it: the common packet by a few fixed loads, every other completely.
//! 2. Stateless: [`rule_set`] finds the first rule that matches, by [`linear`] or [`bit_vector`] search, and
//!    counts it.
//! 3. Stateful: [`filter`] reads the whole batch first, then looks all flows up in [`flow_table`], then each
//!    packet goes by its flow's state ([`tracker`], [`tcp`]); memory answers for the whole batch at once that
//!    way. Only a packet that opens a flow comes to the rules ([`judge`]).
//! 4. [`fragments`] lets later fragments follow the first, and [`waiting`] has them held until that has come.
//!
//! Flows go to another instance, and are asked of its rules there, by [`state`].
//!
//! Limits: 4,096 rules in a set; memory for flows is taken once, at the start; sixteen VLAN tags, eight
//! extension headers and, where that is asked for, four tunnels are looked through. The packet is never
//! written.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod bit_vector;
pub mod filter;
pub mod flow_table;
pub mod fragments;
pub mod header;
pub mod judge;
pub mod linear;
pub mod report;
pub mod rule;
pub mod rule_set;
pub mod settings;
pub mod state;
pub mod tally;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod tracker;
pub mod waiting;
