//! Packets that are longer than a link takes, from the kernel to the kernel, by each kind of port that they
//! leave by: TCP and UDP that are still to be segmented, and what is to be fragmented or answered. Runs in
//! namespaces of its own.

#[path = "support/native_forwarder.rs"]
mod native_forwarder;
#[path = "support/whole_packets.rs"]
mod whole_packets;

use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use testbed::{
    Background, CLIENT, Iperf, Line, Namespace, SERVER, TestbedError, isolated, pattern, segments_of_udp,
};

const LIMIT: Duration = Duration::from_secs(20);
/// Of the start, which compiles images where that was not done before.
const START: Duration = Duration::from_secs(60);
/// Addresses of the client and the server, of both versions of IP.
const FROM: [&str; 2] = [CLIENT, "2001:db8:83::1"];
const TO: [&str; 2] = [SERVER, "2001:db8:83::2"];
/// Longer than the kernel hands over at once.
const STREAM: usize = 3 << 20;
/// The link that becomes too narrow takes so many bytes.
const NARROW: u32 = 1400;

/// Packets come from the client by a port whose packets may be still to be segmented, and leave by that of a
/// device. `PORTS` are the others.
const FILE: &str = "\
superfluid: 1
tenants: {default: {pool: {buffers: 2048, buffer_size: 64KiB}}}
ports:
  lan: {type: af_packet, interface: sf-lan}
PORTS
devices: {edge: {mode: direct, over: [wan]}}
functions: {gate: {image: firewall, config: {default_action: accept}}}
chains: {c: [lan, gate, edge]}
";

/// Gives a host its usual address and one of IPv6.
fn addresses(host: &Namespace, [four, six]: [&str; 2]) {
    host.enter(|| {
        for which in ["all", "default", "eth0"] {
            let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            fs::write(path, "0").expect("IPv6 can be switched on");
        }
    });
    host.ip(&format!("addr replace {four}/24 dev eth0")).expect("an address");
    host.ip(&format!("addr add {six}/64 dev eth0 nodad")).expect("an address");
}

/// A line and a program, which forwards what comes.
struct Running {
    line: Line,
    program: Background,
    /// Sockets and the file.
    _folder: tempfile::TempDir,
}

impl Running {
    /// `make` makes what the ports need, while the program runs.
    fn start(ports: impl Fn(&Path) -> String, make: impl FnOnce(&Line)) -> Running {
        let line = Line::new().expect("a line");
        addresses(&line.client, FROM);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("large.yaml");
        fs::write(&file, FILE.replace("PORTS\n", &ports(folder.path()))).expect("written");
        let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
        let program = Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts");
        make(&line);
        addresses(&line.server, TO);
        let mut running = Running { line, program, _folder: folder };
        for to in TO {
            running.until(START, |line| line.client.run(&format!("ping -c 1 -W 1 {to}"), LIMIT).map(drop));
        }
        running
    }

    /// Waits until something succeeds.
    fn until(&mut self, limit: Duration, what: impl Fn(&Line) -> Result<(), TestbedError>) {
        let begin = Instant::now();
        while let Err(error) = what(&self.line) {
            assert!(self.program.is_running() && begin.elapsed() < limit, "{error}");
        }
    }

    fn ping(&self, to: &str, options: &str) -> Result<(), TestbedError> {
        self.line.client.run(&format!("ping -c 1 -W 3 {options} {to}"), LIMIT).map(drop)
    }

    /// TCP both ways, and datagrams, which are still to be segmented when they come.
    fn segments_pass(&self) {
        for (from, to) in FROM.into_iter().zip(TO) {
            stream(&self.line, to, |_| {});
            segments_of_udp((&self.line.client, from), (&self.line.server, to), 1000, false);
        }
    }

    /// The link ahead takes less from now on. `narrow` are the interfaces at its ends.
    fn narrow_links_are_told_of(&mut self, narrow: impl Fn(&Line, u32)) {
        narrow(&self.line, 1500);
        for to in TO {
            self.ping(to, "-M do -s 1400").expect("it fits");
        }
        // A connection that is there learns of it from what comes back.
        for to in TO {
            stream(&self.line, to, |line| narrow(line, NARROW));
            narrow(&self.line, 1500);
        }
        narrow(&self.line, NARROW);
        // A device that is handed what is too long for it takes it until the port looks at it again.
        let begin = Instant::now();
        while self.ping(TO[0], "-M do -s 1472").is_ok() {
            assert!(begin.elapsed() < LIMIT, "what is too long for the link passes");
        }
        // What was learned is for this destination, and forgotten with the routes.
        for host in [&self.line.client, &self.line.server] {
            host.ip("route flush cache").expect("flushed");
            host.ip("-6 route flush cache").expect("flushed");
        }
        let [four, six] = TO;
        // Fragments, of one packet and of each that is cut from one.
        self.until(LIMIT, |line| {
            line.client.run(&format!("ping -c 1 -W 1 -M dont -s 1472 {four}"), LIMIT).map(drop)
        });
        segments_of_udp((&self.line.client, FROM[0]), (&self.line.server, four), 1450, true);
        // Answers.
        let told = self.ping(four, "-M do -s 1472").expect_err("it is too long").to_string();
        assert!(told.contains("mtu = 1400") || told.contains("mtu=1400"), "{told}");
        let told = self.ping(six, "-M do -s 1452").expect_err("it is too long").to_string();
        assert!(told.contains("mtu=1400") || told.contains("mtu = 1400"), "{told}");
        // The sender keeps to it.
        self.ping(six, "-s 1452").expect("the sender fragments it");
        for to in TO {
            stream(&self.line, to, |_| {});
        }
    }

    /// Ends it; the account balances.
    fn end(self) -> Value {
        let shown = self.program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
        let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let account = events.rfind(|event| event["event"] == "final").expect("an account");
        assert_eq!(account["balanced"], true, "{account}");
        account
    }
}

/// Sends bytes over TCP from the client to the server and back, and compares; `meanwhile` is done when the
/// first half is on its way.
fn stream(line: &Line, to: &str, meanwhile: impl FnOnce(&Line)) {
    let sent = pattern(STREAM);
    let end = SocketAddr::new(to.parse().expect("an address"), 7000);
    let listener = line.server.enter(|| TcpListener::bind(end)).expect("a free port");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_read_timeout(Some(LIMIT)).expect("a valid limit");
            let mut all = vec![0; STREAM];
            stream.read_exact(&mut all).expect("the stream from the client");
            stream.write_all(&all).expect("the way back");
        });
        let mut stream = line.client.enter(|| TcpStream::connect_timeout(&end, LIMIT)).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a valid limit");
        let (first, second) = sent.split_at(STREAM / 2);
        stream.write_all(first).expect("the stream to the server");
        meanwhile(line);
        stream.write_all(second).expect("the stream to the server");
        let mut received = vec![0; STREAM];
        stream.read_exact(&mut received).expect("the stream from the server");
        assert!(sent == received, "the bytes changed on their way");
    });
}

/// Sets the MTU of a veth pair at both ends: what is longer than one of them takes is lost there.
fn of_pair(line: &Line, mtu: u32) {
    line.server.ip(&format!("link set eth0 mtu {mtu}")).expect("a valid MTU");
    line.middle.ip(&format!("link set sf-wan mtu {mtu}")).expect("a valid MTU");
}

#[test]
fn by_af_packet() {
    isolated("by_af_packet", || {
        let mut running =
            Running::start(|_| "  wan: {type: af_packet, interface: sf-wan}\n".to_owned(), |_| {});
        running.segments_pass();
        running.narrow_links_are_told_of(of_pair);
        running.end();
    });
}

/// Of the host's root alone.
#[test]
fn by_af_xdp() {
    isolated("by_af_xdp", || {
        let map = fs::read_to_string("/proc/self/uid_map").expect("a map of users");
        if !map.split_whitespace().eq(["0", "0", "4294967295"]) {
            eprintln!("skipped: AF_XDP is for the host's root alone");
            return;
        }
        let mut running = Running::start(|_| "  wan: {type: af_xdp, interface: sf-wan}\n".to_owned(), |_| {});
        running.segments_pass();
        running.narrow_links_are_told_of(of_pair);
        let account = running.end();
        let wan = &account["ports"]["wan"]["packets"];
        assert_eq!(
            (&wan["dropped"]["port-refused"], wan["split"].as_u64() > Some(100)),
            (&Value::Null, true)
        );
    });
}

#[test]
fn by_tap() {
    isolated("by_tap", || {
        let give = |line: &Line| {
            line.middle.ip("link del sf-wan").expect("it goes");
            let begin = Instant::now();
            while line.middle.give("tap-wan", &line.server, "eth0").is_err() {
                assert!(begin.elapsed() < START, "the program makes its device");
                thread::sleep(Duration::from_millis(50));
            }
            line.server.ip("link set eth0 up").expect("switched on");
        };
        let mut running = Running::start(|_| "  wan: {type: tap, interface: tap-wan}\n".to_owned(), give);
        running.segments_pass();
        let own = |line: &Line, mtu: u32| line.server.ip(&format!("link set eth0 mtu {mtu}")).expect("valid");
        running.narrow_links_are_told_of(own);
        running.end();
    });
}

/// What leaves by shared memory has no word for what is still to be segmented, and no link that is narrow.
#[test]
fn by_memif() {
    isolated("by_memif", || {
        let ports = |folder: &Path| {
            let socket = folder.join("memif.sock");
            let socket = socket.display();
            format!(
                "  wan: {{type: memif, socket: {socket}, role: master}}\n  \
                 far: {{type: memif, socket: {socket}, role: slave}}\n  \
                 out: {{type: af_packet, interface: sf-wan}}\nwires: [[far, out]]\n"
            )
        };
        let running = Running::start(ports, |_| {});
        running.segments_pass();
        let account = running.end();
        assert!(account["ports"]["wan"]["packets"]["split"].as_u64() > Some(100), "{account}");
    });
}

/// A program in C between a firewall and a link: what comes in segments of many packets leaves it so,
/// checksums unfinished as they are.
#[test]
fn by_a_program_of_the_native_library() {
    isolated("by_a_program_of_the_native_library", || {
        let programs = tempfile::tempdir().expect("a folder");
        let forwarder = programs.path().join("forwarder");
        native_forwarder::compile(&forwarder, &[]);
        let process = RefCell::new(None);
        let ports = |folder: &Path| {
            let socket = |name: &str| folder.join(name).display().to_string();
            let [left, right] = ["left.sock", "right.sock"].map(socket);
            *process.borrow_mut() = Some([left.clone(), right.clone()]);
            format!(
                "  wan: {{type: native, socket: {left}, write: true}}\n  \
                 far: {{type: native, socket: {right}, write: true}}\n  \
                 out: {{type: af_packet, interface: sf-wan}}\nwires: [[far, out]]\n"
            )
        };
        let started = RefCell::new(None);
        let start = |line: &Line| {
            let sockets = process.borrow_mut().take().expect("the ports were written");
            let begin = Instant::now();
            while !sockets.iter().all(|socket| Path::new(socket).exists()) {
                assert!(begin.elapsed() < START, "the program makes its sockets");
                thread::sleep(Duration::from_millis(50));
            }
            let mut command = line.middle.command(&forwarder.display().to_string());
            *started.borrow_mut() = Some(Background::start(command.args(&sockets)).expect("it starts"));
        };
        let running = Running::start(ports, start);
        running.segments_pass();
        let iperf = Iperf::serve(&running.line.server).expect("a server");
        for direction in ["", "--reverse"] {
            let command = format!("iperf3 --client {SERVER} --bytes 64M {direction}");
            running.line.client.run(&command, LIMIT).expect("TCP passes");
        }
        drop(iperf);
        let account = running.end();
        for port in ["wan", "far"] {
            whole_packets::passed(&account, port, 64 << 20);
        }
    });
}
