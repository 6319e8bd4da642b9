//! Suricata that takes packets as they come, by one thread for each interface: by DPDK over memif, from an
//! interface of the kernel by AF_PACKET, or from netfilter by NFQUEUE.
//!
//! By DPDK its threads poll and have the processor to themselves; by the others they sleep while there is
//! nothing. [`Inspector::finish`] ends it in the way that lets it look at what it still has, and says what it
//! found and how many packets it has seen.

use crate::cores::FIRST;
use crate::process::Process;
use crate::suricata::{alerts_in, settings};
use crate::{Alerts, Cores, Folder, Parsers, PeerError};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use testbed::Namespace;

/// The interface that packets are taken from by AF_PACKET.
pub const INTERFACE: &str = "sf-ids";

/// How long it may take to read rules and begin.
const START: Duration = Duration::from_secs(60);
/// How long it may take to look at what it still has, and to end.
const END: Duration = Duration::from_secs(60);
/// It has nothing to do when its threads take less than a fiftieth of so much time.
const REST: Duration = Duration::from_millis(10);

/// Where it says what.
const LOGGING: &str = "default-log-level: warning, outputs: [{console: {enabled: yes}}]";
const CONSOLE: &str = "{console: {enabled: yes, level: warning}}";
/// In the folder; when it takes packets it says so here.
const FILE: &str = "{file: {enabled: yes, level: notice, filename: SAID}}";

/// How the names of the threads begin that take packets.
const WORKERS: &str = "W";
/// Priority of a thread that has nothing to do.
const LAST: i32 = 19;

/// How packets come to it.
#[derive(Clone, Copy, Debug)]
pub enum Taking<'a> {
    /// By DPDK, as the client of a memif whose master listens at the socket, with so many buffers in each
    /// ring.
    Memif(&'a Path, usize),
    /// The same between two of them, packets going on from each to the other.
    Inline([&'a Path; 2], usize),
    /// By AF_PACKET, version 3 of its ring, at [`INTERFACE`].
    AfPacket,
    /// By NFQUEUE, number 0.
    Nfqueue,
}

impl Taking<'_> {
    /// What the command line says of it.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Taking::Memif(..) | Taking::Inline(..) => &["--dpdk"],
            Taking::AfPacket => &["--af-packet"],
            Taking::Nfqueue => &["-q", "0"],
        }
    }

    /// What the file says of it.
    fn section(self, prefix: &str) -> String {
        match self {
            Taking::Memif(socket, ring) => dpdk(prefix, &[socket], ring),
            Taking::Inline(sockets, ring) => dpdk(prefix, &sockets, ring),
            Taking::AfPacket => format!(
                "af-packet:\n  - {{interface: {INTERFACE}, threads: 1, cluster-id: 99, cluster-type: cluster_flow, defrag: no, \
                 use-mmap: yes, tpacket-v3: yes, ring-size: 65536, block-size: 1048576, checksum-checks: no}}\n"
            ),
            Taking::Nfqueue => "nfq: {mode: accept, batchcount: 20, fail-open: no}\n".to_owned(),
        }
    }

    /// Threads that take packets.
    fn threads(self) -> usize {
        match self {
            Taking::Inline(..) => 2,
            _ => 1,
        }
    }
}

/// Ports of DPDK, one of which copies to the other where there are two.
fn dpdk(prefix: &str, sockets: &[&Path], ring: usize) -> String {
    let rsize = ring.ilog2();
    let device = |(number, socket): (usize, &&Path)| {
        let socket = socket.display();
        format!(
            "\"net_memif{number},role=client,socket={socket},socket-abstract=no,id=0,bsize=2048,rsize={rsize}\""
        )
    };
    let devices: Vec<String> = sockets.iter().enumerate().map(device).collect();
    let mut text = format!(
        "dpdk:\n  eal-params: {{proc-type: primary, no-pci: true, in-memory: true, file-prefix: {prefix}, vdev: [{}]}}\n  interfaces:\n",
        devices.join(", ")
    );
    for number in 0..sockets.len() {
        let copying = match sockets.len() {
            1 => "copy-mode: none, copy-iface: none".to_owned(),
            _ => format!("copy-mode: ips, copy-iface: net_memif{}", 1 - number),
        };
        text += &format!(
            "    - {{interface: net_memif{number}, threads: 1, promisc: true, multicast: false, checksum-checks: false, \
             checksum-checks-offload: false, mtu: 1500, mempool-size: 16383, mempool-cache-size: 256, rx-descriptors: {ring}, \
             tx-descriptors: {ring}, {copying}}}\n"
        );
    }
    text
}

/// What it has seen and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Alerts.
    pub alerts: Alerts,
    /// Packets that it has decoded.
    pub packets: u64,
    /// Packets that were lost before it, as far as it was told.
    pub lost: u64,
}

/// A running Suricata.
#[derive(Debug)]
pub struct Inspector {
    /// What it is told.
    pub configuration: String,
    process: Process,
    folder: Folder,
}

impl Inspector {
    /// Starts it, and waits until it takes packets; over memif it may still have to connect.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(
        namespace: &Namespace,
        rules: &str,
        parsers: Parsers,
        taking: Taking<'_>,
        cores: Cores,
    ) -> Result<Inspector, PeerError> {
        let folder = Folder::new()?;
        let classes = folder.write("classes", "")?;
        let prefix = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let settings = live(&settings(parsers)) + &taking.section(&prefix) + &threading(taking, cores);
        let settings = settings
            .replace("CLASSES", &classes.display().to_string())
            .replace("SAID", &folder.file("said").display().to_string());
        let file = folder.write("suricata.yaml", &settings)?;
        let rules = folder.write("rules", rules)?;
        let mut command = namespace.command("suricata");
        command.env("RUNTIME_DIRECTORY", folder.path()).arg("-c").arg(&file).arg("-S").arg(&rules);
        command.arg("-l").arg(folder.path()).args(["-k", "none", "--runmode", "workers"]);
        let line = format!(
            "suricata -c FILE -S RULES -l FOLDER -k none --runmode workers {}",
            taking.arguments().join(" ")
        );
        let mut process = Process::start("Suricata", command.args(taking.arguments()))?;
        let said = folder.file("said");
        process.wait_for("it takes no packets", START, |_| {
            let said = fs::read_to_string(&said).ok()?;
            said.contains("Engine started").then_some(())
        })?;
        process.place(
            if taking.threads() == 1 { WORKERS } else { "W#01-net_memif0" },
            cores.device,
            FIRST,
        )?;
        if taking.threads() > 1 {
            // That of the second interface has nothing to do, where packets go one way, and polls all the
            // same.
            process.place("W#01-net_memif1", cores.device, LAST)?;
        }
        let section = taking.section("NAME") + &threading(taking, cores);
        Ok(Inspector { configuration: format!("{line}\n{section}"), process, folder })
    }

    /// Processor time of all of its threads until now.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended.
    pub fn time(&self) -> Result<Duration, PeerError> {
        Ok(self.process.time_of("")?.0)
    }

    /// Processor time of the threads that take packets.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended.
    pub fn workers_time(&self) -> Result<Duration, PeerError> {
        Ok(self.process.time_of(WORKERS)?.0)
    }

    /// Waits until it sleeps because it has seen all that has come: of one that does not poll.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended, or goes on working.
    pub fn rest(&self) -> Result<(), PeerError> {
        let began = Instant::now();
        let mut before = self.process.time_of(WORKERS)?.0;
        loop {
            std::thread::sleep(REST);
            let now = self.process.time_of(WORKERS)?.0;
            if now - before < REST / 50 {
                return Ok(());
            }
            before = now;
            if began.elapsed() > END {
                return Err(PeerError::Unexpected {
                    peer: "Suricata",
                    found: "it does not come to the end of what it has".into(),
                });
            }
        }
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

    /// Lets it look at what it still has, and ends it.
    ///
    /// # Errors
    /// [`PeerError`]: it did not end well, or told nothing.
    pub fn finish(self) -> Result<Taken, PeerError> {
        self.process.interrupt(END)?;
        let read = |name: &str| {
            let path = self.folder.file(name);
            fs::read(&path)
                .map_err(crate::error::file(path))
                .map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        let counts = read("counts")?;
        let packets = counted(&counts, "decoder.pkts").ok_or_else(|| PeerError::Unexpected {
            peer: "Suricata",
            found: format!("it counted no packets: {counts}"),
        })?;
        let lost: u64 = ["capture.kernel_drops", "capture.dpdk.imissed", "capture.dpdk.no_mbufs"]
            .into_iter()
            .filter_map(|name| counted(&counts, name))
            .sum();
        Ok(Taken { alerts: alerts_in(&read("alerts")?), packets, lost })
    }
}

/// The settings of one that reads captures, for packets that come: with counters at the end.
fn live(settings: &str) -> String {
    settings
        .replace("runmode: single", "runmode: workers")
        .replace(LOGGING, &format!("default-log-level: notice, outputs: [{CONSOLE}, {FILE}]"))
        .replace("stats: {enabled: no}", "stats: {enabled: yes, interval: 3600}")
        .replace(
            "append: no}}]",
            "append: no}}, {stats: {enabled: yes, filename: counts, append: no, totals: yes, threads: no}}]",
        )
}

/// Which processors its threads have. It wants one for each thread that polls, and of all processors it would
/// leave out those of the management; these threads are moved afterwards.
fn threading(taking: Taking<'_>, Cores { device, sender }: Cores) -> String {
    let [management, workers] = match taking.threads() {
        1 => [sender.to_string(), device.to_string()],
        _ => [String::new(), format!("{sender}, {device}")],
    };
    format!(
        "threading:\n  set-cpu-affinity: yes\n  cpu-affinity:\n    - management-cpu-set: {{cpu: [{management}]}}\n    \
         - worker-cpu-set: {{cpu: [{workers}], mode: exclusive}}\n"
    )
}

/// The last value of a counter in a table of `NAME | Total | VALUE`.
fn counted(table: &str, name: &str) -> Option<u64> {
    let value = |line: &str| {
        let mut cells = line.split('|').map(str::trim);
        (cells.next() == Some(name)).then(|| cells.nth(1)?.parse().ok()).flatten()
    };
    table.lines().rev().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_last_table() {
        let table = "Counter | TM Name | Value\n------\ndecoder.pkts  | Total  | 7\ndecoder.bytes | Total | 700\n\
                     Counter | TM Name | Value\ndecoder.pkts | Total | 12\n";
        assert_eq!(counted(table, "decoder.pkts"), Some(12));
        assert_eq!(counted(table, "capture.kernel_drops"), None);
    }

    #[test]
    fn settings_say_how_packets_come_and_where_the_worker_runs() {
        let cores = Cores { device: 3, sender: 1 };
        let [left, right] = ["/run/l.sock", "/run/r.sock"].map(Path::new);
        let text = live(&settings(Parsers::None)) + &threading(Taking::Memif(left, 4096), cores);
        assert!(text.contains("runmode: workers\n") && !text.contains("single"), "{text}");
        assert!(text.contains("management-cpu-set: {cpu: [1]}"), "{text}");
        assert!(text.contains("worker-cpu-set: {cpu: [3], mode: exclusive}"), "{text}");
        assert!(text.contains("stats: {enabled: yes, interval: 3600}"), "{text}");
        assert!(text.contains("level: notice, filename: SAID}}]"), "{text}");
        assert!(text.contains("filename: counts, append: no, "), "{text}");
        let one = Taking::Memif(left, 4096).section("x");
        assert!(
            one.contains("net_memif0,role=client,socket=/run/l.sock,") && one.contains("rsize=12"),
            "{one}"
        );
        assert!(one.contains("copy-mode: none") && !one.contains("net_memif1"), "{one}");
        let two = Taking::Inline([left, right], 1024).section("x");
        assert!(two.contains("copy-mode: ips, copy-iface: net_memif1}"), "{two}");
        assert!(two.contains("copy-mode: ips, copy-iface: net_memif0}"), "{two}");
        let both = threading(Taking::Inline([left, right], 1024), cores);
        assert!(both.contains("management-cpu-set: {cpu: []}") && both.contains("{cpu: [1, 3],"), "{both}");
        assert_eq!(Taking::Nfqueue.arguments(), ["-q", "0"]);
        assert!(Taking::AfPacket.section("x").contains("interface: sf-ids, "));
    }
}
