//! Two ports of this crate with each other, and a port with a peer that says and writes anything.

use crate::message::{AddRing, Hello, LENGTH, Message, VERSION, padded};
use crate::{Handshake, Joined, MemifPort, Peers, Role, SCHEMA, Settings};
use local_socket::{Listener, Users, connect, receive, send};
use native_ring::SharedMemory;
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use proptest::prelude::*;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use telemetry::DropReason;
use telemetry::clock::Nanos;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(60);
const BUFFERS: u32 = 2048;

fn pool() -> Arc<Pool> {
    let config = PoolConfig {
        buffers: BUFFERS,
        pages: Some(PageKind::Ordinary),
        buffer_size: packet_memory::BufferSize::new(16_384).expect("allowed"),
        ..PoolConfig::default()
    };
    Arc::new(Pool::new("test", config).expect("a pool"))
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// A port, the pool of its tenant, and what the port has told.
struct Bench {
    pool: Arc<Pool>,
    port: MemifPort,
    events: Vec<port::PortEvent>,
    /// Buffers that lie in the rings.
    lent: u32,
}

impl Bench {
    fn new(settings: Settings) -> Bench {
        let (pool, lent) = (pool(), if settings.write { 2 * settings.queues * settings.ring } else { 0 });
        let port = MemifPort::open_over(settings, &pool, &Peers::default()).expect("opened");
        Bench { pool, port, events: Vec::new(), lent }
    }

    fn is_up(&mut self) -> bool {
        self.events.extend(self.port.maintain(NOW));
        self.port.status() == PortStatus::Up
    }

    /// Why it is down.
    fn reason(&mut self) -> String {
        self.port.maintain(NOW);
        match self.port.status() {
            PortStatus::Down(reason) => reason,
            other => format!("{other:?}"),
        }
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        self.send_flows(frames, |_| 0);
    }

    /// Sends frames of flows with these hashes.
    fn send_flows(&mut self, frames: &[Vec<u8>], hash: impl Fn(usize) -> u32) {
        let mut packets = Vec::new();
        for (n, frame) in frames.iter().enumerate() {
            let mut packet = self.pool.allocate().expect("a buffer");
            self.pool.write(&mut packet, frame).expect("room");
            packet.edit(|record| record.flow_hash = hash(n));
            packets.push(packet);
        }
        self.port.transmit(&self.pool, NOW, &mut packets);
        assert!(packets.is_empty());
    }

    fn take(&mut self) -> Vec<Vec<u8>> {
        let mut out: Vec<Packet> = Vec::new();
        self.port.receive(&self.pool, NOW, 64, &mut out);
        let frames = out.iter().map(|packet| self.pool.to_vec(packet)).collect();
        self.pool.free_batch(out);
        frames
    }

    fn lost(&self, reason: DropReason) -> u64 {
        self.port.counters().ledger.dropped[reason]
    }

    fn has_all_buffers(&self) -> bool {
        self.pool.available() == (BUFFERS - self.lent) as usize
    }
}

fn socket(folder: &tempfile::TempDir) -> String {
    folder.path().join("memif.sock").to_str().expect("text").to_owned()
}

fn frame(byte: u8, length: usize) -> Vec<u8> {
    (0..length).map(|n| byte.wrapping_add((n / 251) as u8)).collect()
}

/// A master and a slave at one socket, both up.
fn pair(folder: &tempfile::TempDir, change: impl Fn(&mut Settings)) -> [Bench; 2] {
    let mut ends = [Role::Master, Role::Slave].map(|role| {
        let mut settings = Settings::new(role, &socket(folder));
        change(&mut settings);
        Bench::new(settings)
    });
    until("both are up", || ends.iter_mut().all(Bench::is_up));
    ends
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
    assert_eq!(read("{role: slave, socket: /run/a}"), Ok(Settings::new(Role::Slave, "/run/a")));
    let all =
        "{role: master, socket: /a, uid: 7, id: 3, secret: x, queues: 4, ring: 64, buffer: 256, write: true}";
    let expected = Settings {
        role: Role::Master,
        socket: "/a".into(),
        users: Users::One(7),
        id: 3,
        secret: Some("x".into()),
        queues: 4,
        ring: 64,
        buffer: 256,
        write: true,
    };
    assert_eq!(read(all), Ok(expected));
    assert_eq!(read("{role: server, socket: /a}"), Err(1));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut Settings)| {
        let mut settings = Settings::new(Role::Slave, "/nowhere/a");
        change(&mut settings);
        MemifPort::open(settings).expect_err("refused").to_string()
    };
    assert_eq!(
        refused(|settings| settings.ring = 100),
        "ring: found `100`; allowed: a power of two from 64 to 4096"
    );
    assert!(
        refused(|settings| settings.socket = "a".into()).starts_with("socket: found `a`; allowed: a path")
    );
    assert!(refused(|settings| settings.buffer = 1).contains("allowed: 256 to 16384"));
    assert_eq!(refused(|settings| settings.queues = 17), "queues: found `17`; allowed: 1 to 16");
    let memory = refused(|settings| (settings.queues, settings.ring, settings.buffer) = (3, 4096, 16_384));
    assert!(memory.starts_with("queues: found `3`; allowed: with `ring` and `buffer` at most 256 MiB"));
    let of_master = refused(|settings| (settings.role, settings.write) = (Role::Master, true));
    assert_eq!(of_master, "write: found true; allowed: false of a master, whose peer makes the memory");
    assert!(refused(|settings| settings.write = true).contains("allowed: a port of a tenant with a pool"));
    let many = Settings { write: true, ring: 256, queues: 4, ..Settings::new(Role::Slave, "/nowhere/a") };
    let many = MemifPort::open_over(many, &pool(), &Peers::default()).expect_err("refused").to_string();
    assert!(many.contains("found `256`; allowed: at most a quarter of the pool's buffers"), "{many}");
    assert!(!refused(|settings| settings.secret = Some("s".repeat(25))).contains("sss"), "it is a secret");
}

#[test]
fn packets_pass_both_ways_in_order_and_long_ones_in_several_buffers() {
    for write in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ends = pair(&folder, |settings| small(settings, write));
        let (mut bytes, begun) = (0, ends[0].port.counters().delivered_bytes);
        for round in 0..100u8 {
            for (from, to) in [(0, 1), (1, 0)] {
                let frames =
                    vec![frame(round, 60), frame(round, 256), frame(round, 257), frame(round, 9_000)];
                ends[from].send(&frames);
                assert_eq!(ends[to].take(), frames, "round {round}, from {from}, {write}");
            }
            bytes += 60 + 256 + 257 + 9_000;
        }
        for end in &ends {
            let counters = end.port.counters();
            let ledger = &counters.ledger;
            assert_eq!((ledger.received, ledger.delivered, ledger.dropped.total()), (400, 400, 0));
            assert_eq!((counters.received_bytes, counters.delivered_bytes - begun), (bytes, bytes));
            assert!(end.has_all_buffers());
        }
    }
}

/// Short rings and buffers; whether the slave's are the pool's.
fn small(settings: &mut Settings, write: bool) {
    (settings.ring, settings.buffer) = (64, 256);
    settings.write = write && settings.role == Role::Slave;
}

#[test]
fn a_full_ring_and_a_missing_peer_lose_packets_that_are_counted() {
    for write in [false, true] {
        a_full_ring_and_a_missing_peer(write);
    }
}

fn a_full_ring_and_a_missing_peer(write: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ends = pair(&folder, |settings| small(settings, write));
    let frames: Vec<_> = (0..100).map(|n| frame(n, 60)).collect();
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(ends[from].port.room_in_rings(), 64);
        ends[from].send(&frames);
        assert_eq!(ends[from].lost(DropReason::PortFull), 36);
        assert_eq!(ends[from].port.room_in_rings(), 0);
        assert_eq!(ends[to].take(), frames[..64]);
        ends[from].send(&frames[..1]);
        assert_eq!(ends[to].take(), frames[..1]);
    }
    let [mut master, slave] = ends;
    drop(slave);
    until("it is down", || !master.is_up());
    assert_eq!(master.port.room_in_rings(), 0);
    master.send(&frames[..3]);
    assert_eq!(master.lost(DropReason::PortDown), 3);
    assert!(master.reason().contains("no peer is connected at"), "{}", master.reason());
    assert!(master.has_all_buffers());
}

#[test]
fn each_side_is_taken_up_again_when_it_returns() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut master, mut slave] = pair(&folder, |_| ());
    for round in 0..2 {
        drop(slave);
        until("the master is down", || !master.is_up());
        slave = Bench::new(Settings::new(Role::Slave, &socket(&folder)));
        until("both are up", || master.is_up() & slave.is_up());
        slave.send(&[frame(round, 60)]);
        assert_eq!(master.take(), [frame(round, 60)]);
        drop(master);
        until("the slave is down", || !slave.is_up());
        master = Bench::new(Settings::new(Role::Master, &socket(&folder)));
        until("both are up", || master.is_up() & slave.is_up());
        master.send(&[frame(round, 60)]);
        assert_eq!(slave.take(), [frame(round, 60)]);
    }
    drop(master);
    assert!(!std::path::Path::new(&socket(&folder)).exists(), "it is removed with its port");
}

/// A hash of a flow that goes by this one of three queues.
fn by_queue(queue: usize) -> u32 {
    u32::MAX / 3 * queue as u32 + 7
}

#[test]
fn a_flow_keeps_its_queue_and_others_pass_where_one_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ends = pair(&folder, |settings| (settings.queues, settings.ring, settings.buffer) = (3, 64, 256));
    assert!((0..3).all(|queue| crate::driver::queue_of(by_queue(queue), 3) == queue));
    assert!(ends.iter().all(|end| end.port.reads_flow_hash()));
    let (full, one) = (vec![frame(7, 60); 70], [frame(1, 300), frame(2, 60)]);
    for (from, to) in [(0, 1), (1, 0)] {
        ends[from].send_flows(&full, |_| by_queue(1));
        ends[from].send_flows(&one, |n| by_queue(n * 2));
        assert_eq!(ends[from].lost(DropReason::PortFull), 6, "70 packets, and 64 buffers");
        // Each queue has its part of what is taken at once, wherever the turn is.
        let first = ends[to].take();
        assert!(one.iter().all(|frame| first.contains(frame)), "a full queue holds up no other");
        let rest = ends[to].take();
        assert_eq!((first.len() + rest.len(), rest.iter().all(|rest| *rest == full[0])), (66, true));
        // In order, each flow by itself.
        let frames: Vec<_> = (0..60).map(|n| frame(n, 60)).collect();
        ends[from].send_flows(&frames, |n| by_queue(n % 3));
        let came = ends[to].take();
        for queue in 0..3 {
            let flow = |frames: &[Vec<u8>]| -> Vec<u8> {
                frames.iter().map(|frame| frame[0]).filter(|n| usize::from(*n) % 3 == queue).collect()
            };
            assert_eq!(flow(&came), flow(&frames));
        }
        assert!(ends[to].take().is_empty() && ends[to].has_all_buffers());
    }
}

#[test]
fn a_slave_makes_no_more_rings_than_its_master_takes_and_a_master_takes_fewer() {
    for (master, slave, both) in [(1, 3, 1), (3, 1, 1), (2, 3, 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ends = pair(&folder, |settings| {
            settings.queues = if settings.role == Role::Master { master } else { slave };
        });
        let came_up = &ends[0].events;
        let expected = format!("a peer is connected; rings: {both} to it, {both} from it");
        assert!(came_up.contains(&port::PortEvent::CameUp(expected)), "{came_up:?}");
        let frames: Vec<_> = (0..30).map(|n| frame(n, 60)).collect();
        for (from, to) in [(0, 1), (1, 0)] {
            ends[from].send_flows(&frames, |n| by_queue(n % 3));
            let mut came = ends[to].take();
            came.sort();
            assert_eq!(came, frames);
        }
    }
}

#[test]
fn a_worker_that_sleeps_is_woken_at_each_queue() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ends = pair(&folder, |settings| settings.queues = 3);
    for (n, (from, to)) in [(0, 1), (1, 0)].into_iter().cycle().take(8).enumerate() {
        let readable = |port: &MemifPort, seconds| {
            let wake = port.wake();
            let Some(fd) = wake.readable.filter(|_| wake.at.is_none()) else { return true };
            let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
            let span = rustix::time::Timespec { tv_sec: seconds, tv_nsec: 0 };
            rustix::event::poll(&mut fds, Some(&span)).expect("polled") > 0
        };
        until("there is nothing", || {
            ends[to].take();
            !readable(&ends[to].port, 0)
        });
        ends[from].send_flows(&[frame(1, 60)], |_| by_queue(n / 2 % 3));
        assert!(readable(&ends[to].port, 30), "it was woken");
        assert_eq!(ends[to].take().len(), 1);
    }
}

#[test]
fn another_number_secret_or_user_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = |change: fn(&mut Settings), expected: &str| {
        let mut settings = Settings::new(Role::Master, &socket(&folder));
        (settings.id, settings.secret) = (1, Some("right".into()));
        let mut master = Bench::new(settings.clone());
        settings.role = Role::Slave;
        change(&mut settings);
        let mut slave = Bench::new(settings);
        until(expected, || master.reason().contains(expected) || slave.reason().contains(expected));
        assert!(master.port.details().iter().chain(&slave.port.details()).any(|(_, count)| *count > 0));
    };
    told(|settings| settings.id = 2, "id: found: 2; allowed: 1");
    told(|settings| settings.secret = Some("wrong".into()), "secret: found: another");
    told(|settings| settings.users = Users::One(4_000_000_000), "allowed: user 4000000000");
}

/// A peer that this test is itself, and the memory that both share.
struct Peer {
    socket: OwnedFd,
    joined: Option<Box<Joined>>,
    memory: Option<SharedMemory>,
    /// The second region, which is the port's pool.
    pool: Option<SharedMemory>,
}

impl Peer {
    /// Carries a handshake out, in the other role than the port's.
    fn join(listener: Option<&Listener>, settings: &Settings) -> Peer {
        let socket = match listener {
            Some(listener) => {
                let mut accepted = None;
                until("it connects", || {
                    accepted = listener.accept();
                    accepted.is_some()
                });
                accepted.expect("just seen")
            }
            None => connect(&settings.socket).expect("it listens"),
        };
        let (mut handshake, hello) = Handshake::new(settings);
        if let Some(hello) = hello {
            send(&socket, &hello.to_bytes(), &[]).expect("sent");
        }
        let mut peer = Peer { socket, joined: None, memory: None, pool: None };
        while peer.joined.is_none() {
            let (message, descriptors) = peer.next();
            peer.look_at(&message, descriptors.first());
            let answer = handshake.read(message, descriptors).expect("agreed");
            if let Some((message, descriptors)) = &answer.message {
                peer.look_at(message, descriptors.first());
                let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                send(&peer.socket, &message.to_bytes(), &descriptors).expect("sent");
            }
            peer.joined = answer.joined;
        }
        peer
    }

    /// Maps the memory for itself.
    fn look_at(&mut self, message: &Message, file: Option<&OwnedFd>) {
        if let (Message::AddRegion { size, index }, Some(file)) = (message, file) {
            let region = if *index == 0 { &mut self.memory } else { &mut self.pool };
            *region = Some(SharedMemory::map(file, *size as usize, true).expect("mapped"));
        }
    }

    fn next(&self) -> (Message, Vec<OwnedFd>) {
        let (mut bytes, mut read) = ([0; LENGTH], None);
        until("a message", || {
            read = receive(&self.socket, &mut bytes).expect("open");
            read.is_some()
        });
        let (length, descriptors) = read.expect("just seen");
        (Message::from_bytes(&bytes[..length]).expect("a message"), descriptors)
    }
}

/// A port of this role, up, and a peer that is this test.
fn with_peer(folder: &tempfile::TempDir, role: Role, queues: u32) -> (Bench, Peer) {
    with_peer_that_may_write(folder, role, queues, false)
}

/// The same, where a slave's peer may have its pool.
fn with_peer_that_may_write(
    folder: &tempfile::TempDir,
    role: Role,
    queues: u32,
    write: bool,
) -> (Bench, Peer) {
    let settings = |role| {
        let mut settings = Settings { queues, ..Settings::new(role, &socket(folder)) };
        small(&mut settings, write);
        settings
    };
    let (mut bench, peer) = match role {
        Role::Master => {
            let mut bench = Bench::new(settings(role));
            until("it listens", || bench.reason().contains("no peer"));
            (bench, Peer::join(None, &settings(Role::Slave)))
        }
        Role::Slave => {
            let listener = Listener::bind(&socket(folder), Users::own()).expect("bound");
            let bench = Bench::new(settings(role));
            (bench, Peer::join(Some(&listener), &settings(Role::Master)))
        }
    };
    until("it is up", || bench.is_up());
    (bench, peer)
}

#[test]
fn garbage_in_each_shared_word_harms_the_peer_alone() {
    for (role, write) in [(Role::Master, false), (Role::Slave, false), (Role::Slave, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut bench, mut peer) = with_peer_that_may_write(&folder, role, 2, write);
        // Two rings each way with their descriptors: 64 entries of 16 bytes, behind 128 bytes.
        let words = 4 * (128 + 64 * 16) / 4;
        let garbage = [u32::MAX, 1, 0x8000_0000, 0x0001_0000, 0xFFFF_0001, 300];
        let mut cuts = 0;
        for (n, value) in (0..words).flat_map(|word| garbage.map(|value| (word, value))) {
            let both = |n| (n as u32 % 2) << 31;
            bench.send_flows(&[frame(1, 60), frame(1, 60), frame(2, 700), frame(2, 700)], both);
            let memory = peer.memory.as_ref().expect("mapped");
            memory.word(n * 4).store(value, Relaxed);
            bench.send_flows(&[frame(3, 60), frame(3, 60)], both);
            bench.take();
            // Those in the rings stay with the peer, which lives, when it is cut off.
            assert!(bench.has_all_buffers(), "word {n}, {value:#x}");
            if !bench.is_up() {
                cuts += 1;
                assert!(bench.reason().contains("cut off"), "{}", bench.reason());
                drop(bench);
                (bench, peer) = with_peer_that_may_write(&folder, role, 2, write);
            }
        }
        assert!(cuts > 0, "{role:?}: impossible counts are noticed");
    }
}

#[test]
fn descriptors_that_name_what_is_not_the_peers_lose_a_packet() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut master, mut peer) = with_peer(&folder, Role::Master, 1);
    // The peer puts packets, and then says that they lie elsewhere: the first ring's descriptors begin at
    // byte 128.
    let wrong: [(usize, u32); 4] = [(0, 7 << 16), (1, u32::MAX), (2, u32::MAX), (1, 13)];
    let theirs = pool();
    for (n, (word, value)) in wrong.into_iter().enumerate() {
        let mut packet = theirs.allocate().expect("a buffer");
        theirs.write(&mut packet, &frame(1, 60)).expect("room");
        let joined = peer.joined.as_mut().expect("joined");
        joined.senders[0].put(&theirs, &mut packet).expect("room");
        theirs.free(packet);
        peer.memory.as_ref().expect("mapped").word(128 + n * 16 + word * 4).store(value, Relaxed);
        peer.joined.as_ref().expect("joined").senders[0].publish();
        assert_eq!(master.take(), Vec::<Vec<u8>>::new());
        assert_eq!(master.lost(DropReason::Malformed), n as u64 + 1);
    }
    // A packet without an end, and one that is longer than a buffer of the pool.
    let memory = peer.memory.as_ref().expect("mapped");
    memory.word(128 + 4 * 16).store(1, Relaxed);
    memory.half(6).store(5, Relaxed);
    assert_eq!(master.take().len(), 0);
    assert_eq!(master.lost(DropReason::Malformed), 5);
    for n in 5..64 + 5 {
        let place = 128 + (n % 64) * 16;
        memory.word(place).store(u32::from(n != 68), Relaxed);
        memory.word(place + 4).store(256, Relaxed);
        memory.word(place + 8).store(4096, Relaxed);
    }
    memory.half(6).store(69, Relaxed);
    assert_eq!(master.take().len(), 0);
    assert_eq!((master.lost(DropReason::TooLong), master.is_up()), (1, true));
    assert!(master.has_all_buffers());
}

#[test]
fn a_packet_that_is_lost_half_way_leaves_nothing_in_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut master, mut peer) = with_peer(&folder, Role::Master, 1);
    let theirs = pool();
    let sender = &mut peer.joined.as_mut().expect("joined").senders[0];
    for frame in [frame(1, 700), frame(2, 60), frame(3, 90)] {
        let mut packet = theirs.allocate().expect("a buffer");
        theirs.write(&mut packet, &frame).expect("room");
        sender.put(&theirs, &mut packet).expect("room");
        theirs.free(packet);
    }
    // The second part of the first one lies nowhere.
    peer.memory.as_ref().expect("mapped").word(128 + 16).store(7 << 16 | 1, Relaxed);
    sender.publish();
    assert_eq!(master.take(), [frame(2, 60), frame(3, 90)]);
    assert_eq!(master.lost(DropReason::Malformed), 1);
    let counters = master.port.counters();
    assert_eq!((counters.ledger.received, counters.received_bytes), (3, 150));
    assert!(master.has_all_buffers());
}

/// A slave whose peer has the pool, and that peer.
fn lending(folder: &tempfile::TempDir) -> (Bench, Peer) {
    with_peer_that_may_write(folder, Role::Slave, 1, true)
}

#[test]
fn a_peer_that_may_write_has_packets_where_they_lie() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut slave, peer) = lending(&folder);
    let (rings, pool) = (peer.memory.as_ref().expect("rings"), peer.pool.as_ref().expect("the pool"));
    assert_eq!((rings.len(), pool.len()), (2 * (128 + 64 * 16), slave.pool.memory().len()));
    // Region and place of a packet that was sent: the first ring's descriptors begin at byte 128.
    let mut packet = slave.pool.allocate().expect("a buffer");
    slave.pool.write(&mut packet, &frame(1, 300)).expect("room");
    let place = slave.pool.data(&packet).addr() - slave.pool.memory().base().addr().get();
    slave.port.transmit(&slave.pool, NOW, &mut vec![packet]);
    for (entry, length, more) in [(0, 256, 1), (1, 44, 0)] {
        let word = |n: usize| rings.word(128 + entry * 16 + n * 4).load(Relaxed);
        assert_eq!((word(0), word(1)), (1 << 16 | more, length));
        assert_eq!(word(2) as usize, place + entry * 256);
    }
    let mut free = Vec::new();
    slave.pool.allocate_batch(BUFFERS as usize, &mut free);
    let size = slave.pool.buffer_size() as usize;
    let begins = |packet: &Packet| slave.pool.data(packet).addr() - slave.pool.memory().base().addr().get();
    assert!(free.iter().all(|packet| begins(packet) / size != place / size), "it is the peer's");
    slave.pool.free_batch(free);
    let begin = place.next_multiple_of(4);
    let byte = pool.word(begin).load(Relaxed);
    assert_eq!(byte, 0x0101_0101, "its bytes are there");
    // What the peer writes to an empty buffer is the packet that comes: the second ring begins at 1152.
    let second = 128 + 64 * 16;
    let empty = |entry: usize| rings.word(second + 128 + entry * 16 + 8).load(Relaxed) as usize;
    let (first, last) = (empty(0), empty(1));
    pool.word(first).store(0x0403_0201, Relaxed);
    rings.word(second + 128 + 4).store(64, Relaxed);
    rings.half(second + 64).store(1, Relaxed);
    let mut out = Vec::new();
    slave.port.receive(&slave.pool, NOW, 64, &mut out);
    assert_eq!(slave.pool.to_vec(&out[0])[..4], [1, 2, 3, 4]);
    assert_eq!(slave.pool.data(&out[0]).addr() - slave.pool.memory().base().addr().get(), first);
    assert_ne!(empty(0), first, "there is another one in its place");
    // A chain of short parts becomes one packet.
    pool.word(last).store(0x0807_0605, Relaxed);
    pool.word(empty(2)).store(0x0c0b_0a09, Relaxed);
    for (entry, length, more) in [(1, 100, 1), (2, 4, 0)] {
        rings.word(second + 128 + entry * 16).store(1 << 16 | more, Relaxed);
        rings.word(second + 128 + entry * 16 + 4).store(length, Relaxed);
    }
    rings.half(second + 64).store(3, Relaxed);
    slave.port.receive(&slave.pool, NOW, 64, &mut out);
    let chain = slave.pool.to_vec(&out[1]);
    assert_eq!((chain.len(), &chain[..4], &chain[100..]), (104, &[5, 6, 7, 8][..], &[9, 10, 11, 12][..]));
    slave.pool.free_batch(out);
    assert!(slave.has_all_buffers());
}

#[test]
fn a_peer_that_may_write_names_no_place_and_no_length_but_its_buffers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut slave, peer) = lending(&folder);
    let rings = peer.memory.as_ref().expect("rings");
    let second = 128 + 64 * 16;
    let entry = |entry: usize, word: usize| rings.word(second + 128 + entry * 16 + word * 4);
    let room = entry(1, 1).load(Relaxed);
    // Another region, another place; one byte more than there is; a header's beginning.
    entry(0, 0).store(9 << 16, Relaxed);
    entry(0, 2).store(u32::MAX, Relaxed);
    for (n, length) in [60, room + 1, 13, room].into_iter().enumerate() {
        entry(n, 1).store(length, Relaxed);
    }
    rings.half(second + 64).store(4, Relaxed);
    let lengths: Vec<_> = slave.take().iter().map(Vec::len).collect();
    assert_eq!(lengths, [60, room as usize]);
    assert_eq!((slave.lost(DropReason::Malformed), slave.is_up()), (2, true));
    assert!(slave.has_all_buffers());
    // Without a free buffer packets are lost, and the ring keeps its own.
    let mut all = Vec::new();
    slave.pool.allocate_batch(BUFFERS as usize, &mut all);
    rings.half(second + 64).store(8, Relaxed);
    for n in 4..8 {
        entry(n, 1).store(60, Relaxed);
    }
    assert!(slave.take().is_empty());
    assert_eq!(slave.lost(DropReason::NoBuffer), 4);
    slave.pool.free_batch(all);
    assert!(slave.has_all_buffers());
    entry(8, 1).store(60, Relaxed);
    rings.half(second + 64).store(9, Relaxed);
    assert_eq!(slave.take().len(), 1);
}

#[test]
fn what_a_process_had_comes_back_when_it_is_gone_and_is_its_own_until_then() {
    let (pool, peers) = (pool(), Peers::default());
    let child = std::process::Command::new("sleep").arg("60").stdout(std::process::Stdio::null()).spawn();
    let mut child = child.expect("it is everywhere");
    let join = || {
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("it lives");
        peers.join(local_socket::Peer { pid: child.id(), uid: local_socket::own_uid(), pidfd }, &pool)
    };
    let connected = join();
    let rings = connected.lender().lend(2, 64, 256).expect("buffers");
    assert_eq!((rings.len(), pool.available()), (2, BUFFERS as usize - 128));
    drop(connected);
    assert!(peers.sweep());
    drop(rings);
    assert!(peers.sweep() && pool.available() == BUFFERS as usize - 128, "it can write there yet");
    // Its next connection has them again, one to another port has more.
    let (again, other) = (join(), join());
    let rings = again.lender().lend(1, 64, 256).expect("buffers");
    let others = other.lender().lend(1, 128, 256).expect("buffers");
    assert_eq!(pool.available(), BUFFERS as usize - 192);
    // What cannot be is refused, and takes nothing.
    let refused = other.lender().lend(2, 1024, 256).expect_err("more than there are");
    assert_eq!(refused, "found: 1856 free buffers in the pool; needed: 2048");
    assert_eq!(pool.available(), BUFFERS as usize - 192);
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    peers.sweep();
    assert_eq!(pool.available(), BUFFERS as usize - 192, "workers have the rings");
    drop((again, other, rings));
    assert!(peers.sweep() && pool.available() == BUFFERS as usize - 192, "a worker has a ring yet");
    drop(others);
    assert!(!peers.sweep(), "none is left");
    assert_eq!(pool.available(), BUFFERS as usize);
}

#[test]
fn a_peer_that_takes_one_region_gets_no_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Listener::bind(&socket(&folder), Users::own()).expect("bound");
    let mut settings = Settings::new(Role::Slave, &socket(&folder));
    small(&mut settings, true);
    let mut slave = Bench::new(settings);
    let mut accepted = None;
    until("it connects", || {
        accepted = listener.accept();
        accepted.is_some()
    });
    let hello = Hello {
        name: padded("a"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_m2s_ring: 0,
        max_s2m_ring: 0,
        max_log2_ring_size: 14,
    };
    send(accepted.as_ref().expect("seen"), &Message::Hello(hello).to_bytes(), &[]).expect("sent");
    until("it says so", || slave.reason().contains("found: a peer that takes one region; needed: two"));
    assert_eq!(slave.pool.available(), BUFFERS as usize);
}

/// Messages, and what comes with them.
type Said<'a> = Vec<(Message, Option<&'a OwnedFd>)>;

#[test]
fn hostile_messages_end_the_connection_and_the_next_peer_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = |role| Settings { ring: 64, queues: 2, ..Settings::new(role, &socket(&folder)) };
    let mut master = Bench::new(settings(Role::Master));
    until("it listens", || master.reason().contains("no peer"));
    let init = crate::Init { version: VERSION, id: 0, mode: 0, secret: [0; 24], name: padded("x") };
    let ring =
        AddRing { flags: 1, index: 0, region: 0, offset: 0, log2_ring_size: 6, private_header_size: 0 };
    let (_, file) = SharedMemory::create("peer", 4096).expect("memory");
    let plain = OwnedFd::from(tempfile::tempfile().expect("a file"));
    let region = |size, file| (Message::AddRegion { index: 0, size }, Some(file));
    fn with(mut more: Said<'_>) -> Said<'_> {
        let init = crate::Init { version: VERSION, id: 0, mode: 0, secret: [0; 24], name: padded("x") };
        more.insert(0, (Message::Init(init), None));
        more
    }
    let ringing = |ring| with(vec![region(4096, &file), (Message::AddRing(ring), Some(&file))]);
    let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("a descriptor");
    // Rings at one place, so that their numbers alone are wrong.
    let adding = |indices: &[u16]| {
        let added = |index: &u16| (Message::AddRing(AddRing { index: *index, ..ring.clone() }), Some(&bell));
        with([region(4096, &file)].into_iter().chain(indices.iter().map(added)).collect())
    };
    let hostile = [
        (vec![(Message::Ack, None)], "found: ACK; allowed: INIT"),
        (vec![(Message::Init(crate::Init { version: 1, ..init.clone() }), None)], "version: found: 0x0001"),
        (vec![(Message::Init(crate::Init { mode: 1, ..init.clone() }), None)], "mode: found: 1"),
        (with(vec![(Message::Connect([0; 32]), None)]), "allowed: after a ring each way"),
        (with(vec![(Message::AddRegion { index: 0, size: 4096 }, None)]), "allowed: with a descriptor"),
        (with(vec![region(u64::MAX, &file)]), "allowed: 268435456"),
        (with(vec![region(8192, &file)]), "needed: 8192"),
        (with(vec![region(0, &file)]), "region 0"),
        (with(vec![region(16, &plain)]), "region 0"),
        (with(vec![(Message::AddRegion { index: 5, size: 4096 }, Some(&file))]), "allowed: 0, the next one"),
        (with(vec![(Message::AddRing(ring.clone()), Some(&file))]), "allowed: one that was added"),
        (ringing(ring.clone()), "allowed: an eventfd"),
        (ringing(AddRing { log2_ring_size: 255, ..ring.clone() }), "found: a ring of 2^255"),
        (ringing(AddRing { offset: u32::MAX, ..ring.clone() }), "allowed: multiples of 8"),
        (ringing(AddRing { offset: 4096, ..ring.clone() }), "allowed: multiples of 8"),
        (
            ringing(AddRing { index: 9, ..ring.clone() }),
            "found: ring 9 to the master; allowed: 0, the next one",
        ),
        (
            ringing(AddRing { index: 1, flags: 0, ..ring.clone() }),
            "found: ring 1 to the slave; allowed: 0, the next one",
        ),
        (adding(&[0, 0]), "found: ring 0 to the master; allowed: 1, the next one"),
        (adding(&[0, 2]), "found: ring 2 to the master; allowed: 1, the next one"),
        (adding(&[0, 1, 2]), "found: ring 2 to the master; allowed: 2 each way, the port's `queues`"),
        (adding(&[0, 1, 1]), "found: ring 1 to the master; allowed: 2 each way, the port's `queues`"),
        (ringing(AddRing { private_header_size: 4, ..ring.clone() }), "private header"),
    ];
    for (messages, expected) in hostile {
        let peer = Peer {
            socket: connect(&socket(&folder)).expect("it listens"),
            joined: None,
            memory: None,
            pool: None,
        };
        assert!(matches!(peer.next().0, Message::Hello(_)));
        for (message, file) in messages {
            let descriptors: Vec<_> = file.iter().map(AsFd::as_fd).collect();
            let _ = send(&peer.socket, &message.to_bytes(), &descriptors);
            match peer.next().0 {
                Message::Ack => {}
                Message::Disconnect { reason, .. } => {
                    assert!(crate::message::shown(&reason).contains(&expected[..expected.len().min(40)]));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        until(expected, || master.reason().contains(expected));
    }
    let mut slave = Bench::new(settings(Role::Slave));
    until("both are up", || master.is_up() & slave.is_up());
    slave.send(&[frame(1, 60)]);
    assert_eq!(master.take(), [frame(1, 60)]);
}

#[test]
fn rings_of_different_sizes_and_numbers_or_at_one_place_serve_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { queues: 2, ring: 64, ..Settings::new(Role::Master, &socket(&folder)) };
    let mut master = Bench::new(settings);
    until("it listens", || master.reason().contains("no peer"));
    let init = crate::Init { version: VERSION, id: 0, mode: 0, secret: [0; 24], name: padded("x") };
    let (memory, file) = SharedMemory::create("peer", 8192).expect("memory");
    let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("a descriptor");
    let ring = |flags, index, offset: u32, log2_ring_size| {
        memory.word(offset as usize).store(crate::ring::COOKIE, Relaxed);
        let ring = AddRing { flags, index, region: 0, offset, log2_ring_size, private_header_size: 0 };
        (Message::AddRing(ring), Some(&bell))
    };
    // Two rings to the master, of 1 and 8 entries, and one to the slave, which is the second of those as
    // well.
    let said: Said<'_> = vec![
        (Message::Init(init), None),
        (Message::AddRegion { index: 0, size: 8192 }, Some(&file)),
        ring(1, 0, 0, 0),
        ring(1, 1, 256, 3),
        ring(0, 0, 256, 3),
        (Message::Connect([0; 32]), None),
    ];
    let peer = Peer {
        socket: connect(&socket(&folder)).expect("it listens"),
        joined: None,
        memory: None,
        pool: None,
    };
    assert!(matches!(peer.next().0, Message::Hello(_)));
    for (message, file) in said {
        let descriptors: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        send(&peer.socket, &message.to_bytes(), &descriptors).expect("sent");
        let answer = peer.next().0;
        assert!(matches!(answer, Message::Ack | Message::Connected(_)), "{answer:?}");
    }
    until("it is up", || master.is_up());
    // One packet of 64 bytes in the ring with one entry, two in the other.
    for (place, packets) in [(0, 1u16), (256, 2)] {
        for n in 0..usize::from(packets) {
            let entry = place + 128 + n * 16;
            memory.word(entry).store(0, Relaxed);
            memory.word(entry + 4).store(64, Relaxed);
            memory.word(entry + 8).store(4096, Relaxed);
        }
        memory.half(place + 6).store(packets, Relaxed);
    }
    assert_eq!(master.take().len(), 3);
    // What the master took of the shared ring is not offered to its other end any more.
    master.send(&[frame(1, 60)]);
    master.take();
    assert!(master.has_all_buffers());
    // A count too far in one ring ends the connection, whatever the other has.
    memory.half(6).store(9, Relaxed);
    master.take();
    assert!(!master.is_up() && master.reason().contains("cut off"), "{}", master.reason());
}

proptest! {
    /// What is read as a message is written as the same; nothing panics.
    #[test]
    fn messages_come_back_as_they_were(kind in 0u16..10, rest in proptest::collection::vec(any::<u8>(), LENGTH - 2)) {
        let bytes = [&kind.to_le_bytes()[..], &rest].concat();
        if let Ok(message) = Message::from_bytes(&bytes) {
            let written = message.to_bytes();
            prop_assert_eq!(Message::from_bytes(&written), Ok(message));
            prop_assert!(bytes.starts_with(&written[..2]));
        }
        prop_assert!(Message::from_bytes(&bytes[1..]).is_err());
    }
}

#[test]
fn messages_lie_as_the_protocol_has_them() {
    let hello = Hello {
        name: padded("a"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 1,
        max_m2s_ring: 2,
        max_s2m_ring: 3,
        max_log2_ring_size: 14,
    };
    let bytes = Message::Hello(hello).to_bytes();
    assert_eq!((&bytes[..3], &bytes[34..45]), (&[2, 0, b'a'][..], &[0, 2, 0, 2, 1, 0, 2, 0, 3, 0, 14][..]));
    let ring =
        AddRing { flags: 1, index: 2, region: 3, offset: 4, log2_ring_size: 5, private_header_size: 6 };
    assert_eq!(Message::AddRing(ring).to_bytes()[..15], [5, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 5, 6, 0]);
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

/// What a station at this port is known by.
fn identity() -> port::station::Identity {
    port::station::Identity {
        mac: [2, 0, 0, 0, 0, 9],
        dhcp: false,
        is_shared: false,
        addresses: Arc::default(),
        awaited: Arc::default(),
        around: port::station::Around::Nothing,
    }
}

#[test]
fn a_station_has_neighbours_at_the_peer() {
    let folder = tempfile::tempdir().expect("a folder");
    let [Bench { pool, port, .. }, mut peer] = pair(&folder, |_| ());
    let mut port = port::station::StationPort::new(Box::new(port)).expect("descriptors");
    let mut link = port.stations().expect("room").attach(identity(), || ());
    let mut question = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 6][..], &[0; 46]].concat();
    let other = frame(1, 60);
    peer.send(&[question.clone(), other.clone()]);
    let (mut got, mut passed) = (None, Vec::new());
    until("the question is the station's, and the other frame goes on", || {
        let mut out = Vec::new();
        port.receive(&pool, NOW, 64, &mut out);
        passed.extend(out.iter().map(|packet| pool.to_vec(packet)));
        pool.free_batch(out);
        got = got.take().or_else(|| link.next_frame());
        got.is_some() && !passed.is_empty()
    });
    assert_eq!((got, passed), (Some(question.clone()), vec![other]));
    question[..12].rotate_left(6);
    assert!(link.send(question.clone()));
    let mut sent = Vec::new();
    until("the answer is the peer's", || {
        port.receive(&pool, NOW, 64, &mut Vec::new());
        sent.extend(peer.take());
        !sent.is_empty()
    });
    assert_eq!(sent, [question]);
    assert!(link.is_up());
    drop(peer);
    until("it is told that the peer is gone", || {
        port.maintain(NOW);
        port.receive(&pool, NOW, 64, &mut Vec::new());
        !link.is_up()
    });
    assert_eq!(pool.available(), BUFFERS as usize);
}
