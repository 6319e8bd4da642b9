//! What functions know of the devices behind their interfaces, and what they ask for.

use crate::control::fault::Life;
use crate::ids::InstanceId;
use crate::worker::Worker;
use std::sync::Arc;
use telemetry::clock::Nanos;

impl Worker {
    /// What an instance reads of its devices from now on, see `nf_abi::stream::DEVICES`.
    pub(crate) fn set_devices(&mut self, id: InstanceId, entries: Arc<[u8]>) {
        if let Some(instance) = self.instances.get_mut(id.index()) {
            instance.devices = Some(entries);
            self.give_devices(id.index());
        }
    }

    /// Gives it to the instance's guest, which may be another one than before, at its next turn.
    pub(crate) fn give_devices(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        if let (Life::Up { guest, .. }, Some(entries)) = (&mut instance.life, &instance.devices) {
            guest.set_devices(entries.clone());
            self.schedule(index, Nanos(0));
        }
    }
}
