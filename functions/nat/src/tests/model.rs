//! The translator against a model of simple maps, under random traffic and time.

use super::frames::*;
use nf_sdk::Verdict;
use nf_sdk::native::{ConfigValue, TestPacket};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Key = (u8, u8, u16);
/// When each remote end was sent to last.
type Sent = BTreeMap<(u8, u16), f64>;

/// Mappings by protocol, inside host and port; what is known of each: the outside port, and when each remote
/// end was sent to last.
#[derive(Default)]
struct Model {
    mappings: BTreeMap<Key, (u16, Sent)>,
}

impl Model {
    fn expire(&mut self, now: f64) {
        for (_, sessions) in self.mappings.values_mut() {
            sessions.retain(|_, sent| now - *sent <= 300.0);
        }
        self.mappings.retain(|_, (_, sessions)| !sessions.is_empty());
    }

    fn is_fading(&self, now: f64) -> bool {
        let mut sent = self.mappings.values().flat_map(|(_, sessions)| sessions.values());
        sent.any(|sent| (300.0..310.0).contains(&(now - sent)))
    }

    fn inside_of(&self, port: u16) -> Option<(Key, &Sent)> {
        self.mappings.iter().find(|(_, (outside, _))| *outside == port).map(|(key, (_, sent))| (*key, sent))
    }
}

fn host(number: u8) -> String {
    format!("10.0.0.{}", number + 1)
}

fn remote(number: u8) -> String {
    format!("203.0.113.{}", number + 1)
}

#[derive(Clone, Debug)]
enum Event {
    Out { host: u8, port: u16, remote: (u8, u16) },
    In { port: u16, remote: (u8, u16) },
    Wait(f64),
}

fn event() -> impl Strategy<Value = Event> {
    let remote = || (0u8..3, 80u16..83);
    prop_oneof![
        (0u8..3, 2000u16..2006, remote()).prop_map(|(host, port, remote)| Event::Out { host, port, remote }),
        (1998u16..2012, remote()).prop_map(|(port, remote)| Event::In { port, remote }),
        (1u32..200).prop_map(|seconds| Event::Wait(f64::from(seconds))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn it_translates_as_the_model_does(
        events in prop::collection::vec(event(), 1..150),
        filtering in 0usize..3, preserve in any::<bool>(),
    ) {
        let name = ["endpoint-independent", "address-dependent", "address-and-port-dependent"][filtering];
        let mut bench = Bench::new(&[
            ("filtering", ConfigValue::text(name)),
            ("preserve_ports", ConfigValue::Boolean(preserve)),
            ("ports", ConfigValue::PortRange(2000, 2039)),
        ]);
        let mut model = Model::default();
        let mut seen = 0u64;
        for event in events {
            model.expire(bench.now);
            match event {
                Event::Wait(seconds) => {
                    bench.wait(seconds);
                    // A mapping and what it lets in go with the sweep, within ten seconds.
                    while model.is_fading(bench.now) {
                        bench.wait(5.0);
                    }
                }
                Event::Out { host: number, port, remote: to } => {
                    seen += 1;
                    let (from, far) = (host(number), remote(to.0));
                    let before = model.inside_of(port).map(|(key, _)| key);
                    let (source, destination) = bench.out(udp((&from, port), (&far, to.1)));
                    prop_assert_eq!(destination, (far, to.1));
                    let key = (17, number, port);
                    // No two inside ends share an outside end.
                    if let Some((owner, _)) = model.inside_of(source.1) {
                        prop_assert_eq!(owner, key);
                    }
                    if preserve && before.is_none() && !model.mappings.contains_key(&key) {
                        prop_assert_eq!(source.1, port);
                    }
                    prop_assert_eq!((source.0.as_str(), source.1 % 2), (EXT, port % 2));
                    let (outside, sessions) = model.mappings.entry(key).or_insert((source.1, BTreeMap::new()));
                    prop_assert_eq!(*outside, source.1);
                    sessions.insert(to, bench.now);
                }
                Event::In { port, remote: from } => {
                    seen += 1;
                    let far = remote(from.0);
                    let (verdict, bytes) = bench.show(1, udp((&far, from.1), (EXT, port)));
                    let expected = model.inside_of(port).map(|((_, number, inside), sessions)| {
                        let is_let_in = match filtering {
                            0 => true,
                            1 => sessions.keys().any(|(address, _)| *address == from.0),
                            _ => sessions.contains_key(&from),
                        };
                        is_let_in.then(|| (host(number), inside))
                    });
                    match expected {
                        None => prop_assert_eq!(verdict, drop::NO_MAPPING),
                        Some(None) => prop_assert_eq!(verdict, drop::FILTERED),
                        Some(Some(end)) => {
                            prop_assert_eq!(verdict, IN);
                            prop_assert_eq!(ends(&bytes), ((far, from.1), end));
                        }
                    }
                }
            }
        }
        // Every packet is counted once.
        let counted: u64 = (0..14).map(|counter| bench.runner.host().counter(counter)).sum();
        prop_assert_eq!(counted, seen);
        // What it knows goes over as it is.
        model.expire(bench.now);
        let state = bench.runner.export_state().expect("offered");
        let mut other = Bench::new(&[("ports", ConfigValue::PortRange(2000, 2039))]);
        other.now = bench.now;
        prop_assert!(other.runner.import_state(&state));
        for ((_, number, port), (outside, sessions)) in &model.mappings {
            let to = sessions.keys().next().expect("one");
            let mapped = other.mapped(udp((&host(*number), *port), (&remote(to.0), to.1)));
            prop_assert_eq!(mapped, end(EXT, *outside));
        }
    }

    /// A batch does what the same packets do one by one: sessions that begin within it are known to what
    /// follows.
    #[test]
    fn a_batch_is_its_packets(packets in prop::collection::vec((0u8..3, 0u16..40, any::<bool>(), 0u8..4), 1..200)) {
        let mut frames = vec![];
        for (number, port, outward, kind) in packets {
            let (from, far) = (host(number), remote(0));
            let port = 3000 + port;
            let flags = [flags::SYN, flags::ACK, flags::SYN | flags::ACK, 0][usize::from(kind)];
            let frame = match (kind, outward) {
                (3, true) => udp((&from, port), (&far, 80)),
                (3, false) => udp((&far, 80), (EXT, port)),
                (_, true) => tcp((&from, port), (&far, 80), flags),
                (_, false) => tcp((&far, 80), (EXT, port), flags),
            };
            frames.push(TestPacket::new(frame, u16::from(!outward)));
        }
        let (mut one, mut many) = (Bench::new(&[]), Bench::new(&[]));
        let together = many.runner.run(&frames, at(0.0));
        for (frame, outcome) in frames.into_iter().zip(together) {
            let alone = one.runner.run(&[frame], at(0.0)).remove(0);
            if let (Some(Verdict::Interface(_)), Some(bytes)) = (alone.verdict, &alone.bytes) {
                assert_sound(bytes);
            }
            prop_assert_eq!(alone, outcome);
        }
    }
}
