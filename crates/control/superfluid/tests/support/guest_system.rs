//! A guest for QEMU: Debian's kernel, and a first root file system made of busybox and the kernel's modules.

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
pub fn initramfs(modules: &Path) -> Vec<u8> {
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
