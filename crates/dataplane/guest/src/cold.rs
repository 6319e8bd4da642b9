//! A frozen guest in the place of one that runs.

use crate::{
    Frozen, Guest, GuestFault, HandOutFault, Kept, NotFrozen, NotThawed, Progress, SaveError, SlotConfig,
};
use packet_memory::Packet;
use snapshot::Saved;
use std::sync::Arc;
use telemetry::clock::{Moment, Nanos};

enum State {
    Frozen(Box<dyn Frozen>),
    /// It was called all the same.
    Warm(Box<dyn Guest>),
    /// Another one has its place, and this one nothing.
    Gone(Box<Kept>),
}

impl State {
    fn gone() -> State {
        State::Gone(Box::new(Kept::nothing()))
    }
}

/// A frozen guest that can be looked at like one that runs, and is thawed when it is called.
///
/// To let it run again, the caller takes the guest out with [`Guest::thaw`], so that calls are made without a
/// detour.
pub struct Cold {
    state: State,
}

impl Cold {
    /// A guest that was frozen.
    pub fn new(frozen: Box<dyn Frozen>) -> Cold {
        Cold { state: State::Frozen(frozen) }
    }

    /// Stands where a guest is about to be put.
    pub fn nobody() -> Cold {
        Cold { state: State::gone() }
    }

    /// The guest, thawed if it is not yet.
    fn warm(&mut self) -> Result<&mut Box<dyn Guest>, String> {
        if let State::Frozen(_) = self.state {
            let State::Frozen(frozen) = std::mem::replace(&mut self.state, State::gone()) else {
                unreachable!()
            };
            match frozen.thaw() {
                Ok(guest) => self.state = State::Warm(guest),
                Err(NotThawed { frozen, reason }) => {
                    self.state = State::Frozen(frozen);
                    return Err(reason);
                }
            }
        }
        match &mut self.state {
            State::Warm(guest) => Ok(guest),
            State::Frozen(_) | State::Gone(_) => Err("it has been taken out".to_owned()),
        }
    }

    fn called(&mut self) -> Result<&mut Box<dyn Guest>, GuestFault> {
        self.warm().map_err(|reason| GuestFault::Contract(format!("it cannot be thawed: {reason}")))
    }
}

impl Guest for Cold {
    fn process(&mut self, packets: &mut [Packet], now: Moment) -> Result<Progress, GuestFault> {
        self.called()?.process(packets, now)
    }

    fn suspended(&self) -> bool {
        matches!(&self.state, State::Warm(guest) if guest.suspended())
    }

    fn observe(&mut self, packets: &[Packet], now: Moment) -> Result<(), GuestFault> {
        self.called()?.observe(packets, now)
    }

    fn kept(&self) -> &Kept {
        match &self.state {
            State::Frozen(frozen) => frozen.kept(),
            State::Warm(guest) => guest.kept(),
            State::Gone(nothing) => nothing,
        }
    }

    fn kept_mut(&mut self) -> &mut Kept {
        match &mut self.state {
            State::Frozen(frozen) => frozen.kept_mut(),
            State::Warm(guest) => guest.kept_mut(),
            State::Gone(nothing) => nothing,
        }
    }

    fn set_devices(&mut self, entries: Arc<[u8]>) {
        match &mut self.state {
            State::Frozen(frozen) => frozen.set_devices(entries),
            State::Warm(guest) => guest.set_devices(entries),
            State::Gone(_) => {}
        }
    }

    fn timer(&mut self, now: Moment) -> Result<(), GuestFault> {
        self.called()?.timer(now)
    }

    fn finish(&mut self, now: Moment) -> Result<bool, GuestFault> {
        match &mut self.state {
            State::Warm(guest) => guest.finish(now),
            // What was frozen is left as it is.
            State::Frozen(_) | State::Gone(_) => Ok(false),
        }
    }

    fn surrender(&mut self, out: &mut Vec<Packet>) {
        match &mut self.state {
            State::Warm(guest) => guest.surrender(out),
            State::Frozen(_) | State::Gone(_) => self.kept_mut().surrender(out),
        }
    }

    fn report(&mut self, now: Moment) -> Result<Option<String>, GuestFault> {
        match &mut self.state {
            // It says nothing in its sleep: a report is not worth waking it, nor losing it if it cannot be
            // thawed.
            State::Frozen(_) | State::Gone(_) => Ok(None),
            State::Warm(guest) => guest.report(now),
        }
    }

    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        self.called()?.export_state()
    }

    fn import_state(&mut self, state: Vec<u8>) -> Result<bool, GuestFault> {
        self.called()?.import_state(state)
    }

    fn hand_out(&mut self, limit: Nanos) -> Result<Option<Vec<u8>>, HandOutFault> {
        match self.called() {
            Ok(guest) => guest.hand_out(limit),
            // It is frozen as before.
            Err(fault) => Err(HandOutFault { fault, finished: false }),
        }
    }

    fn hand_in(&mut self, state: Vec<u8>, limit: Nanos) -> Result<bool, GuestFault> {
        self.called()?.hand_in(state, limit)
    }

    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig) {
        match &mut self.state {
            State::Frozen(frozen) => frozen.set_limits(max_call, slots),
            State::Warm(guest) => guest.set_limits(max_call, slots),
            State::Gone(_) => {}
        }
    }

    fn memory(&mut self) -> usize {
        match &mut self.state {
            State::Frozen(frozen) => frozen.footprint(),
            State::Warm(guest) => guest.memory(),
            State::Gone(_) => 0,
        }
    }

    fn save(&mut self) -> Result<Saved<'static>, SaveError> {
        match &mut self.state {
            State::Frozen(frozen) => frozen.save(),
            State::Warm(guest) => guest.save(),
            State::Gone(_) => Err(SaveError::Unable),
        }
    }

    fn freeze(self: Box<Self>) -> Result<Box<dyn Frozen>, NotFrozen> {
        match self.state {
            State::Frozen(frozen) => Ok(frozen),
            State::Warm(guest) => guest.freeze(),
            State::Gone(_) => Err(NotFrozen { guest: self, error: SaveError::Unable }),
        }
    }

    fn is_frozen(&self) -> bool {
        matches!(self.state, State::Frozen(_))
    }

    fn thaw(&mut self) -> Result<Option<Box<dyn Guest>>, String> {
        self.warm()?;
        match std::mem::replace(&mut self.state, State::gone()) {
            State::Warm(guest) => Ok(Some(guest)),
            other => {
                self.state = other;
                Ok(None)
            }
        }
    }
}
