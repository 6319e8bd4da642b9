//! The six functions that the host offers to guests. This file and `nf_abi::imports` are all of that surface.
//!
//! Each checks every argument against the guest's current state, touches private memory through the checked
//! range alone, and answers with a number; none can block or take time beyond what it copies. Those that copy
//! end a call that is overdue: its memory may be inaccessible.

use crate::state::{GuestState, HostState};
use crate::watchdog;
use guest::{Ask, LogLine};
use nf_abi::{DeviceEntry, IMPORT_MODULE, MAX_EVENT, MAX_SLOTS, Verdict, error, imports, stream};
use telemetry::clock::Nanos;
use wasmtime::{Caller, Linker};

/// Longest log line; the rest is cut off.
const LONGEST_LINE: usize = 1024;
/// Most events between two collections, and most bytes of them.
const MOST_EVENTS: usize = 16 << 10;
const MOST_EVENT_BYTES: usize = 4 << 20;
/// Longest report, and longest exported state.
const LONGEST_OUTPUT: usize = 256 << 20;
const LONGEST_REPORT: usize = 4 << 20;

pub(crate) fn define<T: HostState>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap(
        IMPORT_MODULE,
        imports::READ,
        |caller: Caller<'_, T>, which: u32, offset: u32, address: u32, capacity: u32| {
            watchdog::touch(|| read(caller, which, offset, address, capacity))
        },
    )?;
    linker.func_wrap(
        IMPORT_MODULE,
        imports::WRITE,
        |caller: Caller<'_, T>, which: u32, address: u32, length: u32| {
            watchdog::touch(|| write(caller, which, address, length))
        },
    )?;
    linker.func_wrap(IMPORT_MODULE, imports::COUNTER_ADD, counter_add::<T>)?;
    linker.func_wrap(
        IMPORT_MODULE,
        imports::PACKET_NEW,
        |caller: Caller<'_, T>, slot: u32, address: u32, length: u32| {
            watchdog::touch(|| packet_new(caller, slot, address, length))
        },
    )?;
    linker.func_wrap(IMPORT_MODULE, imports::PACKET_EMIT, packet_emit::<T>)?;
    linker.func_wrap(IMPORT_MODULE, imports::TIMER_SET, timer_set::<T>)?;
    Ok(())
}

/// The guest's private memory and the host's state, side by side. No memory while the module is being
/// instantiated.
fn parts<'a, T: HostState>(caller: &'a mut Caller<'_, T>) -> (&'a mut [u8], &'a mut GuestState) {
    match caller.data().state().memory {
        Some(memory) => {
            let (memory, host) = memory.data_and_store_mut(caller);
            (memory, host.state_mut())
        }
        None => (&mut [], caller.data_mut().state_mut()),
    }
}

fn range(memory: &mut [u8], address: u32, length: u32) -> Option<&mut [u8]> {
    let start = address as usize;
    memory.get_mut(start..start.checked_add(length as usize)?)
}

fn read<T: HostState>(
    mut caller: Caller<'_, T>,
    which: u32,
    offset: u32,
    address: u32,
    capacity: u32,
) -> i32 {
    let (memory, state) = parts(&mut caller);
    let Some((source, offset)) = state.input(which, offset) else { return error::STREAM };
    let Some(target) = range(memory, address, capacity) else { return error::RANGE };
    let rest = source.get(offset as usize..).unwrap_or_default();
    let count = rest.len().min(target.len());
    target[..count].copy_from_slice(&rest[..count]);
    i32::try_from(source.len()).unwrap_or(error::LIMIT)
}

fn write<T: HostState>(mut caller: Caller<'_, T>, which: u32, address: u32, length: u32) -> i32 {
    let (memory, state) = parts(&mut caller);
    let Some(bytes) = range(memory, address, length) else { return error::RANGE };
    match which {
        stream::STATE => append(&mut state.export, bytes, LONGEST_OUTPUT),
        stream::REPORT => append(&mut state.report, bytes, LONGEST_REPORT),
        stream::EVENT => {
            let full = state.kept.events.lines.len() >= MOST_EVENTS
                || state.kept.event_bytes + bytes.len() > MOST_EVENT_BYTES
                || bytes.len() > MAX_EVENT;
            if full {
                state.kept.events.lost = state.kept.events.lost.saturating_add(1);
                return error::LIMIT;
            }
            state.kept.event_bytes += bytes.len();
            state.kept.events.lines.push(line(bytes));
            0
        }
        stream::DEVICES => ask(state, bytes),
        stream::LOG_ERROR..=stream::LOG_DEBUG => {
            if state.kept.log.len() >= state.most_lines {
                state.lines_lost = state.lines_lost.saturating_add(1);
                return error::LIMIT;
            }
            let text = line(&bytes[..bytes.len().min(LONGEST_LINE)]);
            state.kept.log.push(LogLine { severity: which, text });
            0
        }
        _ => error::STREAM,
    }
}

/// Notes an address that the guest asks for.
fn ask(state: &mut GuestState, bytes: &[u8]) -> i32 {
    match bytes.try_into().ok().and_then(DeviceEntry::decode) {
        Some(DeviceEntry::Neighbour { interface, address, .. }) if interface < state.facts.interfaces => {
            if state.kept.ask(Ask { interface, address }) {
                0
            } else {
                error::LIMIT
            }
        }
        _ => error::RANGE,
    }
}

/// The bytes as one line of text.
pub(crate) fn line(bytes: &[u8]) -> String {
    printable::replaced_in(bytes)
}

fn append(output: &mut Option<Vec<u8>>, bytes: &[u8], longest: usize) -> i32 {
    let Some(output) = output else { return error::STREAM };
    if output.len() + bytes.len() > longest {
        return error::LIMIT;
    }
    output.extend_from_slice(bytes);
    0
}

fn counter_add<T: HostState>(mut caller: Caller<'_, T>, index: u32, amount: u64) -> i32 {
    let Some(counter) = caller.data_mut().state_mut().kept.counters.get_mut(index as usize) else {
        return error::COUNTER;
    };
    *counter = counter.wrapping_add(amount);
    0
}

fn packet_new<T: HostState>(mut caller: Caller<'_, T>, slot: u32, address: u32, length: u32) -> u32 {
    let (memory, state) = parts(&mut caller);
    let Some(slot) = checked_slot(slot) else { return 0 };
    let Some(bytes) = range(memory, address, length).filter(|bytes| !bytes.is_empty()) else { return 0 };
    let fits = bytes.len() <= state.pool.room() as usize;
    if !fits || state.kept.packets() >= state.quota || state.kept.slots.check(slot).is_err() {
        return 0;
    }
    let Some(mut packet) = state.pool.allocate() else { return 0 };
    let (now, first) = (state.kept.now, packet.buffer() + packet.offset());
    packet.edit(|record| (record.timestamp, record.hop_budget) = (now.0, nf_abi::HOP_BUDGET));
    let kept = match state.pool.write(&mut packet, bytes) {
        Ok(()) => state.kept.slots.keep(slot, packet, now).map_err(|(packet, _)| packet),
        Err(_) => Err(packet),
    };
    if let Err(packet) = kept {
        state.pool.free(packet);
        return 0;
    }
    state.kept.generated += 1;
    state.kept.has_left_over = true;
    first
}

fn packet_emit<T: HostState>(
    mut caller: Caller<'_, T>,
    slot: u32,
    verdict: u32,
    offset: u32,
    length: u32,
    mark: u64,
) -> i32 {
    let state = caller.data_mut().state_mut();
    let Some(slot) = checked_slot(slot) else { return error::SLOT };
    if matches!(state.facts.allowed(verdict), None | Some(Verdict::Hold(_) | Verdict::None)) {
        return error::VERDICT;
    }
    if offset != u32::MAX && !state.facts.allows_extent(offset, length, state.pool.buffer_size()) {
        return error::RANGE;
    }
    let Some(mut packet) = state.kept.slots.take(slot) else { return error::SLOT };
    state.kept.has_left_over = true;
    let fits = offset == u32::MAX || packet.move_extent(offset, length, state.pool.buffer_size());
    let verdict = if fits { verdict } else { guest::BAD_VERDICT };
    packet.edit(|record| (record.verdict, record.mark) = (verdict, mark));
    state.kept.emitted.push(packet);
    if fits { 0 } else { error::RANGE }
}

fn timer_set<T: HostState>(mut caller: Caller<'_, T>, deadline: u64) -> i32 {
    let kept = &mut caller.data_mut().state_mut().kept;
    (kept.deadline, kept.has_left_over) = ((deadline != 0).then_some(Nanos(deadline)), true);
    0
}

fn checked_slot(slot: u32) -> Option<u16> {
    if slot < MAX_SLOTS { u16::try_from(slot).ok() } else { None }
}
