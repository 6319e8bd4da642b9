//! What decisions cost: `cargo test --release -p virtual_device -- --ignored --nocapture cost`.

use super::*;
use std::hint::black_box;

/// Prints nanoseconds a packet of batches of 32, the median of 21 runs.
fn measure(name: &str, mut batch: impl FnMut()) {
    const BATCHES: u32 = 4096;
    let mut costs: Vec<f64> = (0..21)
        .map(|_| {
            let begin = std::time::Instant::now();
            (0..BATCHES).for_each(|_| batch());
            begin.elapsed().as_nanos() as f64 / (32.0 * f64::from(BATCHES))
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("{:6.2} ns ({:.2} to {:.2}) {name}", costs[10], costs[0], costs[20]);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_a_decision() {
    let gap = Nanos(50_000);
    let cases = [
        ("direct, from its port", Mode::Direct, 1, vec![None], port(0)),
        ("rootless, two openers", Mode::Rootless, 0, vec![None, None], opener(0)),
        ("bond by flow, three ports", Mode::Bond(Balance::Flow), 3, vec![None], opener(0)),
        ("bond by flowlet, three ports", Mode::Bond(Balance::Flowlet { gap }), 3, vec![None], opener(0)),
        ("bridge of two, from its opener", Mode::Bridge, 2, vec![None], opener(0)),
        ("bridge of three, from a port", Mode::Bridge, 3, vec![None], port(0)),
        ("bridge of three, from its opener", Mode::Bridge, 3, vec![None], opener(0)),
    ];
    for (name, mode, ports, sides, from) in cases {
        let device = Device::new(settings(mode, Share::Single, ports, &sides), None);
        one(&device, port(1), 0, 0, frame(1, 2), 0);
        measure(name, || {
            if black_box(device.whole(black_box(from))).is_none() {
                let mut decisions = device.decide(black_box(from), 32, Nanos(1));
                for n in 0..32u32 {
                    black_box(decisions.next(black_box(n << 27), 1, || black_box(frame(2, 1))));
                }
            }
        });
    }
}
