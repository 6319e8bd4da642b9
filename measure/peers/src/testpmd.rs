//! DPDK's testpmd, which forwards between two ports and swaps the addresses of each frame.

use crate::dpdk::Telemetry;
use crate::polling::Polling;
use crate::process::Process;
use crate::{Cores, Folder, IN, OUT, PeerError};
use std::path::PathBuf;
use testbed::Namespace;

/// Frames of 2 KiB in the ring of a packet socket. With the driver's default of 512 the ring runs empty and
/// full by turns.
const PACKET_RING: u32 = 16_384;

/// What testpmd's two ports are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// `net_null`: gives frames of 64 bytes without end, takes all.
    Null,
    /// `net_af_packet` on [`IN`] and [`OUT`].
    AfPacket,
    /// `net_af_xdp` on [`IN`] and [`OUT`].
    AfXdp,
}

impl Driver {
    fn devices(self) -> [String; 2] {
        let on = |number: usize, interface: &str, options: &str| match self {
            Driver::Null => format!("net_null{number},size=64"),
            Driver::AfPacket => format!("net_af_packet{number},iface={interface}{options}"),
            Driver::AfXdp => format!("net_af_xdp{number},iface={interface}{options}"),
        };
        let options = match self {
            Driver::AfPacket => {
                format!(",qdisc_bypass=1,blocksz=1048576,framesz=2048,framecnt={PACKET_RING}")
            }
            Driver::Null | Driver::AfXdp => String::new(),
        };
        [on(0, IN, &options), on(1, OUT, &options)]
    }
}

/// A running testpmd.
#[derive(Debug)]
pub struct Testpmd {
    /// To measure it by.
    pub polling: Polling,
    /// Its command line.
    pub configuration: String,
    /// Removed after the process has ended.
    _folder: Folder,
}

impl Testpmd {
    /// Starts it in a namespace, to forward bursts of `burst` packets with `buffers` buffers in all.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(
        namespace: &Namespace,
        driver: Driver,
        burst: usize,
        buffers: u32,
        cores: Cores,
    ) -> Result<Testpmd, PeerError> {
        let folder = Folder::new()?;
        let words = arguments(driver, burst, buffers, cores);
        let mut command = namespace.command("dpdk-testpmd");
        command.args(&words).env("RUNTIME_DIRECTORY", folder.path());
        let process = Process::start("testpmd", &mut command)?;
        let socket: PathBuf = Telemetry::path(folder.path(), "testpmd");
        let polling = Polling::ready(process, &socket, 2, "rte-worker", cores)?;
        Ok(Testpmd { polling, configuration: format!("dpdk-testpmd {}", words.join(" ")), _folder: folder })
    }
}

fn arguments(driver: Driver, burst: usize, buffers: u32, cores: Cores) -> Vec<String> {
    let [first, second] = driver.devices();
    let Cores { device, sender } = cores;
    let eal = format!(
        "--lcores={sender},{device} --main-lcore={sender} --in-memory --no-pci --file-prefix=testpmd \
         --vdev={first} --vdev={second}"
    );
    with_forwarding(&eal, burst, buffers)
}

/// The whole command line of one that forwards by itself with one core, of its part for DPDK.
pub(crate) fn with_forwarding(eal: &str, burst: usize, buffers: u32) -> Vec<String> {
    let application = format!(
        "--forward-mode=macswap --nb-cores=1 --burst={burst} --mbcache=250 --total-num-mbufs={buffers} \
         --no-lsc-interrupt --stats-period=3600 --auto-start"
    );
    eal.split_whitespace().chain(["--"]).chain(application.split_whitespace()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_processors_are_where_they_are_said_to_be() {
        let cores = Cores { device: 3, sender: 0 };
        let line = arguments(Driver::AfPacket, 64, 2048, cores).join(" ");
        assert!(line.starts_with("--lcores=0,3 --main-lcore=0 "), "{line}");
        assert!(line.contains("--vdev=net_af_packet0,iface=sf-in,qdisc_bypass=1,"), "{line}");
        assert!(line.contains("--vdev=net_af_packet1,iface=sf-out,qdisc_bypass=1,"), "{line}");
        assert!(line.contains(" -- --forward-mode=macswap --nb-cores=1 --burst=64 "), "{line}");
        let line = arguments(Driver::Null, 32, 4096, cores).join(" ");
        assert!(line.contains("--vdev=net_null0,size=64 --vdev=net_null1,size=64 "), "{line}");
        assert!(line.contains("--burst=32 ") && line.contains("--total-num-mbufs=4096 "), "{line}");
    }
}
