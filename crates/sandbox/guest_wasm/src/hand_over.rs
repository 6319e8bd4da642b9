//! State on its way from one instance to the next, within a time, and bounds that change while an instance
//! runs.
//!
//! What hands its state out may be what goes on when nothing comes of it. A call that is ended in its middle
//! leaves memory and globals as nothing that the function could go on with, so both are copied before, and
//! put back after a fault.

use crate::body::Body;
use crate::save::to_wasm;
use crate::state::HostState;
use crate::watchdog::{self, Terms};
use guest::{GuestFault, HandOutFault};
use telemetry::clock::{Cycles, Nanos};
use wasmtime::Val;

impl<T: HostState> Body<T> {
    /// See [`guest::Guest::hand_out`]. The copy counts towards the time. Memory that the function grew by
    /// stays, and is zero.
    pub(crate) fn hand_out(&mut self, limit: Nanos) -> Result<Option<Vec<u8>>, HandOutFault> {
        let until = watchdog::clock().now().saturating_add(limit);
        let (memory, globals) = (self.memory(), self.globals());
        let deadline = self.store.data().state().kept.deadline;
        let left = until.since(watchdog::clock().now());
        let fault = match self.within(left, Body::export_state) {
            Ok(state) => return Ok(state),
            Err(fault) => fault,
        };
        if self.shell.as_ref().and_then(|shell| shell.with(|shell| shell.is_lost())) != Some(false) {
            return Err(HandOutFault { fault, finished: true });
        }
        self.store.data_mut().state_mut().kept.deadline = deadline;
        let program = self.program.clone();
        let typed = globals.iter().zip(&program.plain.globals);
        let values: Vec<Val> = typed.filter_map(|(value, global)| to_wasm(*value, &global.kind)).collect();
        let place = self.store.data().state().memory;
        if let Some(place) = place {
            self.zero(place, 0);
            memory.write_to(place.data_mut(&mut self.store));
        }
        let finished = place.is_none() || self.set_globals(&values).is_err();
        Err(HandOutFault { fault, finished })
    }

    /// See [`guest::Guest::hand_in`].
    pub(crate) fn hand_in(&mut self, state: Vec<u8>, limit: Nanos) -> Result<bool, GuestFault> {
        self.within(limit, |body| body.import_state(state))
    }

    /// Makes a call that may take no longer than this, and no longer than others of its kind.
    fn within<R>(
        &mut self,
        limit: Nanos,
        call: impl FnOnce(&mut Self) -> Result<R, GuestFault>,
    ) -> Result<R, GuestFault> {
        let usual = self.limits;
        self.set_limits((usual.0, usual.1.min(limit)));
        let called = call(self);
        self.set_limits(usual);
        called
    }

    /// Sets the longest time of a call with packets, and of any other.
    pub(crate) fn set_limits(&mut self, limits: (Nanos, Nanos)) {
        let terms = |limit| Terms::new(self.calls.reach(), watchdog::clock().cycles(limit).max(Cycles(1)));
        (self.calls, self.control_calls, self.limits) = (terms(limits.0), terms(limits.1), limits);
    }
}
