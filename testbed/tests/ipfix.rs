//! The flows that `monitor` exports, at a collector: nfcapd of nfdump, which the kernel hands the frames'
//! datagrams.

use monitor::Monitor;
use nf_sdk::Nanos;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use port::Port;
use port_af_packet::{AfPacketPort, Settings};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::clock::Nanos as Time;
use testbed::{Namespace, isolated};

const LIMIT: Duration = Duration::from_secs(10);
const COLLECTOR: &str = "192.0.2.9";
const COLLECTOR_MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
const SECOND: u64 = 1_000_000_000;

fn config() -> Vec<u8> {
    let address = |text: &str| ConfigValue::Address(text.parse().expect("an address"));
    let number = |number: u64| ConfigValue::Integer(number as i64);
    let ipfix = ConfigValue::map([
        ("collector", address(COLLECTOR)),
        ("collector_port", number(4739)),
        ("source", address("192.0.2.1")),
        ("source_port", number(4739)),
        ("collector_mac", ConfigValue::Mac(COLLECTOR_MAC)),
        ("source_mac", ConfigValue::Mac([2, 0, 0, 0, 1, 1])),
        ("domain", number(5)),
        ("active_timeout", number(60 * SECOND)),
        ("idle_timeout", number(SECOND)),
        ("template_refresh", number(2 * SECOND)),
        ("mtu", number(1400)),
    ]);
    // Fewer places than flows, so that some have to leave.
    let keys = [
        ("flows", number(150)),
        ("top", number(1)),
        ("bidirectional", ConfigValue::Boolean(false)),
        ("ipfix", ipfix),
    ];
    ConfigValue::map(keys).to_cbor()
}

/// A UDP packet of flow `n`; one in four is of IPv6.
fn frame(n: u16, data: usize) -> (IpAddr, Vec<u8>) {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let length = (8 + data) as u16;
    let source: IpAddr = if n.is_multiple_of(4) {
        let source = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n);
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([17, 64]);
        frame.extend(source.octets());
        frame.extend(std::net::Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1).octets());
        source.into()
    } else {
        let source = std::net::Ipv4Addr::new(10, 0, (n >> 8) as u8, n as u8);
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((20 + length).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend(source.octets());
        frame.extend([10, 9, 9, 9]);
        source.into()
    };
    frame.extend(1000u16.to_be_bytes());
    frame.extend(53u16.to_be_bytes());
    frame.extend(length.to_be_bytes());
    frame.resize(frame.len() + 2 + data, 0);
    (source, frame)
}

/// Packets and octets by source.
type Sums = BTreeMap<IpAddr, (u64, u64)>;

/// Shows the function some traffic and lets it export all of it; what was sent.
fn traffic(runner: &mut Runner<Monitor>) -> Sums {
    let start = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let (mut sums, mut now) = (Sums::new(), start);
    for round in 0..30u16 {
        for n in (0..200).filter(|n| (n + round) % 7 != 0) {
            let (source, frame) = frame(n, usize::from(n + round));
            let sum = sums.entry(source).or_default();
            *sum = (sum.0 + 1, sum.1 + frame.len() as u64 - 14);
            runner.run(&[TestPacket::new(frame, 0)], Nanos(now));
            now += 100_000;
        }
        now += SECOND / 5;
        advance(runner, now);
    }
    advance(runner, now + 5 * SECOND);
    sums
}

fn advance(runner: &mut Runner<Monitor>, until: u64) {
    while let Some(deadline) = runner.host().deadline().filter(|deadline| deadline.0 <= until) {
        runner.timer(deadline);
    }
}

/// Sends frames out of an interface.
fn send(interface: &str, frames: &[Vec<u8>]) {
    let config = PoolConfig {
        buffers: 512,
        buffer_size: BufferSize::DEFAULT,
        headroom: 128,
        pages: Some(PageKind::Ordinary),
    };
    let pool = Pool::new("testbed", config).expect("a small pool");
    let mut port = AfPacketPort::open(Settings::new(interface)).expect("it is there");
    for frames in frames.chunks(32) {
        let mut batch = Vec::new();
        pool.allocate_batch(frames.len(), &mut batch);
        for (packet, frame) in batch.iter_mut().zip(frames) {
            pool.write(packet, frame).expect("it fits");
        }
        port.transmit(&pool, Time(0), &mut batch);
        assert!(batch.is_empty());
        // The collector reads at its leisure.
        thread::sleep(Duration::from_millis(5));
    }
    port.maintain(Time(0));
    thread::sleep(Duration::from_millis(50));
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What the collector wrote, flow by flow.
fn read(host: &Namespace, folder: &Path) -> Vec<serde_json::Value> {
    let command = format!("nfdump -R {} -o json", folder.display());
    let text = host.run(&command, LIMIT).expect("nfdump").stdout;
    serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn nfcapd_has_every_packet_once() {
    isolated("nfcapd_has_every_packet_once", || {
        let (here, collector) =
            (Namespace::here().expect("the own"), Namespace::new().expect("another host"));
        here.join("sf-export", &collector, "lan").expect("a veth pair");
        collector.ip("link set lan address 02:00:00:00:09:09").expect("an address");
        collector.ip(&format!("address add {COLLECTOR}/24 dev lan")).expect("an address");
        let folder = tempfile::tempdir().expect("a folder");
        let mut nfcapd = collector
            .command("nfcapd")
            .args(["-p", "4739", "-t", "3600", "-w"])
            .arg(folder.path())
            .spawn()
            .expect("nfcapd, of the package nfdump");
        // 4739, as the kernel writes it.
        let listens =
            || std::fs::read_to_string("/proc/thread-self/net/udp").expect("a table").contains(":1283 ");
        until("nfcapd listens", || collector.enter(listens));

        let mut runner = Runner::<Monitor>::new(&config()).expect("a good configuration");
        let sent = traffic(&mut runner);
        let frames: Vec<Vec<u8>> =
            runner.host().emitted().iter().map(|packet| packet.bytes.clone().expect("its own")).collect();
        send("sf-export", &frames);

        kill_process(Pid::from_child(&nfcapd), Signal::TERM).expect("it runs");
        until("nfcapd ends", || nfcapd.try_wait().expect("its end").is_some());
        let flows = read(&here, folder.path());
        let mut seen = Sums::new();
        for flow in &flows {
            let text = |keys: [&str; 2]| keys.iter().find_map(|key| flow[*key].as_str()).map(str::to_owned);
            let source = text(["src4_addr", "src6_addr"]).unwrap_or_else(|| panic!("{flow}"));
            let number = |key: &str| flow[key].as_u64().unwrap_or_else(|| panic!("{key} of {flow}"));
            let sum = seen.entry(source.parse().expect("an address")).or_default();
            *sum = (sum.0 + number("in_packets"), sum.1 + number("in_bytes"));
            assert_eq!((number("src_port"), number("dst_port"), number("proto")), (1000, 53, 17));
            assert_eq!(number("input_snmp"), 1);
        }
        assert_eq!(seen, sent);
        println!("{} flows in {} messages", flows.len(), frames.len());
    });
}
