//! The learning switch (VALE; HyperNF, sections 3.2 and 3.3; IEEE 802.1D and 802.1Q): to which port a frame
//! goes, by the addresses in it.
//!
//! It moves no packet. The sender of a batch asks where it goes, in its own context and at its own expense;
//! workers share a switch behind an `Arc` and never wait for each other.
//!
//! 1. [`Switch::new`] allocates the table, 16 bytes and a bit for each entry, once and for all.
//! 2. [`Switch::attach`] gives the lowest free port number, to any number of ports up to 65,536.
//! 3. [`Switch::decide_batch`] learns at which port each frame's source is and says where its destination is:
//!    at a port ([`Route::To`]), not known, so at all of [`Switch::ports`] but the sender's
//!    ([`Route::Flood`]), or nowhere ([`Route::Filter`]). It reads the frame's first 16 bytes, see [`head`].
//! 4. A station that is heard at another port has moved, at once. One that was not heard for
//!    [`SwitchSettings::age`] is not known any more; [`Switch::sweep`], called now and then, takes such
//!    entries out, which matters for display and counters alone.
//! 5. [`Switch::detach`] takes a port's number back and forgets what was learned there. Frames from a port
//!    that is not attached are forwarded, and teach nothing.
//!
//! | frame | route | learned |
//! |---|---|---|
//! | shorter than an Ethernet header (14 bytes) | filtered (`no_source`) | no |
//! | source is a group's address or zero | filtered (`no_source`) | no |
//! | destination 01-80-C2-00-00-00 to 0F | filtered (`reserved`) | yes |
//! | destination is a group's address, broadcast among them | flooded | yes |
//! | destination is not known in the frame's VLAN | flooded | yes |
//! | destination is at the port that the frame comes from | filtered (`returned`) | yes |
//! | destination is at another port | that port | yes |
//!
//! Addresses are learned by VLAN, that of the outermost tag; frames without a tag are of VLAN 0, as those
//! with a mere priority are. Tags stay as they are. Which ports are members of a VLAN is not the switch's
//! business: flooding reaches them all.
//!
//! # Hostile sources
//! The table does not grow. An address has its place in one of eight entries, by a hash with a secret that is
//! drawn when the switch is made. When all eight are taken by others, an entry that has aged gives way, else
//! the oldest one of the port that has the most of the eight: ports that make up addresses evict their own
//! and each other's, however many they are, and a port that has no more than its part, eight by the number of
//! ports in the set, keeps what it has. What is evicted is flooded as before it was known. As with every
//! learning switch, a station can claim another's address. A station that must not be able to do that belongs
//! on a switch of its own.
//!
//! # Limits
//! A source beside which another worker is just writing is not learned from that frame but from its next one
//! (`deferred`). A reader during whose read the entries of a set are replaced eight times in a row floods.
//! There is no spanning tree: switches connected in a ring forward frames round it for ever.
//!
//! Both addresses known, a decision for one frame costs 12 to 18 ns, and one in a batch of 32 of one flow 3
//! to 4 ns (a busy machine, 2.6 GHz): `cargo test --release -p virtual_switch -- --ignored --nocapture cost`
//! measures it.

mod counters;
mod frame;
mod place;
mod ports;
mod set;
mod settings;
mod sync;
mod table;
#[cfg(test)]
mod tests;

pub use counters::SwitchCounters;
pub use frame::{HEAD, head};
pub use place::SwitchPort;
pub use settings::{MAX_AGE, MAX_ENTRIES, MIN_AGE, SettingsError, SwitchSettings};
pub use table::Entry;

use counters::{Count, Counters};
use frame::Key;
use place::Tick;
use ports::Ports;
use table::Table;
use telemetry::clock::Nanos;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// To one port, which is not the sender's.
    To(SwitchPort),
    /// To all ports but the sender's.
    Flood,
    /// Nowhere. [`SwitchCounters`] say how often and why.
    Filter,
}

/// All port numbers are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the switch has 65536 ports; allowed: no more")]
pub struct NoPortLeft;

/// A learning switch. See the crate's documentation.
#[derive(Debug)]
pub struct Switch {
    table: Table,
    ports: Ports,
    counters: Counters,
}

impl Switch {
    /// A switch without ports.
    ///
    /// # Errors
    /// As [`SwitchSettings::check`].
    pub fn new(settings: SwitchSettings) -> Result<Switch, SettingsError> {
        settings.check()?;
        Ok(Switch { table: Table::new(&settings), ports: Ports::new(), counters: Counters::default() })
    }

    /// A new port: the lowest number that is free.
    ///
    /// # Errors
    /// When there are 65,536 ports.
    pub fn attach(&self) -> Result<SwitchPort, NoPortLeft> {
        self.ports.attach().ok_or(NoPortLeft)
    }

    /// Ends a port and forgets what was learned there; a decision that begins after this does not name it.
    /// Without effect on a port that is not attached. Goes through the whole table if anything was learned.
    ///
    /// The number is given out again: frames that were sent by the old port must have been decided by then.
    pub fn detach(&self, port: SwitchPort) {
        if self.ports.detach(port) == Some(true) {
            self.table.flush(port, &self.counters);
        }
    }

    /// The ports that are attached, in ascending order.
    pub fn ports(&self) -> impl Iterator<Item = SwitchPort> {
        self.ports.iter()
    }

    /// Learns where the sources of frames from one port are, and says where each frame goes, in order.
    /// `heads` are the frames' beginnings, see [`head`]. What was found out for a frame is not found out
    /// again for the next one if that has the same addresses.
    #[inline]
    pub fn decide_batch(
        &self,
        from: SwitchPort,
        heads: impl Iterator<Item = [u8; HEAD]>,
        now: Nanos,
    ) -> impl Iterator<Item = Route> {
        let now = Tick::of(now);
        let mut last: Option<((Key, Key), Decision)> = None;
        heads.map(move |head| {
            let (source, destination) = frame::keys(&head);
            let decision = match last {
                Some((keys, decision)) if keys == (source, destination) => decision,
                _ => self.learn(from, source, now).and_then(|()| self.find(from, destination, now)),
            };
            last = Some(((source, destination), decision));
            self.count(from, decision)
        })
    }

    /// The same for one frame by itself.
    pub fn decide(&self, from: SwitchPort, head: &[u8; HEAD], now: Nanos) -> Route {
        self.decide_batch(from, std::iter::once(*head), now).next().unwrap_or(Route::Filter)
    }

    /// Learns where a frame's source is, and nothing else: what forwards is not the switch. Of a frame whose
    /// source is no station's address nothing is learned.
    #[inline]
    pub fn hear(&self, from: SwitchPort, head: &[u8; HEAD], now: Nanos) {
        let (source, _) = frame::keys(head);
        let _ = self.learn(from, source, Tick::of(now));
    }

    /// Where a frame's destination is, wherever it comes from. Nothing is learned or counted.
    #[inline]
    pub fn look_up(&self, head: &[u8; HEAD], now: Nanos) -> Route {
        let (_, destination) = frame::keys(head);
        match self.table.find(destination, Tick::of(now)) {
            Some(port) => Route::To(port),
            None if destination.is_reserved() => Route::Filter,
            None => Route::Flood,
        }
    }

    /// Takes entries out that are too old. Goes through the whole table.
    pub fn sweep(&self, now: Nanos) {
        self.table.sweep(Tick::of(now), &self.counters);
    }

    /// The stations that are known, in no order.
    pub fn table(&self, now: Nanos) -> impl Iterator<Item = Entry> {
        self.table.entries(Tick::of(now))
    }

    /// What was counted so far.
    pub fn counters(&self) -> SwitchCounters {
        self.counters.sum()
    }

    #[inline]
    fn learn(&self, from: SwitchPort, source: Key, now: Tick) -> Result<(), Count> {
        if !source.is_station() {
            return Err(Count::NoSource);
        }
        self.table.learn(source, from, now, self);
        Ok(())
    }

    #[inline]
    fn find(&self, from: SwitchPort, destination: Key, now: Tick) -> Decision {
        if destination.is_group() {
            return Err(if destination.is_reserved() { Count::Reserved } else { Count::Flooded });
        }
        match self.table.find(destination, now) {
            Some(port) if port != from => Ok(port),
            Some(_) => Err(Count::Returned),
            None => Err(Count::Flooded),
        }
    }

    #[inline]
    fn count(&self, from: SwitchPort, decision: Decision) -> Route {
        let count = match decision {
            Ok(port) => return Route::To(port),
            Err(count) => count,
        };
        self.counters.add(from, count, 1);
        if matches!(count, Count::Flooded) { Route::Flood } else { Route::Filter }
    }
}

/// A port, or as what a frame that goes to none is counted.
type Decision = Result<SwitchPort, Count>;
