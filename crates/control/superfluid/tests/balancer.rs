//! The load balancer between kernels: clients of virtual addresses, servers that come and go, and answers
//! that go straight to the client. Runs in namespaces of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use testbed::{Background, Line, Namespace, isolated};

const LIMIT: Duration = Duration::from_secs(60);
/// The virtual address whose packets are translated, and the one of direct server return.
const VIRTUAL: &str = "10.83.0.9:80";
const DIRECT: &str = "10.83.0.10:80";
/// Two servers.
const FIRST: &str = "10.84.0.2";
const SECOND: &str = "10.84.0.3";

const FILE: &str = "superfluid: 1
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
devices:
  front: {mode: direct, over: [lan], addresses: [10.83.0.9/24, 10.83.0.10/24], mac: '02:00:00:00:00:09'}
  back: {mode: direct, over: [wan], addresses: [10.84.0.254/24], mac: '02:00:00:00:00:0a'}
functions:
  balancer:
    image: load-balancer
    attach: {clients: front, servers: back}
    config:
      services:
        - name: web
          address: 10.83.0.9
          protocol: tcp
          ports: '80'
          check: {interval: 200ms, timeout: 100ms, rise: 2, fall: 2}
          servers: [{address: 10.84.0.2, port: 8080}, {address: 10.84.0.3, port: 8080}]
        - {name: near, address: 10.83.0.10, protocol: tcp, ports: '80', forward: direct, servers: [{address: 10.84.0.2}]}
      unmatched: drop
";

/// A server that says its own address, and then sends back what it is sent.
struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(host: &Namespace, own: &'static str) -> Server {
        let listener = host.enter(|| TcpListener::bind(own)).unwrap_or_else(|error| panic!("{own}: {error}"));
        listener.set_nonblocking(true).expect("it can");
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => drop(thread::spawn(move || echo(client, own))),
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Server { stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends in order");
        }
    }
}

fn echo(mut client: TcpStream, own: &str) {
    client.set_nonblocking(false).expect("it can");
    // A client that goes away ends it.
    if client.write_all(format!("{own}\n").as_bytes()).is_err() {
        return;
    }
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        if client.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// Connects to a service: the stream, and the server that answered.
fn connect(line: &Line, service: &str) -> Option<(TcpStream, String)> {
    let service: SocketAddr = service.parse().expect("an end");
    let mut stream =
        line.client.enter(|| TcpStream::connect_timeout(&service, Duration::from_secs(1))).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).expect("it can");
    let mut name = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte).ok()?;
        name.extend(byte);
    }
    let name = String::from_utf8(name).expect("an address");
    Some((stream, name.split(':').next().unwrap_or_default().to_owned()))
}

/// Sends bytes, and gets the same back.
fn round(stream: &mut TcpStream, count: usize) {
    let sent: Vec<u8> = (0..count).map(|n| (n * 7 % 251) as u8).collect();
    let mut got = vec![0; count];
    let mut writer = stream.try_clone().expect("another handle");
    thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&sent).expect("it takes all"));
        stream.read_exact(&mut got).expect("all comes back");
    });
    assert!(sent == got, "other bytes came back");
}

/// Waits until this is so.
fn until(what: &str, program: &mut Background, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT && program.is_running(), "{what}: not in time");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The servers that answer twenty connections.
fn answering(line: &Line) -> Vec<String> {
    let mut names: Vec<String> =
        (0..20).map(|_| connect(line, VIRTUAL).map_or_else(String::new, |(_, name)| name)).collect();
    names.sort();
    names.dedup();
    names
}

/// Both servers are addresses of one host. Its answers from the address of direct server return have a link
/// of their own to the client.
fn arrange(line: &Line) {
    let (server, client) = (&line.server, &line.client);
    server.ip("addr flush dev eth0").expect("it is up");
    for address in [FIRST, SECOND] {
        server.ip(&format!("addr add {address}/24 dev eth0")).expect("an address");
    }
    server.ip("route add 10.83.0.0/24 via 10.84.0.254").expect("a route");
    server.join("eth1", client, "eth1").expect("a second link");
    server.ip("link set lo up").expect("it is there");
    server.ip("addr add 10.83.0.10/32 dev lo").expect("an address");
    server.ip("rule add from 10.83.0.10 table 7").expect("a rule");
    server.ip("route add 10.83.0.1/32 dev eth1 table 7").expect("a route");
    for which in ["all", "eth1"] {
        client.enter(|| {
            let path = format!("/proc/sys/net/ipv4/conf/{which}/rp_filter");
            std::fs::write(&path, "0").unwrap_or_else(|error| panic!("{path}: {error}"));
        });
    }
}

#[test]
fn servers_come_and_go_and_connections_stay() {
    isolated("servers_come_and_go_and_connections_stay", || {
        let line = Line::new().expect("a line");
        arrange(&line);
        let first = Server::start(&line.server, "10.84.0.2:8080");
        let second = Server::start(&line.server, "10.84.0.3:8080");
        let near = Server::start(&line.server, DIRECT);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("balancer.yaml");
        std::fs::write(&file, FILE).expect("written");
        let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
        let mut program = Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts");
        until("both servers", &mut program, || answering(&line) == [FIRST, SECOND]);

        let (mut stays, _) = (0..100)
            .filter_map(|_| connect(&line, VIRTUAL))
            .find(|(_, name)| name == FIRST)
            .expect("one of a hundred is the first's");
        round(&mut stays, 4 << 20);
        // Answers of direct server return do not pass the balancer, which would drop them.
        let (mut straight, name) = connect(&line, DIRECT).expect("it answers");
        assert_eq!(name, "10.83.0.10");
        round(&mut straight, 1 << 20);

        drop(second);
        until("the first server alone", &mut program, || answering(&line) == [FIRST]);
        round(&mut stays, 1 << 20);
        let again = Server::start(&line.server, "10.84.0.3:8080");
        until("the second server again", &mut program, || answering(&line) == [FIRST, SECOND]);
        round(&mut stays, 1 << 20);
        drop((stays, straight));

        let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
        let mut events =
            shown.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let account = events.rfind(|event| event["event"] == "final").expect("an account");
        assert_eq!(account["balanced"], true, "{account}");
        let report = &account["functions"]["balancer"]["report"];
        let event = |name: &str| report["events"][name].as_u64().expect("a count");
        assert!(event("servers-down") >= 1 && event("servers-up") >= 1, "{report}");
        assert_eq!(event("connections-evicted"), 0, "{report}");
        drop((first, near, again));
    });
}
