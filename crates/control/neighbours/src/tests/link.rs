//! Devices that are joined by a link that loses, repeats, delays and changes frames.

use super::*;
use crate::{AddressState, Limits, NeighbourState, Rate, Resolution, Settings};
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    sent: Rate { per_second: 20, burst: 5 },
    answers: Rate { per_second: 20, burst: 5 },
    processed: Rate { per_second: 1_000, burst: 100 },
};

/// What a link does to frames, in thousandths.
#[derive(Clone, Copy, Debug)]
struct Faults {
    lost: u32,
    repeated: u32,
    changed: u32,
    /// Milliseconds on the way at most.
    delay: u64,
}

/// Two devices, frames on their way, and what was sent.
struct Link {
    devices: [Device; 2],
    now: Nanos,
    start: Nanos,
    /// When, to which device, in the order of their times.
    under_way: std::collections::BTreeMap<(Nanos, u64), (usize, Vec<u8>)>,
    count: u64,
    sent: [u32; 2],
    rng: fastrand::Rng,
    faults: Faults,
}

impl Link {
    fn new(seed: u64, faults: Faults) -> Link {
        let now = Nanos(1_700_000_000_000_000_000);
        let device = |mac, addresses: &[&str], seed| {
            let settings = Settings {
                limits: LIMITS,
                capacity: 16,
                router_advertisements: false,
                ..settings(mac, addresses)
            };
            Device::new(settings, seed, now).unwrap()
        };
        let first = device(OURS, &["192.0.2.1/24", "2001:db8::1/64"], seed);
        let second = device(THEIRS, &["192.0.2.2/24", "2001:db8::2/64"], !seed);
        Link {
            devices: [first, second],
            now,
            start: now,
            under_way: std::collections::BTreeMap::new(),
            count: 0,
            sent: [0; 2],
            rng: fastrand::Rng::with_seed(seed ^ 77),
            faults,
        }
    }

    fn send(&mut self, from: usize, frame: &[u8]) {
        self.sent[from] += 1;
        let times = 1 + u32::from(self.rng.u32(..1000) < self.faults.repeated);
        for _ in 0..times {
            if self.rng.u32(..1000) < self.faults.lost {
                continue;
            }
            let mut frame = frame.to_vec();
            if self.rng.u32(..1000) < self.faults.changed {
                let at = self.rng.usize(..frame.len());
                frame[at] ^= 1 << self.rng.u32(..8);
                if self.rng.bool() {
                    frame.truncate(self.rng.usize(..frame.len()));
                }
            }
            let delay = Nanos::from_millis(self.rng.u64(0..=self.faults.delay));
            self.count += 1;
            self.under_way.insert((self.now.saturating_add(delay), self.count), (1 - from, frame));
        }
    }

    /// Lets time pass.
    fn run(&mut self, span: Nanos) {
        let end = self.now.saturating_add(span);
        loop {
            for at in 0..2 {
                self.devices[at].poll(self.now);
                while let Some(frame) = self.devices[at].next_frame() {
                    self.send(at, &frame);
                }
                assert!(self.devices[at].neighbours_count() <= 16);
            }
            let frame = self.under_way.keys().next().map(|(at, _)| *at);
            let deadlines = self.devices.iter().filter_map(Device::next_deadline).chain(frame);
            let Some(next) = deadlines.min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, frame) = entry.remove();
                self.devices[to].input(&frame, self.now);
            }
        }
        self.now = end;
        let elapsed = self.now.since(self.start).as_secs_f64();
        let each = |rate: Rate| f64::from(rate.burst + 1) + elapsed * f64::from(rate.per_second);
        let allowed = each(LIMITS.sent) + each(LIMITS.answers);
        assert!(self.sent.iter().all(|sent| f64::from(*sent) <= allowed), "{:?} of {allowed}", self.sent);
    }

    /// What each knows of the other.
    fn known(&mut self) -> Vec<Resolution> {
        let other = [["192.0.2.2", "2001:db8::2"], ["192.0.2.1", "2001:db8::1"]];
        let now = self.now;
        let ask = |(device, other): (&mut Device, [&str; 2])| other.map(|text| device.resolve(ip(text), now));
        self.devices.iter_mut().zip(other).flat_map(ask).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// As long as anything gets through, both know each other in the end, and each sends no more than it may.
    #[test]
    fn neighbours_find_each_other(
        seed: u64, lost in 0u32..700, repeated in 0u32..500, delay in 0u64..400,
    ) {
        let mut link = Link::new(seed, Faults { lost, repeated, changed: 0, delay });
        link.run(Nanos(15 * SECOND.0));
        let expected = [THEIRS, THEIRS, OURS, OURS].map(Resolution::Known);
        let mut found = false;
        for _ in 0..200 {
            found |= link.known() == expected;
            if found {
                break;
            }
            link.run(Nanos(5 * SECOND.0));
        }
        prop_assert!(found, "{:?}", link.known());
        for device in &link.devices {
            prop_assert!(device.addresses().all(|own| own.state == AddressState::Valid));
        }
        // Without loss they stay known for as long as they are asked for.
        link.faults = Faults { lost: 0, repeated: 0, changed: 0, delay: 10 };
        link.run(Nanos(60 * SECOND.0));
        link.known();
        link.run(Nanos(10 * SECOND.0));
        for _ in 0..30 {
            prop_assert_eq!(link.known(), expected);
            link.run(Nanos(10 * SECOND.0));
        }
    }

    /// Frames with bits that are changed, or cut, do no harm beyond what a hostile station could say.
    #[test]
    fn changed_frames_break_nothing(seed: u64, changed in 100u32..=1000) {
        let mut link = Link::new(seed, Faults { lost: 100, repeated: 300, changed, delay: 200 });
        for _ in 0..100 {
            link.known();
            link.run(Nanos(5 * SECOND.0));
        }
        for device in &link.devices {
            let counters = device.counters();
            prop_assert!(counters.dropped.iter().sum::<u64>() > 0);
            let macs = device.neighbours().filter(|n| n.state == NeighbourState::Reachable).map(|n| n.mac);
            prop_assert!(macs.into_iter().all(|mac| mac.is_some_and(|mac| mac[0] & 1 == 0)));
        }
        // When the link is good again, so is what is known.
        link.faults = Faults { lost: 0, repeated: 0, changed: 0, delay: 10 };
        link.run(Nanos(120 * SECOND.0));
        link.known();
        link.run(Nanos(60 * SECOND.0));
        prop_assert_eq!(link.known(), [THEIRS, THEIRS, OURS, OURS].map(Resolution::Known));
    }
}
