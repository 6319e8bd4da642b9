// UNSAFETY: the thread's processor time is asked for here.
#![allow(unsafe_code)]
//! Calls that notice no deadline, and calls whose time the kernel takes.

use crate::support::*;
use guest::{Guest, GuestFault, Progress};
use guest_wasm::watchdog::WHOLE_CALL;
use guest_wasm::{Access, InstanceSettings, PreemptibleGuest, Program, ProgramFacts, Slice};
use std::sync::Arc;
use std::time::Duration;
use telemetry::clock::Nanos;

/// Time that this thread has had a processor for.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes the value that it is given.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Straight code that works on its memory for a millisecond or more.
fn straight() -> Arc<Program> {
    let step = "(i64.store (i32.const 8) (i64.div_u (i64.load (i32.const 16)) (i64.load (i32.const 24))))
        (i64.store (i32.const 16) (i64.add (i64.load (i32.const 8)) (i64.const 0x7654321076543210)))";
    let body = format!("(i64.store (i32.const 24) (i64.const 3)) {}", step.repeat(60_000));
    program(&process(&body), Access::Write)
}

fn hasty() -> InstanceSettings {
    InstanceSettings { max_call: Nanos(100_000), ..patient() }
}

#[test]
fn straight_code_is_stopped_at_an_access_to_its_memory() {
    in_time(|| {
        let mut room = Room::new();
        let program = straight();
        for _ in 0..3 {
            let mut guest = room.guest(&program, hasty()).expect("an instance");
            assert_eq!(
                room.show(&mut guest, 0),
                Err(GuestFault::TimedOut { limit: Nanos(100_000) }),
                "it looks at no deadline"
            );
            room.assert_goes_on();
            drop(guest);
            // The next guest in its shell has all of it: memory, and packets to read and to write.
            let pokes = "(i64.store (i32.const 100000) (i64.const 1))
                (i32.store8 (i32.const 0x80000000) (i32.load8_u (i32.const 0x80000000)))";
            room.run(&self::program(&process(pokes), Access::Write), 0).expect("a good call");
            room.assert_goes_on();
        }
    });
}

#[test]
fn straight_code_of_a_preemptible_function_is_stopped_too() {
    in_time(|| {
        let mut room = Room::new();
        let mut guest = PreemptibleGuest::new(&straight(), &room.pool, hasty(), Slice(Nanos(20_000)))
            .expect("an instance");
        let mut outcome = guest.process(&mut room.packets[..1], now());
        // It may be switched out on the way.
        while outcome == Ok(Progress::Suspended) {
            outcome = guest.process(&mut room.packets[..1], now());
        }
        assert_eq!(outcome, Err(GuestFault::TimedOut { limit: Nanos(100_000) }));
        drop(guest);
        room.assert_goes_on();
    });
}

/// Code that goes on for seconds and has neither loops nor accesses to memory: each result needs the one
/// before.
const WORK: &str =
    "(local.set 0 (i64.add (i64.div_u (local.get 0) (local.get 1)) (i64.const 0x7654321076543210)))";

/// Where functions that do so are called from a function, as often as fits into one; and where each does so
/// behind a call of itself, with which it began.
fn straight_functions() -> [(&'static str, String); 3] {
    let work = WORK.repeat(4_000);
    let leaf = format!(
        "(type $leaf (func (param i64 i64) (result i64))) (table 1 funcref)
        (elem (i32.const 0) $leaf) (func $leaf (type $leaf) {work} (local.get 0))"
    );
    let calls = |call: &str| {
        let step = format!("(local.set $m ({call}))");
        let body = format!("(local $m i64) (local.set $m (i64.const 9)) {}", step.repeat(5_000));
        module(&format!("{leaf} (func (export \"sf_process\") (param i32 i64) {body})"))
    };
    let deep = format!(
        "(func $deep (param i64 i64 i32) (result i64)
        (if (local.get 2) (then (local.set 0
            (call $deep (local.get 0) (local.get 1) (i32.sub (local.get 2) (i32.const 1))))))
        {} (local.get 0))
        (func (export \"sf_process\") (param i32 i64)
            (drop (call $deep (i64.const 9) (i64.const 3) (i32.const 2500))))",
        WORK.repeat(4_000)
    );
    [
        ("calls", calls("call $leaf (local.get $m) (i64.const 3)")),
        ("indirect calls", calls("call_indirect (type $leaf) (local.get $m) (i64.const 3) (i32.const 0)")),
        ("returns", module(&deep)),
    ]
}

#[test]
fn straight_functions_are_stopped_between_two_of_them() {
    in_time(|| {
        let mut room = Room::new();
        for (how, text) in straight_functions() {
            let program = program(&text, Access::Read);
            let mut guest = room.guest(&program, hasty()).expect("an instance");
            assert_timed_out(room.show(&mut guest, 1), how);
            drop(guest);
            room.assert_goes_on();
        }
    });
}

#[test]
fn straight_functions_that_are_preemptible_are_switched_out_and_stopped() {
    in_time(|| {
        let mut room = Room::new();
        for (how, text) in straight_functions() {
            let program = program(&text, Access::Read);
            // Less than half of what it takes, and hundreds of slices: others may take the processor.
            let settings = InstanceSettings { max_call: Nanos::from_millis(40), ..patient() };
            let mut guest = PreemptibleGuest::new(&program, &room.pool, settings, Slice(Nanos(100_000)))
                .expect("an instance");
            let (mut outcome, mut stretches) = (guest.process(&mut room.packets[..1], now()), 0);
            while outcome == Ok(Progress::Suspended) {
                stretches += 1;
                outcome = guest.process(&mut room.packets[..1], now());
            }
            assert_timed_out(outcome, how);
            assert!(stretches > 0, "{how}");
            drop(guest);
            room.assert_goes_on();
        }
    });
}

/// Stores a byte in as many pages as the first packet's mark says, from 1 MiB on.
fn toucher() -> Arc<Program> {
    let body = "(if (i32.eq (memory.size) (i32.const 2)) (then (drop (memory.grow (i32.const 0x5ffe)))))
        (local.set $r (i32.const 0x100000))
        (loop $next
            (i32.store8 (local.get $r) (i32.const 1))
            (local.set $r (i32.add (local.get $r) (i32.const 4096)))
            (br_if $next (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))";
    program_with(&process(body), ProgramFacts { memory_limit: 2 << 30, ..facts(Access::Read) })
}

#[test]
fn time_that_the_kernel_takes_alone_ends_no_call() {
    const LIMIT: Nanos = Nanos::from_millis(10);
    in_time(|| {
        let mut room = Room::new();
        let program = toucher();
        let settings = InstanceSettings { max_call: LIMIT, ..patient() };
        // As many faults as take three to six times as long as a call may take by itself.
        let (mut pages, mut tries) = (2_000, 0);
        loop {
            let mut guest = room.guest(&program, patient()).expect("an instance");
            let began = processor_time();
            room.show(&mut guest, pages).expect("it has a minute");
            let took = processor_time() - began;
            drop(guest);
            tries += 1;
            if took < Duration::from_millis(30) && tries < 100 {
                pages += pages / 2;
            } else if took > Duration::from_millis(60) && tries < 100 {
                pages -= pages / 3;
            } else {
                break;
            }
        }
        // The kernel's part is known by ticks of milliseconds: one call in some reads as if more of it were
        // the guest's own. Were the kernel's time counted, none would come to its end.
        let passed = (0..20).any(|_| {
            let mut guest = room.guest(&program, settings.clone()).expect("an instance");
            room.show(&mut guest, pages).is_ok()
        });
        assert!(passed, "faults are no time of its own");
        room.assert_goes_on();
    });
}

#[test]
fn what_the_kernel_does_for_a_call_ends_all_the_same() {
    in_time(|| {
        let mut room = Room::new();
        let settings = InstanceSettings { max_call: Nanos::from_millis(10), ..patient() };
        let mut guest = room.guest(&toucher(), settings).expect("an instance");
        let began = processor_time();
        let outcome = room.show(&mut guest, 0x5_f000);
        let took = processor_time() - began;
        match outcome {
            // The whole of it, or what it does beside faulting.
            Err(GuestFault::TimedOut { limit }) => {
                assert!([WHOLE_CALL, Nanos::from_millis(10)].contains(&limit))
            }
            Ok(()) => assert!(took <= Duration::from(WHOLE_CALL), "{took:?}"),
            Err(other) => panic!("{other}"),
        }
        drop(guest);
        room.assert_goes_on();
    });
}

#[test]
fn a_loop_beside_faults_is_stopped_for_its_own_time() {
    in_time(|| {
        let mut room = Room::new();
        let body = "(drop (memory.grow (i32.const 0x100))) (local.set $r (i32.const 0))
            (loop $next
                (i32.store8 (local.get $r) (i32.const 1))
                (local.set $r (i32.and (i32.add (local.get $r) (i32.const 4096)) (i32.const 0xffffff)))
                (br $next))";
        let facts = ProgramFacts { memory_limit: 32 << 20, ..facts(Access::Read) };
        let settings = InstanceSettings { max_call: Nanos::from_millis(10), ..patient() };
        let mut guest = room.guest(&program_with(&process(body), facts), settings).expect("an instance");
        assert_timed_out(room.show(&mut guest, 0), "after its faults it loops");
        room.assert_goes_on();
    });
}

/// Loops that are hardly ever in the guest's own code: whole ones of the host, which touch its memory or do
/// not.
const IN_THE_HOST: [&str; 8] = [
    "(drop (memory.grow (i32.const 0)))",
    "(drop (memory.grow (i32.const 2000)))",
    "(drop (call $counter_add (i32.const 0) (i64.const 1)))",
    "(drop (call $timer_set (i64.const 0)))",
    "(drop (call $packet_emit (i32.const 3) (i32.const 0x102) (i32.const -1) (i32.const 0) (i64.const 0)))",
    "(drop (call $packet_new (i32.const 70000) (i32.const 66000) (i32.const 1000)))",
    "(drop (call $write (i32.const 5) (i32.const 0) (i32.const 131072)))",
    "(drop (call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 131072)))",
];

#[test]
fn calls_of_the_host_are_stopped_and_touch_no_memory_that_is_inaccessible() {
    in_time(|| {
        let mut room = Room::new();
        for call in IN_THE_HOST {
            let program = program(&process(&format!("(loop {call} (br 0))")), Access::Read);
            let settings = InstanceSettings { config: vec![1; 65536], ..hasty() };
            for _ in 0..50 {
                let mut guest = room.guest(&program, settings.clone()).expect("an instance");
                assert_timed_out(room.show(&mut guest, 1), call);
                let mut guest =
                    PreemptibleGuest::new(&program, &room.pool, settings.clone(), Slice(Nanos(90_000_000)))
                        .expect("an instance");
                assert_timed_out(guest.process(&mut room.packets[..1], now()), call);
            }
            room.assert_goes_on();
        }
    });
}
