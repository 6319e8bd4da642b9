//! What passes, what does not, and what is told then.

use super::{RIGHT, gate, test};
use crate::Judge;
use image::cut::Trial;

const TEST: &str = "
cases:
  - name: short ones pass
    packets:
      - {length: 63, to: right, times: 70}
      - {hex: 'aa bb', length: 60, to: right, becomes: 'aabb00', at: 1s}
      - {length: 64, drop: too-long}
    counters: {passed: 71}
";

fn judge(text: &str) -> Judge {
    Judge::new(test(text)).expect("a sandbox")
}

#[test]
fn what_does_as_wanted_passes() {
    let image = gate("", RIGHT);
    let mut judge = judge(TEST);
    assert_eq!(judge.passes(&image), Ok(()));
    assert_eq!(judge.same(&image, &image), Ok(()));
}

#[test]
fn what_does_something_else_is_told_with_its_line() {
    let image = gate("", RIGHT);
    for (from, to, expected) in [
        (
            "64, drop: too-long",
            "64, to: left",
            ":7: case `short ones pass`: found `drop: too-long`, wanted `to: left`",
        ),
        (
            "64, drop: too-long",
            "64, drop: other",
            ":7: case `short ones pass`: found `drop: too-long`, wanted `drop: other`",
        ),
        (
            "60, to: right",
            "60, consume: true",
            ":6: case `short ones pass`: found `to: right`, wanted `consume: true`",
        ),
        ("aabb00", "aacc00", ":6: case `short ones pass`: byte 1 of the packet is bb, wanted cc"),
        ("passed: 71", "passed: 70", ": case `short ones pass`: the counter `passed` is 71, wanted 70"),
        ("passed: 71", "passed: 71, seen: 1", ": case `short ones pass`: the counter `seen` is 0, wanted 1"),
        ("at: 1s", "becomes_mark: 3", ":6: case `short ones pass`: the mark is 0, wanted 3"),
        ("at: 1s", "becomes_length: 61", ":6: case `short ones pass`: the packet has 60 bytes, wanted 61"),
    ] {
        let text = TEST.replace(from, to);
        assert_ne!(text, TEST, "{from}");
        let told = judge(&text).passes(&image).expect_err(to);
        assert_eq!(told, format!("tests/image.yaml{expected}"));
    }
}

#[test]
fn a_function_that_traps_or_does_not_start_does_not_pass() {
    let told = judge(TEST).passes(&gate("unreachable", RIGHT)).expect_err("a trap");
    assert!(told.starts_with("case `short ones pass`: trapped: "), "{told}");
    let endless = gate("(loop $again (br $again))", RIGHT);
    let told = judge(TEST).passes(&endless).expect_err("stopped");
    assert!(told.contains("one call took longer than 1000"), "{told}");
}

#[test]
fn what_the_test_does_not_say_must_be_as_before_all_the_same() {
    let built = gate("", RIGHT);
    // A mark that the test does not look at, and a byte behind those that it does.
    let marked = gate("(i64.store offset=16 (local.get $r) (i64.const 9))", RIGHT);
    let written = gate(
        "(i32.store8 offset=5 (i32.add (i32.load offset=4 (local.get $r)) (i32.load offset=12 (local.get $r))) (i32.const 7))",
        RIGHT,
    );
    let counting = gate("(drop (call $counter_add (i32.const 1) (i64.const 1)))", RIGHT);
    for (image, what) in [(&marked, "a packet"), (&written, "a packet"), (&counting, "a counter")] {
        let mut judge = judge(TEST);
        assert_eq!(judge.passes(image), Ok(()));
        let told = judge.same(&built, image).expect_err(what);
        assert_eq!(told, format!("tests/image.yaml: case `short ones pass`: {what} is not as before"));
    }
}

#[test]
fn a_slower_image_costs_more() {
    let built = gate("", RIGHT);
    let slow = gate(
        "(local.set $k (i32.const 20000)) (loop $turn (br_if $turn (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))",
        RIGHT,
    );
    let cost = judge(TEST).cost(&built, &slow).expect("a ratio");
    assert!(cost > 3.0, "20,000 turns for each packet cost {cost} of what none does");
}

#[test]
fn a_test_that_takes_too_long_does_not_pass() {
    let image = gate("", RIGHT);
    let mut judge = judge(TEST);
    judge.longest = std::time::Duration::ZERO;
    let told = judge.passes(&image).expect_err("no time");
    assert_eq!(told, "case `short ones pass`: the test takes longer than 0 s");
    assert_eq!(judge.same(&image, &image), Err(told));
}

#[test]
fn costs_are_measured_in_bounded_time_however_slow_a_function_is() {
    // About 0.1 s for a batch of 32.
    let slow = gate(
        "(local.set $k (i32.const 4000000)) (loop $turn (br_if $turn (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))",
        RIGHT,
    );
    let begin = std::time::Instant::now();
    let cost = judge(TEST).cost(&slow, &slow).expect("a ratio");
    assert!((0.2..5.0).contains(&cost), "{cost}");
    assert!(begin.elapsed().as_secs() < 120, "{:?}", begin.elapsed());
}
