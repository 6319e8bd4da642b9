//! What is exported, read back by a collector's library.

use super::{Sent, report, sent};
use crate::Monitor;
use crate::exporter::MESSAGES;
use crate::tracks::MOST_DEPARTED;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use netflow_parser::variable_versions::field_value::DurationValue;
use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::{DataNumber, FieldValue, NetflowPacket, NetflowParser};
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use nf_sdk::{Nanos, PacketRecord, Verdict};
use packet::checksum::Endpoints;
use packet::{ethernet, ipv4, ipv6, udp};
use proptest::prelude::*;

/// When a test begins: not on a whole millisecond.
const START: u64 = 1_760_000_000_123_456_789;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

const COLLECTOR_MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];

/// Idle for 2 s, active for 10 s, templates every 5 s.
fn ipfix(addresses: [&str; 2], changes: &[(&'static str, ConfigValue)]) -> ConfigValue {
    let address = |text: &str| ConfigValue::Address(text.parse().expect("an address"));
    let mut keys = vec![
        ("collector", address(addresses[1])),
        ("collector_port", ConfigValue::Integer(2055)),
        ("source", address(addresses[0])),
        ("source_port", ConfigValue::Integer(4000)),
        ("collector_mac", ConfigValue::Mac(COLLECTOR_MAC)),
        ("source_mac", ConfigValue::Mac(SOURCE_MAC)),
        ("domain", ConfigValue::Integer(77)),
        ("active_timeout", ConfigValue::Integer(10 * SECOND as i64)),
        ("idle_timeout", ConfigValue::Integer(2 * SECOND as i64)),
        ("template_refresh", ConfigValue::Integer(5 * SECOND as i64)),
        ("mtu", ConfigValue::Integer(600)),
    ];
    for (key, value) in changes {
        keys.retain(|(known, _)| known != key);
        keys.push((key, value.clone()));
    }
    ConfigValue::map(keys)
}

const V4: [&str; 2] = ["192.0.2.1", "192.0.2.9"];
const V6: [&str; 2] = ["2001:db8:1::1", "2001:db8:1::9"];

fn config(flows: i64, bidirectional: bool, ipfix: ConfigValue) -> Vec<u8> {
    ConfigValue::map([
        ("flows", ConfigValue::Integer(flows)),
        ("top", ConfigValue::Integer(3)),
        ("bidirectional", ConfigValue::Boolean(bidirectional)),
        ("ipfix", ipfix),
    ])
    .to_cbor()
}

fn exporting(flows: i64, addresses: [&str; 2]) -> Runner<Monitor> {
    Runner::new(&config(flows, false, ipfix(addresses, &[]))).expect("a good configuration")
}

/// A record as the collector understood it.
#[derive(Clone, Debug, Default)]
struct Read {
    values: BTreeMap<String, u64>,
    ends: Vec<IpAddr>,
}

impl Read {
    fn get(&self, name: &str) -> u64 {
        *self.values.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    fn key(&self) -> (u8, [(IpAddr, u16); 2]) {
        let port = |name| self.get(name) as u16;
        let ends =
            [(self.ends[0], port("SourceTransportPort")), (self.ends[1], port("DestinationTransportPort"))];
        (self.get("ProtocolIdentifier") as u8, ends)
    }
}

/// The collector: checks frames and sequence, and keeps what it reads.
struct Collector {
    addresses: [IpAddr; 2],
    parser: NetflowParser,
    sequence: u32,
    read: usize,
    flows: Vec<Read>,
    statistics: Vec<Read>,
    longest: usize,
    /// Whether every data set had its template.
    complete: bool,
}

fn value(field: &FieldValue) -> Option<u64> {
    Some(match field {
        FieldValue::DataNumber(DataNumber::U8(n)) => u64::from(*n),
        FieldValue::DataNumber(DataNumber::U16(n)) => u64::from(*n),
        FieldValue::DataNumber(DataNumber::U32(n)) => u64::from(*n),
        FieldValue::DataNumber(DataNumber::U64(n)) => *n,
        FieldValue::Duration(DurationValue::Millis { value, .. }) => *value,
        FieldValue::ProtocolType(protocol) => u64::from(u8::from(*protocol)),
        FieldValue::FlowEndReason(reason) => u64::from(u8::from(*reason)),
        _ => return None,
    })
}

impl Collector {
    fn new(addresses: [&str; 2]) -> Collector {
        Collector {
            addresses: addresses.map(|address| address.parse().expect("an address")),
            parser: NetflowParser::default(),
            sequence: 0,
            read: 0,
            flows: vec![],
            statistics: vec![],
            longest: 0,
            complete: true,
        }
    }

    /// Takes what the function gave up since the last time.
    fn collect(&mut self, runner: &Runner<Monitor>) {
        let emitted = runner.host().emitted();
        for packet in emitted.iter().skip(self.read) {
            assert_eq!((packet.verdict, packet.extent, packet.mark), (Verdict::Interface(2), None, 0));
            self.frame(packet.bytes.as_deref().expect("its own"));
        }
        self.read = emitted.len();
    }

    fn frame(&mut self, frame: &[u8]) {
        let link = ethernet::View::new(frame).expect("Ethernet");
        assert_eq!((link.destination(), link.source()), (COLLECTOR_MAC, SOURCE_MAC));
        let ends = self.addresses;
        let payload = if ends[0].is_ipv4() {
            let ip = ipv4::View::new(link.payload()).expect("IPv4");
            assert!(ip.verify_checksum() && ip.dont_fragment() && !ip.is_cut());
            assert_eq!([IpAddr::from(ip.source()), ip.destination().into()], ends);
            self.longest = self.longest.max(usize::from(ip.total_length()));
            ip.payload()
        } else {
            let ip = ipv6::View::new(link.payload()).expect("IPv6");
            assert!(!ip.is_cut());
            assert_eq!([IpAddr::from(ip.source()), ip.destination().into()], ends);
            self.longest = self.longest.max(40 + usize::from(ip.payload_length()));
            ip.payload()
        };
        let datagram = udp::View::new(payload).expect("UDP");
        assert!(datagram.verify_checksum(&Endpoints::new(ends[0], ends[1]).expect("one family")));
        assert_ne!(datagram.checksum(), 0);
        assert_eq!((datagram.source_port(), datagram.destination_port()), (4000, 2055));
        self.message(datagram.payload());
    }

    fn message(&mut self, bytes: &[u8]) {
        let parsed = self.parser.parse_bytes(bytes);
        assert!(parsed.error.is_none(), "{:?}", parsed.error);
        let [NetflowPacket::IPFix(message)] = &parsed.packets[..] else { panic!("{:?}", parsed.packets) };
        assert_eq!(usize::from(message.header.length), bytes.len());
        assert_eq!(message.header.observation_domain_id, 77);
        assert_eq!(message.header.sequence_number, self.sequence, "a gap");
        for set in &message.flowsets {
            let (fields, is_flow) = match &set.body {
                FlowSetBody::Data(data) => (&data.fields, true),
                FlowSetBody::OptionsData(data) => (&data.fields, false),
                FlowSetBody::NoTemplate(_) => {
                    self.complete = false;
                    continue;
                }
                FlowSetBody::Templates(_) | FlowSetBody::OptionsTemplate(_) => continue,
                other => panic!("{other:?}"),
            };
            for fields in fields {
                let mut record = Read::default();
                for (name, field) in fields {
                    let name = format!("{name:?}");
                    let name = name.trim_start_matches("IANA(").trim_end_matches(')').to_string();
                    match field {
                        FieldValue::Ip4Addr(address) => record.ends.push((*address).into()),
                        FieldValue::Ip6Addr(address) => record.ends.push((*address).into()),
                        field => {
                            let value = value(field).unwrap_or_else(|| panic!("{name}: {field:?}"));
                            record.values.insert(name, value);
                        }
                    }
                }
                self.sequence = self.sequence.wrapping_add(1);
                if is_flow { self.flows.push(record) } else { self.statistics.push(record) }
            }
        }
    }
}

/// Runs the timer as often as it is due until a time.
fn advance(runner: &mut Runner<Monitor>, until: u64) {
    runner.timers_until(Nanos(until));
}

/// A packet: of which flow, later by so many microseconds, by which interface and VLAN, tagged and padded or
/// not.
type Arrival = (Sent, u64, u16, u16, bool, usize);

fn arrivals(most: usize) -> impl Strategy<Value = Vec<Arrival>> {
    let later = prop_oneof![0..2_000u64, 0..400_000u64, 0..4_000_000u64];
    prop::collection::vec((sent(), later, 0..3u16, 0..4096u16, any::<bool>(), 0..9usize), 1..most)
}

/// What was sent of a flow.
#[derive(Clone, Debug, Default)]
struct Flow {
    packets: u64,
    octets: u64,
    /// When packets came, in milliseconds, and how.
    times: Vec<(u64, u16, u16)>,
}

type Flows = BTreeMap<(u8, [(IpAddr, u16); 2]), Flow>;

/// Shows the function the packets at their times; what was sent, and when the last came.
fn show(runner: &mut Runner<Monitor>, arrivals: &[Arrival]) -> (Flows, u64) {
    let (mut flows, mut now) = (Flows::new(), START);
    for (sent, later, ingress, vlan, tagged, padding) in arrivals {
        now += later * 1_000;
        advance(runner, now);
        let mut frame = sent.frame();
        frame.resize(frame.len() + padding, 0);
        if *tagged {
            frame.splice(12..12, [0x81, 0x00, (vlan >> 8) as u8, *vlan as u8]);
        }
        let tag = if *tagged { *vlan } else { 0 };
        let record = PacketRecord { ingress: *ingress, vlan: tag, ..PacketRecord::default() };
        let outcome = runner.run(&[TestPacket { bytes: frame, record }], Nanos(now));
        let wanted = [Verdict::Interface(1), Verdict::Interface(0), Verdict::Drop(0)][usize::from(*ingress)];
        assert_eq!(outcome[0].verdict, Some(wanted));
        let flow = flows.entry((sent.protocol, sent.key(false))).or_default();
        flow.packets += 1;
        flow.octets += sent.length as u64 - 14;
        flow.times.push((now / MILLISECOND, *ingress, tag & 0xfff));
    }
    (flows, now)
}

/// Every packet is in one record, and each record says what was sent between its start and its end.
fn compare(sent: &Flows, read: &[Read]) -> Result<(), TestCaseError> {
    let mut places: BTreeMap<_, usize> = BTreeMap::new();
    let mut octets: BTreeMap<_, u64> = BTreeMap::new();
    for record in read {
        let flow = sent.get(&record.key());
        prop_assert!(flow.is_some(), "{:?}", record);
        let flow = flow.expect("just looked");
        let first = *places.entry(record.key()).or_default();
        let behind = first + record.get("PacketDeltaCount") as usize;
        let times = flow.times.get(first..behind);
        prop_assert!(times.is_some_and(|times| !times.is_empty()), "{:?} of {:?}", record, flow);
        let times = times.expect("just looked");
        prop_assert_eq!(record.get("FlowStartMilliseconds"), times[0].0);
        prop_assert_eq!(record.get("FlowEndMilliseconds"), times[times.len() - 1].0);
        prop_assert_eq!(record.get("IngressInterface"), u64::from(times[0].1) + 1);
        prop_assert_eq!(record.get("VlanId"), u64::from(times[0].2));
        places.insert(record.key(), behind);
        *octets.entry(record.key()).or_default() += record.get("OctetDeltaCount");
    }
    for (key, flow) in sent {
        prop_assert_eq!(places.get(key).copied(), Some(flow.packets as usize), "{:?}", key);
        prop_assert_eq!(octets.get(key).copied(), Some(flow.octets), "{:?}", key);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever comes, also far more flows than there is room for: the collector has it all, once.
    #[test]
    fn the_collector_reads_what_was_sent(arrivals in arrivals(150), flows in 1..60i64, ipv6: bool) {
        let addresses = if ipv6 { V6 } else { V4 };
        let (mut runner, mut collector) = (exporting(flows, addresses), Collector::new(addresses));
        let (sent, end) = show(&mut runner, &arrivals);
        advance(&mut runner, end + 4 * SECOND);
        collector.collect(&runner);
        prop_assert!(collector.complete, "data came before their template");
        prop_assert!(collector.longest <= 600);
        compare(&sent, &collector.flows)?;
        for record in &collector.flows {
            let (start, end) = (record.get("FlowStartMilliseconds"), record.get("FlowEndMilliseconds"));
            // A round takes 250 ms.
            prop_assert!(end - start <= 10_250);
            let reasons: &[u64] = if sent.len() > flows as usize { &[1, 2, 5] } else { &[1, 2] };
            prop_assert!(reasons.contains(&record.get("FlowEndReason")), "{:?}", record);
        }
        let told = &report(&runner)["ipfix"];
        prop_assert_eq!(told["records"].as_u64(), Some(u64::from(collector.sequence)));
        prop_assert_eq!(told["messages"].as_u64(), Some(collector.read as u64));
        prop_assert_eq!(&told["not_sent"]["packets"], 0);
    }

    /// A collector that comes later understands everything from the next templates on.
    #[test]
    fn templates_come_again(arrivals in arrivals(100)) {
        let mut runner = exporting(20, V4);
        let (_, end) = show(&mut runner, &arrivals);
        advance(&mut runner, end + 4 * SECOND);
        let mut all = Collector::new(V4);
        all.collect(&runner);
        let later = all.read;
        // The refresh comes without any packet, too.
        advance(&mut runner, end + 16 * SECOND);
        let mut late = Collector::new(V4);
        (late.read, late.sequence) = (later, all.sequence);
        late.collect(&runner);
        prop_assert!(late.complete && late.statistics.len() >= 2);
        let last = late.statistics.last().expect("at least two");
        // Of flows: a collector that compares them with those that it has got finds none missing.
        prop_assert_eq!(last.get("ExportedFlowRecordTotalCount"), (all.flows.len() + late.flows.len()) as u64);
        prop_assert_eq!(last.get("NotSentFlowTotalCount"), 0);
        prop_assert_eq!(last.get("ObservationDomainId"), 77);
    }

    /// What the host refuses is sent when it takes it again.
    #[test]
    fn refused_messages_wait(arrivals in arrivals(100), refusing in prop::collection::vec(any::<bool>(), 1..100), flows in 5..30i64) {
        let (mut runner, mut collector) = (exporting(flows, V4), Collector::new(V4));
        let mut sent = Flows::new();
        let mut shifted = 0;
        for (arrival, refuse) in arrivals.iter().zip(refusing.iter().cycle()) {
            runner.refuse_packets(*refuse);
            let mut arrival = *arrival;
            shifted += arrival.1;
            arrival.1 = shifted;
            let (flows, _) = show(&mut runner, &[arrival]);
            for (key, flow) in flows {
                let all = sent.entry(key).or_default();
                all.packets += flow.packets;
                all.octets += flow.octets;
                all.times.extend(flow.times);
            }
        }
        runner.refuse_packets(false);
        advance(&mut runner, START + shifted * 1_000 + 5 * SECOND);
        collector.collect(&runner);
        prop_assert!(collector.complete);
        compare(&sent, &collector.flows)?;
    }
}

fn flow(n: u32) -> Sent {
    Sent {
        source: (Ipv4Addr::from_bits(0x0a00_0000 | n).into(), 1000),
        destination: (Ipv4Addr::new(10, 255, 0, 1).into(), 53),
        protocol: 17,
        length: 100,
    }
}

#[test]
fn what_finds_no_room_is_counted_and_told() {
    let (mut runner, mut collector) = (exporting(10, V4), Collector::new(V4));
    let all = MOST_DEPARTED as u32 + 500;
    let packets: Vec<TestPacket> = (0..all).map(|n| TestPacket::new(flow(n).frame(), 0)).collect();
    // All before the timer has its turn.
    runner.run(&packets, Nanos(START));
    advance(&mut runner, START + 10 * SECOND);
    collector.collect(&runner);
    let lost = 490;
    assert_eq!(collector.flows.len() as u32, all - lost);
    let told = &report(&runner)["ipfix"];
    let not_sent = serde_json::json!({"flows": lost, "packets": lost, "octets": lost * 86});
    assert_eq!((&told["not_sent"], told["waiting"].as_u64()), (&not_sent, Some(0)));
    let last = collector.statistics.last().expect("templates every 5 s");
    assert_eq!(last.get("NotSentFlowTotalCount"), u64::from(lost));
    assert_eq!(last.get("NotSentPacketTotalCount"), u64::from(lost));
    assert_eq!(last.get("NotSentOctetTotalCount"), u64::from(lost) * 86);
    let reasons: BTreeSet<u64> = collector.flows.iter().map(|record| record.get("FlowEndReason")).collect();
    assert_eq!(reasons, BTreeSet::from([1, 5]));
}

#[test]
fn a_call_does_a_bounded_piece() {
    let mut runner = exporting(50_000, V4);
    let packets: Vec<TestPacket> = (0..50_000).map(|n| TestPacket::new(flow(n).frame(), 0)).collect();
    runner.run(&packets, Nanos(START));
    let mut calls = 0;
    let mut collector = Collector::new(V4);
    while let Some(deadline) = runner.host().deadline().filter(|_| collector.flows.len() < 50_000) {
        let before = runner.host().emitted().len();
        runner.timer(deadline);
        assert!(runner.host().emitted().len() - before <= MESSAGES);
        collector.collect(&runner);
        calls += 1;
        assert!(calls < 10_000, "it goes on");
    }
    // 10 records fit a message: idle flows need 5,000 messages.
    assert!(calls >= 50_000 / 10 / MESSAGES);
    assert_eq!(collector.flows.len(), 50_000);
}

/// A capture that is read as fast as it goes: the host's clock hardly moves, and its packets say when it was.
#[test]
fn recorded_time_is_the_time_of_records_and_at_the_end_everything_is_exported() {
    const RECORDED: u64 = 1_200_000_000 * SECOND;
    let (mut runner, mut collector) = (exporting(10, V4), Collector::new(V4));
    let packet = |n: u32, ms: u64| {
        let mut packet = TestPacket::new(flow(n).frame(), 0);
        packet.record.timestamp = RECORDED + ms * MILLISECOND;
        packet
    };
    // Flow 1 rests for longer than the idle timeout, once within a batch; flow 2 is what comes last.
    runner.run(&[packet(1, 0), packet(1, 500), packet(2, 60_000), packet(1, 61_000)], Nanos(START));
    runner.run(&[packet(1, 3_600_000), packet(2, 3_600_500)], Nanos(START + MILLISECOND));
    while runner.finish(Nanos(START + 2 * MILLISECOND)) {}
    collector.collect(&runner);
    let mut read: Vec<_> = collector
        .flows
        .iter()
        .map(|record| {
            let ms = |name| record.get(name) - RECORDED / MILLISECOND;
            let (start, end) = (ms("FlowStartMilliseconds"), ms("FlowEndMilliseconds"));
            (start, end, record.get("PacketDeltaCount"), record.get("FlowEndReason"))
        })
        .collect();
    read.sort_unstable();
    let idle_and_forced = [
        (0, 500, 2, 1),
        (60_000, 60_000, 1, 1),
        (61_000, 61_000, 1, 1),
        (3_600_000, 3_600_000, 1, 4),
        (3_600_500, 3_600_500, 1, 4),
    ];
    assert_eq!(read, idle_and_forced);
    let report = report(&runner);
    assert_eq!(
        (&report["since_ns"], &report["until_ns"]),
        (&RECORDED.into(), &(RECORDED + 3_600_500 * MILLISECOND).into())
    );
    assert!(!runner.finish(Nanos(START + 3 * MILLISECOND)), "nothing is left");
}

#[test]
fn without_packets_the_timer_rests() {
    let mut runner = exporting(10, V4);
    assert_eq!(runner.host().deadline(), None);
    runner.run(&[TestPacket::new(flow(1).frame(), 0)], Nanos(START));
    advance(&mut runner, START + 6 * SECOND);
    let mut calls = 0;
    while let Some(deadline) = runner.host().deadline().filter(|deadline| deadline.0 < START + 106 * SECOND) {
        runner.timer(deadline);
        calls += 1;
    }
    // Every 5 s, for the templates.
    assert!((19..=21).contains(&calls), "{calls}");
    // The next packet wakes it.
    runner.run(&[TestPacket::new(flow(1).frame(), 0)], Nanos(START + 106 * SECOND));
    assert!(runner.host().deadline() <= Some(Nanos(START + 107 * SECOND)));
}

#[test]
fn what_another_instance_saw_is_not_exported_here() {
    let mut from = exporting(10, V4);
    let packets: Vec<TestPacket> = (0..5).map(|n| TestPacket::new(flow(n).frame(), 0)).collect();
    from.run(&packets, Nanos(START));
    let state = from.export_state().expect("offered");
    let (mut to, mut collector) = (exporting(10, V4), Collector::new(V4));
    to.run(&packets[..2], Nanos(START + SECOND));
    assert!(to.import_state(&state));
    to.run(&packets[1..4], Nanos(START + 2 * SECOND));
    advance(&mut to, START + 9 * SECOND);
    collector.collect(&to);
    let mut read: Vec<(IpAddr, u64, u64)> = collector
        .flows
        .iter()
        .map(|record| (record.ends[0], record.get("PacketDeltaCount"), record.get("FlowStartMilliseconds")))
        .collect();
    read.sort();
    let at = |seconds: u64| (START + seconds * SECOND) / MILLISECOND;
    let source = |n: u32| flow(n).source.0;
    let wanted = [(source(0), 1, at(1)), (source(1), 2, at(1)), (source(2), 1, at(2)), (source(3), 1, at(2))];
    assert_eq!(read, wanted);
}

#[test]
fn lines_are_logged_beside() {
    let bytes = ConfigValue::map([
        ("flows", ConfigValue::Integer(10)),
        ("top", ConfigValue::Integer(3)),
        ("bidirectional", ConfigValue::Boolean(false)),
        ("interval", ConfigValue::Integer(3 * SECOND as i64)),
        ("ipfix", ipfix(V4, &[])),
    ])
    .to_cbor();
    let mut runner = Runner::<Monitor>::new(&bytes).expect("good");
    runner.run(&[TestPacket::new(flow(1).frame(), 0)], Nanos(START));
    advance(&mut runner, START + 31 * SECOND);
    assert_eq!(runner.host().log().len(), 10);
}

#[test]
fn contradictions_are_told() {
    let refused = |flows: Vec<u8>| Runner::<Monitor>::new(&flows).err().expect("a contradiction").to_string();
    assert_eq!(
        refused(config(10, true, ipfix(V4, &[]))),
        "ipfix: each direction is exported as a flow of its own; allowed: with `bidirectional: false`"
    );
    assert_eq!(
        refused(config(10, false, ipfix([V4[0], V6[1]], &[]))),
        "ipfix: collector is IPv6 and source IPv4; allowed: both of one family"
    );
    for (key, wrong, allowed) in [
        ("collector_port", 0, "1 to 65535"),
        ("source_port", 65_536, "1 to 65535"),
        ("domain", 1 << 32, "0 to 4294967295"),
        ("active_timeout", SECOND as i64 - 1, "1000000000 to 1800000000000"),
        ("idle_timeout", 601 * SECOND as i64, "1000000000 to 600000000000"),
        ("template_refresh", 0, "1000000000 to 86400000000000"),
        ("mtu", 575, "576 to 9000"),
        ("mtu", 9001, "576 to 9000"),
    ] {
        let config = config(10, false, ipfix(V4, &[(key, ConfigValue::Integer(wrong))]));
        assert_eq!(refused(config), format!("ipfix: {key}: {wrong}; allowed: {allowed}"));
    }
}

#[test]
fn a_flow_that_began_at_time_zero_began_then() {
    let (mut runner, mut collector) = (exporting(10, V4), Collector::new(V4));
    let ends = [("10.0.0.1", 1), ("10.0.0.2", 2)]
        .map(|(address, port)| (address.parse().expect("an address"), port));
    let sent = Sent { protocol: 17, source: ends[0], destination: ends[1], length: 60 };
    // Padding is what a flow's counts alone do not say.
    for (time, padding) in [(1, 0), (5 * MILLISECOND, 9)] {
        let mut frame = sent.frame();
        frame.resize(frame.len() + padding, 0);
        runner.run(&[TestPacket::new(frame, 0)], Nanos(time));
    }
    advance(&mut runner, 20 * SECOND);
    collector.collect(&runner);
    let starts: Vec<u64> = collector.flows.iter().map(|record| record.get("FlowStartMilliseconds")).collect();
    assert_eq!(starts, [0]);
}
