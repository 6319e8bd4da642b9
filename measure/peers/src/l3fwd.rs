//! DPDK's router `l3fwd` (of its examples), and testpmd on the same ports, which forwards without looking
//! where to. `scripts/l3fwd` builds the router from Debian's source package, and raises its limits.

use crate::capture::write_frames;
use crate::dpdk::Telemetry;
use crate::frames::Frame;
use crate::polling::Polling;
use crate::process::Process;
use crate::testpmd::with_forwarding;
use crate::{Cores, Folder, PeerError};
use std::time::{Duration, Instant};
use testbed::Namespace;

/// The router's program.
pub const PROGRAM: &str = "dpdk-l3fwd";
/// What the router's limits were raised to: routes, and frames that come in turn.
pub const ROUTES: usize = 1 << 20;
/// See [`ROUTES`].
pub const FRAMES: usize = 1 << 17;

/// Longest time for reading a full table.
const START: Duration = Duration::from_secs(60);
/// Buffers of testpmd: the frames that come in turn, and those under way.
const BUFFERS: u32 = FRAMES as u32 + 8192;
/// The largest burst of the router, which its program fixes; twice as many cost it the same.
const BURST: usize = 32;

/// The router, or testpmd on the same ports: one that repeats frames from memory, one that takes all.
#[derive(Debug)]
pub struct L3fwd {
    /// To measure it by.
    pub polling: Polling,
    /// Its command line.
    pub configuration: String,
    /// Removed after the process has ended.
    _folder: Folder,
}

impl L3fwd {
    /// Starts the router with at most [`FRAMES`] frames and [`ROUTES`] routes; each of these IPv4 prefixes,
    /// an address and its length, leads out of the second port.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(
        namespace: &Namespace,
        frames: &[Frame],
        routes: &[(u32, u8)],
        cores: Cores,
    ) -> Result<L3fwd, PeerError> {
        let folder = Folder::new()?;
        let v4 = folder.write("routes", &rules(routes))?;
        // It insists on both kinds.
        let v6 = folder.write("routes6", "R2001:0db8:0000:0000:0000:0000:0000:0000/32 1\n")?;
        let core = cores.device;
        // A port that repeats a capture has one queue to send by, which is one thread's.
        let words = format!(
            "--lcores={core} --main-lcore={core} {} -- -p 0x3 -P --config=(0,0,{core}),(1,0,{core}) --lookup=fib \
             --parse-ptype --rule_ipv4={} --rule_ipv6={}",
            ports(&folder),
            v4.display(),
            v6.display()
        );
        let words = words.split_whitespace().map(str::to_owned).collect();
        let mut router = begin(namespace, PROGRAM, words, PROGRAM, folder, frames, cores)?;
        // Its thread reads the table before it polls.
        let began = Instant::now();
        while router.polling.measure(Duration::from_millis(100))?.packets == 0 {
            if began.elapsed() > START {
                let found = format!("no packet goes through it within {START:?}");
                return Err(PeerError::Unexpected { peer: PROGRAM, found });
            }
        }
        router.configuration += &format!(" ({} routes)", routes.len());
        Ok(router)
    }

    /// Starts testpmd with the same frames.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn plain(namespace: &Namespace, frames: &[Frame], cores: Cores) -> Result<L3fwd, PeerError> {
        let folder = Folder::new()?;
        let Cores { device, sender } = cores;
        let eal = format!("--lcores={sender},{device} --main-lcore={sender} {}", ports(&folder));
        begin(
            namespace,
            "dpdk-testpmd",
            with_forwarding(&eal, BURST, BUFFERS),
            "rte-worker",
            folder,
            frames,
            cores,
        )
    }
}

/// Both programs' ports.
fn ports(folder: &Folder) -> String {
    format!(
        "--in-memory --no-pci --file-prefix=l3fwd --vdev=net_pcap0,rx_pcap={},infinite_rx=1 --vdev=net_null0,no-rx=1",
        folder.file("frames.pcap").display()
    )
}

/// `threads`: how the names of the polling ones begin.
fn begin(
    namespace: &Namespace,
    program: &'static str,
    words: Vec<String>,
    threads: &'static str,
    folder: Folder,
    frames: &[Frame],
    cores: Cores,
) -> Result<L3fwd, PeerError> {
    write_frames(&folder.file("frames.pcap"), frames.iter().map(|frame| &frame[..]))?;
    let mut command = namespace.command(program);
    command.args(&words).env("RUNTIME_DIRECTORY", folder.path());
    let process = Process::start(program, &mut command)?;
    let socket = Telemetry::path(folder.path(), "l3fwd");
    let polling = Polling::ready(process, &socket, 2, threads, cores)?;
    let shown = words.join(" ").replace(&folder.path().display().to_string(), "");
    Ok(L3fwd { polling, configuration: format!("{program} {shown}"), _folder: folder })
}

/// A table as the router reads it: each prefix leads to port 1.
fn rules(routes: &[(u32, u8)]) -> String {
    let mut text = String::with_capacity(routes.len() * 24);
    for (address, length) in routes {
        let [a, b, c, d] = address.to_be_bytes();
        text += &format!("R{a}.{b}.{c}.{d}/{length} 1\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_what_the_router_reads() {
        assert_eq!(rules(&[(0, 0), (0xc633_6400, 24)]), "R0.0.0.0/0 1\nR198.51.100.0/24 1\n");
    }

    #[test]
    fn both_programs_have_the_same_ports() {
        let folder = Folder::new().expect("a folder");
        let ports = ports(&folder);
        assert!(ports.contains("/frames.pcap,infinite_rx=1 --vdev=net_null0,no-rx=1"), "{ports}");
    }
}
