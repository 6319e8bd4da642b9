//! testpmd between two back ends of vhost-user (`net_vhost`).

use crate::dpdk::Telemetry;
use crate::polling::Polling;
use crate::process::Process;
use crate::testpmd::with_forwarding;
use crate::{Cores, Folder, PeerError};
use std::path::PathBuf;
use testbed::Namespace;

/// The sockets of the peer, in its folder.
const SOCKETS: [&str; 2] = ["left.sock", "right.sock"];

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
    fn it_polls_on_the_processor_that_is_measured_and_listens_at_both_sockets() {
        let cores = Cores { device: 3, sender: 0 };
        let sockets = ["/run/a.sock", "/run/b.sock"];
        let line = between(sockets.map(PathBuf::from), 32, cores).join(" ");
        assert!(line.starts_with("--lcores=0,3 --main-lcore=0 "), "{line}");
        assert!(line.contains("--vdev=net_vhost0,iface=/run/a.sock,queues=1 "), "{line}");
    }
}
