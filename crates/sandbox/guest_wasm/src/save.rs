//! What an instance is, read out of its store.

use crate::body::Body;
use crate::frozen::FrozenGuest;
use crate::program::Program;
use crate::settings::Slice;
use crate::state::{GuestState, HostState};
use crate::touched::touched;
use guest::SaveError;
use nf_abi::ABI_VERSION;
use snapshot::{Global, Identity, Memory, Saved, Value};
use std::ops::Range;
use std::sync::Arc;
use wasmtime::{Val, ValType};

impl<T: HostState> Body<T> {
    /// See [`guest::Guest::save`].
    pub(crate) fn save(&mut self) -> Result<Saved<'static>, SaveError> {
        self.carried_out()?;
        let (memory, values) = (self.memory(), self.globals());
        assemble(&self.program, self.store.data().state(), self.batch_address, memory, &values)
    }

    /// See [`guest::Guest::freeze`]. The caller drops what is left when it succeeds.
    pub(crate) fn freeze(&mut self, slice: Option<Slice>) -> Result<FrozenGuest, SaveError> {
        self.carried_out()?;
        let (memory, values) = (self.memory(), self.globals());
        let facts = self.program.facts();
        let state = self.store.data_mut().state_mut();
        let empty = GuestState::empty(facts, &state.pool);
        let mut state = std::mem::replace(state, empty);
        let (_, new_devices) = (state.memory.take(), state.kept.new_devices.take());
        Ok(FrozenGuest {
            program: self.program.clone(),
            limits: self.limits,
            slice,
            memory,
            values: values.into(),
            batch: self.batch_address,
            new_devices,
            state,
        })
    }

    /// Packets that were given up are nowhere a snapshot could have them from.
    pub(crate) fn carried_out(&self) -> Result<(), SaveError> {
        let state = self.store.data().state();
        match state.kept.emitted.len() {
            0 if state.kept.change.is_some() => Err(SaveError::Changing),
            0 => Ok(()),
            packets => Err(SaveError::Busy { packets }),
        }
    }

    /// Touched memory: the instance's own, and for a clone what it has not written yet.
    pub(crate) fn memory(&self) -> Memory<'static> {
        let state = self.store.data().state();
        let bytes = state.memory.map_or(&[][..], |memory| memory.data(&self.store));
        let mut ranges = Vec::new();
        touched(bytes.as_ptr() as usize, bytes.len(), &mut ranges);
        if let Some(shared) = &self.shared {
            ranges.extend_from_slice(shared.used());
            merge(&mut ranges);
        }
        let limit = state.facts.memory_limit.min(nf_abi::PRIVATE_MAX);
        Memory::of(bytes, limit, &ranges)
    }

    pub(crate) fn globals(&mut self) -> Vec<Value> {
        let (program, store, instance) = (self.program.clone(), &mut self.store, self.instance);
        let read = |global: &crate::program::MutableGlobal| {
            let value =
                instance.get_module_export(&mut *store, &global.export)?.into_global()?.get(&mut *store);
            from_wasm(&value)
        };
        T::linked(&program).globals.iter().filter_map(read).collect()
    }
}

/// A snapshot of its parts.
pub(crate) fn assemble(
    program: &Arc<Program>,
    state: &GuestState,
    batch: u32,
    memory: Memory<'static>,
    values: &[Value],
) -> Result<Saved<'static>, SaveError> {
    let facts = program.facts();
    let named = program.plain.globals.iter().zip(values);
    let saved = Saved {
        identity: Identity {
            image: facts.image,
            name: facts.name.clone(),
            abi: ABI_VERSION,
            config: state.config.clone(),
        },
        memory,
        globals: named.map(|(global, value)| Global { name: global.name.clone(), value: *value }).collect(),
        host: state.save(batch),
        packets: state.save_packets(),
        tallies: Vec::new(),
    };
    saved.check()?;
    Ok(saved)
}

/// Puts ranges in order, and makes one of those that overlap or touch.
fn merge(ranges: &mut Vec<Range<usize>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
}

fn from_wasm(value: &Val) -> Option<Value> {
    Some(match *value {
        Val::I32(value) => Value::I32(value as u32),
        Val::I64(value) => Value::I64(value as u64),
        Val::F32(bits) => Value::F32(bits),
        Val::F64(bits) => Value::F64(bits),
        Val::V128(value) => Value::V128(value.as_u128()),
        // References are switched off, so no global holds one.
        _ => return None,
    })
}

/// The value, if a global of this type can hold it.
pub(crate) fn to_wasm(value: Value, kind: &ValType) -> Option<Val> {
    Some(match (value, kind) {
        (Value::I32(value), ValType::I32) => Val::I32(value as i32),
        (Value::I64(value), ValType::I64) => Val::I64(value as i64),
        (Value::F32(bits), ValType::F32) => Val::F32(bits),
        (Value::F64(bits), ValType::F64) => Val::F64(bits),
        (Value::V128(value), ValType::V128) => Val::V128(value.into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "a list of ranges is what is merged")]
    fn ranges_are_merged() {
        let mut ranges = vec![8..12, 0..4, 3..5, 5..6, 9..10, 20..21];
        merge(&mut ranges);
        assert_eq!(ranges, [0..6, 8..12, 20..21]);
        let mut ranges = vec![0..9, 1..2, 3..4];
        merge(&mut ranges);
        assert_eq!(ranges, [0..9]);
    }
}
