//! What a device did with frames.

/// Why a frame had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It is cut, or says lengths that cannot be.
    Malformed,
    /// A checksum is wrong.
    Checksum,
    /// A message of neighbour discovery or MLD that came over a router: its hop limit is not what it has to
    /// be.
    HopLimit,
    /// Addresses that a message of this kind must not have: a sender that is a group, unspecified or this
    /// device.
    Address,
    /// There were more than the device may process.
    Limited,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 5] =
        [Fault::Malformed, Fault::Checksum, Fault::HopLimit, Fault::Address, Fault::Limited];

    /// The name in counters.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Malformed => "malformed",
            Fault::Checksum => "checksum",
            Fault::HopLimit => "hop-limit",
            Fault::Address => "address",
            Fault::Limited => "limited",
        }
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// It was looked at.
    Taken,
    /// It is none of the protocols that are spoken here, or not for this device.
    Ignored,
    /// It had no effect.
    Dropped(Fault),
}

/// Counts since the device was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that were looked at.
    pub taken: u64,
    /// Frames that were none of these protocols, or not for this device.
    pub ignored: u64,
    /// Frames without effect, in the order of [`Fault::ALL`].
    pub dropped: [u64; Fault::ALL.len()],
    /// Frames that were sent.
    pub sent: u64,
    /// Answers that were not sent, because there were too many.
    pub unanswered: u64,
    /// Frames that were not sent, because too many waited.
    pub lost: u64,
    /// Neighbours that gave way to others: of the same asker, before they answered; of one with a larger
    /// part.
    pub evicted: u64,
    /// Asks that found the table full, and the asker's part full of neighbours that answered.
    pub full: u64,
    /// Claims of stations to the addresses of other neighbours.
    pub claims: u64,
    /// Claims of stations to the addresses of this device.
    pub conflicts: u64,
}
