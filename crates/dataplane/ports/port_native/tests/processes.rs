//! Native ports and real processes: a program in C that forwards, is killed, sleeps, or writes wherever it
//! can.

use local_socket::Users;
use nf_abi::{DeviceEntry, NeighbourState};
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use port_native::{DeviceTable, NativePort, Processes, Settings};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use telemetry::DropReason;
use telemetry::clock::Nanos;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(60);
const BUFFERS: u32 = 2048;
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../..");

/// Compiles a program in C, with the library linked into it.
fn compile(name: &str, source: &Path, options: &[&str]) -> PathBuf {
    // Threads of a test binary may want one program at the same time.
    static ONE: std::sync::Mutex<u32> = std::sync::Mutex::new(0);
    let mut number = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *number += 1;
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("native-{name}-{number}"));
    let here = std::env::current_exe().expect("this test");
    let library = here.parent().expect("a folder").join("libsuperfluid_native.a");
    let done = Command::new("clang-19")
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(Path::new(ROOT).join("include"))
        .args(options)
        .arg(source)
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("clang-19 is needed: apt-get install clang-19 lld-19");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

fn forwarder() -> PathBuf {
    compile("forwarder", &Path::new(ROOT).join("examples/native/forwarder.c"), &[])
}

fn hostile() -> PathBuf {
    compile("hostile", &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile.c"), &["-D_GNU_SOURCE"])
}

/// A process of this test, ended with it.
struct Running(Child);

impl Running {
    fn start(program: &Path, arguments: &[&str]) -> Running {
        Running(Command::new(program).args(arguments).spawn().expect("it was just made"))
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
    }

    fn kill_and_wait(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_and_wait();
    }
}

/// Two ports of one tenant.
struct Pair {
    _folder: tempfile::TempDir,
    pool: Arc<Pool>,
    ports: [NativePort; 2],
    sockets: [String; 2],
    sent: u64,
    /// The devices behind the ports, and what is asked for there: at which, and what.
    tables: [Arc<DeviceTable>; 2],
    asked: Receiver<(usize, Vec<IpAddr>)>,
}

impl Pair {
    fn new(change: impl Fn(&mut Settings)) -> Pair {
        let folder = tempfile::tempdir().expect("a folder");
        // Processes of other users come by.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("its owner");
        let pages = Some(PageKind::Ordinary);
        let config = PoolConfig { buffers: BUFFERS, pages, ..PoolConfig::default() };
        let (pool, processes) = (Arc::new(Pool::new("test", config).expect("a pool")), Processes::default());
        let sockets = ["in", "out"].map(|name| folder.path().join(name).to_str().expect("text").to_owned());
        let (ask, asked) = channel();
        let tables = [0, 1].map(|which| {
            let ask = ask.clone();
            Arc::new(DeviceTable::new(move |addresses| drop(ask.send((which, addresses)))))
        });
        let ports = [0, 1].map(|which| {
            let mut settings = Settings { write: true, ..Settings::new(&sockets[which]) };
            change(&mut settings);
            let opened = NativePort::open_at_device(settings, pool.clone(), &processes, &tables[which]);
            opened.expect("opened")
        });
        Pair { _folder: folder, pool, ports, sockets, sent: 0, tables, asked }
    }

    fn paths(&self) -> [&str; 2] {
        [&self.sockets[0], &self.sockets[1]]
    }

    /// Gives up to `count` packets, numbered in their first bytes, to the first port.
    fn offer(&mut self, count: usize) {
        let mut packets = Vec::new();
        self.pool.allocate_batch(count, &mut packets);
        for packet in &mut packets {
            self.sent += 1;
            let bytes = [&self.sent.to_le_bytes()[..], &[0; 52]].concat();
            self.pool.write(packet, &bytes).expect("room");
        }
        self.ports[0].transmit(&self.pool, NOW, &mut packets);
    }

    /// What comes back by the second port, by number.
    fn collect(&mut self) -> Vec<u64> {
        let mut out = Vec::new();
        let mut nothing = Vec::new();
        self.ports[0].receive(&self.pool, NOW, 64, &mut nothing);
        self.ports[1].receive(&self.pool, NOW, 64, &mut out);
        let number = |packet: &Packet| u64::from_le_bytes(self.pool.head::<8>(packet).0);
        let numbers = out.iter().map(number).collect();
        self.pool.free_batch(out);
        self.pool.free_batch(nothing);
        numbers
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Pair) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            let states = self.ports.each_ref().map(|port| (port.status(), port.details()));
            assert!(begun.elapsed() < LONG, "{what}: {states:?}, {} free", self.pool.available());
            self.ports.iter_mut().for_each(|port| drop(port.maintain(NOW)));
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn until_all_is_back(&mut self) {
        self.until("all buffers are back", |pair| {
            pair.collect();
            pair.ports[0].status() != PortStatus::Up && pair.pool.available() == BUFFERS as usize
        });
    }

    fn until_up(&mut self) {
        self.until("both are up", |pair| pair.ports.iter().all(|port| port.status() == PortStatus::Up));
    }
}

#[test]
fn a_program_in_c_forwards_in_order_without_copies_and_a_killed_one_costs_no_buffer() {
    let program = forwarder();
    let mut pair = Pair::new(|_| ());
    for life in 0..5 {
        let running = Running::start(&program, &pair.paths());
        pair.until_up();
        let (mut last, mut count) = (pair.sent, 0u64);
        pair.until("packets pass", |pair| {
            pair.offer(32);
            for number in pair.collect() {
                assert!(number > last && number <= pair.sent, "{number} after {last}");
                (last, count) = (number, count + 1);
            }
            count > 5_000
        });
        // In the middle of it, without a word.
        pair.offer(64);
        running.kill();
        pair.until("it is noticed", |pair| {
            pair.offer(1);
            pair.ports.iter().all(|port| port.status() != PortStatus::Up)
        });
        pair.until("all buffers are back", |pair| pair.pool.available() == BUFFERS as usize);
        let faults = pair.ports[0]
            .details()
            .iter()
            .chain(&pair.ports[1].details())
            .filter(|(name, _)| *name == "descriptor_faults")
            .map(|(_, count)| count)
            .sum::<u64>();
        assert_eq!(faults, 0, "life {life}");
    }
}

/// Has a process forward into a ring that is not emptied, until it waits with a batch in its hands and
/// another one before it; none of these is lost.
fn nothing_is_lost_where_the_engine_takes_slowly(program: &Path, meanwhile: impl FnOnce(&mut Pair)) {
    const RING: usize = 64;
    // A process that is not woken sleeps on for longer than this test waits.
    let heartbeat = Nanos(600_000_000_000);
    let mut pair = Pair::new(|settings| {
        (settings.ring, settings.heartbeat) = (RING as u32, heartbeat);
    });
    let _running = Running::start(program, &pair.paths());
    pair.until_up();
    let waiting = |pair: &Pair| {
        let details = pair.ports[0].details();
        details.iter().find(|(name, _)| *name == "packets_waiting").expect("it is counted").1
    };
    for _ in 0..2 {
        pair.offer(RING);
        pair.ports[0].signal();
        pair.until("it takes them", |pair| waiting(pair) == 0);
    }
    pair.offer(RING);
    pair.ports[0].signal();
    meanwhile(&mut pair);
    assert_eq!(waiting(&pair), RING as u64, "it takes no more than it has room for");
    let mut came = Vec::new();
    pair.until("all have come", |pair| {
        came.extend(pair.collect());
        came.len() == 3 * RING
    });
    assert!(came.iter().copied().eq(1..=pair.sent), "{came:?}");
}

#[test]
fn a_program_in_c_waits_for_room_and_the_other_direction_does_not() {
    nothing_is_lost_where_the_engine_takes_slowly(&forwarder(), |pair| {
        let mut packets = Vec::new();
        pair.pool.allocate_batch(8, &mut packets);
        packets.iter_mut().for_each(|packet| pair.pool.write(packet, &[7; 60]).expect("room"));
        pair.ports[1].transmit(&pair.pool, NOW, &mut packets);
        pair.ports[1].signal();
        pair.until("the other way is free", |pair| {
            pair.ports[0].receive(&pair.pool, NOW, 64, &mut packets);
            packets.len() == 8
        });
        pair.pool.free_batch(packets);
    });
}

#[test]
fn a_function_in_c_waits_for_room() {
    let root = Path::new(ROOT);
    let adapter = root.join("include/superfluid_native_function.h");
    let options = ["-DSF_NATIVE", "-D_GNU_SOURCE", "-include", adapter.to_str().expect("text")];
    // It forwards what it gets as it is.
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("as-it-is.c");
    let text = "#include \"superfluid.h\"\nSF_FUNCTION(uint32_t)\nint32_t sf_init(void) { return 0; }\n\
                void sf_process(uint32_t count, uint64_t now) {\n  (void)now;\n  for (uint32_t n = 0; n < count; n++)\n    \
                sf_records()[n].verdict = sf_interface(1 - sf_records()[n].ingress);\n}\n";
    std::fs::write(&source, text).expect("its folder");
    nothing_is_lost_where_the_engine_takes_slowly(&compile("as-it-is", &source, &options), |_| ());
}

#[test]
fn buffers_of_a_process_that_closed_its_socket_come_back_when_it_is_gone_and_not_before() {
    let mut pair = Pair::new(|_| ());
    let mut child = {
        // A shell that has the descriptors of the program's sockets no more, and lives: the program's process
        // itself.
        let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lingering.c");
        let text = "#include \"superfluid_native.h\"\n#include <unistd.h>\nint main(int n, char **path) {\n  sfn_attachment *a; \
                    struct sfn_packet p[64]; (void)n;\n  if (sfn_attach(SFN_VERSION, path[1], &a, 0, 0)) return 1;\n  \
                    while (sfn_receive(a, p, 64) == 0) sfn_wait(&a, 1, 1000);\n  sfn_detach(a);\n  for (;;) pause();\n}\n";
        std::fs::write(&source, text).expect("written");
        Running::start(&compile("lingering", &source, &["-D_GNU_SOURCE"]), &[&pair.sockets[0]])
    };
    pair.until("it is up", |pair| pair.ports[0].status() == PortStatus::Up);
    pair.offer(10);
    pair.until("it has closed", |pair| {
        pair.collect();
        pair.ports[0].status() != PortStatus::Up
    });
    assert_eq!(pair.pool.available(), BUFFERS as usize - 10, "the process can touch them");
    child.kill_and_wait();
    pair.until("all buffers are back", |pair| pair.pool.available() == BUFFERS as usize);
}

/// A program that is asked to end has a handler that says so; it may have nothing else to wake up for.
#[test]
fn a_process_that_waits_for_ever_is_woken_by_its_own_signal() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("asked-to-end.c");
    let text = r#"
        #include "superfluid_native.h"
        #include <signal.h>
        #include <string.h>
        static volatile sig_atomic_t ends;
        static void end(int signal) { (void)signal; ends = 1; }
        int main(int n, char **path) {
            sfn_attachment *port;
            struct sigaction act;
            (void)n;
            memset(&act, 0, sizeof act);
            act.sa_handler = end;
            if (sigaction(SIGTERM, &act, 0) != 0 || sfn_attach(SFN_VERSION, path[1], &port, 0, 0) != 0)
                return 1;
            while (!ends)
                if (sfn_wait(&port, 1, -1) == SFN_CLOSED)
                    return 2;
            sfn_detach(port);
            return 0;
        }
    "#;
    std::fs::write(&source, text).expect("written");
    let mut pair = Pair::new(|_| ());
    let program = compile("asked-to-end", &source, &["-D_GNU_SOURCE"]);
    let mut running = Running::start(&program, &[&pair.sockets[0]]);
    pair.until("it is up", |pair| pair.ports[0].status() == PortStatus::Up);
    let mut ended = None;
    // One may come before it waits.
    pair.until("it has ended", |_| {
        ended = running.0.try_wait().expect("a child");
        if ended.is_none() {
            stop(&running, 15);
        }
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
}

/// What the ports have counted by a name.
fn counted(pair: &Pair, name: &str) -> [u64; 2] {
    pair.ports
        .each_ref()
        .map(|port| port.details().iter().find(|(other, _)| *other == name).expect("it is counted").1)
}

#[test]
fn a_process_that_stands_by_takes_over_from_one_that_dies_hangs_or_leaves() {
    let program = forwarder();
    let mut pair = Pair::new(|settings| (settings.standby, settings.heartbeat) = (1, Nanos(2_000_000_000)));
    let mut first = Running::start(&program, &pair.paths());
    pair.until_up();
    for life in 1..=6u64 {
        let mut second = Running::start(&program, &pair.paths());
        pair.until("it stands by", |pair| counted(pair, "processes_standby") == [1, 1]);
        // There is room for no third one.
        let third = Running::start(&program, &pair.paths()).0.wait().expect("it ends");
        assert!(!third.success());
        let from = pair.sent;
        pair.until("packets pass by the first one", |pair| {
            pair.offer(8);
            pair.collect().into_iter().any(|number| number > from)
        });
        let how = [libc::SIGKILL, libc::SIGSTOP, libc::SIGTERM][life as usize % 3];
        stop(&first, how);
        let from = pair.sent;
        pair.until("packets pass by the second one", |pair| {
            pair.offer(8);
            let came = pair.collect().into_iter().any(|number| number > from);
            came && counted(pair, "takeovers") == [life; 2]
        });
        assert_eq!(counted(&pair, "processes_standby"), [0, 0]);
        assert!(pair.ports.iter().all(|port| port.status() == PortStatus::Up), "it was not down");
        first.kill_and_wait();
        std::mem::swap(&mut first, &mut second);
    }
    first.kill_and_wait();
    pair.until_all_is_back();
    assert_eq!(counted(&pair, "descriptor_faults"), [0, 0]);
}

#[test]
fn a_process_that_gives_no_hint_of_its_end_is_followed_when_it_is_gone() {
    let program = hostile();
    // It takes no mutex, as a process with an older library.
    let mut pair = Pair::new(|settings| (settings.standby, settings.heartbeat) = (1, Nanos(60_000_000_000)));
    let mut first = Running::start(&program, &["lie", &pair.sockets[0], "1"]);
    pair.until("it is up", |pair| pair.ports[0].status() == PortStatus::Up);
    let mut second = Running::start(&program, &["lie", &pair.sockets[0], "2"]);
    pair.until("it stands by", |pair| counted(pair, "processes_standby") == [1, 0]);
    first.kill_and_wait();
    pair.until("the second one has taken over", |pair| {
        pair.offer(1);
        pair.collect();
        counted(pair, "takeovers") == [1, 0] && pair.ports[0].status() == PortStatus::Up
    });
    second.kill_and_wait();
    pair.until_all_is_back();
}

#[test]
fn garbage_in_every_shared_word_harms_the_hostile_process_alone() {
    let program = hostile();
    // What waits for hints of its end reads one of the words, too.
    let mut pair = Pair::new(|settings| (settings.standby, settings.heartbeat) = (1, Nanos(60_000_000_000)));
    let faults = |pair: &Pair| {
        pair.ports[0].details().iter().find(|(name, _)| *name == "descriptor_faults").map(|(_, n)| *n)
    };
    for seed in ["1", "2", "3", "4"] {
        let mut running = Running::start(&program, &["lie", &pair.sockets[0], seed]);
        pair.until("it is up", |pair| pair.ports[0].status() == PortStatus::Up);
        let before = faults(&pair).expect("they are counted");
        pair.until("lies are found out", |pair| {
            pair.offer(4);
            pair.collect();
            let _ = pair.ports[0].wake();
            faults(pair) > Some(before + 2_000)
        });
        assert_eq!(pair.ports[0].status(), PortStatus::Up, "its counts were possible");
        running.kill_and_wait();
        pair.until_all_is_back();
    }
    for seed in ["5", "6", "7", "8"] {
        let mut running = Running::start(&program, &["scribble", &pair.sockets[0], seed]);
        // It may be cut off before it is seen.
        pair.until("it is cut off", |pair| {
            pair.offer(4);
            pair.collect();
            running.0.try_wait().expect("it is ours").is_some()
        });
        running.kill_and_wait();
        pair.until_all_is_back();
    }
    // Every packet that was offered is accounted for.
    let ledger = &pair.ports[0].counters().ledger;
    assert_eq!(ledger.delivered + ledger.dropped.total() - ledger.dropped[DropReason::Malformed], pair.sent);
}

#[test]
fn a_process_that_fills_its_ring_and_sleeps_costs_what_it_was_given_and_no_more() {
    let program = forwarder();
    let mut pair = Pair::new(|settings| settings.heartbeat = Nanos(60_000_000_000));
    let mut running = Running::start(&program, &pair.paths());
    pair.until_up();
    stop(&running, libc::SIGSTOP);
    for _ in 0..100 {
        pair.offer(64);
    }
    // Its ring has 512 places; what was on its way when it stopped may be anywhere.
    let free = pair.pool.available();
    assert!((BUFFERS as usize - 1024..BUFFERS as usize - 511).contains(&free), "{free}");
    assert!(pair.ports[0].counters().ledger.dropped[DropReason::PortFull] >= 6_400 - 1_024);
    stop(&running, libc::SIGCONT);
    let mut came = 0;
    pair.until("what it had comes", |pair| {
        came += pair.collect().len();
        came >= 512 && pair.pool.available() == BUFFERS as usize
    });
    running.kill_and_wait();
}

fn stop(running: &Running, signal: i32) {
    let pid = rustix::process::Pid::from_child(&running.0);
    let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

#[test]
fn a_pool_that_is_read_only_cannot_be_written_to_in_any_way() {
    let program = hostile();
    // Of the same user, and, where this test may become another, of another: what the launcher's processes
    // are.
    let other = 65_534;
    let users = if rustix::process::geteuid().is_root() { vec![None, Some(other)] } else { vec![None] };
    for uid in users {
        let pair = Pair::new(|settings| {
            settings.write = false;
            settings.users = uid.map_or(Users::own(), Users::One);
        });
        let mut command = Command::new(&program);
        command.args(["write", &pair.sockets[0]]);
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let done = command.output().expect("it was just made");
        assert!(done.status.success(), "user {uid:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn a_function_that_builds_to_webassembly_runs_as_a_process() {
    let root = Path::new(ROOT);
    let adapter = root.join("include/superfluid_native_function.h");
    let options = ["-DSF_NATIVE", "-D_GNU_SOURCE", "-include", adapter.to_str().expect("text")];
    let program = compile("function", &root.join("functions/forwarder/src/forwarder.c"), &options);
    let mut pair = Pair::new(|_| ());
    let _running = Running::start(&program, &pair.paths());
    pair.until_up();
    let (pool, mut frames) = (pair.pool.clone(), Vec::new());
    let mut packet = vec![pool.allocate().expect("a buffer")];
    pool.write(&mut packet[0], &[[1; 6], [2; 6]].concat().repeat(5)).expect("room");
    pair.ports[0].transmit(&pool, NOW, &mut packet);
    pair.until("it is forwarded", |pair| {
        pair.ports[1].receive(&pair.pool, NOW, 32, &mut frames);
        !frames.is_empty()
    });
    // Addresses are swapped, by the function's default.
    assert_eq!(pool.to_vec(&frames[0])[..12], *[[2; 6], [1; 6]].concat());
    pool.free_batch(frames);
}

/// A function in C that asks for 10.0.0.2 behind its second interface and sends there what comes by the
/// first, with the interface's MAC address; until it knows it drops.
const SENDER: &str = r#"
#include "superfluid.h"
struct sender { uint8_t from[6], to[6], known; };
SF_FUNCTION(struct sender)
int32_t sf_init(void) { return 0; }
void sf_devices(uint64_t now)
{
    struct sf_device_entry entries[64];
    struct sender *self = sf_self();
    int32_t length = sf_read(SF_STREAM_DEVICES, 0, entries, sizeof entries);
    (void)now;
    self->known = 0;
    for (uint32_t n = 0; n < (uint32_t)length / sizeof *entries && n < 64; n++) {
        if (entries[n].interface != 1)
            continue;
        if (entries[n].kind == SF_DEVICE_INTERFACE)
            for (int m = 0; m < 6; m++)
                self->from[m] = entries[n].mac[m];
        if (entries[n].kind == SF_DEVICE_NEIGHBOUR && entries[n].state == SF_NEIGHBOUR_REACHABLE) {
            self->known = 1;
            for (int m = 0; m < 6; m++)
                self->to[m] = entries[n].mac[m];
        }
    }
}
void sf_process(uint32_t count, uint64_t now)
{
    const uint8_t address[4] = {10, 0, 0, 2};
    struct sender *self = sf_self();
    (void)now;
    for (uint32_t n = 0; n < count; n++) {
        struct sf_record *record = &sf_records()[n];
        uint8_t *frame = sf_data(record);
        if (!self->known) {
            sf_ask(1, 4, address);
            record->verdict = sf_drop(0);
            continue;
        }
        for (int m = 0; m < 6; m++)
            frame[m] = self->to[m], frame[m + 6] = self->from[m];
        record->verdict = sf_interface(1);
    }
}
"#;

#[test]
fn a_function_in_c_learns_of_a_neighbour_and_that_it_has_changed() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sender.c");
    std::fs::write(&source, SENDER).expect("written");
    let adapter = Path::new(ROOT).join("include/superfluid_native_function.h");
    let options = ["-DSF_NATIVE", "-D_GNU_SOURCE", "-include", adapter.to_str().expect("text")];
    let program = compile("sender", &source, &options);
    let mut pair = Pair::new(|settings| settings.heartbeat = Nanos(60_000_000_000));
    let _running = Running::start(&program, &pair.paths());
    pair.until_up();
    let tell = |pair: &Pair, mac: u8| {
        let own = DeviceEntry::Interface { interface: 0, is_up: true, mac: [2, 0, 0, 0, 0, 9], mtu: 1500 };
        let neighbour = DeviceEntry::Neighbour {
            interface: 0,
            address: [10, 0, 0, 2].into(),
            state: if mac == 0 { NeighbourState::Asked } else { NeighbourState::Reachable },
            mac: [2, 0, 0, 0, 0, mac],
        };
        pair.tables[1].tell([own, neighbour].iter().flat_map(|entry| entry.encode()).collect());
    };
    pair.until("it asks", |pair| {
        pair.offer(1);
        pair.collect();
        // It asks for each packet that it drops; asks of a moment come together.
        let asked = pair.asked.try_recv();
        asked.is_ok_and(|(which, asked)| {
            assert!(which == 1 && asked.iter().all(|address| *address == IpAddr::from([10, 0, 0, 2])));
            !asked.is_empty()
        })
    });
    tell(&pair, 0);
    for mac in [1, 2] {
        tell(&pair, mac);
        let mut frames = Vec::new();
        pair.until("it sends there", |pair| {
            pair.offer(1);
            let mut out = Vec::new();
            pair.ports[0].receive(&pair.pool, NOW, 64, &mut Vec::new());
            pair.ports[1].receive(&pair.pool, NOW, 64, &mut out);
            frames.extend(out.iter().map(|packet| pair.pool.to_vec(packet)[..12].to_vec()));
            pair.pool.free_batch(out);
            frames.iter().any(|frame| *frame == [2, 0, 0, 0, 0, mac, 2, 0, 0, 0, 0, 9])
        });
    }
}

#[test]
fn a_process_that_floods_its_socket_for_devices_harms_itself_alone() {
    let program = hostile();
    let mut pair = Pair::new(|settings| settings.heartbeat = Nanos(60_000_000_000));
    let entries = |n: u32| -> Arc<[u8]> {
        let address = |host: u32| IpAddr::from((0x0a00_0000 + n * 4096 + host).to_be_bytes());
        (0..4096).flat_map(|host| DeviceEntry::ask(0, address(host)).encode()).collect()
    };
    for (life, seed) in ["1", "2", "3"].into_iter().enumerate() {
        let mut running = Running::start(&program, &["devices", &pair.sockets[0], seed]);
        pair.until("it is up", |pair| pair.ports[0].status() == PortStatus::Up);
        let before = (counted(&pair, "message_faults")[0], counted(&pair, "asks")[0]);
        // It reads none of what it is told meanwhile; whatever tells waits for nothing.
        let mut told = 0;
        pair.until("garbage and asks are counted", |pair| {
            told += 1;
            pair.tables[0].tell(entries(told % 200));
            pair.offer(1);
            pair.collect();
            let now = (counted(pair, "message_faults")[0], counted(pair, "asks")[0]);
            now.0 > before.0 + 500 && now.1 > before.1 + 500 && told > 100
        });
        // No more than is allowed at a time, and addresses that are some.
        for (which, addresses) in pair.asked.try_iter() {
            assert!(which == 0 && addresses.len() <= nf_abi::MAX_ASKS, "life {life}: {}", addresses.len());
        }
        assert_eq!(pair.ports[0].status(), PortStatus::Up, "it goes on with its packets");
        running.kill_and_wait();
        pair.until_all_is_back();
    }
    // The next one is told as if nothing had been.
    let text = "#include \"superfluid_native.h\"\nint main(int n, char **path) {\n  sfn_attachment *a; struct sfn_device d[5000];\n  \
                (void)n;\n  if (sfn_attach(SFN_VERSION, path[1], &a, 0, 0)) return 1;\n  while (!sfn_devices_changed(a)) \
                sfn_wait(&a, 1, 1000);\n  return sfn_devices(a, d, 5000) == 4096 && d[0].kind == SFN_DEVICE_NEIGHBOUR ? 0 : 2;\n}\n";
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("told.c");
    std::fs::write(&source, text).expect("written");
    let mut running = Running::start(&compile("told", &source, &["-D_GNU_SOURCE"]), &[&pair.sockets[0]]);
    pair.until("it was told", |_| running.0.try_wait().expect("it is ours").is_some());
    assert!(running.0.wait().expect("it has ended").success());
}

/// A rate, and no test: run it with `--release`, `--ignored` and `--nocapture` on a machine that does nothing
/// else.
#[test]
#[ignore = "it measures"]
fn what_a_forwarder_passes_with_a_core_of_its_own() {
    let program = forwarder();
    let mut pair = Pair::new(|settings| settings.ring = 1024);
    let _running = Running::start(&program, &pair.paths());
    pair.until_up();
    let mut out = Vec::new();
    let mut pass = |pair: &mut Pair, span: Duration| {
        let (begun, mut passed) = (Instant::now(), 0u64);
        while begun.elapsed() < span {
            for _ in 0..64 {
                let mut packets = Vec::new();
                pair.pool.allocate_batch(32, &mut packets);
                for packet in &mut packets {
                    pair.pool.set_length(packet, 60).expect("room");
                }
                pair.ports[0].transmit(&pair.pool, NOW, &mut packets);
                pair.ports[1].receive(&pair.pool, NOW, 64, &mut out);
                pair.ports[0].receive(&pair.pool, NOW, 64, &mut packets);
                passed += out.len() as u64;
                pair.pool.free_batch(out.drain(..).chain(packets));
            }
        }
        passed as f64 / begun.elapsed().as_secs_f64() / 1e6
    };
    pass(&mut pair, Duration::from_millis(500));
    let mut rates: Vec<f64> = (0..5).map(|_| pass(&mut pair, Duration::from_secs(1))).collect();
    rates.sort_by(f64::total_cmp);
    println!("{:.2} Mpps through a process, of {:.2} to {:.2} in five runs", rates[2], rates[0], rates[4]);
}
