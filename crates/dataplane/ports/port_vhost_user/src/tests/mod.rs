//! A port and a front end that is played by the test, with a guest that writes anything.

mod front_end;
mod hostile;
mod logging;
mod messages;
mod offloads;
mod passing;

use crate::{Role, SCHEMA, Settings, VhostUserPort};
use local_socket::Users;
use nf_abi::PacketRecord;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::DropReason;
use telemetry::clock::Nanos;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(60);
const BUFFERS: u32 = 1024;

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn path(folder: &tempfile::TempDir) -> String {
    folder.path().join("vhost.sock").to_str().expect("text").to_owned()
}

fn frame(byte: u8, length: usize) -> Vec<u8> {
    (0..length).map(|n| byte.wrapping_add((n / 251) as u8)).collect()
}

/// A port, and the pool of its tenant.
struct Bench {
    pool: Arc<Pool>,
    port: VhostUserPort,
    events: Vec<port::PortEvent>,
}

impl Bench {
    fn new(settings: Settings) -> Bench {
        Bench::with_buffers(settings, 16_384)
    }

    fn with_buffers(settings: Settings, size: u32) -> Bench {
        let config = PoolConfig {
            buffers: BUFFERS,
            pages: Some(PageKind::Ordinary),
            buffer_size: BufferSize::new(size).expect("allowed"),
            ..PoolConfig::default()
        };
        let pool = Arc::new(Pool::new("test", config).expect("a pool"));
        Bench { pool, port: VhostUserPort::open(settings).expect("opened"), events: Vec::new() }
    }

    fn is_up(&mut self) -> bool {
        self.events.extend(self.port.maintain(NOW));
        self.port.status() == PortStatus::Up
    }

    /// Why it is down.
    fn reason(&mut self) -> String {
        self.events.extend(self.port.maintain(NOW));
        match self.port.status() {
            PortStatus::Down(reason) => reason,
            other => format!("{other:?}"),
        }
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        self.send_as(frames, |_, _| ());
    }

    /// Sends frames whose records were changed.
    fn send_as(&mut self, frames: &[Vec<u8>], change: impl Fn(usize, &mut PacketRecord)) {
        let mut packets = Vec::new();
        for (n, frame) in frames.iter().enumerate() {
            let mut packet = self.pool.allocate().expect("a buffer");
            self.pool.write(&mut packet, frame).expect("room");
            packet.edit(|record| change(n, record));
            packets.push(packet);
        }
        self.port.transmit(&self.pool, NOW, &mut packets);
        assert!(packets.is_empty());
    }

    fn take_packets(&mut self, budget: usize) -> Vec<(PacketRecord, Vec<u8>)> {
        let mut out: Vec<Packet> = Vec::new();
        self.port.receive(&self.pool, NOW, budget, &mut out);
        assert!(out.len() <= budget);
        let found = out.iter().map(|packet| (*packet.record(), self.pool.to_vec(packet))).collect();
        self.pool.free_batch(out);
        found
    }

    fn take(&mut self) -> Vec<Vec<u8>> {
        self.take_packets(64).into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn lost(&self, reason: DropReason) -> u64 {
        self.port.counters().ledger.dropped[reason]
    }

    fn has_all_buffers(&self) -> bool {
        self.pool.available() == BUFFERS as usize
    }

    /// Whether the worker would be woken within this time, or not sleep at all.
    fn wakes_within(&self, seconds: i64) -> bool {
        let wake = self.port.wake();
        let Some(fd) = wake.readable.filter(|_| wake.at.is_none()) else { return true };
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
        let span = rustix::time::Timespec { tv_sec: seconds, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&span)).expect("polled") > 0
    }

    /// Has the worker sleep, with nothing to do.
    fn sleeps(&mut self) {
        until("there is nothing to do", || {
            self.take();
            !self.wakes_within(0)
        });
    }
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
    assert_eq!(read("{role: client, socket: /run/a}"), Ok(Settings::new(Role::Client, "/run/a")));
    let all = "{role: server, socket: /a, uid: 7, queues: 4, offload: off, memory: 64MiB}";
    let expected = Settings {
        role: Role::Server,
        socket: "/a".into(),
        users: Users::One(7),
        queues: 4,
        offload: false,
        memory: 64 << 20,
    };
    assert_eq!(read(all), Ok(expected));
    assert_eq!(read("{role: master, socket: /a}"), Err(1));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut Settings)| {
        let mut settings = Settings::new(Role::Client, "/nowhere/a");
        change(&mut settings);
        VhostUserPort::open(settings).expect_err("refused").to_string()
    };
    assert!(
        refused(|settings| settings.socket = "a".into()).starts_with("socket: found `a`; allowed: a path")
    );
    assert_eq!(refused(|settings| settings.queues = 17), "queues: found `17`; allowed: 1 to 16");
}

#[test]
fn the_readme_has_the_keys_of_the_schema_and_examples_that_are_accepted() {
    let readme = include_str!("../../README.md");
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
