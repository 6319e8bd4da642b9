//! An instance that goes on in another one's place: its memory is not copied, it becomes the new one's.

use crate::body::Body;
use crate::program::MutableGlobal;
use crate::shell::Shell;
use crate::state::HostState;
use guest::GuestFault;
use wasmtime::Val;

impl<T: HostState> Body<T> {
    /// See [`guest::Guest::take_place_of`]. What the new instance did for itself is gone; of the old one
    /// nothing is left but an address space with nothing in it.
    pub(crate) fn take_place_of(&mut self, before: &mut Body<T>) -> Result<bool, GuestFault> {
        if !self.is_alike(before) {
            return Ok(false);
        }
        let broken =
            |what: &str| GuestFault::Contract(format!("it cannot go on in another one's place: {what}"));
        let values = before.values().ok_or_else(|| broken("a global cannot be read"))?;
        let (Some(mine), Some(memory)) = (self.shell.clone(), self.store.data().state().memory) else {
            return Err(broken("its memory has gone"));
        };
        let theirs = before.shell.clone().ok_or_else(|| broken("the other one's memory has gone"))?;
        let size = before.private_bytes();
        let missing = size.saturating_sub(memory.data_size(&self.store));
        if missing > 0 {
            // Grown memory need not be made ready: what is there is about to come.
            mine.with(|shell| shell.expect(size));
            let pages = missing as u64 / snapshot::limits::MEMORY_UNIT;
            memory.grow(&mut self.store, pages).map_err(|error| broken(&format!("{error:#}")))?;
        }
        let moved = mine.with(|mine| theirs.with(|theirs| Shell::move_private(theirs, mine)));
        match moved.flatten() {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(broken(&error.to_string())),
            None => return Err(broken("an address space has gone")),
        }
        // From here on the memory is here: what fails now ends this instance, and with it what it took over.
        self.set_globals(&values).map_err(|_| broken("a global cannot be set"))?;
        self.put_batch(before.batch_address).map_err(|reason| broken(&reason))?;
        let (mine, theirs) = (self.store.data_mut().state_mut(), before.store.data_mut().state_mut());
        std::mem::swap(mine, theirs);
        std::mem::swap(&mut mine.memory, &mut theirs.memory);
        std::mem::swap(&mut mine.facts, &mut theirs.facts);
        Ok(true)
    }

    /// Whether the other one's memory means the same to this one.
    fn is_alike(&self, before: &Body<T>) -> bool {
        let (mine, theirs) = (self.store.data().state(), before.store.data().state());
        let (new, old) = (self.program.facts(), before.program.facts());
        new.layout == old.layout
            && (new.access, new.interfaces, new.counters) == (old.access, old.interfaces, old.counters)
            && new.memory_limit == old.memory_limit
            && std::sync::Arc::ptr_eq(&mine.pool, &theirs.pool)
            && mine.config == theirs.config
            && self.shared.is_none()
            && before.shared.is_none()
            && self.private_bytes() <= before.private_bytes()
            && before.carried_out().is_ok()
            && self.program.plain.globals.iter().map(|global| &global.name).eq(before
                .program
                .plain
                .globals
                .iter()
                .map(|global| &global.name))
    }

    /// The values of the mutable globals, in their order.
    fn values(&mut self) -> Option<Vec<Val>> {
        let program = self.program.clone();
        let read = |global: &MutableGlobal| {
            let found = self.instance.get_module_export(&mut self.store, &global.export)?;
            Some(found.into_global()?.get(&mut self.store))
        };
        T::linked(&program).globals.iter().map(read).collect()
    }
}
