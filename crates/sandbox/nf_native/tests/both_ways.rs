//! Functions of the platform in the sandbox and as native processes: the packets of their own tests, through
//! both, have the same verdicts, bytes, packets of their own and counters.

use function_test::{ImageTest, Judge, Ran, RanPacket};
use image::Image;
use nf_abi::Verdict;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use port_native::{NativePort, Processes, Settings};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;

/// Names the function that this test's program is to be, and has its arguments, a line each.
const FUNCTION: &str = "SUPERFLUID_TEST_FUNCTION";
const ARGUMENTS: &str = "SUPERFLUID_TEST_ARGUMENTS";
const NOW: Nanos = Nanos(1_700_000_000_000_000_000);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(60);
const BUFFERS: u32 = 1024;
/// What a case may last by its own clock: a process has the real one.
const LASTS: u64 = 100_000_000;

fn folder(function: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../functions")).join(function)
}

fn manifest(function: &str) -> String {
    std::fs::read_to_string(folder(function).join("function.yaml")).expect("a manifest")
}

/// Not a test: the function, when this program is started as one.
#[test]
fn is_a_function() {
    let Ok(name) = std::env::var(FUNCTION) else { return };
    let arguments = std::env::var(ARGUMENTS).expect("arguments");
    let arguments: Vec<String> = arguments.lines().map(str::to_owned).collect();
    let run = match name.as_str() {
        "firewall" => nf_native::run::<firewall::Firewall>,
        "router" => nf_native::run::<router::Router>,
        "vxlan-gateway" => nf_native::run::<vxlan_gateway::Gateway>,
        other => panic!("{other}"),
    };
    let ended = run(&manifest(&name), arguments.into_iter());
    std::process::exit(match ended {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    });
}

/// A process of this test, ended with it.
struct Running(Child);

impl Running {
    fn start(function: &str, arguments: &[String]) -> Running {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "is_a_function", "--nocapture"]);
        command.env(FUNCTION, function).env(ARGUMENTS, arguments.join("\n"));
        Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
    }

    /// What it wrote, when it has ended.
    fn ended(mut self) -> (bool, String, String) {
        use std::io::Read;
        let (mut out, mut err) = (String::new(), String::new());
        let [stdout, stderr] = [&mut out, &mut err];
        self.0.stdout.take().expect("piped").read_to_string(stdout).expect("text");
        self.0.stderr.take().expect("piped").read_to_string(stderr).expect("text");
        (self.0.wait().expect("it ends").success(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port for each interface of a function, and a folder for their sockets.
struct Bench {
    folder: tempfile::TempDir,
    pool: Arc<Pool>,
    ports: Vec<NativePort>,
    sockets: Vec<String>,
    /// What came out of each.
    came: Vec<Vec<Vec<u8>>>,
}

impl Bench {
    fn new(interfaces: usize, write: bool, longest: usize) -> Bench {
        Bench::with_config(interfaces, write, longest, "")
    }

    /// The ports have this text for their process.
    fn with_config(interfaces: usize, write: bool, longest: usize, text: &str) -> Bench {
        Bench::with_settings(interfaces, write, longest, |settings| settings.config = text.to_owned())
    }

    fn with_settings(
        interfaces: usize,
        write: bool,
        longest: usize,
        change: impl Fn(&mut Settings),
    ) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let large = BufferSize::new(16 << 10).expect("a size");
        let buffer_size = if longest <= 1500 { BufferSize::DEFAULT } else { large };
        let pages = Some(PageKind::Ordinary);
        let config = PoolConfig { buffers: BUFFERS, buffer_size, pages, ..PoolConfig::default() };
        let (pool, processes) = (Arc::new(Pool::new("test", config).expect("a pool")), Processes::default());
        let path = |n: usize| folder.path().join(n.to_string()).to_str().expect("text").to_owned();
        let sockets: Vec<String> = (0..interfaces).map(path).collect();
        let open = |socket: &String| {
            // A process that is not woken sleeps on for longer than a test waits.
            let heartbeat = Nanos(600_000_000_000);
            let mut settings = Settings { write, heartbeat, ..Settings::new(socket) };
            change(&mut settings);
            NativePort::open(settings, pool.clone(), &processes).expect("opened")
        };
        let ports = sockets.iter().map(open).collect();
        Bench { folder, pool, ports, sockets, came: vec![Vec::new(); interfaces] }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Bench) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            let states: Vec<_> = self.ports.iter().map(|port| (port.status(), port.details())).collect();
            let came: Vec<usize> = self.came.iter().map(Vec::len).collect();
            assert!(begun.elapsed() < LONG, "{what}: {came:?} {states:?}");
            self.ports.iter_mut().for_each(|port| drop(port.maintain(NOW)));
            self.collect();
            std::thread::yield_now();
        }
    }

    fn collect(&mut self) {
        for (port, came) in self.ports.iter_mut().zip(&mut self.came) {
            let mut out: Vec<Packet> = Vec::new();
            port.receive(&self.pool, NOW, 64, &mut out);
            came.extend(out.iter().map(|packet| self.pool.to_vec(packet)));
            self.pool.free_batch(out);
        }
    }

    /// Shows the function packets of one interface, and waits until it has taken them: those of another one
    /// may be taken before them. What it holds for a moment of the real clock comes with what follows it.
    fn show(&mut self, shown: &[RanPacket]) {
        let ingress = usize::from(shown[0].ingress);
        let mut packets = Vec::new();
        self.pool.allocate_batch(shown.len(), &mut packets);
        for (packet, shown) in packets.iter_mut().zip(shown) {
            self.pool.write(packet, &shown.bytes).expect("room");
            packet.edit(|record| record.mark = shown.mark);
        }
        self.ports[ingress].transmit(&self.pool, NOW, &mut packets);
        self.ports[ingress].signal();
        self.until("it takes the packets", |bench| {
            let details = bench.ports[ingress].details();
            details.iter().any(|(name, count)| *name == "packets_waiting" && *count == 0)
        });
    }
}

/// What has to come out of each interface.
fn expected(ran: &Ran, interfaces: usize) -> Vec<Vec<Vec<u8>>> {
    let of_batches = ran.packets.iter().map(|packet| (packet.verdict, &packet.became));
    let given_up = ran.emitted.iter().map(|(verdict, bytes)| (*verdict, bytes));
    let mut expected = vec![Vec::new(); interfaces];
    for (verdict, bytes) in of_batches.chain(given_up) {
        if let Some(Verdict::Interface(interface)) = verdict {
            expected[usize::from(interface)].push(bytes.clone());
        }
    }
    expected
}

/// Runs a function's own test in the sandbox, and its packets through a process.
fn same_both_ways(function: &str, cases: usize) {
    let image = Image::load(stock_images::stock(function).expect("a stock image")).expect("sound");
    let manifest = image.manifest();
    let test = ImageTest::open(&folder(function), manifest).expect("good").expect("it has one");
    let all = Judge::new(test).expect("a sandbox").runs(&image).expect("it runs");
    let mut compared = 0;
    for ran in all.iter().filter(|ran| ran.length <= LASTS && !ran.has_devices) {
        let case = format!("{function}, {}", ran.name);
        let interfaces = manifest.interfaces.len();
        let longest = ran.packets.iter().map(|packet| packet.bytes.len()).max().unwrap_or(0);
        let mut bench = Bench::new(interfaces, manifest.access == manifest::Access::Write, longest);
        let config = bench.folder.path().join("config.cbor");
        std::fs::write(&config, &ran.config).expect("written");
        let config = config.display().to_string();
        let mut arguments = ["--longest-hold", "600", "--config", &config].map(str::to_owned).to_vec();
        arguments.extend(bench.sockets.clone());
        let running = Running::start(function, &arguments);
        bench.until(&case, |bench| bench.ports.iter().all(|port| port.status() == PortStatus::Up));
        // It has the empty buffers that it asked for.
        let stock = if manifest.access == manifest::Access::Write { 64 } else { 0 };
        bench.until(&case, |bench| bench.pool.available() <= BUFFERS as usize - stock);
        for same in ran.packets.chunk_by(|a, b| a.ingress == b.ingress).flat_map(|same| same.chunks(32)) {
            bench.show(same);
        }
        let expected = expected(ran, interfaces);
        let count = |packets: &[Vec<Vec<u8>>]| packets.iter().map(Vec::len).collect::<Vec<_>>();
        bench.until(&format!("{case}: {:?}", count(&expected)), |bench| {
            count(&bench.came) == count(&expected)
        });
        // What its sandbox holds at the end it holds, too; all else was given back.
        let sorted = |mut packets: Vec<Vec<Vec<u8>>>| {
            packets.iter_mut().for_each(|packets| packets.sort());
            packets
        };
        assert_eq!(sorted(bench.came.clone()), sorted(expected), "{case}");
        let Bench { pool, ports, .. } = bench;
        let mut ports = ports;
        ports.iter_mut().for_each(|port| port.close(&pool).expect("closed"));
        let (success, out, err) = running.ended();
        assert!(success, "{case}: {err}");
        let account = out.lines().rfind(|line| line.starts_with('{')).expect("an account");
        let account: Value = serde_json::from_str(account).expect("JSON");
        for (name, count) in manifest.counters.iter().zip(&ran.counters) {
            assert_eq!(account["counters"][name], *count, "{case}: {name}: {account}");
        }
        let number = |name: &str| account[name].as_u64().expect("a number");
        let sum = |name: &str| {
            account[name]
                .as_object()
                .expect("a map")
                .values()
                .map(|it| it.as_u64().expect("a number"))
                .sum::<u64>()
        };
        assert_eq!(number("received"), ran.packets.len() as u64, "{case}: {account}");
        assert_eq!(
            number("received") + number("made"),
            number("sent")
                + number("consumed")
                + number("held")
                + sum("dropped")
                + sum("dropped_by_function"),
            "{case}: {account}"
        );
        compared += 1;
    }
    assert!(compared >= cases, "{function}: {compared} cases");
}

#[test]
fn a_firewall_that_holds_fragments_does_the_same_as_a_process() {
    same_both_ways("firewall", 3);
}

#[test]
fn a_router_that_writes_and_sends_errors_does_the_same_as_a_process() {
    same_both_ways("router", 1);
}

#[test]
fn a_gateway_that_puts_headers_on_does_the_same_as_a_process() {
    same_both_ways("vxlan-gateway", 1);
}

#[test]
fn the_guides_configuration_comes_by_the_port() {
    let guide = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/native.md"));
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let text = guide.split("{as: library, config: '").nth(1).and_then(|rest| rest.split("'}").next());
    let mut bench = Bench::with_config(2, false, 60, text.expect("its example"));
    let running = Running::start("firewall", &bench.sockets);
    bench.until("it is up", |bench| bench.ports.iter().all(|port| port.status() == PortStatus::Up));
    // An ARP request passes; a datagram from outside is refused by the rules.
    let frame = |ingress, bytes: &[u8]| RanPacket {
        ingress,
        mark: 0,
        bytes: [bytes, &[0; 64]].concat(),
        verdict: None,
        became: Vec::new(),
    };
    let addresses = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]].concat();
    bench.show(&[frame(1, &[&addresses[..], &[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17]].concat())]);
    bench.show(&[frame(0, &[&addresses[..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat())]);
    bench.until("the request has passed", |bench| bench.came[1].len() == 1);
    assert!(bench.came[0].is_empty());
    let pool = bench.pool.clone();
    bench.ports.iter_mut().for_each(|port| port.close(&pool).expect("closed"));
    let (success, out, err) = running.ended();
    assert!(success, "{err}");
    let account = out.lines().rfind(|line| line.starts_with('{')).expect("an account");
    let account: Value = serde_json::from_str(account).expect("JSON");
    assert_eq!((&account["received"], &account["sent"]), (&2.into(), &1.into()), "{account}");
}

/// As in a sandbox: a function whose packets find no room gets no more, and what it has goes when there is.
#[test]
fn a_function_waits_for_room_and_loses_nothing() {
    const RING: usize = 64;
    let text = "rules: [{action: accept, from: inside}]";
    let mut bench = Bench::with_settings(2, false, 60, |settings| {
        (settings.config, settings.ring) = (text.to_owned(), RING as u32);
    });
    let running = Running::start("firewall", &bench.sockets);
    bench.until("it is up", |bench| bench.ports.iter().all(|port| port.status() == PortStatus::Up));
    let offer = |bench: &mut Bench| {
        let mut packets = Vec::new();
        bench.pool.allocate_batch(RING, &mut packets);
        let request =
            [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 38]].concat();
        packets.iter_mut().for_each(|packet| bench.pool.write(packet, &request).expect("room"));
        bench.ports[0].transmit(&bench.pool, NOW, &mut packets);
        bench.ports[0].signal();
    };
    let waiting = |bench: &Bench| {
        let details = bench.ports[0].details();
        details.iter().find(|(name, _)| *name == "packets_waiting").expect("it is counted").1
    };
    // One batch fills the ring, the next one the process keeps, the last one stays before it.
    for _ in 0..2 {
        offer(&mut bench);
        let begun = Instant::now();
        while waiting(&bench) > 0 {
            assert!(begun.elapsed() < LONG, "it takes them: {:?}", bench.ports[0].details());
            std::thread::yield_now();
        }
    }
    offer(&mut bench);
    bench.until("all have come", |bench| bench.came[1].len() == 3 * RING);
    let pool = bench.pool.clone();
    bench.ports.iter_mut().for_each(|port| port.close(&pool).expect("closed"));
    let (success, out, err) = running.ended();
    assert!(success, "{err}");
    let account = out.lines().rfind(|line| line.starts_with('{')).expect("an account");
    let account: Value = serde_json::from_str(account).expect("JSON");
    let all = serde_json::json!(3 * RING);
    assert_eq!((&account["received"], &account["sent"]), (&all, &all), "{account}");
}

#[test]
fn what_a_function_does_not_get_is_told_and_it_does_not_start() {
    let told = |arguments: &[String], function: &str| {
        let (success, _, err) = Running::start(function, arguments).ended();
        assert!(!success, "{err}");
        err
    };
    let bench = Bench::new(2, false, 60);
    let refused = told(&bench.sockets[..1], "firewall");
    assert!(refused.contains("found 1 sockets; allowed: 2, of the interfaces inside, outside"), "{refused}");
    let refused = told(&bench.sockets, "vxlan-gateway");
    assert!(refused.contains("found a port with `write: false`; allowed: `write: true`"), "{refused}");
    let config = bench.folder.path().join("config.yaml");
    std::fs::write(&config, "rulez: []\n").expect("written");
    let mut arguments = vec!["--config".to_owned(), config.display().to_string()];
    arguments.extend(bench.sockets.clone());
    let refused = told(&arguments, "firewall");
    assert!(refused.contains("config.yaml:1:1: rulez: unknown key `rulez`"), "{refused}");
    let mut arguments = bench.sockets.clone();
    arguments[1] += ".none";
    assert!(told(&arguments, "firewall").contains("1.none: "), "the socket is named");
    let other = Bench::new(1, false, 60);
    let refused = told(&[bench.sockets[0].clone(), other.sockets[0].clone()], "firewall");
    assert!(refused.contains("allowed: ports of one tenant and pool"), "{refused}");
}
