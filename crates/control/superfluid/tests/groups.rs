//! Security groups with real connections, `examples/groups.yaml`: rules, members, zones and layers change
//! while these go on, and packets that are written to from another worker. Runs in namespaces of its own.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use image::Names;
use serde_json::{Value, json};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::daemon::{Daemon, Options};
use testbed::{Background, CLIENT, Line, SERVER, isolated};

const LIMIT: Duration = Duration::from_secs(20);
/// For a connection that may be allowed.
const TRY: Duration = Duration::from_secs(1);
/// Of the server, and so of the device.
const MAC: &str = "02:00:00:00:00:02";
/// What the server listens on.
const PORTS: [u16; 3] = [7000, 7001, 7002];

/// The server is behind a function of the tenant `red`, which opens a device that has the server's addresses:
/// its kernel knows the client without asking, because the device speaks ARP for it.
fn line() -> Line {
    let line = Line::new().expect("a line");
    line.server
        .ip(&format!("neigh replace {CLIENT} lladdr 02:00:00:00:00:01 dev eth0"))
        .expect("a neighbour");
    line
}

/// A connection of the client's, if it comes about.
fn connect(line: &Line, port: u16) -> Option<TcpStream> {
    let to = SocketAddr::new(SERVER.parse().expect("an address"), port);
    line.client.enter(|| TcpStream::connect_timeout(&to, TRY).ok())
}

/// A connection that comes about, once the device's address is its own.
#[track_caller]
fn connected(line: &Line, port: u16) -> TcpStream {
    let begin = Instant::now();
    loop {
        if let Some(stream) = connect(line, port) {
            stream.set_read_timeout(Some(LIMIT)).expect("a limit");
            return stream;
        }
        assert!(begin.elapsed() < LIMIT, "no connection to port {port}");
    }
}

#[track_caller]
fn goes_on(mut stream: &TcpStream) {
    let mut answer = [0; 4];
    stream.write_all(b"ping").and_then(|()| stream.read_exact(&mut answer)).expect("an answer");
    assert_eq!(&answer, b"ping");
}

/// Nothing comes back on one, while `other` is answered.
#[track_caller]
fn is_ended(mut stream: &TcpStream, other: &TcpStream) {
    stream.write_all(b"ping").expect("it is buffered");
    (0..5).for_each(|_| goes_on(other));
    stream.set_nonblocking(true).expect("a setting");
    let answer = stream.read(&mut [0; 4]);
    assert!(answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{answer:?}");
}

/// What the guard of `red` counts.
fn counted(daemon: &Daemon, counter: &str) -> u64 {
    let account = daemon.get("/v1/account");
    account["functions"]["groups@red~gate:0"]["counters"][counter].as_u64().expect("a count")
}

fn rule(direction: &str, port: u16) -> Value {
    json!({"direction": direction, "protocol": "tcp", "ports": port.to_string()})
}

#[test]
fn connections_live_as_long_as_a_rule_of_each_layer_allows_them() {
    isolated("connections_live_as_long_as_a_rule_of_each_layer_allows_them", || {
        let line = line();
        line.middle.ip("link add sf-other type veth peer name sf-peer").expect("a pair");
        line.middle.ip("link set sf-other up").expect("switched on");
        line.middle.ip("link set sf-peer up").expect("switched on");
        PORTS.into_iter().for_each(|port| testbed::serve_echo(&line.server, port));
        let folder = tempfile::tempdir().expect("a folder");
        let daemon =
            Options::new(folder.path()).shared_cache().tenants_socket("tenants").limit(LIMIT).start();
        // Has the client's address, where groups mean it.
        let proxy = |zone: u16| json!({"mode": "direct", "over": ["other"], "tenant": "red", "addresses": [format!("{CLIENT}/24")], "groups": ["proxies"], "zone": zone});
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/groups.yaml");
        daemon.write("host.yaml", &fs::read_to_string(example).expect("the example"));
        daemon.done("apply -f host.yaml");
        let listed = daemon.done("get groups");
        assert!(listed.lines().any(|line| line.split_whitespace().eq(["web", "3", "red"])), "{listed}");
        let described = daemon.done("describe group web");
        assert!(described.contains("7000") && described.contains("device/red"), "{described}");
        let described = daemon.done("describe device red");
        assert!(described.contains("gate:left") && !described.contains("groups@"), "{described}");
        daemon.done("token create red --tenant red --expires 1d --file red.token");
        let red = daemon.clone().asking("tenants").variable("SUPERFLUID_TOKEN_FILE", "red.token");
        let apply = |group: &str, rules: Value| {
            let groups = json!({"superfluid": 1, "groups": {group: {"tenant": "red", "rules": rules}}});
            daemon.write("groups.json", &groups.to_string());
            red.done("apply -f groups.json");
        };

        let from =
            json!({"direction": "in", "protocol": "tcp", "ports": "7002", "from": {"group": "proxies"}});

        // Its own port alone.
        let first = connected(&line, 7000);
        goes_on(&first);
        assert!(connect(&line, 7001).is_none());
        assert!(counted(&daemon, "denied") > 0);
        // A rule that comes ends no connection, one that goes ends those that it alone allowed.
        apply("web", json!([rule("in", 7000), rule("in", 7001), from, {"direction": "out"}]));
        let second = connected(&line, 7001);
        goes_on(&first);
        apply("web", json!([rule("in", 7001), from, {"direction": "out"}]));
        goes_on(&second);
        is_ended(&first, &second);
        // A group is the addresses of its devices in the zone.
        assert!(connect(&line, 7002).is_none());
        daemon.put("/v1/devices/proxy", proxy(7));
        let third = connected(&line, 7002);
        goes_on(&third);
        daemon.put("/v1/devices/proxy", proxy(8));
        goes_on(&second);
        is_ended(&third, &second);
        // A group that a device names stays.
        let (_, said) = red.refused("delete group web");
        assert!(said.contains("it does not go with what is not the tenant's"), "{said}");
        // What is not the device's address does not leave.
        let spoofed = counted(&daemon, "spoofed");
        line.server.ip("addr add 10.83.0.99/24 dev eth0").expect("an address");
        line.server.enter(|| {
            let socket = UdpSocket::bind("10.83.0.99:0").expect("a socket");
            socket.send_to(b"hello", (CLIENT, 9)).expect("sent");
        });
        daemon.wait("it is dropped", || counted(&daemon, "spoofed") > spoofed);
        // The administrator's layer is none of the tenant's.
        let (_, said) = red.refused("delete group base");
        assert!(said.contains("there is no group/base"), "{said}");
        daemon.put("/v1/groups/base", json!({"rules": [rule("in", 7000), rule("in", 7002)]}));
        assert!(connect(&line, 7001).is_none());
        apply("web", json!([rule("in", 7000), rule("in", 7001)]));
        let fourth = connected(&line, 7000);
        is_ended(&second, &fourth);
        daemon.end();
    });
}

/// Looks through the whole pool of its tenant at each call, for UDP from port 0x1111 to port 53, and makes it
/// port 54.
fn scribe(folder: &Path, pool: u32) -> PathBuf {
    let module = format!(
        r#"(module
        (memory (export "memory") 1)
        (func (export "sf_batch") (result i32) (i32.const 4096))
        (func (export "sf_init") (result i32) (i32.const 0))
        (func (export "sf_process") (param $count i32) (param i64)
          (local $at i32) (local $end i32)
          (local.set $at (i32.const 0x80000000))
          (local.set $end (i32.add (i32.const 0x80000000) (i32.const {})))
          (loop $search
            (if (i32.eq (i32.load align=2 (local.get $at)) (i32.const 0x35001111))
              (then (i32.store align=2 (local.get $at) (i32.const 0x36001111))))
            (local.set $at (i32.add (local.get $at) (i32.const 2)))
            (br_if $search (i32.lt_u (local.get $at) (local.get $end))))
          (loop $next
            (local.set $count (i32.sub (local.get $count) (i32.const 1)))
            (i32.store (i32.add (i32.const 4096) (i32.mul (local.get $count) (i32.const 64))) (i32.const 5))
            (br_if $next (local.get $count)))))"#,
        pool - 4
    );
    let wasm = wat::parse_str(&module).expect("a module");
    let manifest = "name: scribe\nversion: 1.0.0\nabi: 1\nsummary: Is tested with.\nlanguage: c\naccess: write\n\
         interfaces: [left, right]\nmemory_limit: 64KiB\n";
    let (image, _) = image::assemble(&wasm, manifest, Names::Dropped).expect("an image");
    let path = folder.join("scribe.wasm");
    fs::write(&path, image.wasm()).expect("written");
    path
}

#[test]
fn what_a_tenant_writes_to_packets_that_it_has_sent_is_checked_or_without_effect() {
    isolated("what_a_tenant_writes_to_packets_that_it_has_sent_is_checked_or_without_effect", || {
        writes_are_without_effect(false);
    });
}

/// The same where headers are put on between the check and the link.
#[test]
fn what_a_tenant_writes_to_packets_for_a_tunnel_is_checked_or_without_effect() {
    isolated("what_a_tenant_writes_to_packets_for_a_tunnel_is_checked_or_without_effect", || {
        writes_are_without_effect(true);
    });
}

/// Where the EtherType and the destination port of a UDP packet are that is inside of VXLAN: behind its
/// header, and that of Ethernet and IPv4.
const INNER_KIND: usize = 8 + 12;
const INNER_PORT: usize = 8 + 14 + 20 + 2;

/// A function on another worker writes to all packets of its tenant, which are sent through a device with
/// security groups: to port 53, which is allowed, and to port 54 when they have been written to.
fn writes_are_without_effect(in_tunnel: bool) {
    let line = line();
    let folder = tempfile::tempdir().expect("a folder");
    let (buffers, size) = (128, 2048);
    // The other end of the tunnel reads it as any UDP.
    let over = match in_tunnel {
        false => "[lan]".to_owned(),
        true => format!(
            "{{lan: {{receive: udp port 4789, decapsulate: [vxlan], encapsulate: [{{vxlan: {{vni: 7, local: 10.83.0.77, \
                 remote: {CLIENT}, local_mac: '02:00:00:00:00:77', remote_mac: '02:00:00:00:00:01'}}}}]}}}}"
        ),
    };
    let text = format!(
            "\
superfluid: 1
workers: {{count: 2}}
tenants: {{default: {{}}, red: {{pool: {{buffers: {buffers}, buffer_size: 2KiB}}}}}}
ports:
  lan: {{type: af_packet, interface: sf-lan}}
  wan: {{type: af_packet, interface: sf-wan, tenant: red}}
  clock: {{type: generator, rate: 20kpps, tenant: red}}
groups:
  names: {{tenant: red, rules: [{{direction: out, protocol: udp, ports: '53'}}]}}
devices:
  red: {{mode: direct, over: {over}, tenant: red, addresses: [{SERVER}/24], mac: '{MAC}', groups: [names], zone: 1}}
functions:
  gate: {{image: monitor, tenant: red, worker: 0, attach: {{left: red, right: wan}}}}
  scribe: {{image: {}, tenant: red, worker: 1, max_call: 1s, attach: {{left: clock}}}}
",
            scribe(folder.path(), buffers * size).display()
        );
    let file = folder.path().join("groups.yaml");
    fs::write(&file, text).expect("written");
    let (allowed, other) = line.client.enter(|| {
        let bind = |port| UdpSocket::bind((CLIENT, port)).expect("a socket");
        (bind(if in_tunnel { 4789 } else { 53 }), bind(54))
    });
    // What is rewritten does not come: more is sent then.
    allowed.set_read_timeout(Some(Duration::from_millis(10))).expect("a limit");
    other.set_nonblocking(true).expect("a setting");
    let sender = line.server.enter(|| UdpSocket::bind((SERVER, 0x1111)).expect("a socket"));
    // On a busy machine the scribe may not have its turn between a packet's coming and its copy.
    let all = Instant::now();
    loop {
        let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
        let mut program = Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts");
        let (begin, mut received, enough) = (Instant::now(), 0, 20_000);
        while received < enough && begin.elapsed() < LIMIT {
            assert!(program.is_running(), "{:?}", program.finish());
            for _ in 0..32 {
                sender.send_to(b"hello", (CLIENT, 53)).expect("sent");
            }
            let mut packet = [0; 128];
            while received < enough && allowed.recv(&mut packet).is_ok() {
                if in_tunnel {
                    // The device's own ARP goes the same way.
                    if packet[INNER_KIND..INNER_KIND + 2] != [8, 0] {
                        continue;
                    }
                    let port = &packet[INNER_PORT..INNER_PORT + 2];
                    assert_eq!(port, 53u16.to_be_bytes(), "written to after the check");
                }
                received += 1;
                sender.send_to(b"hello", (CLIENT, 53)).expect("sent");
            }
        }
        let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
        let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let account = events.rfind(|event| event["event"] == "final").expect("an account");
        assert_eq!(account["balanced"], true, "{account}");
        let answer = other.recv(&mut [0; 16]);
        assert!(
            answer.is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
            "it was written to after the check"
        );
        assert!(received > 100, "{received}: {account}");
        // What was written to before it was copied is denied: it was tried.
        let counters = &account["functions"]["groups@red~gate:0"]["counters"];
        if counters["denied"].as_u64() > Some(0) {
            break;
        }
        assert!(all.elapsed() < LIMIT, "{received}: {account}");
    }
}

/// Of a device that two functions open, one of them with an address of its own: each has a guard, and what is
/// for the one is nothing to the other.
#[test]
fn each_opener_of_a_shared_device_is_guarded_by_itself() {
    isolated("each_opener_of_a_shared_device_is_guarded_by_itself", || {
        let line = line();
        PORTS.into_iter().for_each(|port| testbed::serve_echo(&line.server, port));
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "\
superfluid: 1
tenants: {{default: {{}}, red: {{}}}}
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan, tenant: red}}}}
groups: {{web: {{tenant: red, rules: [{{direction: in, protocol: tcp, ports: '7000', from: 0.0.0.0/0}}]}}}}
devices:
  red: {{mode: direct, over: [lan], tenant: red, share: duplicate, addresses: [10.83.0.50/24], groups: [web], zone: 7}}
functions:
  gate: {{image: monitor, tenant: red, attach: {{left: {{to: red, addresses: [{SERVER}/24], mac: '{MAC}'}}, right: wan}}}}
  other: {{image: monitor, tenant: red, attach: {{left: red}}}}
"
        );
        let file = folder.path().join("groups.yaml");
        fs::write(&file, text).expect("written");
        let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
        let program = Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts");
        let stream = connected(&line, 7000);
        (0..10).for_each(|_| goes_on(&stream));
        assert!(connect(&line, 7001).is_none(), "no rule allows it");
        let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
        let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let account = events.rfind(|event| event["event"] == "final").expect("an account");
        assert_eq!(account["balanced"], true, "{account}");
        let of = |function: &str| account["functions"][function]["packets"].as_u64().unwrap_or(0);
        let counted = |guard: &str, counter: &str| account["functions"][guard]["counters"][counter].as_u64();
        let (gate, other) = ("groups@red~gate:0", "groups@red~other:0");
        assert!(counted(gate, "accepted") > Some(20) && of("gate") > 20, "{account}");
        assert!(counted(gate, "denied") > Some(0), "{account}");
        // What is for all on the link, as a question of ARP is, comes to both.
        assert!(counted(other, "misaddressed") > Some(10), "{account}");
        assert_eq!(counted(other, "accepted"), Some(of("other")), "{account}");
        assert_eq!(account["packets"]["dropped"]["no-buffer"].as_u64(), None, "{account}");
    });
}

/// The MTU of an interface is the kernel's to change: what no longer fits is told of as long as it does not.
#[test]
fn a_link_that_takes_less_than_functions_are_told_is_warned_of() {
    isolated("a_link_that_takes_less_than_functions_are_told_is_warned_of", || {
        let line = line();
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Options::new(folder.path()).shared_cache().limit(LIMIT).start();
        daemon.put("/v1/ports/lan", json!({"type": "af_packet", "interface": "sf-lan"}));
        let device = json!({"mode": "direct", "over": ["lan"], "addresses": [format!("{SERVER}/24")]});
        daemon.put("/v1/devices/red", device);
        daemon.put("/v1/functions/fw", json!({"image": "forwarder", "attach": {"left": "red"}}));
        let warnings = || {
            let health = daemon.get("/v1/health");
            let warnings = health["warnings"].as_array().expect("a list").iter();
            warnings
                .filter_map(|it| Some(it.as_str()?.strip_prefix("device `red`: ")?.to_owned()))
                .collect::<Vec<String>>()
        };
        let mtu = |mtu: u16| line.middle.ip(&format!("link set sf-lan mtu {mtu}")).expect("a length");
        assert_eq!(warnings(), [""; 0]);
        mtu(1400);
        let told = "the link of `lan` has room for packets of 1400 bytes, and functions are told 1500: longer ones are \
                    fragmented or dropped; `mtu: 1400` of the device says so";
        daemon.wait("it is told", || warnings() == [told]);
        let described = daemon.done("describe device red");
        assert!(described.contains(told), "{described}");
        daemon.put(
            "/v1/devices/red",
            json!({"mode": "direct", "over": ["lan"], "addresses": [format!("{SERVER}/24")], "mtu": 1400}),
        );
        daemon.wait("it says so", || warnings().is_empty());
        let own = json!({"left": {"to": "red", "addresses": ["10.83.0.50/24"], "mtu": 9000}});
        daemon.put("/v1/functions/fw", json!({"image": "forwarder", "attach": own}));
        let of_interfaces =
            told.replace("1500", "9000").replace("the device says", "the interfaces that open it says");
        daemon.wait("it is told", || warnings() == [of_interfaces.clone()]);
        mtu(9000);
        daemon.wait("there is room", || warnings().is_empty());
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

/// What else opens a device comes and goes, and connections of the one that stays go on: its guard is the
/// same one.
#[test]
fn connections_outlive_what_opens_the_device_beside_them() {
    isolated("connections_outlive_what_opens_the_device_beside_them", || {
        let line = line();
        PORTS.into_iter().for_each(|port| testbed::serve_echo(&line.server, port));
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "\
superfluid: 1
tenants: {{default: {{}}, red: {{}}}}
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan, tenant: red}}}}
groups: {{web: {{tenant: red, rules: [{{direction: in, protocol: tcp, ports: '7000', from: 0.0.0.0/0}}]}}}}
devices:
  red: {{mode: direct, over: [lan], tenant: red, share: duplicate, groups: [web], zone: 7}}
functions:
  gate: {{image: monitor, tenant: red, attach: {{left: {{to: red, addresses: [{SERVER}/24], mac: '{MAC}'}}, right: wan}}}}
"
        );
        let daemon = Options::new(folder.path()).shared_cache().limit(LIMIT).start();
        daemon.write("groups.yaml", &text);
        daemon.done("apply -f groups.yaml");
        let stream = connected(&line, 7000);
        (0..10).for_each(|_| goes_on(&stream));
        let other = "superfluid: 1\nfunctions:\n  other: {image: monitor, tenant: red, attach: {left: {to: red, addresses: \
                     [10.83.0.50/24]}}}\n";
        daemon.write("other.yaml", other);
        daemon.done("apply -f other.yaml");
        (0..10).for_each(|_| goes_on(&stream));
        let guards = || {
            let account = daemon.get("/v1/account");
            let functions = account["functions"].as_object().expect("functions").clone();
            functions.into_iter().map(|(name, _)| name).filter(|name| name.starts_with("groups@")).collect()
        };
        let both: Vec<String> = guards();
        assert_eq!(both, ["groups@red~gate:0", "groups@red~other:0"]);
        daemon.done("delete function/other");
        (0..10).for_each(|_| goes_on(&stream));
        let one: Vec<String> = guards();
        assert_eq!(one, ["groups@red~gate:0"]);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}
