//! The data path, in the order in which it is read: [`turn`] calls [`receive`], which classifies and queues;
//! it picks an instance and [`call`]s it with a batch; the [`verdicts`] are carried out, and packets
//! [`deliver`]ed to the next queue, a switch or a port.
//!
//! Each function here runs on the worker's thread, never waits and never allocates in the usual case. What it
//! works on is in [`crate::state`].

pub(crate) mod call;
pub(crate) mod classify;
pub(crate) mod deliver;
pub(crate) mod devices;
pub(crate) mod mtu;
pub(crate) mod observers;
pub(crate) mod queue;
pub(crate) mod receive;
pub(crate) mod switching;
pub(crate) mod timers;
pub(crate) mod tunnels;
pub(crate) mod turn;
pub(crate) mod verdicts;
