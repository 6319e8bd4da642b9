//! The bytes that the host draws for each start.

use crate::support::*;
use guest::Guest;
use guest_wasm::{Access, Clones, InstanceSettings, Program, Slice, restore, start};
use nf_abi::RANDOM;
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use telemetry::clock::Nanos;

/// A guest that keeps what it read in `sf_init`. Each call answers by the mark: of eight bytes from the
/// number in the low half of the mark on, those that it kept or, with a high half, those that it reads now.
fn keeper() -> Arc<Program> {
    let wat = format!(
        r#"(module {IMPORTS}
            (memory (export "memory") 2)
            (func (export "sf_batch") (result i32) (i32.const {BATCH}))
            (func (export "sf_init") (result i32)
                (i32.sub (call $read (i32.const 7) (i32.const 0) (i32.const 8192) (i32.const 32)) (i32.const 32)))
            (func (export "sf_process") (param i32 i64) (local $at i32)
                (local.set $at (i32.load (i32.const {MARK})))
                (i64.store (i32.const 16384) (i64.load (i32.add (i32.const 8192) (local.get $at))))
                (if (i32.load (i32.const {HIGH}))
                    (then (drop (call $read (i32.const 7) (local.get $at) (i32.const 16384) (i32.const 8)))))
                (i64.store (i32.const {MARK}) (i64.load (i32.const 16384)))))"#,
        HIGH = MARK + 4,
    );
    program(&wat, Access::Read)
}

/// What an instance kept and what it reads now.
fn bytes(guest: &mut dyn Guest, packet: &mut Packet, now_read: bool) -> [u8; RANDOM] {
    let mut found = Vec::new();
    for at in (0..RANDOM as u64).step_by(8) {
        packet.edit(|record| record.mark = at | u64::from(now_read) << 32);
        assert!(guest.process(std::slice::from_mut(packet), now()).expect("it works").is_done());
        found.extend(packet.record().mark.to_le_bytes());
    }
    found.try_into().expect("32 bytes")
}

fn room() -> (Arc<Pool>, Packet) {
    let pool = pool_of(4);
    let packet = pool.allocate().expect("a buffer");
    (pool, packet)
}

#[test]
fn each_start_has_bytes_of_its_own_and_keeps_them() {
    let (program, (pool, mut packet)) = (keeper(), room());
    let slice = Some(Slice(Nanos::from_millis(1_000)));
    let mut seen = Vec::new();
    for settings in [patient(), InstanceSettings { preemptible: slice, ..patient() }] {
        for _ in 0..4 {
            let mut guest = start(&program, &pool, settings.clone()).expect("an instance");
            let kept = bytes(&mut *guest, &mut packet, false);
            assert_eq!(bytes(&mut *guest, &mut packet, true), kept);
            seen.push(kept);
        }
    }
    // Not even a word of them is there twice.
    let mut words: Vec<&[u8]> = seen.iter().flat_map(|bytes| bytes.chunks(8)).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), 8 * 4);
    pool.free(packet);
}

#[test]
fn what_has_to_come_out_the_same_gets_the_bytes_that_it_is_given() {
    let (program, (pool, mut packet)) = (keeper(), room());
    let given: [u8; RANDOM] = std::array::from_fn(|n| n as u8);
    let settings = InstanceSettings { random: Some(given), ..patient() };
    let mut guest = start(&program, &pool, settings).expect("an instance");
    assert_eq!(bytes(&mut *guest, &mut packet, false), given);
    assert_eq!(bytes(&mut *guest, &mut packet, true), given);
    pool.free(packet);
}

/// Tables are in memory, and go on with the secret that they are keyed with. Neither a snapshot nor a frozen
/// instance has the bytes beside its memory.
#[test]
fn restored_instances_and_clones_keep_what_memory_has_and_read_other_bytes() {
    let (program, (pool, mut packet)) = (keeper(), room());
    let mut guest = start(&program, &pool, patient()).expect("an instance");
    let kept = bytes(&mut *guest, &mut packet, false);
    let saved = guest.save().expect("between two calls");
    let clones = Clones::new(&program, &saved).expect("its own snapshot");
    let mut now_read = vec![kept];
    for mut again in [
        restore(&program, &pool, patient(), &saved).expect("restored"),
        clones.start(&pool, patient()).expect("a clone"),
        clones.start(&pool, patient()).expect("another"),
    ] {
        assert_eq!(bytes(&mut *again, &mut packet, false), kept);
        now_read.push(bytes(&mut *again, &mut packet, true));
    }
    now_read.sort_unstable();
    now_read.dedup();
    assert_eq!(now_read.len(), 4, "each has bytes of its own");
    let mut thawed = guest.freeze().expect("between two calls").thaw().expect("a shell");
    assert_eq!(bytes(&mut *thawed, &mut packet, false), kept);
    assert_eq!(bytes(&mut *thawed, &mut packet, true), kept, "it is the same instance");
    pool.free(packet);
}
