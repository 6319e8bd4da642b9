//! The AF_XDP port on veth pairs, with the kernel's own traffic.

use clock::{Clock, Nanos};
use nf_abi::offload;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortEvent, PortStatus};
use port_af_xdp::{AfXdpPort, Mode, OpenError, Settings, UmemChoice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use rustix::time::{ClockId, clock_gettime};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use telemetry::DropReason;
use testbed::{Account, Background, CLIENT, Line, Relay, RunningRelay, SERVER};

const SECOND: Duration = Duration::from_secs(1);

/// Runs `body` in namespaces of its own. AF_XDP is for the host's root alone: for anybody else the test is whether the port
/// says so.
fn privileged(test: &str, body: impl FnOnce()) {
    testbed::isolated(test, || {
        let map = std::fs::read_to_string("/proc/self/uid_map").expect("who is who here");
        if map.split_whitespace().eq(["0", "0", "4294967295"]) {
            return body();
        }
        let _line = Line::new().expect("a line");
        let refused = AfXdpPort::open(Settings::new("sf-lan"), small()).err().expect("not for anybody");
        assert!(refused.to_string().contains("not of a user namespace (it has them"), "{refused}");
    });
}

fn pool(buffers: u32, buffer_size: BufferSize) -> Arc<Pool> {
    let config = PoolConfig { buffers, buffer_size, headroom: 128, pages: Some(PageKind::Ordinary) };
    Arc::new(Pool::new("testbed", config).expect("a small pool"))
}

fn small() -> Arc<Pool> {
    pool(2048, BufferSize::DEFAULT)
}

fn open(name: &str, pool: &Arc<Pool>) -> AfXdpPort {
    open_with(Settings::new(name), pool)
}

fn open_with(settings: Settings, pool: &Arc<Pool>) -> AfXdpPort {
    AfXdpPort::open(settings, Arc::clone(pool)).unwrap_or_else(|error| panic!("{error}"))
}

fn start(pool: &Arc<Pool>) -> RunningRelay {
    start_with(pool, |_| {})
}

fn start_with(pool: &Arc<Pool>, change: impl Fn(&mut Settings)) -> RunningRelay {
    let ports = ["sf-lan", "sf-wan"].map(|name| -> Box<dyn Port> {
        let mut settings = Settings::new(name);
        change(&mut settings);
        Box::new(open_with(settings, pool))
    });
    Relay::between(Arc::clone(pool), ports).start()
}

/// What is true of every relay at its end.
fn audit(account: &Account) {
    let [lan, wan] = &account.ports;
    let mut ledger = lan.ledger.clone();
    ledger.merge(&wan.ledger);
    ledger.balance(0).unwrap_or_else(|imbalance| panic!("{imbalance}: {account:?}"));
    assert_eq!(account.leaked, 0, "buffers were lost: {account:?}");
}

fn detail(details: &[(&'static str, u64)], name: &str) -> u64 {
    details.iter().find(|(known, _)| *known == name).map(|(_, count)| *count).expect("a detail of this name")
}

fn notices(events: &[PortEvent]) -> Vec<&str> {
    let mut words = Vec::new();
    for event in events {
        if let PortEvent::Notice(notice) = event {
            words.push(notice.as_str());
        }
    }
    words
}

/// Bytes that no two places of the stream share by accident.
fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

/// An iperf3 that listens already. It was not connected to, which it would have to get over first.
fn iperf3_server(line: &Line) -> Background {
    let mut server = line.server.command("iperf3");
    let server = Background::start(server.args(["--server", "--forceflush"])).expect("iperf3");
    wait_for(|| {
        let table = line.server.enter(|| std::fs::read_to_string("/proc/thread-self/net/tcp6"));
        // Port 5201.
        table.is_ok_and(|table| table.contains(":1451 "))
    });
    server
}

/// Sends `length` bytes from the client to the server, back again, and compares.
fn echo(line: &Line, length: usize) {
    let sent = pattern(length);
    let listener = line.server.enter(|| TcpListener::bind((SERVER, 7000)).expect("a free port"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut all = vec![0; length];
            stream.set_read_timeout(Some(SECOND * 10)).expect("a valid limit");
            stream.read_exact(&mut all).expect("the stream from the client");
            stream.write_all(&all).expect("the way back");
        });
        let mut stream = line
            .client
            .enter(|| {
                TcpStream::connect_timeout(&format!("{SERVER}:7000").parse().expect("an address"), SECOND * 5)
            })
            .expect("a connection");
        stream.set_read_timeout(Some(SECOND * 10)).expect("a valid limit");
        stream.write_all(&sent).expect("the stream to the server");
        let mut received = vec![0; length];
        stream.read_exact(&mut received).expect("the stream from the server");
        assert!(sent == received, "the bytes changed on their way");
    });
}

/// No receiver has dropped a TCP segment for its checksum.
fn assert_checksums_were_right(line: &Line) {
    for host in [&line.client, &line.server] {
        let table = host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).expect("statistics");
        let tcp: Vec<&str> = table.lines().filter(|row| row.starts_with("Tcp:")).collect();
        let column = tcp[0].split(' ').position(|name| name == "InCsumErrors").expect("the column");
        assert_eq!(tcp[1].split(' ').nth(column), Some("0"), "{table}");
    }
}

/// Receives until there are `wanted` packets; fails after a second.
fn receive(port: &mut AfXdpPort, pool: &Pool, wanted: usize) -> Vec<Packet> {
    let (clock, begin, mut packets) = (Clock::calibrate(), Instant::now(), Vec::new());
    while packets.len() < wanted {
        assert!(begin.elapsed() < SECOND, "{} of {wanted} packets came", packets.len());
        port.receive(pool, clock.now(), 64, &mut packets);
        thread::sleep(Duration::from_micros(200));
    }
    packets
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < SECOND * 5, "it did not come to pass");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Looks after the port until it is up; what happened meanwhile. The kernel says a moment late that a new interface has
/// a carrier.
fn come_up(port: &mut AfXdpPort) -> Vec<PortEvent> {
    let mut events = Vec::new();
    wait_for(|| {
        events.extend(port.maintain(Nanos(0)));
        port.status() == PortStatus::Up
    });
    events
}

/// Events that change a port's state.
fn changes(events: &[PortEvent]) -> Vec<PortEvent> {
    events.iter().filter(|event| !matches!(event, PortEvent::Notice(_))).cloned().collect()
}

fn send(
    port: &mut AfXdpPort,
    pool: &Pool,
    frames: &[Vec<u8>],
    change: impl Fn(usize, &mut nf_abi::PacketRecord),
) {
    let mut packets = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, frame).expect("it fits");
        packet.edit(|record| change(n, record));
        packets.push(packet);
    }
    port.transmit(pool, Nanos(0), &mut packets);
    assert!(packets.is_empty());
}

/// A broadcast frame of the local experimental type (IEEE 802, 0x88b5).
fn frame(length: usize) -> Vec<u8> {
    let mut frame = pattern(length);
    let header = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
    let count = length.min(14);
    frame[..count].copy_from_slice(&header[..count]);
    frame
}

/// Whether the kernel says that an XDP program hangs on the interface.
fn is_attached(line: &Line, name: &str) -> bool {
    let output = line.middle.run(&format!("ip link show {name}"), SECOND * 5).expect("it is there");
    output.stdout.contains("xdp")
}

#[test]
fn ping_passes_both_ways() {
    privileged("ping_passes_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(&small());
        let mut outputs = Vec::new();
        for (host, to) in [(&line.client, SERVER), (&line.server, CLIENT)] {
            // With a deadline, ping waits for its last answer longer than for twice a round trip.
            let output = host.run(&format!("ping -c 10 -i 0.05 -w 5 {to}"), SECOND * 10).expect("ping");
            println!("{}", output.stdout.lines().last().unwrap_or_default());
            outputs.push(output.stdout);
        }
        let account = relay.stop();
        audit(&account);
        for output in outputs {
            assert!(output.contains(" 0% packet loss"), "{output}{account:?}");
        }
        // Ten requests, ten answers, twice; and the address resolution before them.
        for port in &account.ports {
            assert!(port.ledger.delivered >= 20, "{account:?}");
            assert_eq!((port.ledger.dropped.total(), port.kernel_lost), (0, 0), "{account:?}");
        }
        assert_eq!(account.ports[0].ledger.received, account.ports[1].ledger.delivered);
        assert_eq!(account.ports[0].received_bytes, account.ports[1].delivered_bytes);
        // A veth pair has no zero-copy: what was tried, what the kernel said, what is used, what would be better.
        for events in &account.events {
            let told = notices(events).join("\n");
            for words in
                ["refused: zero_copy (binding", "not supported", "native is used instead", "saves that"]
            {
                assert!(told.contains(words), "{words}: {told}");
            }
        }
    });
}

/// TCP through a relay between hosts that leave their checksums to their interfaces.
fn tcp_passes(change: impl Fn(&mut Settings), pool: &Arc<Pool>, bytes: usize) -> Account {
    let line = Line::new().expect("a line");
    let relay = start_with(pool, change);
    echo(&line, bytes);
    let account = relay.stop();
    audit(&account);
    assert_checksums_were_right(&line);
    for details in &account.details {
        assert!(detail(details, "unfinished_checksums") > 100, "{account:?}");
    }
    account
}

#[test]
fn tcp_passes_though_its_checksums_come_unfinished() {
    privileged("tcp_passes_though_its_checksums_come_unfinished", || {
        let account = tcp_passes(|_| {}, &small(), 16 << 20);
        assert_eq!(account.segmented, 0);
        assert!(account.longest <= 1514, "{account:?}");
    });
}

#[test]
fn iperf3_runs_both_ways() {
    privileged("iperf3_runs_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(&small());
        let server = iperf3_server(&line);
        for direction in ["", "--reverse"] {
            let command = format!("iperf3 --client {SERVER} --time 1 --format m {direction}");
            let output = line.client.run(&command, SECOND * 10).expect("iperf3");
            let summary = output.stdout.lines().find(|row| row.contains("receiver")).expect("a summary");
            println!("{summary}");
        }
        drop(server);
        let account = relay.stop();
        audit(&account);
        assert!(account.ports.iter().all(|port| port.delivered_bytes > 10 << 20), "{account:?}");
    });
}

#[test]
fn memory_of_its_own_does_as_well() {
    privileged("memory_of_its_own_does_as_well", || {
        let account = tcp_passes(|settings| settings.umem = UmemChoice::Own, &small(), 4 << 20);
        let told = account.events.iter().flat_map(|events| notices(events));
        assert!(!told.clone().any(|words| words.contains("own")), "it was asked for: {told:?}");
    });
}

#[test]
fn buffers_larger_than_a_page_are_lent_as_they_are() {
    privileged("buffers_larger_than_a_page_are_lent_as_they_are", || {
        let account = tcp_passes(|_| {}, &pool(512, BufferSize::LARGEST), 4 << 20);
        let told = account.events.iter().flat_map(|events| notices(events)).collect::<Vec<_>>().join("\n");
        assert!(!told.contains("own"), "the pool itself is the memory: {told}");
    });
}

#[test]
fn generic_mode_passes_what_its_other_end_has_cut() {
    privileged("generic_mode_passes_what_its_other_end_has_cut", || {
        let line = Line::new().expect("a line");
        let relay = start_with(&small(), |settings| settings.mode = Some(Mode::Generic));
        for host in [&line.client, &line.server] {
            host.run("ethtool -K eth0 tso off gso off", SECOND * 5).expect("the command of the notice");
        }
        echo(&line, 2 << 20);
        let account = relay.stop();
        audit(&account);
        assert_checksums_were_right(&line);
        let told = notices(&account.events[0]).join("\n");
        assert!(told.contains("`ethtool -K IF tso off gso off`"), "{told}");
    });
}

#[test]
fn each_queue_has_a_socket_and_each_flow_a_queue() {
    privileged("each_queue_has_a_socket_and_each_flow_a_queue", || {
        let line = Line::new().expect("a line");
        line.middle.ip("link del sf-lan").expect("it goes");
        line.middle.join_wide("sf-lan", &line.client, "eth0", 4).expect("a wide line");
        let pool = small();
        let mut near = open("sf-lan", &pool);
        let mut far = line.client.enter(|| open("eth0", &pool));
        // 64 flows of 16 packets, one packet of each after the other.
        let frames: Vec<Vec<u8>> = (0..1024u32)
            .map(|n| {
                let mut bytes = frame(60);
                bytes[14..18].copy_from_slice(&n.to_be_bytes());
                bytes
            })
            .collect();
        let mut packets = Vec::new();
        for (n, part) in frames.chunks(256).enumerate() {
            send(&mut near, &pool, part, |k, record| record.flow_hash = ((n * 256 + k) as u32 % 64) << 26);
            packets.extend(receive(&mut far, &pool, part.len()));
        }
        let number = |packet: &Packet| {
            let bytes = pool.to_vec(packet);
            u32::from_be_bytes(*bytes[14..].first_chunk().expect("a number"))
        };
        let numbers: Vec<u32> = packets.iter().map(number).collect();
        pool.free_batch(packets);
        for flow in 0..64 {
            let order: Vec<u32> = numbers.iter().copied().filter(|n| n % 64 == flow).collect();
            assert_eq!(order, (0..16).map(|n| n * 64 + flow).collect::<Vec<_>>());
        }
        assert_eq!(far.counters().ledger.received, 1024);
        far.close(&pool).expect("nothing to write");
        drop(far);

        // A port that takes one queue alone sees a quarter of the flows; the rest is the kernel's.
        let settings = Settings { queues: Some(vec![2]), ..Settings::new("eth0") };
        let mut third = line.client.enter(|| open_with(settings, &pool));
        send(&mut near, &pool, &frames[..64], |n, record| record.flow_hash = (n as u32) << 26);
        let packets = receive(&mut third, &pool, 16);
        let mut numbers: Vec<u32> = packets.iter().map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (32..48).collect::<Vec<_>>());
        pool.free_batch(packets);
        near.close(&pool).expect("nothing to write");
        third.close(&pool).expect("nothing to write");
        assert_eq!(pool.available(), 2048);
    });
}

#[test]
fn traffic_of_many_flows_comes_by_several_queues() {
    privileged("traffic_of_many_flows_comes_by_several_queues", || {
        let line = Line::new().expect("a line");
        line.middle.ip("link del sf-lan").expect("it goes");
        line.middle.join_wide("sf-lan", &line.client, "eth0", 4).expect("a wide line");
        line.client.ip(&format!("addr add {CLIENT}/24 dev eth0")).expect("an address");
        let relay = start(&small());
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9)).expect("a socket"));
        server.set_read_timeout(Some(SECOND * 2)).expect("a valid limit");
        for n in 0..64u8 {
            let client = line.client.enter(|| UdpSocket::bind((CLIENT, 0)).expect("a socket"));
            client.send_to(&[n; 100], (SERVER, 9)).expect("a datagram");
            let mut bytes = [0; 200];
            assert_eq!(server.recv(&mut bytes).expect("the datagram"), 100);
            assert_eq!(bytes[..100], [n; 100]);
        }
        audit(&relay.stop());
    });
}

#[test]
fn queues_take_turns() {
    privileged("queues_take_turns", || {
        let line = Line::new().expect("a line");
        line.middle.ip("link del sf-lan").expect("it goes");
        line.middle.join_wide("sf-lan", &line.client, "eth0", 4).expect("a wide line");
        let pool = small();
        let (mut near, mut far) = (open("sf-lan", &pool), line.client.enter(|| open("eth0", &pool)));
        // 100 packets wait in the first queue, 10 in the second and none in the others. The length tells the queue.
        for (queue, count) in [(0u32, 100), (1, 10)] {
            let frames = vec![frame(60 + queue as usize); count];
            send(&mut near, &pool, &frames, |_, record| record.flow_hash = queue << 30 | 1);
        }
        wait_for(|| {
            near.maintain(Nanos(0));
            near.in_flight() == 0
        });
        let mut packets = Vec::new();
        far.receive(&pool, Nanos(0), 64, &mut packets);
        let of =
            |packets: &[Packet], length| packets.iter().filter(|packet| packet.length() == length).count();
        assert_eq!(of(&packets, 61), 10, "those of the quiet queue do not wait");
        assert!(of(&packets, 60) >= 16);
        let mut rounds = 0;
        while of(&packets, 60) < 100 {
            rounds += 1;
            assert!(rounds < 10, "what others leave of their part of the budget is used");
            far.receive(&pool, Nanos(0), 64, &mut packets);
        }
        pool.free_batch(packets);
    });
}

#[test]
fn a_flood_is_accounted_for() {
    privileged("a_flood_is_accounted_for", || {
        let line = Line::new().expect("a line");
        for umem in [UmemChoice::Pool, UmemChoice::Own] {
            let relay = start_with(&pool(256, BufferSize::DEFAULT), |settings| {
                (settings.umem, settings.receive_ring, settings.transmit_ring) = (umem, 64, 64);
            });
            let command = format!("iperf3 --client {SERVER} --udp --bitrate 0 --length 64 --time 1");
            let server = iperf3_server(&line);
            // Whether iperf3 finds its way through such losses is not the question.
            let _ = line.client.run(&command, SECOND * 10);
            drop(server);
            let account = relay.stop();
            audit(&account);
            let [lan, _] = &account.ports;
            assert!(lan.ledger.received > 1000, "{account:?}");
        }
    });
}

#[test]
fn a_burst_is_one_system_call() {
    privileged("a_burst_is_one_system_call", || {
        let line = Line::new().expect("a line");
        let (pool, sender_pool) = (pool(8192, BufferSize::DEFAULT), small());
        let (mut lan, mut wan) = (open("sf-lan", &pool), open("sf-wan", &pool));
        let mut sender = line.client.enter(|| open("eth0", &sender_pool));
        let mut unicast = frame(60);
        unicast[..6].copy_from_slice(&[2, 0, 0, 0, 0, 77]);
        let stop = AtomicBool::new(false);
        let (mut bursts, mut packets) = (0, Vec::with_capacity(64));
        let begin = Instant::now();
        let (time, received) = thread::scope(|scope| {
            scope.spawn(|| {
                let burst = vec![unicast.clone(); 64];
                while !stop.load(Ordering::Relaxed) {
                    send(&mut sender, &sender_pool, &burst, |_, _| {});
                }
            });
            let before = clock_gettime(ClockId::ThreadCPUTime);
            while begin.elapsed() < SECOND {
                lan.receive(&pool, Nanos(0), 64, &mut packets);
                if packets.is_empty() {
                    let wake = lan.wake().readable.expect("a descriptor");
                    let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                    poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&limit))
                        .expect("a sleep");
                } else {
                    bursts += 1;
                    wan.transmit(&pool, Nanos(0), &mut packets);
                }
            }
            let after = clock_gettime(ClockId::ThreadCPUTime);
            stop.store(true, Ordering::Relaxed);
            let nanos = |time: Timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
            (nanos(after) - nanos(before), lan.counters().ledger.received)
        });
        println!(
            "{received} packets in {bursts} bursts, {} ns of processor time each, sleep and wake included",
            time / received.max(1) as i64
        );
        wan.maintain(Nanos(0));
        let kicks = detail(&wan.details(), "kicks");
        // Before Linux 6.17 a call takes 32 packets.
        assert!(kicks >= bursts && kicks <= 3 * bursts + 10, "{kicks} calls for {bursts} bursts");
        for port in [&mut lan, &mut wan] {
            port.close(&pool).expect("nothing to write");
        }
        let mut ledger = lan.counters().ledger.clone();
        ledger.merge(&wan.counters().ledger);
        ledger.balance(0).expect("every packet is accounted for");
        assert!(wan.counters().ledger.delivered > 1000);
        assert_eq!(pool.available(), 8192);
    });
}

/// Names the interface that [`holds_a_port_until_it_is_killed`] is to hold, in the environment of that process.
const HELD: &str = "SUPERFLUID_TESTBED_HELD";

/// Not a test of its own: the process that the next one kills.
#[test]
fn holds_a_port_until_it_is_killed() {
    if let Ok(interface) = std::env::var(HELD) {
        let _port = open(&interface, &small());
        thread::sleep(SECOND * 20);
    }
}

#[test]
fn a_killed_process_leaves_nothing_attached() {
    privileged("a_killed_process_leaves_nothing_attached", || {
        let line = Line::new().expect("a line");
        let own = std::env::current_exe().expect("the test's own path");
        let mut holder = line.middle.command(&own.to_string_lossy());
        holder.args(["--exact", "holds_a_port_until_it_is_killed"]).env(HELD, "sf-lan");
        let holder = Background::start(&mut holder).expect("a process");
        wait_for(|| is_attached(&line, "sf-lan"));
        drop(holder);
        wait_for(|| !is_attached(&line, "sf-lan"));
        // The queue is free again as well, which takes the kernel a moment.
        open("sf-lan", &small());
    });
}

#[test]
fn a_pool_is_never_lent_away() {
    privileged("a_pool_is_never_lent_away", || {
        let line = Line::new().expect("a line");
        let pool = pool(256, BufferSize::DEFAULT);
        let lan = open("sf-lan", &pool);
        assert_eq!(pool.available(), 192, "a quarter, though the ring could hold more");
        let wan = open_with(Settings { receive_ring: 32, ..Settings::new("sf-wan") }, &pool);
        assert_eq!(pool.available(), 160, "what the setting says");
        drop(wan);
        // Half of it to send: a burst that is longer goes out in parts.
        let mut lan = lan;
        let mut far = line.client.enter(|| open("eth0", &small()));
        send(&mut lan, &pool, &vec![frame(60); 190], |_, _| {});
        far.maintain(Nanos(0));
        lan.maintain(Nanos(0));
        let ledger = &lan.counters().ledger;
        assert_eq!((ledger.delivered + lan.in_flight(), ledger.dropped.total()), (190, 0));
        lan.close(&pool).expect("nothing to write");
        assert_eq!(lan.counters().ledger.delivered, 190);
        drop(lan);
        assert_eq!(pool.available(), 256);
    });
}

#[test]
fn what_comes_while_no_buffer_is_there_is_counted() {
    privileged("what_comes_while_no_buffer_is_there_is_counted", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut receiver = open_with(Settings { receive_ring: 64, ..Settings::new("sf-lan") }, &pool);
        let mut sender = line.client.enter(|| open("eth0", &pool));
        for _ in 0..100 {
            send(&mut sender, &pool, &vec![frame(1000); 10], |_, _| {});
        }
        wait_for(|| {
            sender.maintain(Nanos(0));
            sender.in_flight() == 0
        });
        assert_eq!(sender.counters().ledger.delivered, 1000);
        let mut packets = Vec::new();
        wait_for(|| {
            receiver.receive(&pool, Nanos(0), 64, &mut packets);
            pool.free_batch(packets.drain(..));
            receiver.maintain(Nanos(0));
            let counters = receiver.counters();
            counters.kernel_lost > 900 && counters.ledger.received + counters.kernel_lost == 1000
        });
        assert_eq!(
            detail(&receiver.details(), "kernel_no_buffer_or_too_long"),
            receiver.counters().kernel_lost
        );
        // The buffers that were used up are lent again.
        send(&mut sender, &pool, &vec![frame(1000); 10], |_, _| {});
        pool.free_batch(self::receive(&mut receiver, &pool, 10));
    });
}

#[test]
fn what_a_closing_port_holds_is_counted() {
    privileged("what_a_closing_port_holds_is_counted", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut receiver = open("sf-lan", &pool);
        let mut sender = line.client.enter(|| open("eth0", &pool));
        send(&mut sender, &pool, &vec![frame(100); 7], |_, _| {});
        wait_for(|| {
            sender.maintain(Nanos(0));
            sender.in_flight() == 0
        });
        receiver.close(&pool).expect("nothing to write");
        let ledger = &receiver.counters().ledger;
        assert_eq!((ledger.received, ledger.dropped[DropReason::HeldAtStop]), (7, 7));
        sender.close(&pool).expect("nothing to write");
        assert_eq!(sender.counters().ledger.delivered, 7);
        assert_eq!(pool.available(), 2048);
        assert!(matches!(receiver.status(), PortStatus::Down(_)));
        assert!(receiver.maintain(Nanos(0)).is_empty(), "closed is no event, and it is not opened again");
    });
}

#[test]
fn nothing_stays_attached() {
    privileged("nothing_stays_attached", || {
        let line = Line::new().expect("a line");
        let pool = small();
        for closes in [true, false] {
            for mode in [Mode::Native, Mode::Generic] {
                let mut port = open_with(Settings { mode: Some(mode), ..Settings::new("sf-lan") }, &pool);
                assert!(is_attached(&line, "sf-lan"), "{mode:?}");
                if closes {
                    port.close(&pool).expect("nothing to write");
                } else {
                    drop(port);
                }
                assert!(!is_attached(&line, "sf-lan"), "{mode:?}");
                assert_eq!(pool.available(), 2048);
            }
        }
        // An attempt that fails leaves nothing either.
        let refused =
            AfXdpPort::open(Settings { mode: Some(Mode::ZeroCopy), ..Settings::new("sf-lan") }, pool);
        let refused = refused.err().expect("a veth has no zero-copy").to_string();
        assert!(
            refused.contains("refused: zero_copy (binding") && refused.contains("not supported"),
            "{refused}"
        );
        assert!(!is_attached(&line, "sf-lan"));
    });
}

#[test]
fn two_ports_on_one_interface_are_one_too_many() {
    privileged("two_ports_on_one_interface_are_one_too_many", || {
        let _line = Line::new().expect("a line");
        let pool = small();
        let _first = open("sf-lan", &pool);
        let refused = AfXdpPort::open(Settings::new("sf-lan"), Arc::clone(&pool)).err();
        assert!(matches!(refused, Some(OpenError::ProgramAttached { .. })), "{refused:?}");
    });
}

#[test]
fn packets_that_cannot_go_out_are_refused_alone() {
    privileged("packets_that_cannot_go_out_are_refused_alone", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = open("sf-lan", &pool);
        let mut far = line.client.enter(|| open("eth0", &pool));
        port.maintain(Nanos(0));
        let mut tagged = frame(1518);
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        let mut longer = frame(1519);
        longer[12..14].copy_from_slice(&[0x81, 0]);
        let frames = [
            frame(60),
            frame(1515),
            vec![7; 13],
            frame(1514),
            tagged.clone(),
            longer,
            frame(14),
            frame(200),
            frame(61),
        ];
        send(&mut port, &pool, &frames, |n, record| {
            if n == 7 {
                (record.gso_type, record.gso_size) = (offload::GSO_TCPV4, 100);
            }
        });
        let packets = receive(&mut far, &pool, 5);
        let lengths: Vec<u32> = packets.iter().map(Packet::length).collect();
        assert_eq!(lengths, [60, 1514, 1518, 14, 61]);
        assert_eq!(pool.to_vec(&packets[2]), tagged, "the tag is where it was");
        pool.free_batch(packets);
        let ledger = &port.counters().ledger;
        assert_eq!((ledger.delivered, ledger.dropped[DropReason::PortRefused]), (5, 4));
        let events = port.maintain(Nanos(0));
        let told = notices(&events);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("a packet of 1515 bytes") && told[0].contains("1500"), "{told:?}");
        assert!(told[1].contains("segments") && told[1].contains("ethtool -K"), "{told:?}");
    });
}

#[test]
fn a_packet_over_the_end_of_a_chunk_goes_out_as_a_copy() {
    privileged("a_packet_over_the_end_of_a_chunk_goes_out_as_a_copy", || {
        let line = Line::new().expect("a line");
        let pool = pool(64, BufferSize::LARGEST);
        let mut port = open("sf-lan", &pool);
        let mut far = line.client.enter(|| open("eth0", &pool));
        let mut packets = Vec::new();
        for offset in [0, 3000, 4090, 4096, 60_000] {
            let mut packet = pool.allocate().expect("a buffer");
            assert!(packet.set_extent(offset, 0, 65_536));
            pool.write(&mut packet, &frame(1000)).expect("it fits");
            packets.push(packet);
        }
        port.transmit(&pool, Nanos(0), &mut packets);
        let packets = receive(&mut far, &pool, 5);
        assert!(packets.iter().all(|packet| pool.to_vec(packet) == frame(1000)));
        pool.free_batch(packets);
        port.close(&pool).expect("nothing to write");
        assert_eq!(port.counters().ledger.delivered, 5);
        far.close(&pool).expect("nothing to write");
        assert_eq!(pool.available(), 64);
    });
}

#[test]
fn a_checksum_left_to_the_port_is_finished() {
    privileged("a_checksum_left_to_the_port_is_finished", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = open("sf-wan", &pool);
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9)).expect("a socket"));
        server.set_read_timeout(Some(SECOND * 2)).expect("a valid limit");
        for length in [0usize, 1, 101, 1400] {
            let payload = pattern(length);
            let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
            let header = packet::ipv4::Repr {
                traffic_class: 0,
                identification: 7,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: 17,
                source: CLIENT.parse().expect("an address"),
                destination: SERVER.parse().expect("an address"),
                options: &[],
                payload_length: 8 + length,
            };
            bytes.resize(34, 0);
            header.emit(&mut bytes[14..]).expect("room");
            bytes.extend([0x30, 0x39, 0, 9]);
            bytes.extend((8 + length as u16).to_be_bytes());
            let pseudo = packet::checksum::Sum::ZERO.add_pseudo_v4(
                header.source,
                header.destination,
                17,
                8 + length as u16,
            );
            bytes.extend(pseudo.folded().to_be_bytes());
            bytes.extend(&payload);
            send(&mut port, &pool, &[bytes], |_, record| {
                record.offload_flags = offload::NEEDS_CHECKSUM;
                (record.csum_start, record.csum_offset) = (34, 6);
            });
            let mut received = vec![0; 2000];
            let count = server.recv(&mut received).expect("the datagram, checksum verified");
            assert_eq!(received[..count], payload);
        }
    });
}

#[test]
fn what_the_interface_drops_is_not_delivered() {
    privileged("what_the_interface_drops_is_not_delivered", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = open("sf-lan", &pool);
        send(&mut port, &pool, &vec![frame(60); 3], |_, _| {});
        // Before anybody looked, the kernel says so of each packet.
        line.client.ip("link set eth0 down").expect("the other end off");
        send(&mut port, &pool, &vec![frame(100); 40], |_, _| {});
        for _ in 0..10 {
            port.maintain(Nanos(0));
        }
        assert_eq!((port.in_flight(), pool.available()), (0, 2048 - 512));
        let counters = port.counters();
        assert_eq!((counters.ledger.delivered, counters.delivered_bytes), (3, 180), "{counters:?}");
        assert_eq!(counters.ledger.dropped[DropReason::PortFull], 40, "{counters:?}");
    });
}

#[test]
fn an_interface_that_goes_is_taken_up_when_it_returns() {
    privileged("an_interface_that_goes_is_taken_up_when_it_returns", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut lan = open("sf-lan", &pool);
        let mut wan = open("sf-wan", &pool);
        lan.maintain(Nanos(0));
        wan.maintain(Nanos(0));
        line.middle.ip("link del sf-wan").expect("it goes");

        // Before anybody looked, a packet finds out.
        send(&mut wan, &pool, &[frame(60), frame(60)], |_, _| {});
        assert_eq!(wan.counters().ledger.dropped[DropReason::PortDown], 2);
        assert_eq!(pool.available(), 2048 - 512, "what was lent to the interface is back");
        let events = wan.maintain(Nanos(0));
        assert!(matches!(&events[..], [PortEvent::WentDown(_)]), "{events:?}");
        assert!(matches!(wan.status(), PortStatus::Down(reason) if reason.contains("`sf-wan` is not there")));
        assert!(lan.maintain(Nanos(0)).is_empty());
        assert_eq!(lan.status(), PortStatus::Up);
        assert!(wan.maintain(Nanos(0)).is_empty(), "it is told once");

        line.join_server().expect("it returns");
        let told = changes(&come_up(&mut wan));
        assert!(matches!(&told[..], [PortEvent::CameUp(_)]), "{told:?}");
        let mut far = line.server.enter(|| open("eth0", &pool));
        send(&mut wan, &pool, &[frame(77)], |_, _| {});
        let packets = receive(&mut far, &pool, 1);
        pool.free_batch(packets);

        // Replaced between two looks.
        drop(far);
        line.middle.ip("link del sf-wan").expect("it goes");
        line.join_server().expect("it returns");
        let told = changes(&come_up(&mut wan));
        assert!(matches!(&told[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{told:?}");

        // Switched off, which a packet finds out first, and on again.
        line.middle.ip("link set sf-wan down").expect("switched off");
        send(&mut wan, &pool, &[frame(60)], |_, _| {});
        assert_eq!(wan.counters().ledger.dropped[DropReason::PortDown], 3);
        wan.maintain(Nanos(0));
        assert!(matches!(wan.status(), PortStatus::Down(reason) if reason.contains("ip link set sf-wan up")));
        line.middle.ip("link set sf-wan up").expect("switched on");
        line.server.ip("link set eth0 down").expect("the other end off");
        // The kernel lets go of the old socket's queue within milliseconds.
        wait_for(|| {
            wan.maintain(Nanos(0));
            matches!(wan.status(), PortStatus::Down(reason) if reason.contains("carrier"))
        });
        line.server.ip("link set eth0 up").expect("the other end on");
        come_up(&mut wan);
        let mut far = line.server.enter(|| open("eth0", &pool));
        send(&mut wan, &pool, &[frame(78)], |_, _| {});
        pool.free_batch(receive(&mut far, &pool, 1));
        for mut port in [lan, wan, far] {
            port.close(&pool).expect("nothing to write");
        }
        assert_eq!(pool.available(), 2048);
    });
}

#[test]
fn traffic_goes_on_through_an_interface_that_returned() {
    privileged("traffic_goes_on_through_an_interface_that_returned", || {
        let line = Line::new().expect("a line");
        let relay = start(&small());
        let ping = || line.client.run(&format!("ping -c 3 -i 0.05 -W 1 {SERVER}"), SECOND * 10);
        ping().expect("the line works");
        line.middle.ip("link del sf-wan").expect("it goes");
        assert!(ping().is_err(), "nothing is there to answer");
        line.join_server().expect("it returns");
        wait_for(|| ping().is_ok());
        let account = relay.stop();
        audit(&account);
        assert!(account.ports[1].ledger.dropped[DropReason::PortDown] > 0);
        let [lan, wan] = &account.events;
        assert!(changes(lan).is_empty(), "{lan:?}");
        assert!(matches!(&changes(wan)[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{wan:?}");
    });
}

#[test]
fn a_port_may_wait_for_its_interface() {
    privileged("a_port_may_wait_for_its_interface", || {
        let pool = small();
        let mut port = AfXdpPort::waiting(Settings::new("sf-lan"), Arc::clone(&pool)).expect("it may wait");
        assert!(matches!(port.status(), PortStatus::Down(_)));
        let line = Line::new().expect("a line");
        let changes = changes(&come_up(&mut port));
        assert!(matches!(&changes[..], [PortEvent::CameUp(_)]), "{changes:?}");
        let mut far = line.client.enter(|| open("eth0", &pool));
        send(&mut far, &pool, &[frame(60)], |_, _| {});
        pool.free_batch(receive(&mut port, &pool, 1));
    });
}

#[test]
fn nothing_to_do_is_nothing_done() {
    privileged("nothing_to_do_is_nothing_done", || {
        let line = Line::new().expect("a line");
        // Up; switched off under the port; and gone.
        for change in [None, Some("link set sf-wan down"), Some("link del sf-wan")] {
            let relay = start(&small());
            thread::sleep(Duration::from_millis(200));
            if let Some(change) = change {
                line.middle.ip(change).expect("a change");
            }
            thread::sleep(Duration::from_millis(800));
            let account = relay.stop();
            // About one round for each maintenance, and a few around a change; a relay that spins has a million.
            assert!(account.rounds < 60, "{} rounds in a second after {change:?}", account.rounds);
            line.middle.ip("link set sf-wan up").ok();
        }
    });
}

#[test]
fn frames_too_long_for_the_driver_are_told_of() {
    privileged("frames_too_long_for_the_driver_are_told_of", || {
        let line = Line::new().expect("a line");
        for (host, name) in [(&line.middle, "sf-lan"), (&line.client, "eth0")] {
            host.ip(&format!("link set {name} mtu 9000")).expect("a large frame");
        }
        let pool = small();
        let native = Settings { mode: Some(Mode::Native), ..Settings::new("sf-lan") };
        let refused = AfXdpPort::open(native, Arc::clone(&pool)).err().expect("frames of several pages");
        assert!(refused.to_string().contains("`ip link set dev sf-lan mtu 1500`"), "{refused}");
        let mut port = open("sf-lan", &pool);
        let events = port.maintain(Nanos(0));
        let told = notices(&events).join("\n");
        assert!(told.contains("refused: zero_copy and native (attaching"), "{told}");
        assert!(told.contains("generic is used instead"), "{told}");
        assert!(told.contains("of which a buffer takes 1792"), "{told}");
    });
}

#[test]
fn without_the_capabilities_the_message_names_them() {
    privileged("without_the_capabilities_the_message_names_them", || {
        let line = Line::new().expect("a line");
        for (removed, named) in [
            (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
            (CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN, "CAP_NET_ADMIN"),
            (CapabilitySet::BPF | CapabilitySet::SYS_ADMIN, "CAP_BPF"),
        ] {
            let mut sets = capabilities(None).expect("own capabilities");
            sets.effective.remove(removed);
            let message = line.middle.enter(|| {
                set_capabilities(None, sets).expect("less is always allowed");
                AfXdpPort::open(Settings::new("sf-lan"), small())
                    .err()
                    .expect("it is not allowed")
                    .to_string()
            });
            assert!(
                message.contains(&format!("missing: {named}")) && message.contains("sf-lan"),
                "{message}"
            );
            assert!(!is_attached(&line, "sf-lan"));
        }
    });
}

#[test]
fn a_limit_of_locked_memory_leads_to_memory_of_its_own() {
    privileged("a_limit_of_locked_memory_leads_to_memory_of_its_own", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut sets = capabilities(None).expect("own capabilities");
        sets.effective.remove(CapabilitySet::IPC_LOCK);
        let limit = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
        let mut port = line.middle.enter(|| {
            setrlimit(Resource::Memlock, limit).expect("less is always allowed");
            set_capabilities(None, sets).expect("less is always allowed");
            // What the default rings need is too much as well.
            let refused = AfXdpPort::open(Settings::new("sf-lan"), Arc::clone(&pool)).err();
            let message = refused.expect("6 MiB").to_string();
            assert!(message.contains("ulimit -l unlimited") && message.contains("CAP_IPC_LOCK"), "{message}");
            open_with(Settings { receive_ring: 64, transmit_ring: 64, ..Settings::new("sf-lan") }, &pool)
        });
        let events = come_up(&mut port);
        let told = notices(&events).join("\n");
        assert!(told.contains("registering the pool as UMEM") && told.contains("port's own"), "{told}");
        let far_pool = small();
        let mut far = line.client.enter(|| open("eth0", &far_pool));
        send(&mut far, &far_pool, &[frame(60), frame(1514)], |_, _| {});
        let packets = receive(&mut port, &pool, 2);
        assert_eq!(pool.to_vec(&packets[1]), frame(1514));
        pool.free_batch(packets);
        send(&mut port, &pool, &[frame(99)], |_, _| {});
        let packets = receive(&mut far, &far_pool, 1);
        assert_eq!(far_pool.to_vec(&packets[0]), frame(99));
        far_pool.free_batch(packets);
        assert_eq!(pool.available(), 2048);
    });
}

#[test]
fn interfaces_that_cannot_be_ports_are_refused() {
    privileged("interfaces_that_cannot_be_ports_are_refused", || {
        let _line = Line::new().expect("a line");
        let refused = AfXdpPort::open(Settings::new("lo"), small()).err();
        assert!(matches!(refused, Some(OpenError::NotEthernet { .. })), "{refused:?}");
        let refused = AfXdpPort::open(Settings::new("sf-wam"), small()).err().expect("none").to_string();
        assert!(refused.contains("present: ") && refused.contains("sf-wan"), "{refused}");
        let absent = Settings { queues: Some(vec![0, 7]), ..Settings::new("sf-lan") };
        let refused = AfXdpPort::open(absent, small()).err().expect("one queue").to_string();
        assert!(refused.contains("there is no queue 7; it has 1 queues to receive by"), "{refused}");
    });
}
