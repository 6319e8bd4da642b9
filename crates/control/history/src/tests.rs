//! What is kept, against lists of everything; bounds; and that a warm history takes no memory.

use super::*;
use crate::code::{decode, encode};
use proptest::prelude::*;
use std::time::Duration;

const COLUMNS: [Column; 5] = [
    Column { name: "packets", rule: Rule::Sum },
    Column { name: "queue", rule: Rule::Highest },
    Column { name: "free", rule: Rule::Lowest },
    Column { name: "worker", rule: Rule::Last },
    Column { name: "promised", rule: Rule::Now },
];
static KINDS: [Kind; 2] = [
    Kind { name: "function", columns: &COLUMNS, has_minute: true },
    Kind { name: "edge", columns: &[Column { name: "there", rule: Rule::Sum }], has_minute: false },
];

const ROOM: Limits = Limits { bytes: 64 << 20, tenant_bytes: 16 << 20 };

fn close(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) <= wanted / 128
}

#[test]
fn codes_are_exact_when_small_close_when_large_and_in_order() {
    assert!((0..128).all(|value| decode(encode(value)) == value));
    let mut last = 0;
    for bits in 7..64 {
        for part in 0..512 {
            let value = (1_u64 << bits) + (1_u64 << bits) / 512 * part;
            let code = encode(value);
            assert!(code < 4096 && code >= last, "{value}: {code} after {last}");
            assert!(close(decode(code), value), "{value}: {}", decode(code));
            last = code;
        }
    }
    assert_eq!(decode(encode(u64::MAX)), u64::MAX);
}

/// Tells a history of one function.
fn tell(history: &mut History, step: u64, values: [u64; 5]) {
    history.begin(step);
    history.record(0, "fw", Some("red"), &values);
    history.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// An hour and more of steps, some of which are missed, and a counter that begins anew.
    #[test]
    fn an_hour_is_as_it_was_told(
        seed in any::<u64>(), begin in 0_u64..50, gap in 1_u64..30, steps in 1_u64..4300,
    ) {
        let mut history = History::new(&KINDS, ROOM);
        let (mut random, mut counter, mut step) = (seed | 1, 0_u64, begin);
        let (mut sums, mut highest, mut lowest, mut workers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut next = || { random ^= random << 13; random ^= random >> 7; random ^= random << 17; random };
        let mut first = true;
        while step < begin + steps {
            let passed = if next() % 50 == 0 && !first { gap } else { 1 };
            step += if first { 0 } else { passed };
            let (more, queue, free, worker) =
                (next() % (1 << (next() % 40)), next() % 300, next() % 5000, next() % 4096);
            // It is made anew: it counts from the beginning.
            let before = counter;
            counter = more + if next() % 200 == 0 { 0 } else { counter };
            tell(&mut history, step, [counter, queue, free, worker, 7]);
            let fell = (before / 2..before).contains(&counter);
            counter = if fell { before } else { counter };
            let grew = if first { 0 } else { counter.checked_sub(before).unwrap_or(counter) };
            let spread = if first { 1 } else { passed };
            for n in 0..spread {
                sums.push(grew / spread + if n + 1 == spread { grew % spread } else { 0 });
                highest.push(queue);
                lowest.push(free);
                workers.push(worker);
            }
            first = false;
        }
        prop_assert_eq!(history.last(), Some(step));
        let line = history.line("function", "fw", 3600, |_, _| true).expect("is there");
        prop_assert!(line.fine.from >= begin && line.fine.values[0].len() as u64 == step + 1 - line.fine.from);
        prop_assert!(line.fine.values[0].len() as u64 == FINE.min(step + 1 - begin));
        for (n, found) in line.fine.values[0].iter().enumerate() {
            let at = (line.fine.from - begin) as usize + n;
            prop_assert!(close(*found, sums[at]), "step {}: {} of {}", at, found, sums[at]);
            prop_assert!(close(line.fine.values[1][n], highest[at]) && close(line.fine.values[2][n], lowest[at]));
            prop_assert_eq!(line.fine.values[3][n], workers[at]);
        }
        for (n, found) in line.coarse.values[0].iter().enumerate() {
            let at = line.coarse.from + n as u64 * COARSE_STEP;
            let all = (at..at + COARSE_STEP).filter(|step| *step >= begin).map(|step| (step - begin) as usize);
            let of: Vec<usize> = all.collect();
            let sum: u64 = of.iter().map(|at| sums[*at]).sum();
            prop_assert!(close(*found, sum), "from {}: {} of {}", at, found, sum);
            let (high, low) = (of.iter().map(|at| highest[*at]).max(), of.iter().map(|at| lowest[*at]).min());
            prop_assert!(close(line.coarse.values[1][n], high.expect("some")));
            prop_assert!(close(line.coarse.values[2][n], low.expect("some")));
            prop_assert_eq!(line.coarse.values[3][n], workers[*of.last().expect("some")]);
        }
        // By step it is the same as by object.
        let moment = history.moment(step, |_, _| true).expect("is known");
        prop_assert_eq!(moment[0].values[0][0], *line.fine.values[0].last().expect("some"));
        prop_assert_eq!(moment[0].values[4][0], 7);
    }
}

#[test]
fn steps_are_known_for_an_hour_and_objects_as_long_as_they_were_there() {
    let mut history = History::new(&KINDS, ROOM);
    assert_eq!((history.last(), history.moment(0, |_, _| true)), (None, None));
    let mut layouts = Vec::new();
    for step in 0..4000_u64 {
        history.begin(step);
        history.record(0, "fw", Some("red"), &[step, 0, 0, 0, 0]);
        if (100..3900).contains(&step) {
            // Another tenant's from 2000 on.
            let tenant = if step < 2000 { "red" } else { "blue" };
            history.record(0, "nat", Some(tenant), &[step * 2, 0, 0, 0, 0]);
        }
        history.end();
        layouts.push(history.layout());
    }
    assert_eq!((history.first(), history.last()), (400, Some(3999)));
    assert_eq!((history.resolution(399), history.resolution(4000)), (None, None));
    assert_eq!((history.resolution(400), history.resolution(3400)), (Some(10), Some(1)));
    layouts.dedup();
    assert_eq!(layouts.len(), 4, "at first, at 100, at 2000, at 3900: {layouts:?}");
    let names = |step, tenant: Option<&str>| -> Vec<String> {
        let shown = |_: &Kind, of: Option<&str>| tenant.is_none_or(|tenant| of == Some(tenant));
        let all = history.moment(step, shown).expect("is known");
        let mut names: Vec<String> =
            all[0].names.iter().map(|(name, tenant)| format!("{name} {}", tenant.expect("one"))).collect();
        names.sort();
        names
    };
    assert_eq!(names(3999, None), ["fw red"]);
    assert_eq!(names(3899, None), ["fw red", "nat blue"]);
    assert_eq!(names(1999, None), ["fw red", "nat red"]);
    assert_eq!(
        (names(3000, Some("red")), names(3000, Some("blue"))),
        (vec!["fw red".into()], vec!["nat blue".into()])
    );
    // What is gone is found until an hour later, by the tenant that was shown it.
    let seen = |tenant: &str| {
        let shown = |_: &Kind, of: Option<&str>| of == Some(tenant);
        history
            .line("function", "nat", 3600, shown)
            .map(|line| (line.coarse.from, line.fine.from, line.fine.values[0].len()))
    };
    assert_eq!(seen("blue"), Some((2000, 3400, 500)));
    assert_eq!(seen("red"), Some((400, 2000, 0)));
    assert_eq!(seen("green"), None);
    for step in 4000..7600_u64 {
        tell(&mut history, step, [step; 5]);
    }
    assert!(history.line("function", "nat", 3600, |_, _| true).is_none());
    assert_eq!(history.objects.iter().flatten().count(), 1, "nothing is left of it");
}

#[test]
fn what_a_tenant_had_that_is_deleted_is_not_the_next_ones_of_its_name() {
    let mut history = History::new(&KINDS, ROOM);
    let tell = |history: &mut History, step| {
        history.begin(step);
        history.record(0, "fw", Some("red"), &[step, 0, 0, 0, 0]);
        if step < 3 {
            history.record(0, "gone", Some("red"), &[step, 0, 0, 0, 0]);
        }
        history.record(0, "nat", Some("blue"), &[step, 0, 0, 0, 0]);
        history.end();
    };
    (0..5).for_each(|step| tell(&mut history, step));
    history.end_tenant("red");
    // The next one has a function of the same name at once.
    (5..8).for_each(|step| tell(&mut history, step));
    let line = |name: &str, tenant: Option<&str>| {
        let shown = |_: &Kind, of: Option<&str>| tenant.is_none_or(|tenant| of == Some(tenant));
        history.line("function", name, 60, shown).map(|line| (line.fine.from, line.fine.values[0].len()))
    };
    assert_eq!(line("fw", Some("red")), Some((5, 3)));
    assert_eq!(line("gone", Some("red")), None);
    assert_eq!((line("gone", None), line("nat", Some("blue"))), (Some((0, 3)), Some((0, 8))));
    let names = |step, tenant: Option<&str>| {
        let shown = |_: &Kind, of: Option<&str>| tenant.is_none_or(|tenant| of == Some(tenant));
        history.moment(step, shown).expect("is known")[0].names.len()
    };
    assert_eq!((names(2, Some("red")), names(2, None), names(7, Some("red"))), (0, 3, 1));
}

#[test]
fn what_falls_a_little_was_read_late_and_what_falls_by_half_begins_anew() {
    let mut history = History::new(&KINDS, ROOM);
    for (step, count) in [1000, 1100, 1095, 1100, 1110, 20, 30].into_iter().enumerate() {
        history.begin(step as u64);
        history.record(1, "wire", None, &[count]);
        history.end();
    }
    let line = history.line("edge", "wire", 60, |_, _| true).expect("is there");
    assert_eq!(line.fine.values, [[0, 100, 0, 0, 10, 20, 10]]);
    // What is worked out falls by what waits, again and again; nothing passes there.
    static DERIVED: [Kind; 1] =
        [Kind { name: "edge", columns: &[Column { name: "back", rule: Rule::Derived }], has_minute: false }];
    let mut history = History::new(&DERIVED, ROOM);
    for (step, count) in [0, 64, 0, 50, 3, 64, 70, 9_070, 20, 25].into_iter().enumerate() {
        history.begin(step as u64);
        history.record(0, "wire", None, &[count]);
        history.end();
    }
    let line = history.line("edge", "wire", 60, |_, _| true).expect("is there");
    let found: Vec<u64> = line.fine.values[0].clone();
    assert_eq!(found[..7], [0, 64, 0, 0, 0, 0, 6]);
    assert!(close(found[7], 9_000) && found[8..] == [20, 5], "{found:?}");
}

#[test]
fn there_is_room_for_so_much_and_what_is_gone_gives_way() {
    let one = Object::cost(&KINDS[0], "f00");
    let limits = Limits { bytes: 10 * one, tenant_bytes: 4 * one };
    let mut history = History::new(&KINDS, limits);
    let mut step = 0;
    let mut tell = |history: &mut History, of: &[(&str, usize)]| {
        history.begin(step);
        step += 1;
        for (tenant, number) in of {
            for n in 0..*number {
                history.record(0, &format!("{}{n:02}", &tenant[..1]), Some(tenant), &[step, 1, 2, 3, 4]);
            }
        }
        history.end();
        let all = history.moment(history.last().expect("some"), |_, _| true).expect("is known");
        let mut names: Vec<String> = all[0].names.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.sort();
        (names.len(), history.left_out())
    };
    assert_eq!(tell(&mut history, &[("red", 9)]), (4, 5), "a tenant has its part");
    assert_eq!(tell(&mut history, &[("red", 9), ("blue", 4), ("green", 4)]), (10, 7));
    // Others come as these go, whose past gives way.
    assert_eq!(tell(&mut history, &[("blue", 4)]), (4, 0));
    assert_eq!(tell(&mut history, &[("blue", 4), ("amber", 4), ("white", 4)]), (10, 2));
    for n in 0..500 {
        tell(&mut history, if n % 2 == 0 { &[("red", 4)] } else { &[("blue", 4)] });
        assert!(history.promised() <= limits.bytes && history.bytes() < 2 * limits.bytes);
    }
    assert!(history.objects.len() <= 10, "{}", history.objects.len());
}

#[test]
fn a_minute_has_what_came_in_it() {
    let mut history = History::new(&KINDS, ROOM);
    let mut lost = 0_u64;
    for step in 0..200_u64 {
        history.begin(step);
        let at = history.record(0, "fw", None, &[0; 5]).expect("there is room");
        lost += if step < 100 { 5 } else { 0 };
        if history.wants_minute(at) {
            let counters = [("queue-full", lost), ("none", 0), ("old", 77)];
            history.record_minute(at, counters.into_iter(), [step, 0, 2 * step].into_iter());
        }
        history.end();
        let minute = history.minute("function", "fw", |_, _| true).expect("is there");
        let told: Vec<(&str, u64)> = minute.counters().collect();
        match step {
            99 => assert!(
                told.len() == 1 && told[0].0 == "queue-full" && (245..=305).contains(&told[0].1),
                "{told:?}"
            ),
            130 => assert!(told.len() == 1 && (100..200).contains(&told[0].1), "{told:?}"),
            180.. => assert!(told.is_empty(), "{step}: {told:?}"),
            _ => {}
        }
        let parts: Vec<u64> = minute.histogram().collect();
        if step == 199 {
            assert!(parts.len() == 3 && (50..=60).contains(&parts[0]) && parts[1] == 0, "{parts:?}");
        }
    }
}

#[test]
fn a_warm_history_of_a_thousand_functions_takes_no_memory_and_is_small() {
    let mut history = History::new(&KINDS, ROOM);
    let names: Vec<String> = (0..1000).map(|n| format!("c{:02}-f{:02}", n / 50, n % 50)).collect();
    let mut sizes = Vec::new();
    for step in 0..4000_u64 {
        history.begin(step);
        for (n, name) in names.iter().enumerate() {
            let n = n as u64;
            let of = history
                .record(0, name, Some("red"), &[step * (1000 + n), n % 50, 9, 1 + n % 4, 1])
                .expect("room");
            history.record(1, name, Some("red"), &[step * (1000 + n)]);
            if history.wants_minute(of) {
                let counters = [("queue-full", step * n), ("denied", step)];
                history.record_minute(of, counters.into_iter(), (0..25).map(|part| part * step));
            }
        }
        history.end();
        if step == 20 || step == 3999 {
            sizes.push(history.bytes());
        }
    }
    assert_eq!(sizes[0], sizes[1], "after the first steps nothing more is taken");
    assert!(
        sizes[1] <= history.promised() + (1 << 20) && history.promised() < 16 << 20,
        "{sizes:?}, {}",
        history.promised()
    );
}

/// What a step costs in a host that grows to ten thousand functions and shrinks again, on a clock that is
/// given in: at no time has more than a hundredth gone to steps, and where they cost little there is one each
/// second.
#[test]
fn steps_cost_a_hundredth_of_the_time_at_most() {
    let (began, mut now, mut used) = (Duration::from_millis(300), Duration::from_millis(300), Duration::ZERO);
    let mut apart = Vec::new();
    for n in 0..3_000_u32 {
        let cost = Duration::from_micros(match n {
            0..1_000 => 40,
            1_000..2_000 => u64::from(n - 1_000) * 120,
            _ => 10_000,
        });
        let next = Duration::from_secs(next_step(now, cost));
        // Steps begin a little late.
        let next = next + Duration::from_micros(u64::from(n % 7) * 90);
        apart.push((next - now).as_secs_f64());
        (used, now) = (used + cost, next);
        assert!(used * 100 <= now - began, "{n}: {used:?} of {:?}", now - began);
    }
    assert!(apart[1..1_000].iter().all(|seconds| (0.999..1.001).contains(seconds)), "each second");
    assert!((11.9..13.1).contains(&apart[1_999]) && apart[2_999] < 2.1, "{} {}", apart[1_999], apart[2_999]);
    assert_eq!(next_step(Duration::MAX, Duration::MAX), u64::MAX);
}

/// Steps of which one is made every 2, 7, 10, 13 or 61 seconds: sums are whole, and each object's minute is
/// looked at.
#[test]
fn steps_that_are_far_apart_lose_nothing() {
    for apart in [2, 7, 10, 13, 61] {
        let mut history = History::new(&KINDS, ROOM);
        let mut step = 3;
        while step < 1_300 {
            history.begin(step);
            for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"] {
                let at = history.record(0, name, None, &[5 * step, 1, 2, 3, 4]).expect("there is room");
                if history.wants_minute(at) {
                    history.record_minute(at, [("lost", 3 * step)].into_iter(), [step].into_iter());
                }
            }
            history.end();
            step += apart;
        }
        for name in ["a", "g", "k"] {
            let line = history.line("function", name, 3600, |_, _| true).expect("is there");
            assert!(line.fine.values[0].iter().all(|count| *count == 5), "{apart}: {line:?}");
            assert!(line.coarse.values[0][1..].iter().all(|count| *count == 50), "{apart}: {line:?}");
            let minute = history.minute("function", name, |_, _| true).expect("is there");
            let lost: Vec<u64> = minute.counters().map(|(_, count)| count).collect();
            // Parts of ten seconds, the first of which has what came up to one step before it.
            let most = 3 * (60 + apart + 10);
            assert!(lost.len() == 1 && (3 * 40..=most).contains(&lost[0]), "{apart} {name}: {lost:?}");
        }
    }
}
