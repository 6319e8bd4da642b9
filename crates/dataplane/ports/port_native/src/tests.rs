//! Custody against a model, and the port with a process that is this one.

mod devices;

use crate::{Custody, DeviceTable, Failed, Failure, Lent, NativePort, Processes, SCHEMA, Settings};
use local_socket::Users;
use native_abi::{Descriptor, words};
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use superfluid_native::Attachment;
use telemetry::DropReason;
use telemetry::clock::Nanos;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(30);

fn pool(buffers: u32) -> Arc<Pool> {
    let pages = Some(PageKind::Ordinary);
    Arc::new(Pool::new("test", PoolConfig { buffers, pages, ..PoolConfig::default() }).expect("a pool"))
}

fn frame(pool: &Pool, byte: u8) -> Packet {
    let mut packet = pool.allocate().expect("a buffer");
    pool.write(&mut packet, &[byte; 60]).expect("room");
    packet
}

/// A port at a socket of its own, for a process that may write or not.
struct Bench {
    _folder: tempfile::TempDir,
    pool: Arc<Pool>,
    port: NativePort,
    socket: String,
    /// Processes that are to be ended.
    failed: Receiver<Failed>,
    /// The device behind it, and what processes ask for there.
    table: Arc<DeviceTable>,
    asked: Receiver<Vec<IpAddr>>,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Settings)) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("port.sock").to_str().expect("text").to_owned();
        let mut settings = Settings { write: true, ..Settings::new(&socket) };
        change(&mut settings);
        let pool = pool(1024);
        let (processes, (tell, failed)) = (Processes::default(), channel());
        processes.when_failed(move |process| drop(tell.send(process)));
        let (ask, asked) = channel();
        let table = Arc::new(DeviceTable::new(move |addresses| drop(ask.send(addresses))));
        let port = NativePort::open_at_device(settings, pool.clone(), &processes, &table).expect("opened");
        Bench { _folder: folder, pool, port, socket, failed, table, asked }
    }

    fn attach(&mut self) -> Attachment {
        let attachment = Attachment::attach(&self.socket).expect("attached");
        self.until("it is up", |bench| bench.port.status() == PortStatus::Up);
        attachment
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Bench) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            assert!(begun.elapsed() < LONG, "{what}: {:?} {:?}", self.port.status(), self.port.details());
            self.port.maintain(NOW);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn transmit(&mut self, count: usize) {
        let mut packets: Vec<Packet> = (0..count).map(|n| frame(&self.pool, n as u8)).collect();
        self.port.transmit(&self.pool, NOW, &mut packets);
        assert!(packets.is_empty());
        self.port.signal();
    }

    fn receive(&mut self) -> Vec<Packet> {
        let mut out = Vec::new();
        self.port.receive(&self.pool, NOW, 64, &mut out);
        out
    }

    fn detail(&self, name: &str) -> u64 {
        self.port.details().iter().find(|(other, _)| *other == name).expect("it is counted").1
    }

    fn lost(&self, reason: DropReason) -> u64 {
        self.port.counters().ledger.dropped[reason]
    }

    /// No buffer is lost: what is free, what this test has, and what the process has.
    fn assert_buffers(&self, here: usize) {
        let held = self.detail("buffers_held") as usize;
        assert_eq!(self.pool.available() + here + held, 1024);
    }
}

fn take(attachment: &mut Attachment) -> Vec<Descriptor> {
    let mut packets = [Descriptor::default(); 64];
    let count = attachment.receive(&mut packets);
    packets[..count].to_vec()
}

#[test]
fn settings_have_the_defaults_of_their_schema() {
    let schema = schema::Schema::from_text("settings.yaml", SCHEMA).expect("a correct schema");
    let read = |text: &str| {
        let document = yaml_document::Document::parse("test.yaml", text).expect("YAML");
        let mut faults = Vec::new();
        let value = schema.check("test.yaml", "", Some(document.root()), &mut faults);
        value.map(|value| Settings::from_value(&value)).ok_or(faults.len())
    };
    assert_eq!(read("socket: /run/a.sock"), Ok(Settings::new("/run/a.sock")));
    let all =
        "{socket: /a, uid: 7, write: true, ring: 64, held: 128, heartbeat: 100ms, config: x, standby: 2}";
    let expected = Settings {
        socket: "/a".into(),
        users: Users::One(7),
        write: true,
        ring: 64,
        held: 128,
        heartbeat: Nanos(100_000_000),
        config: "x".into(),
        standby: 2,
        guest: None,
    };
    assert_eq!(read(all), Ok(expected));
    let of_guest = Settings::new("ids/in.sock").of_guest(std::path::Path::new("/run/guests"));
    assert_eq!(
        (&*of_guest.socket, of_guest.guest.as_deref()),
        ("/run/guests/ids/in.sock", Some("ids")),
        "the folder is the guest's"
    );
    assert_eq!(read("{socket: /a, heartbeat: 1ms}"), Err(1));
}

#[test]
fn a_ring_that_is_no_power_of_two_and_a_socket_without_a_path_are_refused() {
    let open = |settings| NativePort::open(settings, pool(64), &Processes::default()).expect_err("refused");
    let refused = open(Settings { ring: 100, ..Settings::new("/nowhere/a") }).to_string();
    assert_eq!(refused, "ring: found `100`; allowed: a power of two from 64 to 4096");
    let refused = open(Settings::new("a.sock")).to_string();
    assert!(refused.starts_with("socket: found `a.sock`; allowed: a path from the root on"), "{refused}");
}

proptest! {
    /// Whatever is named, only what was lent comes back, once, and as the packet that it was.
    #[test]
    fn custody_is_what_was_lent_and_did_not_come_back(steps in proptest::collection::vec((any::<bool>(), 0u32..40), 0..200)) {
        let pool = pool(64);
        let mut custody = Custody::new(32);
        custody.change_limit(20);
        let mut model = BTreeMap::new();
        for (lend, number) in steps {
            if lend {
                let packet = pool.allocate().expect("a buffer");
                let buffer = packet.buffer();
                let allowed = number < 32 && model.len() < 20 && !model.contains_key(&number);
                match custody.batch().lend(number, Lent::of(packet, &pool)) {
                    Ok(()) => {
                        prop_assert!(allowed);
                        model.insert(number, buffer);
                    }
                    Err(lent) => {
                        prop_assert!(!allowed);
                        pool.return_buffers([lent.buffer]);
                    }
                }
            } else {
                let back = custody.batch().take_back(number);
                prop_assert_eq!(back.as_ref().map(|lent| lent.buffer.address()), model.remove(&number));
                pool.return_buffers(back.map(|lent| lent.buffer));
            }
            prop_assert_eq!(custody.len(), model.len());
            prop_assert_eq!(pool.available() + model.len(), 64);
        }
        pool.return_buffers(custody.end());
        prop_assert_eq!(pool.available(), 64);
        prop_assert_eq!(custody.room(), 0, "nothing is lent to what has ended");
    }
}

#[test]
fn packets_go_there_and_back_where_they_are() {
    let mut bench = Bench::new(|settings| settings.config = "mode: fast".into());
    assert!(
        matches!(bench.port.status(), PortStatus::Down(reason) if reason.contains("no process is attached"))
    );
    bench.transmit(3);
    assert_eq!(bench.lost(DropReason::PortDown), 3);
    let mut process = bench.attach();
    assert_eq!(process.told().config, b"mode: fast");
    bench.transmit(3);
    let mut packets = take(&mut process);
    assert_eq!(packets.len(), 3);
    bench.assert_buffers(0);
    for (n, packet) in packets.iter_mut().enumerate() {
        assert!(!process.data(packet).is_null());
        packet.mark = n as u64 + 7;
        // Four bytes off its front.
        (packet.offset, packet.length) = (packet.offset + 4, packet.length - 4);
    }
    assert_eq!(process.send(&packets), 3);
    let back = bench.receive();
    assert_eq!(back.iter().map(|packet| packet.record().mark).collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(
        back.iter().map(|packet| bench.pool.to_vec(packet)).collect::<Vec<_>>(),
        [vec![0; 56], vec![1; 56], vec![2; 56]]
    );
    bench.assert_buffers(3);
    let ledger = &bench.port.counters().ledger;
    assert_eq!((ledger.delivered, ledger.received), (3, 3));
    bench.pool.free_batch(back);
    assert_eq!(bench.port.close(&bench.pool), Ok(()));
    assert_eq!(bench.pool.available(), 1024);
}

#[test]
fn what_the_process_does_not_have_is_a_fault_and_nothing_else() {
    let mut bench = Bench::new(|_| ());
    let mut process = bench.attach();
    bench.transmit(2);
    let packets = take(&mut process);
    // The second time each is named it is not the process's any more; the others never were.
    let foreign = Descriptor { buffer: packets[0].buffer + 100, length: 60, ..Descriptor::default() };
    let outside = Descriptor { buffer: u32::MAX, length: 60, ..Descriptor::default() };
    process.send(&[packets[0], packets[0], foreign, outside]);
    process.release(&[packets[0], packets[1], packets[1], outside]);
    // Buffers that are given back are looked at before packets.
    let back = bench.receive();
    assert_eq!(back.len(), 0, "it was released as well");
    assert_eq!(bench.detail("descriptor_faults"), 2 + 4);
    assert_eq!(bench.port.counters().ledger.received, 0);
    bench.assert_buffers(0);
    assert_eq!(bench.pool.available(), 1024);
}

#[test]
fn extents_outside_of_the_buffer_lose_the_packet_and_no_more() {
    let mut bench = Bench::new(|_| ());
    let mut process = bench.attach();
    bench.transmit(4);
    let mut packets = take(&mut process);
    packets[0].length = 2048;
    (packets[1].offset, packets[1].length) = (u32::MAX, u32::MAX);
    packets[2].length = 13;
    process.send(&packets);
    let back = bench.receive();
    assert_eq!((back.len(), bench.lost(DropReason::Malformed)), (1, 3));
    bench.assert_buffers(1);
    bench.pool.free_batch(back);
}

#[test]
fn a_process_that_only_reads_has_its_packets_back_as_they_were() {
    let mut bench = Bench::new(|settings| settings.write = false);
    let mut process = bench.attach();
    bench.transmit(2);
    let mut packets = take(&mut process);
    packets[0].flags = native_abi::flags::NEEDS_CHECKSUM;
    packets[1].length -= 1;
    process.send(&packets);
    let back = bench.receive();
    assert_eq!((back.len(), bench.lost(DropReason::Malformed)), (1, 1));
    assert_eq!(back[0].record().offload_flags, 0);
    bench.pool.free_batch(back);
    assert_eq!(process.allocate(&mut [Descriptor::default(); 4]), 0);
}

#[test]
fn a_process_has_nothing_written_but_the_checksum_of_a_transport_header() {
    let mut bench = Bench::new(|_| ());
    let mut process = bench.attach();
    bench.transmit(3);
    let mut packets = take(&mut process);
    packets[0].flags = native_abi::flags::CHECKSUM_VALID;
    (packets[1].flags, packets[1].csum_start) = (native_abi::flags::NEEDS_CHECKSUM, 14);
    (packets[2].flags, packets[2].csum_start) = (native_abi::flags::NEEDS_CHECKSUM, u16::MAX);
    process.send(&packets);
    let back = bench.receive();
    assert_eq!((back.len(), bench.lost(DropReason::Malformed)), (2, 1));
    assert!(back.iter().all(|packet| packet.record().offload_flags == 0), "written, or not verified");
    bench.pool.free_batch(back);
}

#[test]
fn a_process_makes_packets_of_buffers_that_it_asks_for() {
    let mut bench = Bench::new(|_| ());
    let mut process = bench.attach();
    let mut packets = [Descriptor::default(); 32];
    assert_eq!(process.allocate(&mut packets), 0, "they were asked for");
    bench.receive();
    // A packet that comes in between waits for its turn.
    bench.transmit(1);
    assert_eq!(process.allocate(&mut packets), 32);
    assert_eq!(take(&mut process).len(), 1);
    assert_eq!(packets[0].length, bench.pool.room());
    packets.iter_mut().for_each(|packet| packet.length = 100);
    process.send(&packets);
    let made = bench.receive();
    assert_eq!(made.len(), 32);
    bench.assert_buffers(32);
    bench.pool.free_batch(made);
}

#[test]
fn a_process_that_returns_nothing_is_bounded() {
    let mut bench = Bench::new(|settings| (settings.ring, settings.held) = (256, 100));
    let mut process = bench.attach();
    bench.transmit(150);
    assert_eq!((bench.port.counters().ledger.delivered, bench.lost(DropReason::PortFull)), (100, 50));
    let packets: Vec<Descriptor> = (0..2).flat_map(|_| take(&mut process)).collect();
    bench.transmit(1);
    assert_eq!(bench.lost(DropReason::PortFull), 51);
    process.release(&packets[..10]);
    bench.receive();
    bench.transmit(11);
    assert_eq!(bench.lost(DropReason::PortFull), 52);
    // Any number may be asked for: what it gets stays within the bound.
    process.allocate(&mut vec![Descriptor::default(); 10_000]);
    bench.receive();
    assert_eq!(bench.detail("buffers_held"), 100);
}

#[test]
fn impossible_counts_cut_the_process_off_and_another_attaches() {
    for at in [words::SENT_TAIL, words::RETURNED_TAIL, words::PACKETS_HEAD] {
        let mut bench = Bench::new(|_| ());
        let process = bench.attach();
        // As a hostile process would write there; the session's own mapping shows the same memory.
        bench.port.memory().word(at).store(0x8000_0000, Relaxed);
        bench.transmit(1);
        bench.receive();
        assert!(matches!(bench.port.status(), PortStatus::Down(reason) if reason.contains("was cut off")));
        bench.transmit(1);
        assert!(bench.lost(DropReason::PortDown) > 0);
        drop(process);
        bench.until("the socket was given up", |bench| Attachment::attach(&bench.socket).is_ok());
    }
}

#[test]
fn a_second_process_another_version_and_another_user_are_refused() {
    let mut bench = Bench::new(|_| ());
    let _process = bench.attach();
    let refused = Attachment::attach(&bench.socket).expect_err("one is attached").to_string();
    assert!(refused.contains("is attached; allowed: one process"), "{refused}");
    let other = Bench::new(|settings| settings.users = Users::One(4_000_000_000));
    let refused = Attachment::attach(&other.socket).expect_err("another user").to_string();
    assert!(refused.contains("allowed: user 4000000000"), "{refused}");
    assert_eq!(other.detail("processes_refused"), 1);
}

#[test]
fn a_worker_that_sleeps_is_woken_and_one_that_is_awake_is_not() {
    let mut bench = Bench::new(|_| ());
    let mut process = bench.attach();
    let readable = |bench: &Bench, wait: bool| {
        let wake = bench.port.wake();
        if wake.at.is_some() {
            return true;
        }
        let fd = wake.readable.expect("it waits for its process");
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
        let span = rustix::time::Timespec { tv_sec: if wait { 30 } else { 0 }, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&span)).expect("polled") > 0
    };
    bench.transmit(1);
    let packets = take(&mut process);
    let is_quiet = |bench: &mut Bench| {
        bench.receive();
        !readable(bench, false)
    };
    bench.until("there is nothing", is_quiet);
    process.send(&packets);
    assert!(readable(&bench, true), "it was woken");
    let back = bench.receive();
    assert_eq!(back.len(), 1);
    bench.pool.free_batch(back);
    bench.until("the wake-up is forgotten", is_quiet);
    drop(process);
    assert!(readable(&bench, true), "the end of the process wakes it as well");
}

#[test]
fn a_process_that_sleeps_is_woken_and_shows_that_it_lives() {
    let mut bench = Bench::new(|settings| settings.heartbeat = Nanos(300_000_000));
    let mut process = bench.attach();
    let waiting = std::thread::spawn(move || {
        let woken = superfluid_native::wait(&mut [&mut process], Some(LONG));
        (woken, take(&mut process).len(), process)
    });
    // Longer than the heartbeat: the sleeping library shows signs of life.
    let begun = Instant::now();
    bench.until("the time has passed", |_| begun.elapsed() > Duration::from_millis(900));
    assert_eq!(bench.port.status(), PortStatus::Up);
    bench.transmit(1);
    let (woken, count, process) = waiting.join().expect("no panic");
    assert_eq!((woken, count), (superfluid_native::Woken::Something, 1));
    // It neither receives nor waits any more.
    bench.until(
        "it counts as hung",
        |bench| matches!(bench.port.status(), PortStatus::Down(reason) if reason.contains("no sign of life")),
    );
    let mut process = process;
    bench.until("it is taken up again", |bench| {
        process.beat();
        bench.port.status() == PortStatus::Up
    });
}

#[test]
fn a_process_that_waits_for_room_is_woken_when_half_of_the_ring_is_free() {
    use superfluid_native::{Interest, Woken, poll};
    // One that is not woken sleeps on for longer than this test waits.
    let mut bench = Bench::new(|settings| (settings.ring, settings.heartbeat) = (64, Nanos(600_000_000_000)));
    let mut process = bench.attach();
    let fill = |bench: &mut Bench, process: &mut Attachment, count: usize| {
        bench.transmit(count);
        let packets = take(process);
        assert_eq!((packets.len(), process.send(&packets)), (count, count));
    };
    let room = |process: &mut Attachment, span| {
        poll(&mut [Interest { attachment: process, receive: false, send: true }], Some(span))
    };
    assert_eq!(room(&mut process, LONG), Woken::Something, "there is room from the beginning");
    fill(&mut bench, &mut process, 64);
    bench.transmit(1);
    let packet = take(&mut process);
    assert_eq!(process.send(&packet), 0);
    assert_eq!(room(&mut process, Duration::ZERO), Woken::Timeout);
    let sleeps = |bench: &Bench| bench.port.memory().word(words::SENDER_SLEEPS).load(Relaxed) != 0;
    let waiting = std::thread::spawn(move || (room(&mut process, LONG), process.send(&packet), process));
    bench.until("it sleeps", |bench| sleeps(bench));
    let receive = |bench: &mut Bench, budget| {
        let mut out = Vec::new();
        bench.port.receive(&bench.pool, NOW, budget, &mut out);
        assert_eq!(out.len(), budget);
        bench.pool.free_batch(out);
    };
    receive(&mut bench, 32);
    assert!(sleeps(&bench), "half of the ring is still full");
    receive(&mut bench, 1);
    assert!(!sleeps(&bench), "it was woken");
    let (woken, sent, process) = waiting.join().expect("no panic");
    assert_eq!((woken, sent), (Woken::Something, 1));
    drop(process);
}

/// When, and when not, `pulse` says on a clock of its own.
#[test]
fn a_process_of_a_guest_that_hangs_or_was_cut_off_is_to_be_ended_and_another_ones_is_not() {
    let pid = std::process::id();
    let of_guest = |settings: &mut Settings| {
        (settings.heartbeat, settings.guest) = (Nanos(10_000_000), Some("forward".into()));
    };
    let mut bench = Bench::new(of_guest);
    let mut operators = Bench::new(|settings| settings.heartbeat = Nanos(10_000_000));
    let (mut process, mut other) = (bench.attach(), operators.attach());
    process.beat();
    other.beat();
    let Failed { guest, pid: whose, failure } = bench.failed.recv_timeout(LONG).expect("it is said");
    assert_eq!((&*guest, whose), ("forward", pid));
    assert!(matches!(failure, Failure::Silent(span) if span >= Duration::from_millis(2_010)), "{failure:?}");
    bench.failed.recv_timeout(LONG).expect("and again, as long as it is there");
    // As a hostile process would write there.
    bench.until("it is taken up again", |bench| {
        process.beat();
        bench.port.status() == PortStatus::Up
    });
    bench.port.memory().word(words::SENT_TAIL).store(0x8000_0000, Relaxed);
    bench.receive();
    let cut_off = |failed: Failed| failed.failure == Failure::CutOff;
    assert!(std::iter::from_fn(|| bench.failed.recv_timeout(LONG).ok()).any(cut_off));
    assert!(operators.failed.try_recv().is_err(), "nothing would start it again");
}

#[test]
fn which_processes_of_a_guest_are_attached_is_known() {
    let processes = Processes::default();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("port.sock").to_str().expect("text").to_owned();
    let settings = Settings { guest: Some("forward".into()), ..Settings::new(&socket) };
    let mut port = NativePort::open(settings, pool(64), &processes).expect("opened");
    let mut until = |attached: u64| {
        let begun = Instant::now();
        while !port.details().contains(&("processes_attached", attached)) {
            assert!(begun.elapsed() < LONG, "{:?} {:?}", port.status(), port.details());
            port.maintain(NOW);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(0);
    let attached = || processes.attached_at("port.sock");
    assert!(attached().is_empty());
    let attachment = Attachment::attach(&socket).expect("attached");
    until(1);
    assert_eq!(attached(), [std::process::id()]);
    assert!(processes.attached_at("t.sock").is_empty() && processes.attached_at(".port.sock").is_empty());
    drop(attachment);
    until(0);
    let begun = Instant::now();
    while !attached().is_empty() {
        assert!(begun.elapsed() < LONG, "it lives, and is attached no more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn sockets_that_are_stale_are_replaced_and_others_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let open = |socket: &str| {
        NativePort::open(Settings::new(socket), pool(64), &Processes::default()).expect("opened")
    };
    let reason = |port: &NativePort| match port.status() {
        PortStatus::Down(reason) => reason,
        other => panic!("{other:?}"),
    };
    std::fs::write(path("file"), "kept").expect("written");
    assert!(reason(&open(&path("file"))).contains("found a file that is no socket"));
    assert_eq!(std::fs::read_to_string(path("file")).expect("it is there"), "kept");
    assert!(reason(&open(&path("none/a"))).contains("making it"));
    // Left by a process that was killed.
    drop(std::os::unix::net::UnixListener::bind(path("stale")).expect("bound"));
    let first = open(&path("shared"));
    assert!(reason(&first).contains("no process is attached"));
    let mut second = open(&path("shared"));
    assert!(reason(&second).contains("another program or port listens there"));
    drop(first);
    let begun = Instant::now();
    while !reason(&second).contains("no process is attached") {
        assert!(begun.elapsed() < LONG, "{}", reason(&second));
        second.maintain(NOW);
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(second);
    assert!(!std::path::Path::new(&path("shared")).exists(), "it is removed with its port");
}

#[test]
fn the_readme_has_the_keys_of_the_schema_and_examples_that_are_accepted() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(path).expect("it is there");
    let schema = schema::Schema::from_text("settings.yaml", SCHEMA).expect("a correct schema");
    let table = schema.to_markdown();
    assert!(readme.contains(&table), "the table should be:\n{table}");
    let example = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("one");
    let document = yaml_document::Document::parse("README.md", example).expect("YAML");
    let (_, ports) = document.root().entry("ports").expect("ports");
    for (name, node) in ports.as_map().expect("a map") {
        let (mut faults, place) =
            (Vec::new(), yaml_document::Location::new("README.md", &name.text, node.position));
        let value = schema.check_at(&place, Some(node), &["type"], &mut faults);
        assert!(value.is_some(), "{}: {faults:?}", name.text);
    }
}

#[test]
fn a_station_has_the_process_for_a_neighbour() {
    let mut bench = Bench::new(|_| ());
    let mut process = bench.attach();
    let Bench { _folder, pool, port, .. } = bench;
    let mut port = port::station::StationPort::new(Box::new(port)).expect("descriptors");
    let identity = port::station::Identity {
        mac: [2, 0, 0, 0, 0, 9],
        dhcp: false,
        is_shared: false,
        addresses: Arc::default(),
        awaited: Arc::default(),
        around: port::station::Around::Nothing,
    };
    let mut link = port.stations().expect("room").attach(identity, || ());
    let question = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 6][..], &[0; 46]].concat();
    let mut packet = pool.allocate().expect("a buffer");
    pool.write(&mut packet, &question).expect("room");
    port.transmit(&pool, NOW, &mut vec![packet]);
    let lent = take(&mut process);
    assert_eq!(process.send(&lent), 1);
    let mut out = Vec::new();
    port.receive(&pool, NOW, 64, &mut out);
    assert_eq!((out.len(), link.next_frame()), (0, Some(question.clone())), "it is the station's alone");
    assert_eq!(port.counters().ledger.consumed, 1);
    assert!(link.send(question.clone()));
    port.receive(&pool, NOW, 64, &mut out);
    let answers = take(&mut process);
    let [answer] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(answer.length, 60);
    assert_eq!(process.release(&answers), 1);
    port.receive(&pool, NOW, 64, &mut out);
    assert_eq!((out.len(), pool.available()), (0, 1024));
}
