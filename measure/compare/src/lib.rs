//! The product beside other programs on the same captures and rules: alerts beside Suricata's, flows beside
//! tshark's, verdicts beside nft's. `docs/peers.md` says how each is configured, and what differs and why.
//!
//! The life of a comparison:
//! 1. [`missing`] says which programs are not installed. Nothing is installed here.
//! 2. [`run`] finds [`captures`] and [`rules`]: the user's, or the seeded capture, the generated rules, and
//!    captures that Debian's packages have put on this machine.
//! 3. Each side says what it finds in a capture, in one form for all ([`table`]): [`product`] and
//!    [`suricata`] alerts, [`product`] and [`tshark`] flows, [`firewall`] and [`nft`] verdicts.
//! 4. [`difference`] compares them, which needs no program, and keeps each difference with file and frame.
//!
//! Each program is a process with an end in time and memory. What crashes or hangs on a capture is a line of
//! the result, and the other captures go on.
//!
//! Limits: captures of at most 512 MiB; a link that `pcap` ports refuse is left out, and said.

pub mod captures;
mod child;
pub mod collector;
pub mod difference;
mod error;
pub mod eve;
pub mod firewall;
pub mod frames;
pub mod nft;
pub mod product;
pub mod rules;
mod sides;
pub mod suricata;
pub mod table;
pub mod tshark;

pub use error::Error;
pub use sides::{Outcome, Settings, run};

/// Programs and the Debian packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    ("suricata", "suricata/bookworm-backports libhtp2/bookworm-backports"),
    ("tshark", "tshark"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("prlimit", "util-linux"),
];

/// Says what is missing, if anything is.
///
/// # Errors
/// [`Error::Peer`], with every program that is not installed.
pub fn missing() -> Result<(), Error> {
    Ok(peers::missing_of(PROGRAMS)?)
}
