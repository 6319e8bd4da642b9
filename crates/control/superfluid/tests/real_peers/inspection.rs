//! Suricata in two containers, as `examples/ids.yaml` has them: one observes what passes, and all goes
//! through the other one. Their image is made of what is installed here. And Suricata as a process with DPDK,
//! between two memif ports of a chain.

use crate::{LIMIT, Product, is_installed, peer, shown};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::{Background, Line, SERVER, isolated};

const PROGRAM: &str = env!("CARGO_BIN_EXE_superfluid");

/// Rules of `examples/ids.rules`.
const PING: u64 = 1_000_001;
const SUSPICIOUS: u64 = 1_000_002;
const FORBIDDEN: u64 = 1_000_003;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A folder with files of an example, its image of this name and the launcher's file, as the guide has them
/// below `/srv`.
pub fn files(names: &[&str], image: &str) -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("superfluid-test-").tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("changed");
    let own = folder.path().display().to_string();
    fs::create_dir(folder.path().join("files")).expect("made");
    for name in names {
        let text = fs::read_to_string(root().join("examples").join(name)).expect("the example");
        fs::write(folder.path().join("files").join(name), text.replace("/srv", &own)).expect("written");
    }
    let guide = fs::read_to_string(root().join("docs/containers.md")).expect("the guide");
    let permits = guide.split("\n```yaml\n").nth(1).and_then(|rest| rest.split("\n```").next());
    fs::write(folder.path().join("launcher.yaml"), permits.expect("its file").replace("/srv", &own))
        .expect("written");
    let begin = format!("scripts/container-image /srv/images/{image} ");
    let line = guide.lines().find(|line| line.starts_with(&begin)).expect("the command");
    let mut words = line.split_whitespace().map(|word| word.replace("/srv", &own));
    let mut command = Command::new(root().join(words.next().expect("a program")));
    let made = command.args(words).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

/// A launcher with that file.
pub struct Launcher {
    pub socket: PathBuf,
    pub running: Background,
}

impl Launcher {
    pub fn start(line: &Line, folder: &Path) -> Launcher {
        let socket = folder.join("launcher.sock");
        let mut command = line.middle.command(PROGRAM);
        command.arg("launcher").arg("--socket").arg(&socket);
        command.arg("--permits").arg(folder.join("launcher.yaml"));
        command.arg("--state").arg(folder.join("state")).arg("--run").arg(folder.join("run"));
        command.arg("--cgroup").arg(folder.file_name().expect("a name"));
        // At SIGTERM it ends its guests, which go on where it is killed.
        let running = Background::start_ended_by(&mut command, Signal::TERM).expect("it starts");
        let begin = Instant::now();
        while !socket.exists() {
            assert!(begin.elapsed() < LIMIT, "the launcher does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Launcher { socket, running }
    }

    /// The first process of a container that runs.
    pub fn pid(&self, name: &str) -> Option<u64> {
        let mut command = Command::new(PROGRAM);
        command.arg("launcher").arg("--socket").arg(&self.socket).args(["--ask", r#"{"list": {}}"#]);
        let output = command.output().expect("it runs").stdout;
        let listed: Value = serde_json::from_slice(&output).ok()?;
        let guest = listed["guests"].as_array()?.iter().find(|guest| guest["name"] == name)?;
        guest["state"]["running"]["pid"].as_u64()
    }

    /// Rules that a container has found, each with what became of the packet.
    fn alerts(&self, name: &str) -> BTreeSet<(u64, String)> {
        let file = self.pid(name).map(|pid| format!("/proc/{pid}/root/tmp/eve.json"));
        file.map(|file| alerts_in(Path::new(&file))).unwrap_or_default()
    }
}

/// Rules that were found, each with what became of the packet.
fn alerts_in(file: &Path) -> BTreeSet<(u64, String)> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let alert = |event: Value| {
        let alert = &event["alert"];
        Some((alert["signature_id"].as_u64()?, alert["action"].as_str()?.to_owned()))
    };
    events.filter_map(alert).collect()
}

/// A server of pages of the rules of the example; `None`: python3 is missing.
fn pages(line: &Line, folder: &Path) -> Option<Background> {
    let pages = folder.join("pages");
    fs::create_dir(&pages).expect("made");
    for name in ["index.html", "suspicious", "forbidden"] {
        fs::write(pages.join(name), testbed::pattern(20_000)).expect("written");
    }
    let mut server = line.server.command("python3");
    server.args(["-m", "http.server", "80", "--bind", SERVER, "--directory"]).arg(&pages);
    peer(&mut server, "python3")
}

/// Whether the client gets a page.
fn gets(line: &Line, name: &str) -> bool {
    let words = format!("curl --silent --fail --max-time 2 --output /dev/null http://{SERVER}/{name}");
    line.client.run(&words, LIMIT).is_ok()
}

#[test]
#[ignore = "make peers"]
fn suricata_in_containers_observes_and_drops() {
    isolated("inspection::suricata_in_containers_observes_and_drops", || {
        let line = Line::new().expect("a line");
        if !is_installed(&line.client, "runc", "runc") || !Path::new("/usr/bin/suricata").exists() {
            eprintln!("skipped: there is no runc or no suricata (Debian: runc, suricata)");
            return;
        }
        // Packets are whole, as the example wants them.
        for (host, interface) in [
            (&line.client, "eth0"),
            (&line.server, "eth0"),
            (&line.middle, "sf-lan"),
            (&line.middle, "sf-wan"),
        ] {
            shown(host, &format!("ethtool -K {interface} tx off gro off"));
        }
        let names = ["ids.yaml", "ids-observer.suricata", "ids-inline.suricata", "ids.rules"];
        let folder = files(&names, "suricata");
        let Some(_server) = pages(&line, folder.path()) else { return };
        let launcher = Launcher::start(&line, folder.path());
        let file = folder.path().join("files/ids.yaml");
        let mut product = Product::of(&line, &file, &["--launcher".as_ref(), launcher.socket.as_os_str()]);
        let page = |name: &str| gets(&line, name);
        let found =
            |name: &str, rule: u64, action: &str| launcher.alerts(name).contains(&(rule, action.to_owned()));

        product.until("both see a ping", || {
            let _ = line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT);
            found("watch", PING, "allowed") && found("ips", PING, "allowed")
        });
        product.until_done(&line.client, &format!("ping -c 5 -i 0.1 -W 2 {SERVER}"));
        assert!(page("index.html"), "what no rule is about passes");
        assert!(page("suspicious"), "what is looked for passes");
        product.until("both have seen that page", || {
            found("watch", SUSPICIOUS, "allowed") && found("ips", SUSPICIOUS, "allowed")
        });
        assert!(!page("forbidden"), "what is to be dropped does not pass");
        // The observer looks at what was acknowledged, which that was not.
        product.until("it was dropped by its rule", || found("ips", FORBIDDEN, "blocked"));
        assert!(page("index.html"), "and the others pass still");

        let account = product.end();
        let received = |port: &str| account["ports"][port]["packets"]["received"].as_u64();
        assert!(received("ips:in") > Some(0) && received("ips:out") > Some(0), "{account}");
        launcher.running.interrupt(LIMIT).expect("it ends");
    });
}

/// The example's settings for one that takes packets by DPDK from two memifs, each of which it copies to the
/// other, with ordinary pages.
fn with_memif(folder: &Path) -> String {
    let text = fs::read_to_string(root().join("examples/ids-inline.suricata")).expect("the example");
    let (before, rest) = text.split_once("af-packet:\n").expect("its interfaces");
    let (_, after) = rest.split_once("outputs:").expect("what is behind them");
    let sides = ["inner", "outer"];
    let device = |number: usize| {
        let socket = folder.join(sides[number]).with_extension("sock");
        format!("\"net_memif{number},role=client,socket={},socket-abstract=no,rsize=10\"", socket.display())
    };
    let interface = |number: usize| {
        format!(
            "    - {{interface: net_memif{number}, threads: 1, promisc: true, multicast: false, mtu: 1500, mempool-size: 4095, \
             mempool-cache-size: 256, rx-descriptors: 1024, tx-descriptors: 1024, copy-mode: ips, copy-iface: net_memif{}}}\n",
            1 - number
        )
    };
    let prefix = folder.file_name().expect("a name").display();
    let eal = format!(
        "{{proc-type: primary, no-pci: true, no-huge: true, m: 256, no-shconf: true, no-telemetry: true, file-prefix: {prefix}, vdev: [{}, {}]}}",
        device(0),
        device(1)
    );
    let threads = "threading:\n  set-cpu-affinity: yes\n  cpu-affinity:\n    - management-cpu-set: {cpu: []}\n    \
                   - worker-cpu-set: {cpu: [0, 1], mode: exclusive}\n";
    let (in_order, other) = (interface(0), interface(1));
    format!("{before}dpdk:\n  eal-params: {eal}\n  interfaces:\n{in_order}{other}{threads}outputs:{after}")
}

#[test]
#[ignore = "make peers"]
fn suricata_between_memif_ports_drops() {
    isolated("inspection::suricata_between_memif_ports_drops", || {
        let line = Line::new().expect("a line");
        let built = Command::new("suricata").arg("--build-info").output();
        let built =
            built.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let has_dpdk = |line: &str| line.contains("DPDK support:") && line.contains("yes");
        if !built.lines().any(has_dpdk) || std::thread::available_parallelism().is_ok_and(|it| it.get() < 2) {
            eprintln!(
                "skipped: there is no suricata with DPDK (Debian: suricata), or no second processor for it"
            );
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let Some(_server) = pages(&line, folder.path()) else { return };
        let place = folder.path().display();
        let mut product = Product::start(
            &line,
            &format!(
                "superfluid: 1\n\
                 ports:\n  lan: {{type: af_packet, interface: sf-lan}}\n  wan: {{type: af_packet, interface: sf-wan}}\n  \
                 inner: {{type: memif, role: master, socket: {place}/inner.sock, ring: 1024}}\n  \
                 outer: {{type: memif, role: master, socket: {place}/outer.sock, ring: 1024}}\n\
                 functions:\n  gate: {{image: firewall, config: {{default_action: accept}}}}\n\
                 chains:\n  to-it: [lan, gate, inner]\n  from-it: [outer, wan]\n"
            ),
        );
        product.until("it listens", || folder.path().join("outer.sock").exists());
        let settings = folder.path().join("suricata.yaml");
        fs::write(&settings, with_memif(folder.path())).expect("written");
        let mut command = line.middle.command("suricata");
        command.env("RUNTIME_DIRECTORY", folder.path()).arg("--dpdk").arg("-c").arg(&settings);
        command.arg("-S").arg(root().join("examples/ids.rules")).arg("-l").arg(folder.path());
        let mut suricata = Background::start(&mut command).expect("it is there");
        let found = |rule: u64, action: &str| {
            alerts_in(&folder.path().join("eve.json")).contains(&(rule, action.to_owned()))
        };
        let mut runs = true;
        product.until("a ping passes it and is seen", || {
            runs = suricata.is_running();
            let _ = line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT);
            !runs || found(PING, "allowed")
        });
        if !runs {
            let (said, of) = suricata.finish();
            panic!("it has ended: {said}{of}");
        }
        product.until_done(&line.client, &format!("ping -c 5 -i 0.1 -W 2 {SERVER}"));
        product.until("what no rule is about passes", || gets(&line, "index.html"));
        assert!(gets(&line, "suspicious"), "what is looked for passes");
        product.until("it has seen that page", || found(SUSPICIOUS, "allowed"));
        assert!(!gets(&line, "forbidden"), "what is to be dropped does not pass");
        product.until("it was dropped by its rule", || found(FORBIDDEN, "blocked"));
        assert!(gets(&line, "index.html"), "and the others pass still");
        let account = product.end();
        for port in ["inner", "outer"] {
            let received = account["ports"][port]["packets"]["received"].as_u64();
            assert!(
                received > Some(20) && account["ports"][port]["details"]["peers"] == 1,
                "{port}: {account}"
            );
        }
    });
}
