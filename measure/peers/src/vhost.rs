//! vhost-user: one testpmd with two devices of virtio_user, which sends by one what comes by the other, and
//! the peer in between, another one with two back ends (`net_vhost`).
//!
//! A burst of packets goes round in each direction, from its start on, so that neither side ever loses one:
//! there are fewer than a ring has slots. The slower of both sets the pace.

use crate::dpdk::Telemetry;
use crate::polling::Polling;
use crate::process::Process;
use crate::testpmd::with_forwarding;
use crate::{Cores, Folder, PeerError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testbed::Namespace;

/// Packets that go round in each direction, and most that testpmd takes at once.
const BURST: usize = 256;
/// Buffers of the process.
const BUFFERS: u32 = 8192;
/// Slots of a ring.
const RING: usize = 1024;
/// The sockets of the peer, in its folder.
const SOCKETS: [&str; 2] = ["left.sock", "right.sock"];

/// Both ends of a forwarder between two back ends, on the processor of everything else.
#[derive(Debug)]
pub struct VirtioUserLoop {
    process: Process,
    /// Its command line.
    pub configuration: String,
    /// Removed after the process has ended.
    _folder: Folder,
}

impl VirtioUserLoop {
    /// Starts it as the client of two sockets at which back ends listen already.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(
        namespace: &Namespace,
        name: &str,
        sockets: [&Path; 2],
        cores: Cores,
    ) -> Result<VirtioUserLoop, PeerError> {
        let folder = Folder::new()?;
        let words = around(name, sockets, cores);
        let mut command = namespace.command("dpdk-testpmd");
        command.args(&words).env("RUNTIME_DIRECTORY", folder.path());
        let mut process = Process::start("testpmd", &mut command)?;
        process.wait_for("no thread polls", Duration::from_secs(30), |process| {
            let before = process.time_of("rte-worker").ok()?.0;
            std::thread::sleep(Duration::from_millis(50));
            (process.time_of("rte-worker").ok()?.0 - before > Duration::from_millis(5)).then_some(())
        })?;
        process.favour("rte-worker")?;
        let configuration = format!("dpdk-testpmd {}", words.join(" "));
        Ok(VirtioUserLoop { process, configuration, _folder: folder })
    }

    /// Stops it.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended.
    pub fn pause(&self) -> Result<(), PeerError> {
        self.process.pause()
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended.
    pub fn resume(&self) -> Result<(), PeerError> {
        self.process.resume()
    }
}

/// A testpmd with two back ends, which swaps the addresses of each frame.
#[derive(Debug)]
pub struct TestpmdVhost {
    /// To measure it by.
    pub polling: Polling,
    /// Its command line.
    pub configuration: String,
    folder: Folder,
}

impl TestpmdVhost {
    /// Starts it; it listens at [`TestpmdVhost::sockets`].
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(namespace: &Namespace, burst: usize, cores: Cores) -> Result<TestpmdVhost, PeerError> {
        let folder = Folder::new()?;
        let words = between(SOCKETS.map(|name| folder.file(name)), burst, cores);
        let mut command = namespace.command("dpdk-testpmd");
        command.args(&words).env("RUNTIME_DIRECTORY", folder.path());
        let process = Process::start("testpmd", &mut command)?;
        let telemetry = Telemetry::path(folder.path(), "vhost-peer");
        let polling = Polling::ready(process, &telemetry, 2, "rte-worker", cores)?;
        Ok(TestpmdVhost { polling, configuration: format!("dpdk-testpmd {}", words.join(" ")), folder })
    }

    /// Where its ports listen.
    pub fn sockets(&self) -> [PathBuf; 2] {
        SOCKETS.map(|name| self.folder.file(name))
    }
}

fn around(name: &str, sockets: [&Path; 2], Cores { sender, .. }: Cores) -> Vec<String> {
    let device = |number: usize| {
        format!("--vdev=net_virtio_user{number},path={},queue_size={RING}", sockets[number].display())
    };
    format!(
        "--lcores=0@{sender},1@{sender} --main-lcore=0 --in-memory --single-file-segments --no-pci --file-prefix={name} \
         {} {} -- --forward-mode=io --tx-first --nb-cores=1 --rxd={RING} --txd={RING} --burst={BURST} \
         --total-num-mbufs={BUFFERS} --no-lsc-interrupt --stats-period=3600",
        device(0),
        device(1)
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect()
}

fn between(sockets: [PathBuf; 2], burst: usize, Cores { device, sender }: Cores) -> Vec<String> {
    let [left, right] = sockets.map(|socket| socket.display().to_string());
    let eal = format!(
        "--lcores={sender},{device} --main-lcore={sender} --in-memory --no-pci --file-prefix=vhost-peer \
         --vdev=net_vhost0,iface={left},queues=1 --vdev=net_vhost1,iface={right},queues=1"
    );
    with_forwarding(&eal, burst, 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_a_processor_each_and_meet_at_the_sockets() {
        let cores = Cores { device: 3, sender: 0 };
        let sockets = ["/run/a.sock", "/run/b.sock"];
        let line = around("name", sockets.map(Path::new), cores).join(" ");
        assert!(line.starts_with("--lcores=0@0,1@0 --main-lcore=0 "), "{line}");
        assert!(line.contains("--vdev=net_virtio_user1,path=/run/b.sock,queue_size=1024 "), "{line}");
        let line = between(sockets.map(PathBuf::from), 32, cores).join(" ");
        assert!(line.starts_with("--lcores=0,3 --main-lcore=0 "), "{line}");
        assert!(line.contains("--vdev=net_vhost0,iface=/run/a.sock,queues=1 "), "{line}");
        // What goes round has room in one ring, so that nothing is lost.
        const { assert!(2 * BURST < RING) }
    }
}
