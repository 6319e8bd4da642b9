//! Calls that are switched out: others run in between, nothing is lost or seen that should not be, and every
//! end of such a call gives back all that it had.

use crate::support::*;
use guest::{Guest, GuestFault, Progress};
use guest_wasm::{
    Access, FIBRE_STACK, InstanceError, InstanceSettings, PreemptibleGuest, Program, Sandbox, Slice,
    WasmGuest, start, watchdog,
};
use nf_abi::{PacketRecord, Verdict};
use packet_memory::Packet;
use std::slice::from_mut;
use std::sync::Arc;
use std::time::Duration;
use telemetry::clock::{Cycles, Nanos};

const SLICE: Slice = Slice(Nanos(200_000));

/// Counts to the first packet's mark, in a local and in memory, then answers with both.
const COUNTS: &str = "
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $r) (local.get $a)))
      (local.set $r (i32.add (local.get $r) (i32.const 1)))
      (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1)))
      (br $next)))
    (i64.store (i32.const 1040) (i64.or
      (i64.extend_i32_u (local.get $r)) (i64.shl (i64.load32_u (i32.const 512)) (i64.const 32))))
    (i32.store (i32.const 512) (i32.const 0))
    (i32.store (i32.const 1024) (i32.const 0x102))";

/// A count that takes some tens of slices.
const LONG: u64 = 10_000_000;

/// What [`COUNTS`] answers.
fn counted(mark: u64) -> u64 {
    mark | (mark << 32)
}

fn preemptible(
    program: &Arc<Program>,
    room: &Room,
    settings: InstanceSettings,
    slice: Slice,
) -> PreemptibleGuest {
    PreemptibleGuest::new(program, &room.pool, settings, slice).expect("an instance")
}

/// The module with these functions before `sf_process`.
fn with_helpers(module: &str, helpers: &str) -> String {
    let process = "(func (export \"sf_process\")";
    module.replacen(process, &format!("{helpers} {process}"), 1)
}

/// Begins a call with this packet and mark, which must not end within a slice.
fn suspend(guest: &mut dyn Guest, packet: &mut Packet, mark: u64) {
    packet.edit(|record| record.mark = mark);
    let progress = guest.process(from_mut(packet), now()).expect("it begins");
    assert_eq!(progress, Progress::Suspended);
    assert!(guest.suspended());
}

/// Goes on until the call has ended; how often it was switched out on the way.
fn finish(guest: &mut dyn Guest, packet: &mut Packet) -> Result<u32, GuestFault> {
    for stretches in 0.. {
        if guest.process(from_mut(packet), now())?.is_done() {
            assert!(!guest.suspended());
            return Ok(stretches);
        }
    }
    unreachable!("the last limit is long enough")
}

#[test]
fn others_run_while_a_call_is_switched_out() {
    in_time(|| {
        let mut room = Room::roomy();
        let mut packet = room.spare_packet();
        let mut guest = preemptible(&program(&process(COUNTS), Access::Read), &room, patient(), SLICE);
        for _ in 0..3 {
            suspend(&mut guest, &mut packet, LONG);
            let before: PacketRecord = *packet.record();
            let mut stretches = 0;
            loop {
                room.assert_goes_on();
                assert_eq!(*packet.record(), before, "the records say nothing yet");
                stretches += 1;
                if guest.process(from_mut(&mut packet), now()).expect("it goes on").is_done() {
                    break;
                }
            }
            assert!(stretches >= 2, "it was switched out once");
            assert_eq!(Verdict::decode(packet.record().verdict), Some(Verdict::Interface(1)));
            assert_eq!(packet.record().mark, counted(LONG));
            // A call that is short is never switched out.
            packet.edit(|record| record.mark = 3);
            assert!(guest.process(from_mut(&mut packet), now()).is_ok_and(Progress::is_done));
            assert_eq!(packet.record().mark, counted(3));
        }
        drop(guest);
        room.pool.free(packet);
    });
}

#[test]
fn a_whole_batch_comes_back_as_it_went() {
    in_time(|| {
        let mut room = Room::roomy();
        // Answers every record by its number after having counted.
        let body = format!(
            "{COUNTS} (local.set $r (i32.const 0))
             (loop $each
               (i64.store (i32.add (i32.const 1040) (i32.mul (local.get $r) (i32.const 64))) (i64.extend_i32_u (local.get $r)))
               (i32.store (i32.add (i32.const 1024) (i32.mul (local.get $r) (i32.const 64))) (i32.const 0x002))
               (br_if $each (i32.lt_u (local.tee $r (i32.add (local.get $r) (i32.const 1))) (local.get 0))))"
        );
        let mut guest = preemptible(&program(&process(&body), Access::Read), &room, patient(), SLICE);
        let mut batch: Vec<Packet> = room.packets.drain(8..).collect();
        batch[0].edit(|record| record.mark = LONG);
        let before: Vec<PacketRecord> = batch.iter().map(|packet| *packet.record()).collect();
        assert_eq!(guest.process(&mut batch, now()), Ok(Progress::Suspended));
        while guest.process(&mut batch, now()).expect("it goes on") == Progress::Suspended {}
        for (n, (packet, before)) in batch.iter().zip(before).enumerate() {
            let wanted = PacketRecord { verdict: Verdict::Interface(0).encode(), mark: n as u64, ..before };
            assert_eq!(*packet.record(), wanted);
        }
        room.packets.append(&mut batch);
        room.assert_goes_on();
    });
}

#[test]
fn settings_decide_which_kind_an_instance_is() {
    in_time(|| {
        let mut room = Room::roomy();
        let program = program(&process(COUNTS), Access::Read);
        let mut plain = start(&program, &room.pool, patient()).expect("an instance");
        let settings = InstanceSettings { preemptible: Some(SLICE), ..patient() };
        let mut sliced = start(&program, &room.pool, settings).expect("an instance");
        let packet = &mut room.packets[3];
        suspend(&mut *sliced, packet, LONG);
        let mut other = room.spare_packet();
        other.edit(|record| record.mark = LONG);
        assert!(plain.process(from_mut(&mut other), now()).is_ok_and(Progress::is_done));
        assert_eq!(other.record().mark, counted(LONG));
        finish(&mut *sliced, &mut room.packets[3]).expect("it ends");
        assert_eq!(room.packets[3].record().mark, counted(LONG));
        room.pool.free(other);
    });
}

#[test]
fn all_stretches_of_a_call_share_its_time() {
    in_time(|| {
        let mut room = Room::roomy();
        let program = program(&process("(loop (br 0))"), Access::Read);
        // A busy machine can take a few milliseconds away that nothing tells of.
        let max_call = Nanos::from_millis(20);
        let mut guest = preemptible(&program, &room, InstanceSettings { max_call, ..impatient() }, SLICE);
        let mut packet = room.spare_packet();
        suspend(&mut guest, &mut packet, 0);
        let (mut stretches, mut had) = (1, Cycles(0));
        let ended = loop {
            // Longer than all of the call's time, together: waiting is not the call's.
            std::thread::sleep(Duration::from_millis(4));
            let began = Cycles::now();
            let outcome = guest.process(from_mut(&mut packet), now());
            had += Cycles::now().since(began);
            match outcome {
                Ok(_) => stretches += 1,
                Err(fault) => break fault,
            }
        };
        assert_eq!(ended, GuestFault::TimedOut { limit: max_call });
        assert!((3..=100).contains(&stretches), "{stretches} stretches of 0.2 ms in 20 ms");
        let had = watchdog::clock().span(had);
        assert!(had >= Nanos(13_000_000), "it ended after {had:?}");
        drop(guest);
        room.pool.free(packet);
        room.assert_goes_on();
    });
}

#[test]
fn a_call_ends_at_its_time_also_within_a_slice() {
    in_time(|| {
        let room = Room::roomy();
        let program = program(&process("(loop (br 0))"), Access::Read);
        let slice = Slice(Nanos::from_millis(60_000));
        let mut guest = preemptible(&program, &room, impatient(), slice);
        let mut packet = room.spare_packet();
        assert_timed_out(guest.process(from_mut(&mut packet), now()), "a slice longer than the call may be");
        drop(guest);
        room.pool.free(packet);
    });
}

#[test]
fn the_shortest_slices_let_a_call_come_to_its_end() {
    in_time(|| {
        let room = Room::roomy();
        let program = program(&process(COUNTS), Access::Read);
        for slice in [0, 1, 1_000] {
            let mut guest = preemptible(&program, &room, patient(), Slice(Nanos(slice)));
            let mut packet = room.spare_packet();
            suspend(&mut guest, &mut packet, 300_000);
            finish(&mut guest, &mut packet).expect("it ends");
            assert_eq!(packet.record().mark, counted(300_000));
            room.pool.free(packet);
        }
    });
}

/// Makes three packets, gives one up, fills memory, and counts for long.
const ENDS: &str = "
    (drop (call $packet_new (i32.const 1) (i32.const 0) (i32.const 60)))
    (drop (call $packet_new (i32.const 2) (i32.const 0) (i32.const 60)))
    (drop (call $packet_new (i32.const 3) (i32.const 0) (i32.const 60)))
    (drop (call $packet_emit (i32.const 2) (i32.const 2) (i32.const -1) (i32.const 0) (i64.const 0)))
    (i64.store (i32.const 6000) (i64.const -1))
    (drop (memory.grow (i32.const 3)))
    (i64.store (i32.const 300000) (i64.const -1))
    (local.set $a (i32.const 10000000))
    (loop (br_if 0 (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))";

/// Answers with what lies where [`ENDS`] stored.
const PEEKS: &str = "
    (drop (memory.grow (i32.const 3)))
    (i64.store (i32.const 1040) (i64.or (i64.load (i32.const 6000)) (i64.load (i32.const 300000))))";

#[test]
fn dropping_a_suspended_guest_gives_everything_back() {
    in_time(|| {
        let sandbox = Sandbox::new().expect("a sandbox");
        let pool = pool_of(8);
        let ends = sandbox.compile(&wasm(&process(ENDS)), facts(Access::Read)).expect("a program");
        let peeks = sandbox.compile(&wasm(&process(PEEKS)), facts(Access::Read)).expect("a program");
        for (surrendered, elsewhere) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut packet = pool.allocate().expect("eight buffers");
            let mut guest = PreemptibleGuest::new(&ends, &pool, patient(), SLICE).expect("an instance");
            assert_eq!((sandbox.fibres(), sandbox.shell_counts().spare), (1, 0));
            suspend(&mut guest, &mut packet, 0);
            assert_eq!((guest.kept().slots.len(), guest.kept().emitted.len(), pool.available()), (2, 1, 4));
            let end = move |mut guest: PreemptibleGuest| {
                let mut out = Vec::new();
                if surrendered {
                    guest.surrender(&mut out);
                    assert_eq!(out.len(), 3);
                    assert!(!guest.suspended(), "nothing of it runs any more");
                    assert!(matches!(guest.process(&mut [], now()), Err(GuestFault::Contract(_))));
                }
                out
            };
            let out = if elsewhere {
                std::thread::spawn(move || end(guest)).join().expect("no thread fails")
            } else {
                end(guest)
            };
            pool.free_batch(out);
            pool.free(packet);
            assert_eq!(pool.available(), 8, "at once");
            assert_eq!((sandbox.fibres(), sandbox.shell_counts().spare), (0, 1), "at once");

            for plain in [true, false] {
                let mut packet = pool.allocate().expect("eight buffers");
                let settings =
                    InstanceSettings { preemptible: (!plain).then_some(Slice(Nanos(1 << 40))), ..patient() };
                let mut guest = start(&peeks, &pool, settings).expect("an instance");
                assert_eq!(sandbox.shell_counts().spare, 0, "the same shell");
                assert!(guest.process(from_mut(&mut packet), now()).is_ok_and(Progress::is_done));
                assert_eq!(packet.record().mark, 0, "bits of the former guest");
                pool.free(packet);
            }
        }
    });
}

#[test]
fn faults_after_a_resume_are_faults_like_any() {
    in_time(|| {
        let sandbox = Sandbox::new().expect("a sandbox");
        let mut room = Room::roomy();
        let wait = "(local.set $r (i32.const 10000000))
            (loop (br_if 0 (local.tee $r (i32.sub (local.get $r) (i32.const 1)))))";
        let deep = "(func $deep (param i64 i64 i64 i64) (result i64) (i64.add (i64.const 1)
            (call $deep (local.get 1) (local.get 2) (local.get 3) (local.get 0))))";
        for (what, body) in [
            ("unreachable", "(unreachable)"),
            ("a store into a read-only window", "(i32.store (i32.const 0x80000000) (i32.const -1))"),
            ("a load from nothing", "(drop (i64.load (i32.const 0x7ffffff0)))"),
            (
                "a stack without end",
                "(drop (call $deep (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4)))",
            ),
            ("a division by zero", "(drop (i32.div_u (i32.const 1) (i32.load (i32.const 0))))"),
        ] {
            let text = format!("{wait} {body}");
            let text = with_helpers(&process(&text), deep);
            let program = sandbox.compile(&wasm(&text), facts(Access::Read)).expect("a program");
            let mut guest = preemptible(&program, &room, patient(), SLICE);
            let mut packet = room.spare_packet();
            suspend(&mut guest, &mut packet, 0);
            room.assert_goes_on();
            assert_trap(finish(&mut guest, &mut packet), what);
            let mut out = Vec::new();
            guest.surrender(&mut out);
            assert!(out.is_empty());
            drop(guest);
            room.pool.free(packet);
            assert_eq!((sandbox.fibres(), sandbox.shell_counts().spare), (0, 1), "{what}");
            room.assert_goes_on();
        }
    });
}

#[test]
fn a_thousand_calls_are_suspended_at_once() {
    in_time(|| {
        const GUESTS: usize = 1_000;
        let sandbox = Sandbox::new().expect("a sandbox");
        let pool = pool_of(GUESTS as u32);
        let program = sandbox.compile(&wasm(&process(COUNTS)), facts(Access::Read)).expect("a program");
        let mut guests: Vec<(PreemptibleGuest, Packet)> = (0..GUESTS)
            .map(|_| {
                let guest = PreemptibleGuest::new(&program, &pool, patient(), Slice(Nanos(20_000)));
                (guest.expect("an instance"), pool.allocate().expect("enough buffers"))
            })
            .collect();
        for (n, (guest, packet)) in guests.iter_mut().enumerate() {
            suspend(guest, packet, 300_000 + n as u64);
        }
        assert_eq!(sandbox.fibres(), GUESTS);
        let mut rounds = 0;
        while guests.iter().any(|(guest, _)| guest.suspended()) {
            for (guest, packet) in guests.iter_mut().filter(|(guest, _)| guest.suspended()) {
                let _ = guest.process(from_mut(packet), now()).expect("it goes on");
            }
            rounds += 1;
        }
        assert!(rounds > 1, "they took turns");
        for (n, (_, packet)) in guests.iter().enumerate() {
            assert_eq!(packet.record().mark, counted(300_000 + n as u64));
        }
        for (guest, packet) in guests {
            drop(guest);
            pool.free(packet);
        }
        assert_eq!((sandbox.fibres(), pool.available()), (0, GUESTS));
    });
}

/// Ways to keep the processor, each with nothing in it that would give it back.
const HOSTILE: [(&str, &str); 6] = [
    ("a tight loop", "(loop (br 0))"),
    ("a loop over a table", "(loop $l (loop $m (br_table $l $m $l (i32.load (i32.const 0)))))"),
    ("a loop of calls", "(loop (call $nothing) (br 0))"),
    ("a loop of host calls", "(loop (drop (call $counter_add (i32.const 0) (i64.const 1))) (br 0))"),
    (
        "a loop of long host calls",
        "(loop (drop (call $read (i32.const 0) (i32.const 0) (i32.const 8192) (i32.const 65536))) (br 0))",
    ),
    ("recursion without loops", "(call $tree (i32.const 60))"),
];

const HOSTILE_HELPERS: &str = "(func $nothing)
    (func $tree (param i32) (if (local.get 0) (then
      (call $tree (i32.sub (local.get 0) (i32.const 1))) (call $tree (i32.sub (local.get 0) (i32.const 1))))))";

#[test]
fn a_guest_that_never_gives_the_processor_up_loses_it_all_the_same() {
    in_time(|| {
        let mut room = Room::roomy();
        for (what, body) in HOSTILE {
            let text = with_helpers(&process(body), HOSTILE_HELPERS);
            let program = program(&text, Access::Read);
            let settings = InstanceSettings { config: vec![1; 65536], ..patient() };
            let mut guest = preemptible(&program, &room, settings, SLICE);
            let mut packet = room.spare_packet();
            suspend(&mut guest, &mut packet, 0);
            // How soon after the slice, a busy machine decides: that it is switched out at all is what
            // counts.
            for _ in 0..50 {
                let at = now();
                assert_eq!(guest.process(from_mut(&mut packet), at), Ok(Progress::Suspended), "{what}");
                let took = watchdog::clock().span(Cycles::now().since(at.cycles));
                assert!(took >= SLICE.0, "{what}: {took:?} is less than a slice");
                room.assert_runs();
            }
            drop(guest);
            room.pool.free(packet);
        }
        room.assert_goes_on();
    });
}

#[test]
fn host_calls_of_a_suspended_call_are_seen_and_collected() {
    in_time(|| {
        let mut room = Room::roomy();
        // Each round: a counter, an event, and every 2^16 rounds a packet that is given up and a deadline.
        let body = "
            (loop $next
              (drop (call $counter_add (i32.const 1) (i64.const 2)))
              (if (i32.eqz (i32.and (local.get $r) (i32.const 0xffff))) (then
                (drop (call $write (i32.const 3) (i32.const 0) (i32.const 4)))
                (drop (call $packet_new (i32.const 5) (i32.const 0) (i32.const 60)))
                (drop (call $packet_emit (i32.const 5) (i32.const 2) (i32.const -1) (i32.const 0) (i64.const 0)))
                (drop (call $timer_set (i64.extend_i32_u (i32.add (local.get $r) (i32.const 1)))))))
              (br_if $next (i32.lt_u
                (local.tee $r (i32.add (local.get $r) (i32.const 1))) (local.get $a))))";
        let mut guest = preemptible(&program(&process(body), Access::Read), &room, patient(), SLICE);
        let mut packet = room.spare_packet();
        let rounds = 1 << 20;
        suspend(&mut guest, &mut packet, rounds);
        let (mut emitted, mut generated, mut seen, mut moved) = (0, 0, 0, 0);
        loop {
            let counter = guest.kept().counters[1];
            assert!(counter >= seen, "counters only grow");
            moved += u32::from(counter > seen);
            seen = counter;
            let given_up = std::mem::take(&mut guest.kept_mut().emitted);
            assert!(given_up.len() <= 4, "within the quota");
            emitted += given_up.len() as u64;
            room.pool.free_batch(given_up);
            generated += std::mem::take(&mut guest.kept_mut().generated);
            assert!(guest.kept().slots.is_empty());
            if !guest.suspended() {
                break;
            }
            let _ = guest.process(from_mut(&mut packet), now()).expect("it goes on");
        }
        assert!(moved > 2, "seen while it was suspended");
        assert_eq!(guest.kept().counters, [0, 2 * rounds]);
        assert_eq!(emitted, generated, "what was made came out");
        assert!(emitted > 0);
        assert_eq!(guest.kept().due(), Some(Nanos(rounds - (1 << 16) + 1)));
        drop(guest);
        room.pool.free(packet);
        room.assert_goes_on();
    });
}

#[test]
fn a_suspended_call_goes_on_on_another_thread() {
    in_time(|| {
        let room = Room::roomy();
        let program = program(&process(COUNTS), Access::Read);
        let mut guest = preemptible(&program, &room, patient(), SLICE);
        let mut packet = room.spare_packet();
        suspend(&mut guest, &mut packet, LONG);
        let mut done = false;
        for _ in 0..10 {
            // Each thread ends with its timer running.
            let thread = std::thread::spawn(move || {
                let done = guest.process(from_mut(&mut packet), now()).expect("it goes on").is_done();
                (guest, packet, done)
            });
            (guest, packet, done) = thread.join().expect("no thread fails");
            if done {
                break;
            }
        }
        if !done {
            finish(&mut guest, &mut packet).expect("it ends");
        }
        assert_eq!(packet.record().mark, counted(LONG));
        drop(guest);
        room.pool.free(packet);
    });
}

#[test]
fn calls_out_of_order_are_refused() {
    in_time(|| {
        let mut room = Room::roomy();
        let program = program(&process(COUNTS), Access::Read);
        let contract = |result: Result<(), GuestFault>, what: &str| {
            assert!(matches!(result, Err(GuestFault::Contract(_))), "{what}: {result:?}");
        };
        let mut plain = WasmGuest::new(&program, &room.pool, patient()).expect("an instance");
        room.show(&mut plain, 5).expect("it is never suspended");

        let mut packet = room.spare_packet();
        let mut guest = preemptible(&program, &room, patient(), SLICE);
        suspend(&mut guest, &mut packet, LONG);
        assert_eq!(guest.private_bytes(), None);
        contract(guest.observe(&room.packets[..1], now()), "observe");
        contract(guest.timer(now()), "timer");
        contract(guest.report(now()).map(|_| ()), "report");
        contract(guest.export_state().map(|_| ()), "export_state");
        contract(guest.import_state(Vec::new()).map(|_| ()), "import_state");
        finish(&mut guest, &mut packet).expect("none of it mattered");
        assert_eq!(packet.record().mark, counted(LONG));
        assert_eq!(guest.private_bytes(), Some(2 << 16));
        guest.observe(&room.packets[..1], now()).expect("and it goes on");

        suspend(&mut guest, &mut packet, LONG);
        contract(guest.process(&mut room.packets[..2], now()).map(|_| ()), "another batch");
        assert!(!guest.suspended());
        contract(guest.process(from_mut(&mut packet), now()).map(|_| ()), "after its end");
        drop(guest);
        room.pool.free(packet);
        room.assert_goes_on();
    });
}

#[test]
fn only_calls_with_packets_are_switched_out() {
    in_time(|| {
        let room = Room::roomy();
        let long = "(local $r i32) (loop (br_if 0 (i32.lt_u
            (local.tee $r (i32.add (local.get $r) (i32.const 1))) (i32.const 5000000))))";
        let text = format!(
            "(module {IMPORTS} (memory (export \"memory\") 2)
               (func (export \"sf_batch\") (result i32) {long} (i32.const 1024))
               (func (export \"sf_init\") (result i32) {long} (i32.const 0))
               (func (export \"sf_process\") (param i32 i64) {long})
               (func (export \"sf_timer\") (param i64) {long}))"
        );
        let program = program(&text, Access::Read);
        let mut guest = preemptible(&program, &room, patient(), Slice(Nanos(20_000)));
        guest.timer(now()).expect("it ends");
        guest.observe(&room.packets[..1], now()).expect("it ends");
        assert!(!guest.suspended());
        let mut packet = room.spare_packet();
        assert_eq!(guest.process(from_mut(&mut packet), now()), Ok(Progress::Suspended));
        // Neither do the slices of others, and of earlier calls, matter.
        let mut other = preemptible(&program, &room, patient(), Slice(Nanos(20_000)));
        other.timer(now()).expect("it ends");
        finish(&mut guest, &mut packet).expect("it ends");
        guest.timer(now()).expect("it ends");
        room.pool.free(packet);
    });
}

#[test]
fn starting_fails_as_for_any_instance() {
    in_time(|| {
        let sandbox = Sandbox::new().expect("a sandbox");
        let room = Room::roomy();
        for (text, wanted) in [
            (module("(func (export \"sf_process\") (param i32 i64)) (func $s (loop (br 0))) (start $s)"), "fault"),
            (module("(func (export \"sf_process\") (param i32 i64)) (func $s (unreachable)) (start $s)"), "fault"),
            (
                "(module (memory (export \"memory\") 2) (func (export \"sf_batch\") (result i32) (i32.const 1024))
                 (func (export \"sf_init\") (result i32) (loop (br 0)) (i32.const 0))
                 (func (export \"sf_process\") (param i32 i64)))"
                    .to_owned(),
                "fault",
            ),
            (
                "(module (memory (export \"memory\") 2) (func (export \"sf_batch\") (result i32) (i32.const 1024))
                 (func (export \"sf_init\") (result i32) (i32.const 7))
                 (func (export \"sf_process\") (param i32 i64)))"
                    .to_owned(),
                "refused",
            ),
        ] {
            let program = sandbox.compile(&wasm(&text), facts(Access::Read)).expect("a program");
            let error = PreemptibleGuest::new(&program, &room.pool, impatient(), SLICE).expect_err("it fails");
            let found = match error {
                InstanceError::Fault { .. } => "fault",
                InstanceError::Refused { code: 7, .. } => "refused",
                _ => "other",
            };
            assert_eq!(found, wanted, "{text}");
            assert_eq!(sandbox.fibres(), 0);
        }
    });
}

#[test]
fn a_suspended_call_keeps_its_whole_stack() {
    in_time(|| {
        let room = Room::roomy();
        // 2,000 frames down, wait there, and add up on the way back.
        let text = process("(i64.store (i32.const 1040) (call $down (i64.const 2000) (i64.const 1)))");
        let text = with_helpers(
            &text,
            "(func $down (param i64 i64) (result i64) (local i32)
               (if (result i64) (i64.eqz (local.get 0))
                 (then
                   (loop (br_if 0 (i32.lt_u
                     (local.tee 2 (i32.add (local.get 2) (i32.const 1))) (i32.const 10000000))))
                   (i64.const 0))
                 (else (i64.add (i64.mul (local.get 0) (local.get 1))
                   (call $down (i64.sub (local.get 0) (i64.const 1)) (i64.const 1))))))",
        );
        let program = program(&text, Access::Read);
        let mut guests: Vec<PreemptibleGuest> =
            (0..4).map(|_| preemptible(&program, &room, patient(), SLICE)).collect();
        let mut packets: Vec<Packet> = (0..4).map(|_| room.spare_packet()).collect();
        for (guest, packet) in guests.iter_mut().zip(&mut packets) {
            suspend(guest, packet, 0);
        }
        for (guest, packet) in guests.iter_mut().zip(&mut packets) {
            finish(guest, packet).expect("it ends");
            assert_eq!(packet.record().mark, 2000 * 2001 / 2);
        }
        const { assert!(FIBRE_STACK <= 512 << 10, "documented as bounded by this") };
        drop(guests);
        room.pool.free_batch(packets);
    });
}
