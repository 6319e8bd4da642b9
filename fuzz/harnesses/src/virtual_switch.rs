//! Frames of any bytes, from any port at any time: what a switch decides is possible, and its account
//! balances.

use telemetry::clock::Nanos;
use virtual_switch::{Route, Switch, SwitchPort, SwitchSettings, head};

const PORTS: u16 = 5;

pub fn run(data: &[u8]) {
    let Some((&small, mut rest)) = data.split_first() else { return };
    let entries = if small & 1 != 0 { 8 } else { 4096 };
    let settings = SwitchSettings { entries, secret: Some([1, 2]), ..SwitchSettings::default() };
    let switch = Switch::new(settings).expect("allowed settings");
    (0..PORTS).for_each(|_| _ = switch.attach());
    let mut now = Nanos(0);
    // A port, how much later its frame comes, and the frame's length.
    while let &[kind, wait, shift, length, ref bytes @ ..] = rest {
        let (frame, after) = bytes.split_at(usize::from(length).min(bytes.len()));
        rest = after;
        now = now.saturating_add(Nanos(u64::from(wait) << (shift % 57)));
        let from = SwitchPort(u16::from(kind) % (PORTS + 1));
        if kind == 255 {
            switch.detach(from);
            assert!(switch.table(now).all(|entry| entry.port != from));
            continue;
        }
        let before = switch.counters();
        let route = switch.decide(from, &head(frame), now);
        let after = switch.counters();
        let counted = (after.flooded - before.flooded, after.filtered() - before.filtered());
        match route {
            Route::To(port) => assert!(port != from && port.0 < PORTS && counted == (0, 0)),
            Route::Flood => assert_eq!(counted, (1, 0)),
            Route::Filter => assert_eq!(counted, (0, 1)),
        }
        assert!(frame.len() >= 14 || route == Route::Filter);
        // The same again is decided in the same way.
        assert!(switch.decide_batch(from, [head(frame); 2].into_iter(), now).eq([route; 2]));
    }
    switch.sweep(now);
    let counters = switch.counters();
    let there = switch.table(now).count() as u64;
    assert!(there <= u64::from(entries));
    assert_eq!(counters.learned, there + counters.aged + counters.evicted + counters.flushed);
}
