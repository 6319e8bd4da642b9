//! One testpmd with two ports, of memif or of virtio_user, which sends by one what comes by the other: both
//! ends of a forwarder between two such sockets, on the processor of everything else.
//!
//! A burst of packets goes round in each direction, from its start on, so that neither side ever loses one:
//! there are fewer than a ring has slots. The slower of testpmd and the forwarder sets the pace.

use crate::process::Process;
use crate::{Cores, Folder, PeerError};
use std::path::Path;
use std::time::Duration;
use testbed::Namespace;

/// Queues of each port: Open vSwitch transmits by one for each of its threads, of which the main one is the
/// first.
const QUEUES: usize = 2;
/// Packets that go round in each direction and queue, and most that testpmd takes at once.
const BURST: usize = 256;
/// Buffers of the process.
const BUFFERS: u32 = 8192;
/// Binary logarithm of a memif ring's slots.
const RING: u32 = 10;
/// Slots of a ring of virtio_user.
const SLOTS: usize = 1 << RING;

/// testpmd that sends by one of two ports what comes by the other; see the module's documentation.
#[derive(Debug)]
pub struct TestpmdLoop {
    process: Process,
    /// Its command line.
    pub configuration: String,
    /// Removed after the process has ended.
    _folder: Folder,
}

impl TestpmdLoop {
    /// Starts it as the client of two memif at which a forwarder listens already.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn memif(
        namespace: &Namespace,
        name: &str,
        sockets: [&Path; 2],
        cores: Cores,
    ) -> Result<TestpmdLoop, PeerError> {
        TestpmdLoop::start(namespace, &memif(name, sockets, cores))
    }

    /// Starts it as the client of two vhost-user sockets at which back ends listen already.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn virtio_user(
        namespace: &Namespace,
        name: &str,
        sockets: [&Path; 2],
        cores: Cores,
    ) -> Result<TestpmdLoop, PeerError> {
        TestpmdLoop::start(namespace, &virtio_user(name, sockets, cores))
    }

    fn start(namespace: &Namespace, words: &[String]) -> Result<TestpmdLoop, PeerError> {
        let folder = Folder::new()?;
        let mut command = namespace.command("dpdk-testpmd");
        command.args(words).env("RUNTIME_DIRECTORY", folder.path());
        let mut process = Process::start("testpmd", &mut command)?;
        // With memif it begins when both ports are connected, or after nine seconds.
        process.wait_for("no thread polls", Duration::from_secs(30), |process| {
            let before = process.time_of("rte-worker").ok()?.0;
            std::thread::sleep(Duration::from_millis(50));
            (process.time_of("rte-worker").ok()?.0 - before > Duration::from_millis(5)).then_some(())
        })?;
        process.favour("rte-worker")?;
        let configuration = format!("dpdk-testpmd {}", words.join(" "));
        Ok(TestpmdLoop { process, configuration, _folder: folder })
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

fn memif(name: &str, sockets: [&Path; 2], Cores { sender, .. }: Cores) -> Vec<String> {
    let device = |number: usize| {
        let socket = sockets[number].display();
        format!(
            "--vdev=net_memif{number},role=client,socket={socket},socket-abstract=no,id=0,bsize=2048,rsize={RING}"
        )
    };
    format!(
        "--lcores=0@{sender},1@{sender} --main-lcore=0 --in-memory --no-pci --file-prefix={name} {} {} -- \
         --forward-mode=io --tx-first --nb-cores=1 --rxq={QUEUES} --txq={QUEUES} --burst={BURST} --total-num-mbufs={BUFFERS} \
         --no-lsc-interrupt --stats-period=3600",
        device(0),
        device(1)
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect()
}

fn virtio_user(name: &str, sockets: [&Path; 2], Cores { sender, .. }: Cores) -> Vec<String> {
    let device = |number: usize| {
        format!("--vdev=net_virtio_user{number},path={},queue_size={SLOTS}", sockets[number].display())
    };
    format!(
        "--lcores=0@{sender},1@{sender} --main-lcore=0 --in-memory --single-file-segments --no-pci --file-prefix={name} \
         {} {} -- --forward-mode=io --tx-first --nb-cores=1 --rxd={SLOTS} --txd={SLOTS} --burst={BURST} \
         --total-num-mbufs={BUFFERS} --no-lsc-interrupt --stats-period=3600",
        device(0),
        device(1)
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ports_are_clients_and_both_threads_have_the_other_processor() {
        let sockets = ["/run/a.sock", "/run/b.sock"].map(Path::new);
        let line = memif("name", sockets, Cores { device: 3, sender: 0 }).join(" ");
        assert!(line.starts_with("--lcores=0@0,1@0 --main-lcore=0 "), "{line}");
        assert!(line.contains("--vdev=net_memif0,role=client,socket=/run/a.sock,"), "{line}");
        assert!(line.contains("--vdev=net_memif1,role=client,socket=/run/b.sock,"), "{line}");
        let line = virtio_user("name", sockets, Cores { device: 3, sender: 0 }).join(" ");
        assert!(line.starts_with("--lcores=0@0,1@0 --main-lcore=0 "), "{line}");
        assert!(line.contains("--vdev=net_virtio_user1,path=/run/b.sock,queue_size=1024 "), "{line}");
        // What goes round has room in one ring, so that nothing is lost.
        const { assert!(BURST * QUEUES < 1 << RING && 2 * BURST < SLOTS) }
    }
}
