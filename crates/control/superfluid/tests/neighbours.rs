//! Devices with addresses, with the kernel as the neighbour: it finds the device, and a function finds it.
//! Runs in namespaces of its own.

use image::Names;
use nf_abi::DeviceEntry;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testbed::{Background, CLIENT, Line, Namespace, isolated};

const LIMIT: Duration = Duration::from_secs(30);
/// The device's.
const OWN: &str = "10.83.0.9";
const MAC: &str = "02:00:00:00:00:09";
const OWN_V6: &str = "2001:db8::9";

/// Sends each packet back by its interface to [`CLIENT`], once it knows where that is; until then it asks,
/// and drops. Counts packets that it dropped, those that it sent, and changes of its table.
fn returner(folder: &Path) -> PathBuf {
    let client = CLIENT.parse().expect("an address");
    let ask: String =
        DeviceEntry::ask(0, client).encode().iter().map(|byte| format!("\\{byte:02x}")).collect();
    let module = format!(
        r#"(module
        (import "superfluid_v1" "read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "superfluid_v1" "write" (func $write (param i32 i32 i32) (result i32)))
        (import "superfluid_v1" "counter_add" (func $count (param i32 i64) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 64) "{ask}")
        (func (export "sf_batch") (result i32) (i32.const 4096))
        (func (export "sf_init") (result i32) (i32.const 0))
        (func (export "sf_devices") (param i64) (drop (call $count (i32.const 2) (i64.const 1))))
        (func (export "sf_process") (param $n i32) (param i64)
            (local $entry i32) (local $end i32) (local $record i32) (local $packet i32)
            (local.set $entry (i32.const 16384))
            (local.set $end (i32.add (i32.const 16384)
                (call $read (i32.const 4) (i32.const 0) (i32.const 16384) (i32.const 32768))))
            (block $found (loop $next
                (br_if $found (i32.ge_u (local.get $entry) (local.get $end)))
                (br_if $found (i32.and
                    (i32.and (i32.eq (i32.load8_u (local.get $entry)) (i32.const 3))
                             (i32.eq (i32.load8_u offset=5 (local.get $entry)) (i32.const 1)))
                    (i32.eq (i32.load offset=16 (local.get $entry)) (i32.load (i32.const 80)))))
                (local.set $entry (i32.add (local.get $entry) (i32.const 32)))
                (br $next)))
            (local.set $record (i32.const 4096))
            (loop $next
                (if (i32.lt_u (local.get $entry) (local.get $end))
                    (then
                        (local.set $packet (i32.add (i32.load offset=12 (local.get $record))
                                                    (i32.load offset=4 (local.get $record))))
                        (i32.store (local.get $packet) (i32.load offset=6 (local.get $entry)))
                        (i32.store16 offset=4 (local.get $packet) (i32.load16_u offset=10 (local.get $entry)))
                        (i32.store (local.get $record) (i32.const 2))
                        (drop (call $count (i32.const 1) (i64.const 1))))
                    (else
                        (drop (call $write (i32.const 4) (i32.const 64) (i32.const 32)))
                        (i32.store (local.get $record) (i32.const 1))
                        (drop (call $count (i32.const 0) (i64.const 1)))))
                (local.set $record (i32.add (local.get $record) (i32.const 64)))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (br_if $next (local.get $n)))))"#
    );
    let wasm = wat::parse_str(&module).expect("a module");
    let manifest = "name: returner\nversion: 1.0.0\nabi: 1\nsummary: Is tested with.\nlanguage: c\naccess: write\n\
         interfaces: [net]\nmemory_limit: 64KiB\ndrop_reasons: [no-neighbour]\ncounters: [dropped, sent, changes]\n";
    let (image, _) = image::assemble(&wasm, manifest, Names::Dropped).expect("an image");
    let path = folder.join("returner.wasm");
    fs::write(&path, image.wasm()).expect("written");
    path
}

/// Waits until this is so.
fn until(what: &str, program: &mut Background, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT && program.is_running(), "{what}: not in time");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the addresses are of.
#[derive(Clone, Copy)]
enum Whose {
    Device,
    Interface,
    /// The interface's, inside of a tunnel whose ends have these addresses, the first of which is the
    /// device's.
    InTunnel(&'static str, &'static str, u8),
}

/// Ends of a tunnel, with the length of their network's prefix.
const OVER_V4: Whose = Whose::InTunnel("192.0.2.1", "192.0.2.2", 24);
const OVER_V6: Whose = Whose::InTunnel("2001:db8:1::1", "2001:db8:1::2", 64);

/// A device at the line's client, and a function that opens it. The addresses are the device's or the
/// interface's.
fn start(line: &Line, folder: &Path, whose: Whose) -> Background {
    let image = returner(folder);
    let file = folder.join("neighbours.yaml");
    let own = format!(", addresses: [{OWN}/24, '{OWN_V6}/64'], mac: '{MAC}'");
    let (of_device, of_interface) = match whose {
        Whose::Device => (format!("over: [lan]{own}"), ""),
        Whose::Interface => ("over: [lan]".to_owned(), own.as_str()),
        Whose::InTunnel(near, far, bits) => {
            let ends = format!("vni: 7, local: '{near}', remote: '{far}'");
            let policy = format!("decapsulate: [vxlan], encapsulate: [{{vxlan: {{{ends}}}}}]");
            (format!("over: {{lan: {{{policy}}}}}, addresses: ['{near}/{bits}']"), own.as_str())
        }
    };
    let text = format!(
        "superfluid: 1\nports: {{lan: {{type: af_packet, interface: sf-lan}}}}\n\
         devices:\n  edge: {{mode: direct, {of_device}}}\n\
         functions:\n  returner: {{image: {}, attach: {{net: {{to: edge{of_interface}}}}}}}\n",
        image.display()
    );
    fs::write(&file, text).expect("written");
    let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
    Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts")
}

/// Pings the device until it answers, and looks at what the client knows of it.
fn ping(line: &Line, program: &mut Background, own: &str, ping: &str) {
    let ping = format!("{ping} -c 1 -W 1 {own}");
    until("an answer to echo requests", program, || line.client.run(&ping, LIMIT).is_ok());
    let known = line.client.run(&format!("ip neigh show {own}"), LIMIT).expect("the neighbours").stdout;
    assert!(known.contains(MAC), "{known}");
}

/// Frames that an interface has received.
fn received(host: &Namespace, interface: &str) -> u64 {
    let shown = host.run(&format!("ip -s -j link show {interface}"), LIMIT).expect("counters").stdout;
    let links: Value = serde_json::from_str(&shown).expect("JSON");
    links[0]["stats64"]["rx"]["packets"].as_u64().expect("a number")
}

/// Sends packets that are the function's until it knows the client, and sends them back.
fn until_returned(line: &Line, program: &mut Background) {
    let received = || received(&line.client, "eth0");
    let before = received();
    until("packets that come back", program, || {
        send(line, 10);
        received() > before + 20
    });
}

/// Sends packets for another port of the device's address.
fn send(line: &Line, count: usize) {
    line.client.enter(|| {
        let socket = std::net::UdpSocket::bind((CLIENT, 0)).expect("a socket");
        (0..count).for_each(|_| drop(socket.send_to(b"hello", (OWN, 7000))));
    });
}

/// Ends it; its account.
fn end(program: Background) -> Value {
    let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
    let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let account = events.rfind(|event| event["event"] == "final").expect("an account");
    assert_eq!(account["balanced"], true, "{account}");
    account
}

#[test]
fn the_kernel_finds_a_device_and_a_function_finds_the_kernel() {
    isolated("the_kernel_finds_a_device_and_a_function_finds_the_kernel", || {
        each_finds_the_other(Whose::Device)
    });
}

#[test]
fn the_kernel_finds_an_interface_that_has_addresses_of_its_own() {
    let name = "the_kernel_finds_an_interface_that_has_addresses_of_its_own";
    isolated(name, || each_finds_the_other(Whose::Interface));
}

#[test]
fn the_kernel_finds_an_interface_inside_of_its_vxlan() {
    isolated("the_kernel_finds_an_interface_inside_of_its_vxlan", || each_finds_the_other(OVER_V4));
}

/// Here the kernel drops what has no checksum of UDP, as is its default.
#[test]
fn the_kernel_finds_an_interface_inside_of_its_vxlan_over_ipv6() {
    let name = "the_kernel_finds_an_interface_inside_of_its_vxlan_over_ipv6";
    isolated(name, || each_finds_the_other(OVER_V6));
}

/// Puts the client's addresses into the kernel's VXLAN, if that is where the function's are.
fn into_tunnel(client: &Namespace, whose: Whose) -> &'static str {
    let Whose::InTunnel(near, far, bits) = whose else { return "eth0" };
    client.ip("addr flush dev eth0").expect("the address moves into the tunnel");
    for words in [
        format!("addr add {far}/{bits} dev eth0 {}", if bits == 64 { "nodad" } else { "" }),
        format!("link add vxlan7 type vxlan id 7 local {far} remote {near} dstport 4789 dev eth0"),
        format!("addr add {CLIENT}/24 dev vxlan7"),
        "link set vxlan7 up".to_owned(),
    ] {
        client.ip(words.trim()).expect("the kernel's VXLAN");
    }
    "vxlan7"
}

fn each_finds_the_other(whose: Whose) {
    let line = Line::new().expect("a line");
    line.client.enter(|| {
        for which in ["all", "default", "eth0"] {
            let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            fs::write(path, "0").expect("IPv6 can be switched on");
        }
    });
    let link = into_tunnel(&line.client, whose);
    line.client.ip(&format!("addr add 2001:db8::1/64 dev {link} nodad")).expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = start(&line, folder.path(), whose);
    ping(&line, &mut program, OWN, "ping");
    ping(&line, &mut program, OWN_V6, "ping -6");
    until_returned(&line, &mut program);
    let account = end(program);
    let counters = &account["functions"]["returner"]["counters"];
    for name in ["dropped", "sent", "changes"] {
        assert!(counters[name].as_u64() > Some(0), "{name}: {counters}");
    }
}

/// A capture of ARP requests to the device, each from another station that is not there: 1,000 of them at
/// once, forty times in a second.
fn storm() -> Vec<u8> {
    let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1];
    let mut capture: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for n in 0..40_000u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let record = [0, n / 1000 * 25_000, 60, 60];
        capture.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        let sender = [2, 0xaa, 0, a, b, c];
        let mut frame = vec![2, 0, 0, 0, 0, 9];
        frame.extend(sender);
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(sender);
        frame.extend([10, 83, 0, 16 + c % 200, 0, 0, 0, 0, 0, 0, 10, 83, 0, 9]);
        frame.resize(60, 0);
        capture.extend(frame);
    }
    capture
}

/// KiB of memory that a program has.
fn memory(program: &Background) -> u64 {
    let path = format!("/proc/{}/status", program.id().as_raw_nonzero());
    let status = fs::read_to_string(path).expect("its status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn a_storm_at_a_device_leaves_its_functions_packets_alone() {
    isolated("a_storm_at_a_device_leaves_its_functions_packets_alone", || {
        let line = Line::new().expect("a line");
        let folder = tempfile::tempdir().expect("a folder");
        let mut program = start(&line, folder.path(), Whose::Device);
        ping(&line, &mut program, OWN, "ping");
        until_returned(&line, &mut program);
        let before = memory(&program);

        let capture = folder.path().join("storm.pcap");
        fs::write(&capture, storm()).expect("written");
        let file = folder.path().join("storm.yaml");
        let text = format!(
            "superfluid: 1\nports:\n  storm: {{type: pcap, read: {}, loop: 3}}\n  \
             out: {{type: af_packet, interface: eth0}}\nwires: [[storm, out]]\n",
            capture.display()
        );
        fs::write(&file, text).expect("written");
        let mut command = line.client.command(env!("CARGO_BIN_EXE_superfluid"));
        let mut attacker = Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts");
        let mut sent = 0;
        until("the storm", &mut attacker, || {
            send(&line, 10);
            sent += 10;
            received(&line.middle, "sf-lan") > 120_000
        });
        drop(end(attacker));
        ping(&line, &mut program, OWN, "ping");
        let after = memory(&program);

        let account = end(program);
        let (port, returner) = (&account["ports"]["lan"], &account["functions"]["returner"]);
        let missed = port["details"]["station_frames_missed"].as_u64();
        assert!(missed > Some(1_000), "{port}");
        let got = returner["counters"]["sent"].as_u64().expect("a counter");
        assert!(got + port["kernel_lost"].as_u64().expect("a counter") >= sent, "{sent}: {returner}");
        assert!(after < before + 16 * 1024, "{before} KiB, and after the storm {after} KiB");
    });
}
