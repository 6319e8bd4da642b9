//! Where a station is and when it was last heard of, in one word.

use std::fmt;
use telemetry::clock::Nanos;

/// A port of a switch, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchPort(pub u16);

impl fmt::Display for SwitchPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time, or a span, in units of 2^20 ns, which is about a millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

const TICK_SHIFT: u32 = 20;

impl Tick {
    #[inline]
    pub fn of(at: Nanos) -> Tick {
        Tick(at.0 >> TICK_SHIFT)
    }

    /// The span from `earlier` to here; zero when another worker's clock was ahead.
    #[inline]
    pub fn since(self, earlier: Tick) -> Tick {
        Tick(self.0.saturating_sub(earlier.0))
    }

    pub fn nanos(self) -> Nanos {
        Nanos(self.0 << TICK_SHIFT)
    }
}

/// Port and time, never zero as a word: 16 bits of port, one that is always set, and 44 of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

const SET: u64 = 1 << 47;
const PORT_SHIFT: u32 = 48;

impl Place {
    #[inline]
    pub fn new(port: SwitchPort, heard: Tick) -> Place {
        Place(u64::from(port.0) << PORT_SHIFT | SET | heard.0)
    }

    #[inline]
    pub fn from_word(word: u64) -> Option<Place> {
        (word != 0).then_some(Place(word))
    }

    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub fn port(self) -> SwitchPort {
        SwitchPort((self.0 >> PORT_SHIFT) as u16)
    }

    #[inline]
    pub fn heard(self) -> Tick {
        Tick(self.0 & (SET - 1))
    }
}
