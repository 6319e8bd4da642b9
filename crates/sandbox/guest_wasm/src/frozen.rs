//! Guests that will not run for a while: touched memory, globals and the host's state, without a shell.
//!
//! What one takes is its lines of memory that are not zero, and about a kilobyte for what the host keeps.
//! Address space, mappings, page tables and the engine's part are given back.

use crate::program::Program;
use crate::restore::{Content, Pace, Source, revive};
use crate::save::{assemble, to_wasm};
use crate::settings::Slice;
use crate::state::GuestState;
use guest::{Events, Frozen, Guest, LogLine, NotThawed, SaveError, SlotConfig, SlotTable};
use packet_memory::Packet;
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
    pub(crate) state: GuestState,
}

impl Frozen for FrozenGuest {
    fn thaw(self: Box<Self>) -> Result<Box<dyn Guest>, NotThawed> {
        let mut frozen = self;
        let typed = |(value, global): (&Value, &crate::program::MutableGlobal)| to_wasm(*value, &global.kind);
        let values: Vec<Val> = frozen.values.iter().zip(&frozen.program.globals).filter_map(typed).collect();
        let content = Content {
            memory: Source::Copied(&frozen.memory),
            size: frozen.memory.size(),
            values: &values,
            batch: frozen.batch,
        };
        let pace = Pace { limits: frozen.limits, slice: frozen.slice };
        match revive(&frozen.program, pace, &content, &mut frozen.state) {
            Ok(guest) => Ok(guest),
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

    fn deadline(&self) -> Option<Nanos> {
        self.state.deadline
    }

    fn set_devices(&mut self, entries: Arc<[u8]>) {
        self.state.new_devices = Some(entries);
    }

    fn take_generated(&mut self) -> u64 {
        std::mem::take(&mut self.state.generated)
    }

    fn slots(&mut self) -> &mut SlotTable {
        &mut self.state.slots
    }

    fn surrender(&mut self, out: &mut Vec<Packet>) {
        self.state.surrender(out);
    }

    fn counters(&self) -> &[u64] {
        &self.state.counters
    }

    fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.state.log)
    }

    fn take_events(&mut self) -> Events {
        self.state.take_events()
    }
}
