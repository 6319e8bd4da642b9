//! Tests: cases for each option, streams, properties against plain models, and hostile input.

mod any_input;
mod evasion;
mod faults;
pub mod frames;
mod http_receivers;
mod insertion;
mod messages;
mod model;
mod options;
mod ranges;
mod reassembly;
mod receiver;
mod receivers_differ;
mod secrets;
mod streams;
mod tunnels;
mod verdicts;
mod waiting;
