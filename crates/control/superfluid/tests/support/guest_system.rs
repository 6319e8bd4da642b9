//! A guest for QEMU: Debian's kernel, and a first root file system made of busybox and the kernel's modules.

use machine_image::closure::{self, Roots};
use machine_image::{Tree, cpio};
use std::fs;
use std::path::{Path, PathBuf};

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
[ ! -e /bin/iperf3 ] || iperf3 --server >/dev/null &
until wget -q -O /tmp/file http://10.83.0.1:8000/file; do sleep 1; done
md5sum </tmp/file >/www/sum
mount -t sysfs sys /sys
ls /sys/class/net/eth0/queues | grep -c rx >/www/queues
echo the guest is ready
while :; do sleep 1000; done
";

/// The kernel and the folder of its modules; says so when they are not there.
pub fn kernel() -> Option<(PathBuf, PathBuf)> {
    let found = find_kernel();
    if found.is_none() {
        eprintln!("skipped: there is no kernel of Debian's linux-image-cloud-amd64 in /boot");
    }
    found
}

fn find_kernel() -> Option<(PathBuf, PathBuf)> {
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

/// The guest's first root file system, with these programs of the host and their libraries in `bin`.
pub fn initramfs(modules: &Path, with: &[&Path]) -> Vec<u8> {
    let mut tree = Tree::default();
    for folder in ["bin", "proc", "sys", "tmp"] {
        tree.folder(folder, 0o755);
    }
    let names = MODULES.map(|path| path.rsplit('/').next().unwrap_or(path));
    for (path, name) in MODULES.iter().zip(names) {
        tree.file(name, &modules.join(path), 0o644);
    }
    tree.text("modules", names.join("\n"), 0o644);
    tree.file("bin/busybox", Path::new("/bin/busybox"), 0o755);
    tree.text("www/file", testbed::pattern(2_000_000), 0o644);
    tree.text("init", INIT, 0o755);
    let programs: Vec<(String, PathBuf)> = with
        .iter()
        .map(|path| (format!("bin/{}", path.file_name().expect("a name").display()), path.to_path_buf()))
        .collect();
    for (inside, path) in &programs {
        tree.file(inside, path, 0o755);
    }
    closure::add(&mut tree, &Roots::host(), &programs).expect("its libraries");
    let mut bytes = Vec::new();
    cpio::write(&tree, &mut bytes).expect("an archive");
    bytes
}
