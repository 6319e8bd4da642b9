//! Control: what is done to a worker between two turns, at a quiescent point, and what it tells. Nothing here
//! is on the way of a packet.

pub(crate) mod account;
pub(crate) mod board;
pub(crate) mod detach;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod fault;
pub(crate) mod moves;
pub(crate) mod quiesce;
pub(crate) mod starts;
pub(crate) mod stop;
pub(crate) mod takeover;
pub(crate) mod tap;
pub(crate) mod upkeep;
pub(crate) mod wires;
