// UNSAFETY: the watchdog's signal is blocked and raised here, to show that neither matters; threads are put
// on a processor.
#![allow(unsafe_code)]
//! No call lasts for ever, and no call ends because of another's.

use crate::support::*;
use guest::{Guest, GuestFault};
use guest_wasm::{Access, InstanceError, InstanceSettings, Sandbox, WasmGuest};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use telemetry::clock::{Cycles, Moment, Nanos};

/// Ways not to come back without growing the stack. Those that read the same again and again, the byte that
/// polls read as well, leave compilers free to read it once.
const ENDLESS: [&str; 11] = [
    "(loop (br 0))",
    "(loop (br_if 0 (i32.const 1)))",
    "(loop $l (loop $m (br_table $l $m $l (i32.load (i32.const 0)))))",
    "(loop $l (block $b (br_table $b $l (i32.const 7))) (unreachable))",
    "(loop (call $nothing) (br 0))",
    "(loop (call_indirect (type $none) (i32.const 0)) (br 0))",
    "(loop (drop (call $counter_add (i32.const 0) (i64.const 1))) (br 0))",
    "(loop (br_if 0 (i32.eqz (i32.load8_u (i32.const 66559)))))",
    "(drop (i32.load8_u (i32.const 66559))) (loop (br_if 0 (i32.eqz (i32.load8_u (i32.const 66559)))))",
    "(call $tree (i32.const 60))",
    "(loop (result i32) (i32.const 1) (loop (param i32) (result i32) (br 0))) (drop)",
];

/// One function that does nothing, and one that takes a step for each node of a tree of so many levels, and
/// touches no memory.
const HELPERS: &str = "(type $none (func)) (table 1 funcref) (elem (i32.const 0) $nothing) (func $nothing)
    (func $tree (param i32) (if (local.get 0) (then
        (call $tree (i32.sub (local.get 0) (i32.const 1)))
        (call $tree (i32.sub (local.get 0) (i32.const 1))))))";

/// Loops in `sf_process` when the first packet's mark is not zero.
const ON_DEMAND: &str =
    "(if (local.get $a) (then (loop (br 0)))) (i32.store (i32.const 1024) (i32.const 0x102))";

fn loops_in(name: &str, body: &str) -> String {
    let functions = [
        ("sf_batch", "(result i32)", "(i32.const 1024)"),
        ("sf_init", "(result i32)", "(i32.const 0)"),
        ("sf_process", "(param i32 i64)", ""),
        ("sf_timer", "(param i64)", ""),
        ("sf_devices", "(param i64)", ""),
        ("sf_report", "(param i64)", ""),
        ("sf_export_state", "(result i32)", "(i32.const 0)"),
        ("sf_import_state", "(result i32)", "(i32.const 0)"),
    ];
    let functions: String = functions
        .iter()
        .map(|(function, kind, end)| {
            let body = if *function == name { body } else { "" };
            format!("(func (export \"{function}\") {kind} {body} {end})")
        })
        .collect();
    format!("(module {IMPORTS} (memory (export \"memory\") 2) {functions} {HELPERS})")
}

#[test]
fn endless_loops_are_stopped_in_every_function() {
    in_time(|| {
        let mut room = Room::new();
        for (body, name) in ENDLESS.iter().flat_map(|body| {
            [
                "sf_batch",
                "sf_init",
                "sf_process",
                "sf_timer",
                "sf_devices",
                "sf_report",
                "sf_export_state",
                "sf_import_state",
            ]
            .map(|name| (body, name))
        }) {
            let settings = impatient();
            let mut guest = match room.guest(&program(&loops_in(name, body), Access::Write), settings.clone())
            {
                Err(InstanceError::Fault { fault: GuestFault::TimedOut { limit }, .. }) => {
                    assert!(["sf_batch", "sf_init"].contains(&name));
                    assert_eq!(limit, settings.max_control_call);
                    continue;
                }
                outcome => outcome.expect("an instance"),
            };
            match name {
                "sf_process" => assert_timed_out(room.show(&mut guest, 0), body),
                "sf_timer" => assert_timed_out(guest.timer(now()), body),
                "sf_devices" => {
                    guest.set_devices(std::sync::Arc::default());
                    assert_timed_out(guest.timer(now()), body);
                }
                "sf_report" => assert_timed_out(guest.report(now()), body),
                "sf_export_state" => assert_timed_out(guest.export_state(), body),
                _ => assert_timed_out(guest.import_state(Vec::new()), body),
            }
            drop(guest);
            room.assert_goes_on();
        }
    });
}

#[test]
fn observers_are_stopped_too() {
    in_time(|| {
        let mut room = Room::new();
        let program = program(&process("(loop (br 0))"), Access::Read);
        let mut guest = room.guest(&program, impatient()).expect("an instance");
        let outcome = guest.observe(&room.packets[..4], now());
        assert_timed_out(outcome, "an observer");
        room.assert_goes_on();
    });
}

#[test]
fn code_without_loops_is_stopped_at_its_host_calls() {
    in_time(|| {
        let mut room = Room::new();
        // No loop and no guest function: 64 KiB are copied 40,000 times.
        let read = "(drop (call $read (i32.const 0) (i32.const 0) (i32.const 8192) (i32.const 65536)))";
        let program = program(&process(&read.repeat(40_000)), Access::Read);
        let settings = InstanceSettings { config: vec![1; 65536], ..impatient() };
        let mut guest = room.guest(&program, settings).expect("an instance");
        assert_timed_out(room.show(&mut guest, 0), "copying");
        room.assert_goes_on();
    });
}

#[test]
fn long_straight_code_comes_to_its_end() {
    let mut room = Room::new();
    let step = "(i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (local.get 0)))";
    let program = program(&process(&step.repeat(30_000)), Access::Read);
    room.run(&program, 0).expect("it ends by itself");
    room.assert_goes_on();
}

#[test]
fn a_call_has_its_own_limit_and_not_an_earlier_calls() {
    in_time(|| {
        let mut room = Room::new();
        let program = program(&process(ON_DEMAND), Access::Read);
        // The first call starts the timer, for an hour; the second must not wait for it.
        let hour = Nanos::from_millis(3_600_000);
        let settings = InstanceSettings { max_control_call: hour, max_call: hour, ..impatient() };
        let mut slow = room.guest(&program, settings).expect("an instance");
        room.show(&mut slow, 0).expect("a good call");
        let settings = InstanceSettings { max_control_call: hour, ..impatient() };
        let mut guest = room.guest(&program, settings).expect("an instance");
        assert_timed_out(room.show(&mut guest, 1), "after longer limits");
        room.show(&mut slow, 0).expect("others go on");
        room.assert_goes_on();
    });
}

#[test]
fn each_sandbox_of_a_thread_stops_its_own_guests() {
    in_time(|| {
        let mut room = Room::new();
        let wasm = wasm(&process(ON_DEMAND));
        let mut guests: Vec<WasmGuest> = (0..3)
            .map(|_| {
                let sandbox = Sandbox::new().expect("a sandbox");
                let program = sandbox.compile(&wasm, facts(Access::Read)).expect("a program");
                room.guest(&program, impatient()).expect("an instance")
            })
            .collect();
        for guest in &mut guests {
            room.show(guest, 0).expect("a good call");
            assert_timed_out(room.show(guest, 1), "any sandbox");
        }
        room.assert_goes_on();
    });
}

#[test]
fn a_guest_is_not_stopped_for_what_runs_elsewhere() {
    in_time(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let program = program(&process(ON_DEMAND), Access::Read);
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (program, stop) = (program.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut room = Room::new();
                    let mut good = room
                        .guest(&program, InstanceSettings { max_call: Nanos::from_millis(50), ..impatient() })
                        .expect("an instance");
                    let mut calls = 0u64;
                    for round in 0.. {
                        if round >= 10 && stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let mut bad = room.guest(&program, impatient()).expect("an instance");
                        assert_timed_out(room.show(&mut bad, 1), "the looping one");
                        // Thousands of calls while the other thread's epochs go by.
                        for _ in 0..5_000 {
                            room.show(&mut good, 0).expect("the good one is never stopped");
                            calls += 1;
                        }
                    }
                    room.assert_goes_on();
                    calls
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            assert!(worker.join().expect("no worker fails") >= 50_000);
        }
    });
}

#[test]
fn many_short_calls_may_take_longer_than_one() {
    let mut room = Room::new();
    let body = format!(
        "(local.set $r (i32.const 20000))
        (loop $l (br_if $l (local.tee $r (i32.sub (local.get $r) (i32.const 1))))) {ON_DEMAND}"
    );
    // What a virtual machine's host takes of a call is not told: it is to be less than the limit.
    let settings = InstanceSettings { max_call: Nanos::from_millis(50), ..impatient() };
    let mut guest = room.guest(&program(&process(&body), Access::Read), settings).expect("an instance");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        room.show(&mut guest, 0).expect("each call is short");
    }
    room.assert_goes_on();
}

#[test]
fn a_call_does_not_pay_for_others_on_its_processor() {
    const LIMIT: Duration = Duration::from_millis(50);
    let body = "(loop $l (br_if $l (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))
        (i32.store (i32.const 1024) (i32.const 0x102))";
    let program = program(&process(body), Access::Read);
    let mut room = Room::new();
    let limit = Nanos::from_millis(LIMIT.as_millis() as u64);
    let patient = InstanceSettings { max_call: Nanos::from_millis(60_000), ..impatient() };
    let mut guest =
        room.guest(&program, InstanceSettings { max_call: limit, ..impatient() }).expect("an instance");
    let mut alone = room.guest(&program, patient).expect("an instance");
    let mut took = |room: &mut Room, rounds: u64| {
        let began = processor_time();
        room.show(&mut alone, rounds).expect("it has a minute");
        processor_time() - began
    };
    let mut rounds = 100_000_u64;
    while took(&mut room, rounds) < LIMIT / 20 {
        rounds *= 2;
    }
    // Less than half of the time that it may take. A call that shares the processor needs all of it
    // and more by the clock, sooner or later.
    rounds = (rounds as f64 * 0.45 * LIMIT.as_secs_f64() / took(&mut room, rounds).as_secs_f64()) as u64;
    // SAFETY: it has no arguments.
    let here = unsafe { libc::sched_getcpu() } as usize;
    let stop = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                stay_on(here);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let caller = scope.spawn(|| {
            stay_on(here);
            let call = || {
                let began = Instant::now();
                room.show(&mut guest, rounds).expect("it has not had its time");
                began.elapsed()
            };
            std::iter::repeat_with(call).take(200).find(|took| *took > LIMIT)
        });
        let longest = caller.join();
        stop.store(true, Ordering::Relaxed);
        longest.expect("a caller")
    });
    assert!(longest.is_some(), "it had the processor for itself in each of 200 calls");
}

/// Time that this thread has had a processor for.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes the value that it is given.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Lets this thread run on the given processor only.
fn stay_on(processor: usize) {
    // SAFETY: a zeroed set is valid, and the kernel reads as much of it as it is told.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn the_callers_clock_may_be_wrong() {
    in_time(|| {
        let mut room = Room::new();
        let program = program(&process(ON_DEMAND), Access::Read);
        let cycles = Cycles::now();
        for at in
            [Cycles(0), Cycles(1), cycles, cycles + Cycles(1 << 50), Cycles(u64::MAX), Cycles(u64::MAX - 1)]
        {
            let mut guest = room.guest(&program, impatient()).expect("an instance");
            room.packets[0].edit(|record| record.mark = 1);
            let outcome = guest.process(&mut room.packets[..1], Moment { cycles: at, nanos: Nanos(0) });
            assert_timed_out(outcome, "any clock");
            room.assert_goes_on();
        }
    });
}

#[test]
fn guests_move_between_threads_and_threads_end() {
    in_time(|| {
        let program = program(&process(ON_DEMAND), Access::Read);
        let mut room = Room::new();
        let mut guests: Vec<WasmGuest> =
            (0..20).map(|_| room.guest(&program, impatient()).expect("an instance")).collect();
        for round in 0..5 {
            let mut moved = Vec::new();
            for mut guest in guests.drain(..) {
                // The thread ends with its timer running.
                let pool = room.pool.clone();
                let mut packet = room.packets.pop().expect("sixteen packets");
                let thread = std::thread::spawn(move || {
                    packet.edit(|record| record.mark = u64::from(round == 4));
                    let outcome = guest.process(std::slice::from_mut(&mut packet), now());
                    assert_eq!(outcome.is_err(), round == 4, "{outcome:?}");
                    drop(pool);
                    (guest, packet)
                });
                let (guest, packet) = thread.join().expect("no thread fails");
                room.packets.insert(0, packet);
                moved.push(guest);
            }
            guests = moved;
        }
        drop(guests);
        room.packets.sort_by_key(packet_memory::Packet::buffer);
        room.assert_goes_on();
    });
}

#[test]
fn a_blocked_or_forged_signal_changes_nothing() {
    in_time(|| {
        let signal = libc::SIGRTMIN() + 3;
        // SAFETY: a zeroed set is valid; only this thread's mask is changed.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&mut set, signal);
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()), 0);
        }
        let mut room = Room::new();
        let program = program(&process(ON_DEMAND), Access::Read);
        let mut guest = room.guest(&program, impatient()).expect("an instance");
        assert_timed_out(room.show(&mut guest, 1), "a thread that began with the signal blocked");
        // SAFETY: the handler for this signal is installed by now.
        unsafe { assert_eq!(libc::raise(signal), 0) };
        room.assert_goes_on();
    });
}
