//! Guests that will not run for a while: touched memory, globals and the host's state, without a shell.
//!
//! What one takes is its lines of memory that are not zero, and about a kilobyte for what the host keeps.
//! Address space, mappings, page tables and the engine's part are given back.

use crate::program::Program;
use crate::restore::{Content, Pace, Source, revive};
use crate::save::{assemble, to_wasm};
use crate::settings::Slice;
use crate::state::GuestState;
use guest::{Frozen, Guest, Kept, NotThawed, SaveError, SlotConfig};
use snapshot::{Memory, Saved, Value};
use std::sync::Arc;
use telemetry::clock::Nanos;
use wasmtime::Val;

/// A guest without a sandbox to run in.
pub(crate) struct FrozenGuest {
    pub(crate) program: Arc<Program>,
    pub(crate) limits: (Nanos, Nanos),
    pub(crate) slice: Option<Slice>,
    pub(crate) memory: Memory<'static>,
    /// Of the program's mutable globals, in their order.
    pub(crate) values: Box<[Value]>,
    pub(crate) batch: u32,
    /// What it is told of its devices when it is thawed.
    pub(crate) new_devices: Option<Arc<[u8]>>,
    pub(crate) state: GuestState,
}

impl Frozen for FrozenGuest {
    fn thaw(self: Box<Self>) -> Result<Box<dyn Guest>, NotThawed> {
        let mut frozen = self;
        let typed = |(value, global): (&Value, &crate::program::MutableGlobal)| to_wasm(*value, &global.kind);
        let values: Vec<Val> =
            frozen.values.iter().zip(&frozen.program.plain.globals).filter_map(typed).collect();
        let content = Content {
            memory: Source::Copied(&frozen.memory),
            size: frozen.memory.size(),
            values: &values,
            batch: frozen.batch,
        };
        let pace = Pace { limits: frozen.limits, slice: frozen.slice };
        match revive(&frozen.program, pace, &content, &mut frozen.state) {
            Ok(mut guest) => {
                guest.kept_mut().new_devices = frozen.new_devices.take();
                Ok(guest)
            }
            Err(error) => Err(NotThawed { frozen, reason: error.to_string() }),
        }
    }

    fn save(&self) -> Result<Saved<'static>, SaveError> {
        assemble(&self.program, &self.state, self.batch, self.memory.clone(), &self.values)
    }

    fn footprint(&self) -> usize {
        size_of::<Self>() + self.memory.footprint() + size_of_val(&*self.values) + self.state.footprint()
    }

    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig) {
        self.limits.0 = max_call;
        self.state.set_slots(slots);
    }

    fn kept(&self) -> &Kept {
        &self.state.kept
    }

    fn kept_mut(&mut self) -> &mut Kept {
        &mut self.state.kept
    }

    fn set_devices(&mut self, entries: Arc<[u8]>) {
        self.new_devices = Some(entries);
    }
}
