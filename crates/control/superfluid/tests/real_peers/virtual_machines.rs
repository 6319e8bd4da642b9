//! QEMU with Debian's kernel, emulated, and a device of virtio-net by vhost-user.

use crate::guest_system::{initramfs, kernel};
use crate::{LIMIT, Product, is_installed, shown, whole_packets};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use testbed::{Background, Line, Namespace, isolated};

/// Bytes that iperf3 sends each way.
const IPERF: u64 = 32 << 20;

/// Starts the guest, with so many queues and these programs, in the namespace of the program.
fn boot(host: &Namespace, folder: &Path, queues: u32, with: &[&Path]) -> Option<Background> {
    let (_, modules) = kernel()?;
    fs::write(folder.join("initramfs"), initramfs(&modules, with)).expect("written");
    start(host, folder, queues, &[])
}

/// Starts QEMU with what was written for the guest, and with further options.
fn start(host: &Namespace, folder: &Path, queues: u32, more: &[&str]) -> Option<Background> {
    let (kernel, _) = kernel()?;
    let place = |name: &str| folder.join(name).display().to_string();
    let mut command = host.command("qemu-system-x86_64");
    let socket = place("vm.sock");
    command
        .args(["-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", &queues.to_string(), "-m", "256"])
        .args(["-object", "memory-backend-memfd,id=memory,size=256M,share=on", "-numa", "node,memdev=memory"])
        .args(["-chardev", &format!("socket,id=vhost,path={socket},reconnect=1")])
        .args(["-netdev", &format!("vhost-user,id=net,chardev=vhost,queues={queues}")])
        // Without vectors: QEMU 7.2 does not pass those of a back end on when it emulates.
        .args(["-device", "virtio-net-pci,netdev=net,mq=on,vectors=0,mac=52:54:00:83:00:09"])
        .args([
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-serial",
            &format!("file:{}", place("console")),
        ])
        .args(["-kernel", &kernel.display().to_string(), "-initrd", &place("initramfs")])
        .args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init"])
        .args(["-qmp", &format!("unix:{},server=on,wait=off", place("control.sock"))])
        .args(more);
    match Background::start(&mut command) {
        Ok(running) => Some(running),
        Err(testbed::TestbedError::Missing { program, .. }) => {
            eprintln!("skipped: there is no {program} (Debian: qemu-system-x86)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The guide's first example, with its socket in a folder.
fn file(folder: &Path, queues: u32) -> String {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/vhost-user.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let file =
        guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("its example");
    let socket = format!("{}/vm.sock, queues: {queues}", folder.display());
    file.replace("/run/superfluid/vm.sock", &socket).replace("eth1", "sf-lan")
}

/// A guest that has passed its traffic, without the program.
struct Running {
    line: Line,
    folder: tempfile::TempDir,
    guest: Background,
    /// Where what it serves is put.
    back: String,
}

impl Running {
    fn fetch(&self) {
        let back = &self.back;
        shown(&self.line.client, &format!("curl --silent --fail --output {back} http://10.83.0.9/file"));
        assert!(fs::read(back).expect("fetched") == testbed::pattern(2_000_000));
    }
}

/// Whether the guest has done what it does first.
fn is_ready(line: &Line, guest: &mut Background) -> bool {
    assert!(guest.is_running(), "QEMU has ended");
    line.client.run("curl --silent --fail --max-time 2 http://10.83.0.9/queues", LIMIT).is_ok()
}

/// What the guest has said, where the test fails.
struct Console(PathBuf);

impl Drop for Console {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the guest: {}", fs::read_to_string(&self.0).unwrap_or_default());
        }
    }
}

fn carries_traffic(test: &str, queues: u32, after: fn(Running, u32)) {
    isolated(test, || {
        let line = Line::new().expect("a line");
        if !is_installed(&line.client, "curl", "curl") {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // What the guest fetches.
        fs::create_dir(folder.path().join("served")).expect("a folder");
        fs::write(folder.path().join("served/file"), testbed::pattern(2_000_000)).expect("written");
        let mut server = line.client.command("python3");
        server.args(["-m", "http.server", "8000", "--directory"]).arg(folder.path().join("served"));
        let _server = Background::start(&mut server).expect("python3");
        let mut product = Product::start(&line, &file(folder.path(), queues));
        let Some(mut guest) = boot(&line.middle, folder.path(), queues, &[]) else { return };
        let _console = Console(folder.path().join("console"));
        product.until("the guest is ready", || is_ready(&line, &mut guest));
        // What it fetched is what was sent; what it serves is what it has: segments pass both ways whole.
        let sum = shown(&line.client, "curl --silent http://10.83.0.9/sum");
        let served = folder.path().join("served/file").display().to_string();
        let expected = shown(&line.client, &format!("md5sum {served}"));
        assert_eq!(sum.split_whitespace().next(), expected.split_whitespace().next());
        let back = folder.path().join("back").display().to_string();
        shown(&line.client, &format!("curl --silent --fail --output {back} http://10.83.0.9/file"));
        assert!(fs::read(&back).expect("fetched") == testbed::pattern(2_000_000));
        let found = shown(&line.client, "curl --silent http://10.83.0.9/queues");
        assert_eq!(found.trim(), queues.to_string());
        shown(&line.client, "ping -c 20 -i 0.05 -W 2 10.83.0.9");
        let account = product.end();
        let vm = &account["ports"]["vm"];
        assert!(vm["packets"]["delivered"].as_u64().unwrap_or(0) > 40, "{account}");

        after(Running { line, folder, guest, back }, queues);
    });
}

#[test]
#[ignore = "make peers"]
fn a_guest_of_qemu_passes_tcp_both_ways_and_survives_the_program() {
    let test = "virtual_machines::a_guest_of_qemu_passes_tcp_both_ways_and_survives_the_program";
    carries_traffic(test, 1, |running, queues| {
        // QEMU connects again, and the guest notices nothing else.
        let Running { line, folder, .. } = &running;
        let mut product = Product::start(line, &file(folder.path(), queues));
        product.until_done(&line.client, "ping -c 1 -W 1 10.83.0.9");
        running.fetch();
        product.end();
    });
}

#[test]
#[ignore = "make peers"]
fn a_guest_of_qemu_has_several_queues_and_another_one_takes_its_place() {
    let test = "virtual_machines::a_guest_of_qemu_has_several_queues_and_another_one_takes_its_place";
    carries_traffic(test, 2, |running, queues| {
        let Running { line, folder, guest, back } = running;
        let mut product = Product::start(&line, &file(folder.path(), queues));
        product.until_done(&line.client, "ping -c 1 -W 1 10.83.0.9");
        drop(guest);
        let Some(mut guest) = boot(&line.middle, folder.path(), queues, &[]) else { return };
        product.until("the next guest is ready", || is_ready(&line, &mut guest));
        Running { line, folder, guest, back }.fetch();
        product.end();
    });
}

/// The guest leaves segmentation to others, and takes what is still to be segmented: what iperf3 sends passes
/// the firewall in packets that no link takes, both ways.
#[test]
#[ignore = "make peers"]
fn segments_of_a_guest_of_qemu_pass_a_firewall_whole() {
    isolated("virtual_machines::segments_of_a_guest_of_qemu_pass_a_firewall_whole", || {
        let line = Line::new().expect("a line");
        if !is_installed(&line.client, "iperf3", "iperf3") {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let pool = "tenants: {default: {pool: {buffers: 2048, buffer_size: 64KiB}}}\n";
        let mut product = Product::start(&line, &(file(folder.path(), 1) + pool));
        let iperf = PathBuf::from(shown(&line.client, "which iperf3").trim());
        let Some(_guest) = boot(&line.middle, folder.path(), 1, &[&iperf]) else { return };
        let _console = Console(folder.path().join("console"));
        for direction in ["", "--reverse"] {
            product
                .until_done(&line.client, &format!("iperf3 --client 10.83.0.9 --bytes {IPERF} {direction}"));
        }
        let account = product.end();
        whole_packets::passed(&account, "vm", IPERF);
    });
}

/// What a guest's QEMU is told by its control socket (QMP).
struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(folder: &Path) -> Control {
        let stream = UnixStream::connect(folder.join("control.sock")).expect("QEMU listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a valid limit");
        let mut control = Control(BufReader::new(stream));
        control.line();
        control.ask("qmp_capabilities", json!({}));
        control
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// What it returns; events before are passed over.
    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let request = json!({"execute": command, "arguments": arguments});
        writeln!(self.0.get_mut(), "{request}").expect("QEMU reads");
        loop {
            let line = self.line();
            assert!(line.get("error").is_none(), "{command}: {line}");
            if let Some(value) = line.get("return") {
                return value.clone();
            }
        }
    }
}

/// The memory of a guest is written to a file while packets come, with the port's log of pages, and another
/// QEMU goes on with it at the same port.
#[test]
#[ignore = "make peers"]
fn a_guest_of_qemu_moves_while_packets_pass() {
    isolated("virtual_machines::a_guest_of_qemu_moves_while_packets_pass", || {
        let line = Line::new().expect("a line");
        if !is_installed(&line.client, "iperf3", "iperf3") {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut product = Product::start(&line, &file(folder.path(), 1));
        let iperf = PathBuf::from(shown(&line.client, "which iperf3").trim());
        let Some(first) = boot(&line.middle, folder.path(), 1, &[&iperf]) else { return };
        let _console = Console(folder.path().join("console"));
        product.until_done(&line.client, "iperf3 --client 10.83.0.9 --bytes 1M");
        // A server of iperf3 takes no connection just after one.
        let mut sender = line.client.command("sh");
        let sends = "sleep 1; exec iperf3 --client 10.83.0.9 --time 300";
        let sender = Background::start(sender.args(["-c", sends])).expect("a shell");
        let end = SocketAddr::from(([10, 83, 0, 9], 80));
        let mut stream = line.client.enter(|| TcpStream::connect_timeout(&end, LIMIT)).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a valid limit");
        let moved = folder.path().join("moved").display().to_string();
        let mut control = Control::connect(folder.path());
        control.ask("migrate-set-parameters", json!({"max-bandwidth": 1_u64 << 30, "downtime-limit": 2000}));
        control.ask("migrate", json!({"uri": format!("exec:cat >{moved}")}));
        product.until("its memory is written", || {
            let state = control.ask("query-migrate", json!({}));
            assert_ne!(state["status"], "failed", "{state}");
            state["status"] == "completed"
        });
        drop((control, first));
        let _second = start(&line.middle, folder.path(), 1, &["-incoming", &format!("exec:cat {moved}")]);
        product.until_done(&line.client, "ping -c 1 -W 1 10.83.0.9");
        drop(sender);
        // What was connected before still is.
        stream.write_all(b"GET /file HTTP/1.0\r\n\r\n").expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert!(answer.ends_with(&testbed::pattern(2_000_000)), "{} bytes", answer.len());
        let account = product.end();
        assert_eq!(account["ports"]["vm"]["details"]["peers"], 2, "{account}");
    });
}
