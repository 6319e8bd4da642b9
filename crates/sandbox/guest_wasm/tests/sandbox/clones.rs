//! Clones share a snapshot's memory until they write, and leave nothing of it behind.

use crate::support::*;
use guest::Guest;
use guest_wasm::{Access, Clones, Program, ProgramFacts, Sandbox, SharedMemory, restore_sharing};
use packet_memory::{Packet, Pool};
use std::sync::Arc;

/// First call: fills all of its memory behind the records. Later: adds up all of it, and when the mark is at
/// least 2, writes one page fewer on the way.
const FILLER: &str = r#"(func (export "sf_process") (param i32 i64) (local $at i32) (local $sum i64) (local $mark i64) (local $left i64)
    (local.set $mark (i64.load (i32.const 1040)))
    (if (i64.eq (local.get $mark) (i64.const 3000))
      (then (drop (memory.grow (i32.const 1)))
            (i64.store (i32.const 131072) (i64.add (i64.load (i32.const 131072)) (i64.const 1)))
            (i64.store (i32.const 1040) (i64.load (i32.const 131072)))
            (return)))
    (local.set $left (local.get $mark))
    (local.set $at (i32.const 8192))
    (loop $next
      (if (i64.eq (local.get $mark) (i64.const 1))
        (then (i64.store (local.get $at) (i64.const 3))))
      (if (i64.ge_u (local.get $left) (i64.const 2))
        (then
          (local.set $left (i64.sub (local.get $left) (i64.const 1)))
          (i64.store (i32.add (i32.const 8192) (i32.mul (i32.const 4096) (i32.wrap_i64 (local.get $left)))) (i64.const 4))))
      (local.set $sum (i64.add (local.get $sum) (i64.load (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 131072))))
    (i64.store (i32.const 1040) (local.get $sum)))"#;

/// Lines that the filler fills.
const LINES: u64 = (131_072 - 8_192) / 64;

fn call(guest: &mut dyn Guest, packet: &mut Packet, mark: u64) -> u64 {
    packet.edit(|record| record.mark = mark);
    guest.process(std::slice::from_mut(packet), now()).expect("it works");
    packet.record().mark
}

struct Stage {
    sandbox: Sandbox,
    program: Arc<Program>,
    pool: Arc<Pool>,
    packet: Option<Packet>,
    clones: Clones,
}

impl Stage {
    /// `name` tells its clones' memory from that of other tests.
    fn new(name: &str, fields: &str) -> Stage {
        let sandbox = Sandbox::new().expect("a sandbox");
        let facts = ProgramFacts { name: name.to_owned(), ..facts(Access::Read) };
        let program = sandbox.compile(&wasm(&module(fields)), facts).expect("a program");
        let pool = pool_of(4);
        let mut packet = pool.allocate().expect("a buffer");
        let mut first = guest_wasm::start(&program, &pool, patient()).expect("an instance");
        call(&mut *first, &mut packet, 1);
        let clones = Clones::new(&program, &first.save().expect("between two calls")).expect("clones");
        drop(first);
        Stage { sandbox, program, pool, packet: Some(packet), clones }
    }

    fn clone(&self) -> Box<dyn Guest> {
        self.clones.start(&self.pool, patient()).expect("a clone")
    }

    fn call(&mut self, guest: &mut dyn Guest, mark: u64) -> u64 {
        call(guest, self.packet.as_mut().expect("until the end"), mark)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(packet) = self.packet.take() {
            self.pool.free(packet);
        }
        if !std::thread::panicking() {
            assert_eq!(self.pool.available(), 4);
        }
    }
}

#[test]
fn a_clone_writes_into_its_own_memory() {
    let mut stage = Stage::new("writes", FILLER);
    let (mut one, mut two) = (stage.clone(), stage.clone());
    assert_eq!(stage.call(&mut *one, 0), 3 * LINES);
    assert_eq!(stage.call(&mut *one, 11), 3 * LINES + 10);
    assert_eq!(stage.call(&mut *two, 0), 3 * LINES, "the other one's memory");
    assert_eq!(stage.call(&mut *one, 0), 3 * LINES + 10);
    let mut three = stage.clone();
    assert_eq!(stage.call(&mut *three, 0), 3 * LINES, "what was saved");
    // It grows behind what is shared, from zero.
    assert_eq!(stage.call(&mut *one, 3000), 1);
    assert_eq!(stage.call(&mut *one, 0), 3 * LINES + 10);
}

#[test]
fn shared_memory_is_that_of_one_snapshot_and_what_is_restored_of_it_goes_on() {
    let mut stage = Stage::new("restored", FILLER);
    let mut first = stage.clone();
    assert_eq!(stage.call(&mut *first, 3), 3 * LINES + 2);
    let saved = first.save().expect("between two calls");
    let memory = Arc::new(SharedMemory::new("restored", &saved.memory).expect("memory"));
    assert!(memory.holds(&saved.memory));
    assert_eq!(memory.resident(), 4096 * saved.memory.pages().len() as u64);
    let restored =
        || restore_sharing(&stage.program, &stage.pool, patient(), &saved, &memory).expect("restored");
    let (mut one, mut two) = (restored(), restored());
    assert_eq!(stage.call(&mut *one, 6), 3 * LINES + 5);
    assert_eq!(stage.call(&mut *two, 0), 3 * LINES + 2, "the other one's memory");
    // What another one has come to know is another memory: by a byte, and by a page.
    assert!(!memory.holds(&one.save().expect("between two calls").memory));
    stage.call(&mut *two, 3000);
    assert!(!memory.holds(&two.save().expect("between two calls").memory));
    assert!(memory.holds(&first.save().expect("between two calls").memory));
}

#[test]
fn a_clone_can_be_saved_and_frozen_itself() {
    let mut stage = Stage::new("saved", FILLER);
    let mut one = stage.clone();
    assert_eq!(stage.call(&mut *one, 6), 3 * LINES + 5);
    stage.call(&mut *one, 3000);
    // Pages that it never touched are part of what it is.
    let saved = one.save().expect("between two calls");
    let mut restored = guest_wasm::restore(&stage.program, &stage.pool, patient(), &saved).expect("restored");
    assert_eq!(stage.call(&mut *restored, 0), 3 * LINES + 5);
    assert_eq!(stage.call(&mut *restored, 3000), 2);
    let second = Clones::new(&stage.program, &saved).expect("clones of a clone");
    let mut two = second.start(&stage.pool, patient()).expect("a clone");
    assert_eq!(stage.call(&mut *two, 0), 3 * LINES + 5);
    let mut thawed = one.freeze().expect("between two calls").thaw().expect("a shell");
    assert_eq!(stage.call(&mut *thawed, 0), 3 * LINES + 5);
    // A fresh clone, of which no page was touched yet, is whole as well.
    let saved = stage.clone().save().expect("between two calls");
    let mut fresh = guest_wasm::restore(&stage.program, &stage.pool, patient(), &saved).expect("restored");
    assert_eq!(stage.call(&mut *fresh, 0), 3 * LINES);
}

#[test]
fn a_clone_has_no_packets_and_counts_from_zero() {
    let text = "(func (export \"sf_process\") (param i32 i64)
        (drop (call $counter_add (i32.const 0) (i64.const 5)))
        (drop (call $write (i32.const 9) (i32.const 512) (i32.const 3)))
        (drop (call $timer_set (i64.const 99))))";
    let program = program(&module(text), Access::Read);
    let pool = pool_of(4);
    let mut guest = guest_wasm::start(&program, &pool, patient()).expect("an instance");
    let mut packet = pool.allocate().expect("a buffer");
    call(&mut *guest, &mut packet, 0);
    pool.write(&mut packet, b"held").expect("it fits");
    guest.kept_mut().slots.keep(3, packet, now().nanos).expect("empty");
    let saved = guest.save().expect("between two calls");
    assert_eq!((saved.packets.len(), saved.host.counters[0], saved.host.log.len()), (1, 5, 1));
    let clones = Clones::new(&program, &saved).expect("clones");
    let mut clone = clones.start(&pool, patient()).expect("a clone");
    assert_eq!((clone.kept().slots.len(), clone.kept_mut().take_log().len()), (0, 0));
    assert_eq!(clone.kept().counters, [0, 0]);
    assert_eq!(clone.kept().due(), Some(telemetry::clock::Nanos(99)));
    drop((guest, clone));
    assert_eq!(pool.available(), 4);
}

/// Kilobytes that are this process's own and dirty, in mappings of clones' memory.
fn written_kib(name: &str) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("this process's own");
    let (mut inside, mut sum) = (false, 0);
    for line in maps.lines() {
        if line.contains(&format!("superfluid-clones:{name} ")) {
            inside = true;
        } else if line.starts_with("VmFlags:") {
            inside = false;
        } else if inside && let Some(rest) = line.strip_prefix("Anonymous:") {
            sum += rest.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number");
        }
    }
    sum
}

#[test]
fn a_thousand_clones_cost_what_they_write() {
    const CLONES: u64 = 1000;
    const PAGES: u64 = 12;
    let mut stage = Stage::new("thousand", FILLER);
    let mut clones = Vec::new();
    for _ in 0..CLONES {
        let mut clone = stage.clone();
        // So many pages of its tables, and the page with the records.
        assert_eq!(stage.call(&mut *clone, PAGES + 1), 3 * LINES + PAGES);
        clones.push(clone);
    }
    let written = CLONES * (PAGES + 1) * 4;
    let own = written_kib("thousand");
    let shared = stage.clones.shared_bytes() as u64 / 1024;
    let cost = own + shared;
    assert_eq!(own, written, "KiB of their own, and KiB that were written");
    assert!(cost * 10 <= written * 12, "{cost} KiB for {written} KiB that were written");
    let mut last = clones.pop().expect("a thousand");
    assert_eq!(stage.call(&mut *last, 0), 3 * LINES + PAGES);
}

#[test]
fn a_clones_shell_belongs_to_the_next_one_alone() {
    let sum = "(func (export \"sf_process\") (param i32 i64) (local $at i32) (local $sum i64)
        (local.set $at (i32.const 4096))
        (loop $next
          (local.set $sum (i64.add (local.get $sum) (i64.popcnt (i64.load (local.get $at)))))
          (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 131072))))
        (i64.store (i32.const 1040) (local.get $sum)))";
    let mut stage = Stage::new("recycled", FILLER);
    let reader = stage.sandbox.compile(&wasm(&module(sum)), facts(Access::Read)).expect("a program");
    let large = {
        let text = module(sum).replace("\"memory\") 2", "\"memory\") 3");
        let facts = ProgramFacts { memory_limit: 4 << 20, ..facts(Access::Read) };
        stage.sandbox.compile(&wasm(&text), facts).expect("a program")
    };
    for mark in [0, 7, 3000, 0] {
        let mut clone = stage.clone();
        stage.call(&mut *clone, mark);
        let mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's own");
            maps.matches("superfluid-clones:recycled ").count()
        };
        assert_eq!(mapped(), 1);
        drop(clone);
        assert_eq!(stage.sandbox.shell_counts().spare, 1, "the shell came back");
        assert_eq!(mapped(), 0, "without a trace of what it mapped");
        for program in [&reader, &large, &reader] {
            let mut next = guest_wasm::start(program, &stage.pool, patient()).expect("an instance");
            assert_eq!(stage.sandbox.shell_counts().spare, 0, "and was the one used");
            assert_eq!(stage.call(&mut *next, 0), 0, "bits of the snapshot or of the clone");
        }
    }
}

#[test]
fn a_snapshot_that_is_all_zero_has_clones() {
    let program = program(&module("(func (export \"sf_process\") (param i32 i64))"), Access::Read);
    let pool = pool_of(2);
    let mut guest = guest_wasm::start(&program, &pool, patient()).expect("an instance");
    let saved = guest.save().expect("between two calls");
    assert_eq!(saved.memory.pages(), []);
    let clones = Clones::new(&program, &saved).expect("clones");
    let mut clone = clones.start(&pool, patient()).expect("a clone");
    let mut packet = pool.allocate().expect("a buffer");
    call(&mut *clone, &mut packet, 5);
    pool.free(packet);
}
