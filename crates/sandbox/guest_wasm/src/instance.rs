//! A running instance whose calls run to their end: a program in a shell, with its state on the host's side.

use crate::body::{Body, limits};
use crate::error::InstanceError;
use crate::preemptible::PreemptibleGuest;
use crate::program::Program;
use crate::settings::InstanceSettings;
use crate::state::GuestState;
use guest::{
    Frozen, Guest, GuestFault, HandOutFault, Kept, NotFrozen, Offer, Progress, SaveError, SlotConfig,
};
use packet_memory::{Packet, Pool};
use snapshot::Saved;
use std::any::Any;
use std::sync::Arc;
use telemetry::clock::{Moment, Nanos};

/// Makes an instance of the kind that its settings ask for.
///
/// # Errors
/// [`InstanceError`]; everything taken is given back.
pub fn start(
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    settings: InstanceSettings,
) -> Result<Box<dyn Guest>, InstanceError> {
    match settings.preemptible {
        None => Ok(Box::new(WasmGuest::new(program, pool, settings)?)),
        Some(slice) => Ok(Box::new(PreemptibleGuest::new(program, pool, settings, slice)?)),
    }
}

/// A function running in a sandbox.
pub struct WasmGuest(pub(crate) Body<GuestState>);

impl WasmGuest {
    /// Makes an instance and starts it. Its calls run to their end, whatever
    /// [`InstanceSettings::preemptible`] says: that is for [`start`].
    ///
    /// # Errors
    /// [`InstanceError`]; everything taken is given back.
    pub fn new(
        program: &Arc<Program>,
        pool: &Arc<Pool>,
        settings: InstanceSettings,
    ) -> Result<WasmGuest, InstanceError> {
        let limits = limits(&settings);
        let state = GuestState::new(program.facts(), pool, settings);
        Body::start(program, pool, state, limits).map(WasmGuest)
    }

    /// Bytes of private memory now.
    pub fn private_bytes(&self) -> usize {
        self.0.private_bytes()
    }

    /// Log lines that found no room.
    pub fn log_lines_lost(&self) -> u64 {
        self.0.store.data().lines_lost
    }
}

impl Guest for WasmGuest {
    #[inline]
    fn process(&mut self, packets: &mut [Packet], now: Moment) -> Result<Progress, GuestFault> {
        self.0.show(packets);
        self.0.call_batch(packets.len(), now)?;
        Ok(Progress::Done(self.0.take_over(packets)))
    }

    fn observe(&mut self, packets: &[Packet], now: Moment) -> Result<(), GuestFault> {
        self.0.observe(packets, now)
    }

    fn kept(&self) -> &Kept {
        &self.0.store.data().kept
    }

    #[inline]
    fn kept_mut(&mut self) -> &mut Kept {
        &mut self.0.store.data_mut().kept
    }

    fn offer(&mut self, offer: &Arc<Offer>) -> bool {
        self.kept_mut().offer(offer)
    }

    fn timer(&mut self, now: Moment) -> Result<(), GuestFault> {
        self.0.timer(now)
    }

    fn finish(&mut self, now: Moment) -> Result<bool, GuestFault> {
        self.0.finish(now)
    }

    fn memory(&mut self) -> usize {
        self.0.private_bytes()
    }

    fn memory_place(&mut self) -> usize {
        self.0.private_place()
    }

    fn report(&mut self, now: Moment) -> Result<Option<String>, GuestFault> {
        self.0.report(now)
    }

    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        self.0.export_state()
    }

    fn import_state(&mut self, state: Vec<u8>) -> Result<bool, GuestFault> {
        self.0.import_state(state)
    }

    fn hand_out(&mut self, limit: Nanos) -> Result<Option<Vec<u8>>, HandOutFault> {
        self.0.hand_out(limit)
    }

    fn hand_in(&mut self, state: Vec<u8>, limit: Nanos) -> Result<bool, GuestFault> {
        self.0.hand_in(state, limit)
    }

    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig) {
        self.0.set_limits((max_call, self.0.limits.1));
        self.0.store.data_mut().set_slots(slots);
    }

    fn take_place_of(&mut self, before: &mut dyn Guest) -> Result<bool, GuestFault> {
        let before = before.as_any().and_then(|any| any.downcast_mut::<WasmGuest>());
        before.map_or(Ok(false), |before| self.0.take_place_of(&mut before.0))
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn save(&mut self) -> Result<Saved<'static>, SaveError> {
        self.0.save()
    }

    fn freeze(self: Box<Self>) -> Result<Box<dyn Frozen>, NotFrozen> {
        let mut guest = self;
        match guest.0.freeze(None) {
            Ok(frozen) => Ok(Box::new(frozen)),
            Err(error) => Err(NotFrozen { guest, error }),
        }
    }
}

impl std::fmt::Debug for WasmGuest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmGuest").field("facts", &self.0.store.data().facts).finish_non_exhaustive()
    }
}
