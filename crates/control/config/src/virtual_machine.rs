//! Functions that are virtual machines: QEMU, a program of the host, with a command that follows from what is
//! said of the machine.

use crate::container::ReadInterface;
use crate::read::Reader;
use schema::Value;
use std::collections::BTreeMap;
use yaml_document::{Location, Node};

/// What QEMU takes beside the guest's memory, the code that it makes of the guest's included.
const OWN: u64 = 192 << 20;
/// Least memory of a guest.
const GUEST_LEAST: u64 = 64 << 20;

/// Where QEMU finds what it is given.
const KERNEL: &str = "/vm/kernel";
const INITRD: &str = "/vm/initrd";
const IMAGE: &str = "/vm/image";

/// What differs between processors: QEMU's program, its machine, and the console's name for Linux.
const ARCHITECTURE: (&str, &str, &str) = if cfg!(target_arch = "aarch64") {
    ("/usr/bin/qemu-system-aarch64", "virt", "ttyAMA0")
} else {
    ("/usr/bin/qemu-system-x86_64", "q35", "ttyS0")
};

impl Reader<'_> {
    /// The command of a virtual machine, and the files that it needs, which are added to its mounts.
    pub(crate) fn virtual_machine(
        &mut self,
        place: &Location<'_>,
        name: &str,
        node: &Node,
        values: &Value,
        interfaces: &[ReadInterface],
        mounts: &mut BTreeMap<String, String>,
    ) -> Option<Vec<String>> {
        let text = |key| values.get(key).and_then(Value::as_text);
        let memory = values.get("memory").and_then(Value::as_size)?;
        let Some(guest) = memory.checked_sub(OWN).filter(|guest| *guest >= GUEST_LEAST) else {
            let at = node.get("memory").map_or(node.position, |node| node.position);
            place.key("memory", at).report(&mut self.faults, || {
                format!(
                    "found {}; allowed: at least {}, of which 192 MiB are QEMU's",
                    Value::Size(memory),
                    Value::Size(OWN + GUEST_LEAST)
                )
            });
            return None;
        };
        let processors = values.get("processors").and_then(Value::as_integer)?;
        let (program, machine, console) = ARCHITECTURE;
        let megabytes = guest >> 20;
        let mut command: Vec<String> = [
            program,
            "-machine",
            machine,
            "-cpu",
            "max",
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-chardev",
            "stdio,id=console,signal=off",
            "-serial",
            "chardev:console",
        ]
        .map(str::to_owned)
        .into();
        let mut add = |option: &str, value: String| command.extend([option.to_owned(), value]);
        // QEMU takes the first one that it can: without the device, which the launcher gives it where it
        // works,
        // it emulates.
        let accel = text("accel").unwrap_or("tcg");
        if accel != "tcg" {
            add("-accel", "kvm".to_owned());
        }
        if accel != "kvm" {
            // The code that is made of the guest's has a bound, which is by default a quarter of the host's
            // memory.
            add("-accel", "tcg,tb-size=64".to_owned());
        }
        add("-smp", processors.to_string());
        add("-m", format!("{megabytes}M"));
        add("-object", format!("memory-backend-memfd,id=memory,size={megabytes}M,share=on"));
        add("-numa", "node,memdev=memory".to_owned());
        add("-kernel", KERNEL.to_owned());
        mounts.insert(KERNEL.to_owned(), text("kernel")?.to_owned());
        if let Some(file) = text("initrd") {
            add("-initrd", INITRD.to_owned());
            mounts.insert(INITRD.to_owned(), file.to_owned());
        }
        if let Some(file) = text("image") {
            let format = if file.ends_with(".qcow2") { "qcow2" } else { "raw" };
            add("-drive", format!("file={IMAGE},format={format},if=virtio,readonly=on"));
            mounts.insert(IMAGE.to_owned(), file.to_owned());
        }
        let append = text("append").unwrap_or_default();
        add("-append", format!("console={console} panic=-1 {append}").trim_end().to_owned());
        for (number, ReadInterface { interface, settings, .. }) in interfaces.iter().enumerate() {
            let queues = settings.get("queues").and_then(Node::as_text).unwrap_or("1");
            add(
                "-chardev",
                format!(
                    "socket,id=socket{number},path=/run/superfluid/{}.sock,reconnect=1",
                    interface.inside
                ),
            );
            add("-netdev", format!("vhost-user,id=net{number},chardev=socket{number},queues={queues}"));
            // An emulated device without vectors is called by QEMU itself, of whatever version.
            let mac = Value::Mac(mac_of(name, &interface.name));
            add("-device", format!("virtio-net-pci,netdev=net{number},mq=on,vectors=0,mac={mac}"));
        }
        Some(command)
    }
}

/// An address that is the interface's own, and the same each time: QEMU's is the same for all guests. FNV-1a,
/// in QEMU's range.
pub(crate) fn mac_of(function: &str, interface: &str) -> [u8; 6] {
    let bytes = function.bytes().chain([0]).chain(interface.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let [.., a, b, c] = (hash ^ hash >> 32).to_be_bytes();
    [0x52, 0x54, 0, a, b, c]
}
