//! Connection tracking against a model that keeps every flow in a map and every time as it is.

use super::frames::{Bench, at, flags, rule, tcp, udp};
use nf_sdk::Verdict;
use nf_sdk::native::{ConfigValue, TestPacket};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    udp: bool,
    v6: bool,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Udp { answered: bool },
    SynSent,
    SynReceived,
    Established,
    Closing { inside: bool, outside: bool },
}

#[derive(Clone, Debug)]
struct Step {
    key: Key,
    outside: bool,
    flags: u8,
    wait: f64,
}

/// Seconds that a flow may be idle.
fn timeout(state: State) -> f64 {
    match state {
        State::Udp { answered: false } => 30.0,
        State::Udp { answered: true } => 180.0,
        State::SynSent | State::SynReceived => 60.0,
        State::Established => 7440.0,
        State::Closing { .. } => 240.0,
    }
}

/// The model: what becomes of a packet. Flows are begun from inside alone, so that the originator is inside.
fn decide(flows: &mut HashMap<Key, (State, f64)>, step: &Step, now: f64) -> bool {
    let live = flows.get(&step.key).copied().filter(|(state, seen)| now - seen <= timeout(*state));
    let syn = step.flags & flags::SYN != 0;
    let ack = step.flags & flags::ACK != 0;
    let fin = step.flags & flags::FIN != 0;
    // What passes without giving the flow more time.
    let mut refreshed = true;
    let next = match live {
        None if step.outside => None,
        None if step.key.udp => Some(State::Udp { answered: false }),
        None => (syn && !ack).then_some(State::SynSent),
        Some((State::Udp { answered }, _)) => Some(State::Udp { answered: answered || step.outside }),
        Some((State::SynSent, _)) => match (step.outside, syn, ack) {
            (false, true, false) => Some(State::SynSent),
            (true, true, _) => Some(State::SynReceived),
            (true, false, true) if !fin => {
                refreshed = false;
                Some(State::SynSent)
            }
            _ => None,
        },
        Some((State::SynReceived, _)) if syn => Some(State::SynReceived),
        Some((State::SynReceived, _)) if step.outside && !fin => Some(State::SynReceived),
        Some((State::Closing { inside: true, outside: true }, _)) if syn => {
            (!ack && !step.outside).then_some(State::SynSent)
        }
        Some((state, _)) if syn => {
            refreshed = false;
            Some(state)
        }
        Some((state, _)) if fin => {
            let (inside, outside) = match state {
                State::Closing { inside, outside } => (inside, outside),
                _ => (false, false),
            };
            Some(State::Closing { inside: inside || !step.outside, outside: outside || step.outside })
        }
        Some((State::SynReceived, _)) => Some(State::Established),
        Some((state, _)) => Some(state),
    };
    if let Some(state) = next {
        let seen = if refreshed { now } else { live.map_or(now, |(_, seen)| seen) };
        flows.insert(step.key, (state, seen));
    }
    next.is_some()
}

fn frame(step: &Step) -> TestPacket {
    let (a, b) = if step.key.v6 { ("2001:db8::1", "2001:db8::2") } else { ("10.0.0.1", "10.9.9.9") };
    let (near, far) = ((a, step.key.port), (b, 80));
    let ends = if step.outside { [far, near] } else { [near, far] };
    let bytes = if step.key.udp {
        udp(ends[0].0, ends[0].1, ends[1].0, ends[1].1)
    } else {
        tcp(ends, step.flags, 1000, 1001, 0)
    };
    TestPacket::new(bytes, u16::from(step.outside))
}

fn step() -> impl Strategy<Value = Step> {
    let flags = prop::sample::select(vec![
        flags::SYN,
        flags::SYN | flags::ACK,
        flags::ACK,
        flags::ACK,
        flags::FIN | flags::ACK,
    ]);
    // Away from the times themselves, which are kept to a tick or two.
    let wait = prop::sample::select(vec![0.0, 0.0, 0.0, 0.0, 1.0, 20.0, 50.0, 100.0, 250.0, 8000.0]);
    (any::<bool>(), any::<bool>(), 0u16..3, any::<bool>(), flags, wait).prop_map(
        |(udp, v6, port, outside, flags, wait)| Step { key: Key { udp, v6, port }, outside, flags, wait },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn tracking_agrees_with_the_model(steps in prop::collection::vec(step(), 1..150), timers in any::<bool>()) {
        let mut bench = Bench::new(vec![rule("accept", &[("from", ConfigValue::text("inside"))])], &[]);
        let mut flows = HashMap::new();
        let mut passed = 0;
        let mut batch = vec![];
        let mut expected = vec![];
        for step in &steps {
            // Packets without time between them go in one batch.
            if step.wait > 0.0 {
                check(&mut bench, &mut batch, &mut expected)?;
                if timers {
                    bench.wait(step.wait);
                } else {
                    bench.now += step.wait;
                }
            }
            let accept = decide(&mut flows, step, bench.now);
            passed += u64::from(accept);
            batch.push(frame(step));
            expected.push((accept, step.clone()));
        }
        check(&mut bench, &mut batch, &mut expected)?;
        prop_assert_eq!(bench.report()["packets"]["accepted"].as_u64(), Some(passed));
    }
}

fn check(
    bench: &mut Bench,
    batch: &mut Vec<TestPacket>,
    expected: &mut Vec<(bool, Step)>,
) -> Result<(), TestCaseError> {
    let outcomes = bench.runner.run(batch, at(bench.now));
    for (outcome, (accept, step)) in outcomes.iter().zip(expected.iter()) {
        let onward = Some(Verdict::Interface(u16::from(!step.outside)));
        prop_assert_eq!(
            outcome.verdict == onward,
            *accept,
            "{:?} at {}: {:?}",
            step,
            bench.now,
            outcome.verdict
        );
    }
    batch.clear();
    expected.clear();
    Ok(())
}
