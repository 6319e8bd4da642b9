//! QEMU with Debian's kernel, emulated, and a device of virtio-net by vhost-user.

use crate::{LIMIT, Product, is_installed, shown};
use std::fs;
use std::path::{Path, PathBuf};
use testbed::{Background, Line, Namespace, isolated};

/// Modules of the guest's network device, each behind what it needs.
const MODULES: [&str; 8] = [
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
];

/// The guest fetches a file from the client, says what came, and serves one of its own.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
exec >/dev/console 2>&1
for module in $(cat /modules); do insmod /$module; done
ip link set lo up
ip link set eth0 up
ip addr add 10.83.0.9/24 dev eth0
httpd -p 80 -h /www
until wget -q -O /tmp/file http://10.83.0.1:8000/file; do sleep 1; done
md5sum </tmp/file >/www/sum
mount -t sysfs sys /sys
ls /sys/class/net/eth0/queues | grep -c rx >/www/queues
echo the guest is ready
while :; do sleep 1000; done
";

/// The kernel and the folder of its modules, if they are there.
fn kernel() -> Option<(PathBuf, PathBuf)> {
    let mut found: Vec<PathBuf> =
        fs::read_dir("/boot").ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    let kernel = found.into_iter().rfind(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz-") && name.contains("-cloud-")
    })?;
    let version = kernel.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
    Some((kernel, Path::new("/lib/modules").join(version).join("kernel")))
}

/// Appends an entry to an archive of cpio's format `newc`.
fn archive(into: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]) {
    let fields = [1, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    into.extend(b"070701");
    fields.iter().for_each(|field| into.extend(format!("{field:08x}").bytes()));
    let mut pad = |more: &[u8]| {
        into.extend(more);
        into.resize(into.len().next_multiple_of(4), 0);
    };
    pad(&[name.as_bytes(), &[0]].concat());
    pad(bytes);
}

/// The guest's first root file system.
fn initramfs(modules: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for folder in ["bin", "dev", "proc", "sys", "tmp", "www"] {
        archive(&mut bytes, folder, 0o040_755, &[]);
    }
    let names = MODULES.map(|path| path.rsplit('/').next().unwrap_or(path));
    for (path, name) in MODULES.iter().zip(names) {
        archive(&mut bytes, name, 0o100_644, &fs::read(modules.join(path)).expect("a module"));
    }
    archive(&mut bytes, "modules", 0o100_644, names.join("\n").as_bytes());
    archive(&mut bytes, "bin/busybox", 0o100_755, &fs::read("/bin/busybox").expect("busybox"));
    archive(&mut bytes, "www/file", 0o100_644, &testbed::pattern(2_000_000));
    archive(&mut bytes, "init", 0o100_755, INIT.as_bytes());
    archive(&mut bytes, "TRAILER!!!", 0, &[]);
    bytes
}

/// Starts the guest, with so many queues, in the namespace of the program.
fn boot(host: &Namespace, folder: &Path, queues: u32) -> Option<Background> {
    let Some((kernel, modules)) = kernel() else {
        eprintln!("skipped: there is no kernel of Debian's linux-image-cloud-amd64 in /boot");
        return None;
    };
    let place = |name: &str| folder.join(name).display().to_string();
    fs::write(folder.join("initramfs"), initramfs(&modules)).expect("written");
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
        .args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]);
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
        let Some(mut guest) = boot(&line.middle, folder.path(), queues) else { return };
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
        let Some(mut guest) = boot(&line.middle, folder.path(), queues) else { return };
        product.until("the next guest is ready", || is_ready(&line, &mut guest));
        Running { line, folder, guest, back }.fetch();
        product.end();
    });
}
