//! Every call that a guest can make of the host, and a model of what each answers.

use super::{WASM_PAGE, WINDOW, module, now, patient, pool_of, program};
use arbitrary::{Arbitrary, Unstructured};
use guest::{Guest, Progress};
use guest_wasm::{Access, InstanceSettings, Program, WasmGuest};
use nf_abi::{Verdict, error, stream};
use packet_memory::{Packet, Pool};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Takes the call and its arguments from a packet's bytes; the answer becomes the mark.
const ANY_CALL: &str = "
    (local $p i32) (local $x i32) (local $y i32) (local $z i32) (local $w i32) (local $m i64)
    (local.set $p (i32.add (i32.load (i32.const 1036)) (i32.load (i32.const 1028))))
    (local.set $x (i32.load offset=8 (local.get $p)))
    (local.set $y (i32.load offset=12 (local.get $p)))
    (local.set $z (i32.load offset=16 (local.get $p)))
    (local.set $w (i32.load offset=20 (local.get $p)))
    (local.set $m (i64.load offset=24 (local.get $p)))
    (i64.store (i32.const 1040) (i64.extend_i32_s
      (block $done (result i32)
        (block $timer (block $emit (block $new (block $counter (block $write (block $read
          (br_table $read $write $counter $new $emit $timer (i32.load (local.get $p))))
          (br $done (call $read (local.get $x) (local.get $y) (local.get $z) (local.get $w))))
          (br $done (call $write (local.get $x) (local.get $y) (local.get $z))))
          (br $done (call $counter_add (local.get $x) (local.get $m))))
          (br $done (call $packet_new (local.get $x) (local.get $y) (local.get $z))))
          (br $done (call $packet_emit (local.get $x) (local.get $y) (local.get $z) (local.get $w) (local.get $m))))
        (call $timer_set (local.get $m)))))";

/// Bytes of the guest's memory.
pub const MEMORY: u64 = 2 * WASM_PAGE;
/// Bytes of its configuration.
pub const CONFIG: usize = 300;

/// The guest that makes any call.
pub fn any_call(access: Access) -> &'static Arc<Program> {
    static PROGRAMS: OnceLock<[Arc<Program>; 2]> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| {
        [Access::Read, Access::Write].map(|access| {
            program(&module(&format!("(func (export \"sf_process\") (param i32 i64) {ANY_CALL})")), access)
        })
    });
    &programs[usize::from(access == Access::Write)]
}

#[derive(Arbitrary, Clone, Debug)]
pub enum Call {
    Read(u32, u32, u32, u32),
    Write(u32, u32, u32),
    CounterAdd(u32, u64),
    PacketNew(u32, u32, u32),
    PacketEmit(u32, u32, u32, u32, u64),
    TimerSet(u64),
}

impl Call {
    fn to_bytes(&self) -> Vec<u8> {
        let (which, words, mark) = match *self {
            Call::Read(x, y, z, w) => (0, [x, y, z, w], 0),
            Call::Write(x, y, z) => (1, [x, y, z, 0], 0),
            Call::CounterAdd(x, mark) => (2, [x, 0, 0, 0], mark),
            Call::PacketNew(x, y, z) => (3, [x, y, z, 0], 0),
            Call::PacketEmit(x, y, z, w, mark) => (4, [x, y, z, w], mark),
            Call::TimerSet(mark) => (5, [0; 4], mark),
        };
        let mut bytes = [which, 0].map(u32::to_le_bytes).concat();
        bytes.extend(words.map(u32::to_le_bytes).concat());
        bytes.extend(u64::to_le_bytes(mark));
        bytes
    }
}

/// What the host must know of a guest to say beforehand what each call answers.
#[derive(Default)]
struct Model {
    write: bool,
    /// Length of the packet in each slot.
    slots: BTreeMap<u32, u32>,
    emitted: usize,
    free: usize,
    lines: usize,
    events: usize,
    counters: [u64; 2],
    deadline: Option<u64>,
}

const QUOTA: usize = 4;
/// Streams that can be read at any time.
const READABLE: [u32; 4] = [stream::CONFIG, stream::DEVICES, stream::SLOTS, stream::RANDOM];

impl Model {
    fn answer(&mut self, call: &Call) -> i64 {
        let in_memory = |address: u32, length: u32| u64::from(address) + u64::from(length) <= MEMORY;
        let answer = match *call {
            Call::Read(which, ..) if !READABLE.contains(&which) => error::STREAM,
            Call::Read(_, _, address, capacity) if !in_memory(address, capacity) => error::RANGE,
            Call::Read(stream::DEVICES, ..) => 0,
            Call::Read(stream::SLOTS, ..) => 8,
            Call::Read(stream::RANDOM, ..) => nf_abi::RANDOM as i32,
            Call::Read(..) => CONFIG as i32,
            Call::Write(_, address, length) if !in_memory(address, length) => error::RANGE,
            Call::Write(stream::LOG_ERROR..=stream::LOG_DEBUG, ..) if self.lines >= 64 => error::LIMIT,
            Call::Write(stream::LOG_ERROR..=stream::LOG_DEBUG, ..) => {
                self.lines += 1;
                0
            }
            Call::Write(stream::EVENT, _, length) if length > nf_abi::MAX_EVENT as u32 => error::LIMIT,
            Call::Write(stream::EVENT, ..) => {
                self.events += 1;
                0
            }
            // Nothing that is in its memory is a question.
            Call::Write(stream::DEVICES, ..) => error::RANGE,
            Call::Write(..) => error::STREAM, // Neither a report nor an export is asked for.
            Call::CounterAdd(index, amount) => match self.counters.get_mut(index as usize) {
                Some(counter) => {
                    *counter = counter.wrapping_add(amount);
                    0
                }
                None => error::COUNTER,
            },
            Call::PacketNew(slot, address, length) => {
                let possible = slot < 1 << 16
                    && !self.slots.contains_key(&slot)
                    && in_memory(address, length)
                    && (1..=2048 - 320).contains(&length)
                    && self.slots.len() + self.emitted < QUOTA
                    && self.free > 0;
                if possible {
                    self.slots.insert(slot, length);
                    self.free -= 1;
                }
                return i64::from(possible); // The address itself is looked at by the caller.
            }
            Call::PacketEmit(slot, verdict, offset, length, _) => {
                let known = match Verdict::decode(verdict) {
                    Some(Verdict::Interface(k)) => k < 2,
                    Some(Verdict::Drop(reason)) => reason < 2,
                    Some(Verdict::Service(_) | Verdict::Consume) => true,
                    _ => false,
                };
                let inside = u64::from(offset) + u64::from(length) <= 2048 && length > 0;
                if slot >= 1 << 16 {
                    error::SLOT
                } else if !known {
                    error::VERDICT
                } else if offset != u32::MAX && !(self.write && inside) {
                    error::RANGE
                } else if self.slots.remove(&slot).is_none() {
                    error::SLOT
                } else {
                    self.emitted += 1;
                    0
                }
            }
            Call::TimerSet(deadline) => {
                self.deadline = (deadline != 0).then_some(deadline);
                0
            }
        };
        i64::from(answer)
    }
}

/// Makes the guest do this call; its answer. Nothing is left over by it that the host would not ask for.
pub fn make(guest: &mut WasmGuest, pool: &Pool, packet: &mut Packet, call: &Call) -> i64 {
    assert!(packet.set_extent(0, 0, 2048));
    pool.write(packet, &call.to_bytes()).expect("a few words");
    let before = guest.kept_mut().left_over();
    let progress = guest.process(std::slice::from_mut(packet), now()).expect("host calls never trap");
    let Progress::Done(answers) = progress else { panic!("a call that ends") };
    let left_over = guest.kept_mut().left_over();
    assert!(answers.has_left_over || left_over == before, "{call:?}: {left_over:?}");
    packet.record().mark as i64
}

/// Calls made of any bytes.
pub fn of_bytes(bytes: &mut Unstructured<'_>) -> arbitrary::Result<Vec<Call>> {
    let mut calls = Vec::new();
    while !bytes.is_empty() {
        let mut call = bytes.arbitrary()?;
        let (slot, others) = match &mut call {
            Call::Read(stream, a, b, c) => (stream, vec![a, b, c]),
            Call::Write(stream, a, b) => (stream, vec![a, b]),
            Call::CounterAdd(index, _) => (index, Vec::new()),
            Call::PacketNew(slot, a, b) => (slot, vec![a, b]),
            Call::PacketEmit(slot, verdict, a, b, _) => {
                if *verdict & 0x300_0000 != 0 {
                    *verdict &= 0x307; // Mostly one that there is.
                }
                (slot, vec![a, b])
            }
            Call::TimerSet(_) => {
                calls.push(call);
                continue;
            }
        };
        if *slot & 0x7000_0000 != 0 {
            *slot &= 15;
        }
        others.into_iter().for_each(toward_an_edge);
        calls.push(call);
    }
    Ok(calls)
}

/// Any number stays possible, but most come to lie near an edge, where the answers change.
fn toward_an_edge(value: &mut u32) {
    let near = (*value & 63).wrapping_sub(32);
    *value = match *value >> 28 {
        0 => (MEMORY as u32).wrapping_add(near),
        1 => nf_abi::WINDOW_BASE.wrapping_add(near),
        2 => near,
        3 => 1728u32.wrapping_add(near),
        4 => 2048u32.wrapping_add(near),
        5 => u32::MAX,
        6..=11 => *value & 0x7ff,
        _ => *value,
    };
}

/// Makes these calls, one after the other, and compares each answer with the model's.
///
/// # Panics
/// When an answer differs or a packet is lost.
pub fn check(calls: &[Call], write: bool, buffers: u32, collect_every: usize) {
    let access = if write { Access::Write } else { Access::Read };
    // Address space is kept ready for each pool: one for all checks of a thread, which leave it whole.
    thread_local!(static POOLS: RefCell<BTreeMap<u32, Arc<Pool>>> = const { RefCell::new(BTreeMap::new()) });
    let pool =
        POOLS.with_borrow_mut(|pools| pools.entry(buffers).or_insert_with(|| pool_of(buffers)).clone());
    let mut packet = pool.allocate().expect("at least one");
    let settings = InstanceSettings { config: vec![7; CONFIG], ..patient() };
    let mut guest = WasmGuest::new(any_call(access), &pool, settings).expect("an instance");
    let mut model = Model { write, free: buffers as usize - 1, ..Model::default() };
    for (n, call) in calls.iter().enumerate() {
        let expected = model.answer(call);
        let answer = make(&mut guest, &pool, &mut packet, call);
        if let Call::PacketNew(_, _, length) = call {
            // An address in the window with the packet's length behind it, or nothing.
            let first = answer as u32;
            assert_eq!(answer != 0, expected == 1, "{call:?}");
            assert!(
                first == 0 || matches!(first.wrapping_sub(nf_abi::WINDOW_BASE) % 2048, 128 | 192 | 256 | 320),
                "{call:?}: {first:#x}"
            );
            let end = WINDOW + pool.memory().len() as u64;
            assert!(first == 0 || u64::from(first) + u64::from(*length) <= end, "{call:?}: {first:#x}");
        } else {
            assert_eq!(answer, expected, "{call:?}");
        }
        assert_eq!(guest.kept().due().map(|at| at.0), model.deadline);
        assert_eq!(guest.kept().counters, model.counters);
        assert_eq!(guest.kept().slots.len(), model.slots.len());
        assert!(guest.kept().slots.len() + guest.kept().emitted.len() <= QUOTA);
        assert_eq!(pool.available(), model.free);
        if n % collect_every == 0 {
            let emitted = std::mem::take(&mut guest.kept_mut().emitted);
            assert_eq!(emitted.len(), model.emitted);
            for packet in &emitted {
                assert!(Verdict::decode(packet.record().verdict).is_some());
                assert_eq!(pool.to_vec(packet).len(), packet.length() as usize);
            }
            model.free += emitted.len();
            model.emitted = 0;
            pool.free_batch(emitted);
            let lines = guest.kept_mut().take_log();
            assert_eq!(lines.len(), model.lines);
            assert!(lines.iter().all(|line| line.text.chars().count() <= 1024));
            model.lines = 0;
            assert_eq!(guest.kept_mut().take_events().lines.len(), model.events);
            model.events = 0;
        }
    }
    assert!(std::mem::take(&mut guest.kept_mut().generated) as usize >= model.slots.len() + model.emitted);
    drop(guest);
    pool.free(packet);
    assert_eq!(pool.available(), buffers as usize, "packets were lost");
}
