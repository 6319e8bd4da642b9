//! Sequence numbers on the packets of a bond, so that one flow can use all of its links and keep its order.
//!
//! 1. A [`Sender`] numbers packets, whatever flow they are of. Each gets a [`Header`] in front
//!    ([`Header::put_on`]) and leaves by any link.
//! 2. At the other end [`Header::take_off`] reads the header of what comes by any of the links.
//! 3. The [`Receiver`] gives packets on in the order of their numbers. One that comes before its turn waits
//!    for those that are missing: [`WAIT`] at most, and [`WINDOW`] packets at most. Then what is missing is
//!    given up.
//! 4. What comes after it was given up, or twice, is [`Late`]: the caller drops it.
//! 5. [`Receiver::deadline`] says when waiting is over, and [`Receiver::expire`] ends it.
//!
//! Numbers are compared as serial numbers (RFC 1982), so they may wrap. A sender that starts anew has another
//! session, whose first number is 0. A receiver follows it at once: what waits is given on, and the numbers
//! of the new session are waited for from 0. What is still on its way of the session before is given on as it
//! comes for [`WAIT`]. A number that is [`AHEAD`] or more ahead is behind. A receiver of a session that took
//! nothing for [`SILENCE`] takes whatever number comes next, so that no jump of numbers silences a link for
//! longer.
//!
//! It has no I/O and no clock: time is a parameter, and packets are of any type.
//!
//! # Limits
//! Headers are not authenticated. One that is forged can mix up the order, or have packets that are on their
//! way counted as late, as far as the forger can send packets of its own by that link anyway. It can neither
//! make more wait than [`WINDOW`] packets, nor any of them for longer than [`WAIT`]. Numbers forged again and
//! again, each less than [`AHEAD`] ahead of the one before, keep the sender's behind for as long as they
//! come.

#![forbid(unsafe_code)]

mod header;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use header::{ADDRESSES, EtherType, HEADER, Header, InvalidEtherType, Session};
pub use receiver::{AHEAD, Late, Receiver, SILENCE, WAIT, WINDOW};
pub use sender::Sender;
