//! Frames of any bytes, from any port at any time: what a switch decides is possible, and its account
//! balances.
#![no_main]

use telemetry::clock::Nanos;
use libfuzzer_sys::fuzz_target;
use virtual_switch::{Route, Switch, SwitchPort, SwitchSettings, head};

const PORTS: u16 = 5;

fuzz_target!(|input: (Vec<(u8, u64, Vec<u8>)>, bool)| {
    let (steps, small) = input;
    let entries = if small { 8 } else { 4096 };
    let settings = SwitchSettings { entries, secret: Some([1, 2]), ..SwitchSettings::default() };
    let switch = Switch::new(settings).expect("allowed settings");
    (0..PORTS).for_each(|_| _ = switch.attach());
    let mut now = Nanos(0);
    for (kind, wait, frame) in steps {
        now = now.saturating_add(Nanos(wait >> (kind % 64)));
        let from = SwitchPort(u16::from(kind) % (PORTS + 1));
        if kind == 255 {
            switch.detach(from);
            assert!(switch.table(now).all(|entry| entry.port != from));
            continue;
        }
        let before = switch.counters();
        let route = switch.decide(from, &head(&frame), now);
        let after = switch.counters();
        let counted = (after.flooded - before.flooded, after.filtered() - before.filtered());
        match route {
            Route::To(port) => assert!(port != from && port.0 < PORTS && counted == (0, 0)),
            Route::Flood => assert_eq!(counted, (1, 0)),
            Route::Filter => assert_eq!(counted, (0, 1)),
        }
        assert!(frame.len() >= 14 || route == Route::Filter);
        // The same again is decided in the same way.
        let mut again = Vec::new();
        switch.decide_batch(from, [head(&frame); 2], now, &mut again);
        assert_eq!(again, [route; 2]);
    }
    switch.sweep(now);
    let counters = switch.counters();
    let there = switch.table(now).count() as u64;
    assert!(there <= u64::from(entries));
    assert_eq!(counters.learned, there + counters.aged + counters.evicted + counters.flushed);
});
