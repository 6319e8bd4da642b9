//! The quick ways are the slow one: what they do to a packet, to the tables, and what they foresee.

use super::frames::*;
use crate::ports::Ports;
use crate::settings::{Filtering, Settings, Timeouts};
use crate::{Nat, SWEEP_PER_BATCH};
use nf_sdk::native::frames::damaged;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use nf_sdk::wire::{TCP, UDP};
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, PacketRecord, StateReader, StateWriter, offload,
};
use proptest::prelude::*;

/// The function with the slow way alone.
struct Slowly(Nat);

impl NetworkFunction for Slowly {
    fn new(config: &Config) -> Result<Slowly, Error> {
        Nat::new(config).map(Slowly)
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        self.0.advance(now, SWEEP_PER_BATCH);
        let (packets, host) = batch.split();
        let Nat { translator, slow, tally, .. } = &mut self.0;
        for mut packet in packets {
            slow.packet(translator, &mut packet, tally, host);
        }
        self.0.tally.flush(self.0.translator.turnover, batch.host());
        self.0.set_timer(batch.host(), now);
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.0.timer(host, now);
    }

    fn report(&self, out: &mut String, now: Nanos) -> bool {
        self.0.report(out, now)
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        self.0.export_state(out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        self.0.import_state(entries)
    }
}

fn flags() -> impl Strategy<Value = u8> {
    use flags::{ACK, FIN, RST, SYN};
    prop_oneof![Just(SYN), Just(SYN), Just(ACK), Just(SYN | ACK), Just(FIN | ACK), Just(RST), any::<u8>()]
}

/// Packets between hosts inside, remote ones, the pool and neighbours, mostly of the usual form; some with a
/// checksum that is to be completed, some damaged.
fn shown() -> impl Strategy<Value = TestPacket> {
    let inside = prop_oneof![6 => (1u8..5).prop_map(|n| format!("10.0.0.{n}")), 1 => Just(R.to_owned()),
                             1 => Just("169.254.1.1".to_owned()), 1 => Just("0.0.0.0".to_owned())];
    let outside = prop_oneof![6 => Just(R.to_owned()), 3 => Just(S.to_owned()), 2 => Just(EXT.to_owned()),
                              1 => Just("198.51.100.6".to_owned()), 1 => Just("224.0.0.1".to_owned())];
    let port = || 2000u16..2006;
    let frame = (inside, outside, any::<bool>(), port(), port(), flags()).prop_map(
        |(own, far, is_tcp, a, b, flags)| {
            if is_tcp { tcp((&own, a), (&far, b), flags) } else { udp((&own, a), (&far, b)) }
        },
    );
    let back = (any::<bool>(), port(), port(), flags()).prop_map(|(is_tcp, a, b, flags)| {
        if is_tcp { tcp((R, b), (EXT, a), flags) } else { udp((R, b), (EXT, a)) }
    });
    let changes = prop_oneof![4 => Just(vec![]),
                              1 => prop::collection::vec((0usize..56, any::<u8>()), 1..3)];
    (
        prop_oneof![3 => frame.prop_map(|frame| (frame, 0)), 1 => back.prop_map(|frame| (frame, 1))],
        changes,
        0u8..6,
    )
        .prop_map(|((frame, ingress), changes, partial)| {
            let mut shown = TestPacket::new(damaged(frame, &changes, None), ingress);
            if partial == 0 {
                let flags = offload::NEEDS_CHECKSUM;
                shown.record =
                    PacketRecord { offload_flags: flags, csum_start: 34, csum_offset: 6, ..shown.record };
            }
            shown
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn the_quick_ways_do_what_the_slow_one_does(
        batches in prop::collection::vec((prop::collection::vec(shown(), 1..40), 0u32..400), 1..8),
        filtering in 0usize..3,
        (preserve, paired, is_narrow) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (sessions, hosts, of_host) in (3i64..40, 2i64..6, 2i64..20),
    ) {
        let names = ["endpoint-independent", "address-dependent", "address-and-port-dependent"];
        let mut changes = vec![
            ("filtering", ConfigValue::text(names[filtering])),
            ("pool", pool("198.51.100.6/31")),
            ("pooling", ConfigValue::text(if paired { "paired" } else { "arbitrary" })),
            ("preserve_ports", ConfigValue::Boolean(preserve)),
            ("ports", ConfigValue::PortRange(2000, if is_narrow { 2007 } else { 2100 })),
            ("max_sessions", ConfigValue::Integer(sessions)),
            ("max_hosts", ConfigValue::Integer(hosts)),
            ("host_sessions", ConfigValue::Integer(of_host)),
            ("host_ports", ConfigValue::Integer(4)),
        ];
        if is_narrow {
            changes.push(("inside", pool("10.0.0.0/30")));
        }
        let config = config(&changes);
        let mut quick = Runner::<Nat>::new(&config).expect("a good configuration");
        let mut slow = Runner::<Slowly>::new(&config).expect("a good configuration");
        let mut now = 0.0;
        for (packets, seconds) in batches {
            prop_assert_eq!(quick.run(&packets, at(now)), slow.run(&packets, at(now)));
            now += f64::from(seconds);
            quick.timers_until(at(now));
            slow.timers_until(at(now));
        }
        prop_assert_eq!(quick.report(at(now)), slow.report(at(now)));
        prop_assert_eq!(quick.export_state(), slow.export_state());
        prop_assert_eq!(quick.take_told(), slow.take_told());
        for counter in 0..18 {
            prop_assert_eq!(quick.host().counter(counter), slow.host().counter(counter), "counter {}", counter);
        }
    }

    /// Where a port is free within 64 of where the search begins, the one that is foreseen is taken.
    #[test]
    fn what_is_foreseen_is_taken(
        range in (1u16..3000, 3000u16..=65_535), wanted: u16, chance: u64, is_tcp: bool, preserve: bool,
        taken in prop::collection::vec(any::<u16>(), 0..3000),
    ) {
        let timeouts = Timeouts { udp: 1, established: 1, transitory: 1, icmp: 1, fragment: 1 };
        let mut ports = Ports::new(&Settings {
            pool: vec![1],
            inside: vec![],
            filtering: Filtering::EndpointIndependent,
            paired: true,
            ports: range,
            preserve,
            forwards: vec![],
            max_sessions: 1,
            max_hosts: 1,
            host_sessions: 1,
            host_ports: 1,
            inbound_refresh: false,
            answer: false,
            nat64: None,
            nat64_mtu: 1280,
            timeouts,
        });
        let protocol = if is_tcp { TCP } else { UDP };
        for port in taken {
            ports.take(0, protocol, port);
        }
        let is_own = ports.is_own_free(0, protocol, wanted);
        prop_assert_eq!(ports.take_own(0, protocol, wanted), is_own);
        let begin = ports.search_begins(protocol, wanted, chance);
        let foreseen = ports.probable(0, protocol, wanted, begin);
        let found = ports.take_other(0, protocol, wanted, chance).expect("a free port");
        if found / 64 == begin / 64 && found >= begin {
            prop_assert_eq!(foreseen, found);
        }
        prop_assert!((range.0..=range.1).contains(&found));
        prop_assert_eq!(found < 1024, wanted < 1024 && range.0 < 1024);
        if !is_tcp {
            prop_assert_eq!(found % 2, wanted % 2);
        }
    }
}
