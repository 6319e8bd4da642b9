//! Open vSwitch with DPDK and its connection tracking, between captures that it repeats from memory and a
//! null port.

use crate::capture::write_frames;
use crate::dpdk::Telemetry;
use crate::frames::Established;
use crate::polling::Polling;
use crate::process::Process;
use crate::{Cores, Folder, PeerError};
use std::process::Command;
use std::time::Duration;
use testbed::{Namespace, run};

/// The daemon that is built with DPDK.
pub(crate) const DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Longest time for a command to the daemon; opening a port reads its capture.
const COMMAND: Duration = Duration::from_secs(30);

/// Megabytes of huge pages: every frame of both captures lies in a buffer of its own.
const MEMORY: u32 = 1400;

/// Tracked and established packets go out; a new connection may begin from inside alone.
const FIREWALL: &str = "\
table=0,priority=10,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=10,ip,ct_state=+trk+est,actions=output:3
table=1,priority=10,in_port=1,ip,ct_state=+trk+new,actions=ct(commit),output:3
table=1,priority=0,actions=drop
";

/// A device's groups as OpenStack has them in Open vSwitch: a zone of its own, sources that are the device's,
/// and a rule of the tenant that allows the connections, the last of ten.
const GROUPS: &str = "\
table=0,priority=10,in_port=1,ip,nw_src=192.0.2.9,ct_state=-trk,actions=ct(table=1,zone=7)
table=0,priority=10,in_port=2,ip,nw_dst=192.0.2.9,ct_state=-trk,actions=ct(table=1,zone=7)
table=0,priority=0,actions=drop
table=1,priority=10,ip,ct_state=+trk+est,actions=output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8001,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8002,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8003,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8004,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8005,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8006,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8007,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,tcp,ct_state=+trk+new,tp_dst=8008,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=2,udp,ct_state=+trk+new,tp_dst=53,actions=ct(commit,zone=7),output:3
table=1,priority=10,in_port=1,tcp,ct_state=+trk+new,nw_dst=198.18.0.0/15,tp_dst=443,actions=ct(commit,zone=7),output:3
table=1,priority=0,actions=drop
";

/// What it decides with its connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// A firewall: who is inside may open connections.
    Firewall,
    /// The security groups of one device, whose address is [`frames::DEVICE`](crate::frames::DEVICE).
    Groups,
}

impl Tracked {
    fn flows(self) -> &'static str {
        match self {
            Tracked::Firewall => FIREWALL,
            Tracked::Groups => GROUPS,
        }
    }
}

/// Which caches stand before the classifier. The best choice depends on the number of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCaches {
    /// Exact matches (8,192 entries) and signatures.
    Both,
    /// Signatures alone: more flows than the exact-match cache has entries would only push each other out of
    /// it.
    Signatures,
}

impl FlowCaches {
    fn settings(self) -> [&'static str; 2] {
        match self {
            FlowCaches::Both => ["other_config:smc-enable=true", "other_config:emc-insert-inv-prob=100"],
            FlowCaches::Signatures => ["other_config:smc-enable=true", "other_config:emc-insert-inv-prob=0"],
        }
    }
}

/// A running Open vSwitch.
#[derive(Debug)]
pub struct OpenVswitch {
    /// To measure it by.
    pub polling: Polling,
    /// What it was told.
    pub configuration: String,
    namespace: Namespace,
    // In this order: the daemon ends before its database, and the folder goes last.
    _database: Process,
    folder: Folder,
}

impl OpenVswitch {
    /// Starts it with these connections.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(
        frames: &Established,
        tracked: Tracked,
        caches: FlowCaches,
        cores: Cores,
    ) -> Result<OpenVswitch, PeerError> {
        let folder = Folder::new()?;
        let namespace = Namespace::new()?;
        write_frames(&folder.file("inside.pcap"), frames.inside.iter().map(|frame| &frame[..]))?;
        write_frames(&folder.file("outside.pcap"), frames.outside.iter().map(|frame| &frame[..]))?;
        let at = Place { folder: &folder, namespace: &namespace };
        let database = at.database()?;
        let mut configuration = at.configure(MEMORY, caches, cores)?;
        let daemon = at.start()?;
        configuration += &at.bridge(tracked.flows())?;
        let socket = Telemetry::path(folder.path(), "ovs");
        let polling = Polling::ready(daemon, &socket, 3, "pmd-", cores)?;
        Ok(OpenVswitch { polling, configuration, namespace, _database: database, folder })
    }

    /// Connections that it tracks.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn connections(&self) -> Result<u64, PeerError> {
        let at = Place { folder: &self.folder, namespace: &self.namespace };
        let stats = at.control(&["dpctl/ct-stats-show"])?;
        let total = stats.lines().find_map(|line| line.trim().strip_prefix("Total:")?.trim().parse().ok());
        total.ok_or_else(|| PeerError::Unexpected {
            peer: "ovs-vswitchd",
            found: format!("no number of connections: {stats}"),
        })
    }
}

/// Where its files and sockets are.
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) namespace: &'a Namespace,
}

impl Place<'_> {
    fn command(&self, program: &str) -> Command {
        let mut command = self.namespace.command(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "RUNTIME_DIRECTORY"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.file(name).display().to_string()
    }

    pub(crate) fn run(&self, program: &str, words: &[&str]) -> Result<String, PeerError> {
        Ok(run(self.command(program).args(words), COMMAND)?.stdout)
    }

    pub(crate) fn database(&self) -> Result<Process, PeerError> {
        self.run("ovsdb-tool", &["create", &self.path("conf.db"), SCHEMA])?;
        let mut command = self.command("ovsdb-server");
        command.arg(self.path("conf.db")).args(quiet("database.ctl", self));
        command.arg(format!("--remote=punix:{}", self.path("db.sock")));
        let mut database = Process::start("ovsdb-server", &mut command)?;
        let socket = self.folder.file("db.sock");
        database.wait_for("no socket", COMMAND, |_| socket.exists().then_some(()))?;
        Ok(database)
    }

    pub(crate) fn vsctl(&self, words: &[&str]) -> Result<String, PeerError> {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        let mut line = vec![database.as_str(), "--timeout=25"];
        line.extend(words);
        self.run("ovs-vsctl", &line)?;
        Ok(format!("ovs-vsctl {}\n", words.join(" ").replace(&self.path(""), "")))
    }

    /// Its processors, huge pages of `memory` megabytes and caches, before it starts.
    pub(crate) fn configure(
        &self,
        memory: u32,
        caches: FlowCaches,
        cores: Cores,
    ) -> Result<String, PeerError> {
        self.vsctl(&["--no-wait", "init"])?;
        let (polling, rest) = (mask(cores.device), mask(cores.sender));
        let settings = [
            "other_config:dpdk-init=true".to_owned(),
            format!("other_config:dpdk-socket-mem={memory}"),
            format!("other_config:pmd-cpu-mask={polling}"),
            format!("other_config:dpdk-lcore-mask={rest}"),
            "other_config:dpdk-extra=\"--no-pci --in-memory --file-prefix=ovs\"".to_owned(),
        ];
        let mut words = vec!["--no-wait", "set", "Open_vSwitch", "."];
        words.extend(settings.iter().map(String::as_str));
        words.extend(caches.settings());
        self.vsctl(&words)
    }

    /// The daemon, when it can be told what to do.
    pub(crate) fn start(&self) -> Result<Process, PeerError> {
        let mut command = self.command(DAEMON);
        command.arg(format!("unix:{}", self.path("db.sock"))).args(quiet("daemon.ctl", self));
        let mut daemon = Process::start("ovs-vswitchd", &mut command)?;
        let socket = self.folder.file("daemon.ctl");
        daemon.wait_for("no control socket", COMMAND, |_| socket.exists().then_some(()))?;
        Ok(daemon)
    }

    /// A bridge in user space that passes nothing yet.
    pub(crate) fn add_bridge(&self) -> Result<String, PeerError> {
        let settings = ["datapath_type=netdev", "fail_mode=secure"];
        self.vsctl(&[&["add-br", "br0", "--", "set", "Bridge", "br0"][..], &settings].concat())
    }

    /// What the bridge does with packets from here on.
    pub(crate) fn set_flows(&self, flows: &str) -> Result<(), PeerError> {
        let file = self.folder.write("flows", flows)?;
        let bridge = format!("unix:{}", self.path("br0.mgmt"));
        self.run("ovs-ofctl", &["del-flows", &bridge])?;
        self.run("ovs-ofctl", &["add-flows", &bridge, &file.display().to_string()])?;
        Ok(())
    }

    /// Two ports that repeat the captures, one that takes everything, and the flows between.
    fn bridge(&self, flows: &str) -> Result<String, PeerError> {
        let mut told = self.add_bridge()?;
        let ports = [
            format!("eth_pcap0,rx_pcap={},infinite_rx=1", self.path("inside.pcap")),
            format!("eth_pcap1,rx_pcap={},infinite_rx=1", self.path("outside.pcap")),
            "eth_null0,no-rx=1".to_owned(),
        ];
        for (n, (name, device)) in ["inside", "outside", "out"].iter().zip(&ports).enumerate() {
            told += &self.add_port(name, device, n + 1, 1)?;
        }
        self.set_flows(flows)?;
        // Superfluid's firewall follows sequence numbers no further than a reset needs; nor shall the peer.
        self.control(&["dpctl/ct-disable-tcp-seq-chk"])?;
        Ok(told + "ovs-appctl dpctl/ct-disable-tcp-seq-chk\n" + flows)
    }

    /// A port of the bridge on a device of DPDK, with this number in flows.
    pub(crate) fn add_port(
        &self,
        name: &str,
        device: &str,
        number: usize,
        queues: usize,
    ) -> Result<String, PeerError> {
        let arguments = format!("options:dpdk-devargs=\"{device}\"");
        let number = format!("ofport_request={number}");
        let queues = format!("options:n_rxq={queues}");
        let interface = ["--", "set", "Interface", name, "type=dpdk", &arguments, &queues, &number];
        self.vsctl(&[&["add-port", "br0", name][..], &interface].concat())
    }

    pub(crate) fn control(&self, words: &[&str]) -> Result<String, PeerError> {
        let socket = self.path("daemon.ctl");
        let mut line = vec!["--timeout=25", "--target", socket.as_str()];
        line.extend(words);
        self.run("ovs-appctl", &line)
    }
}

fn quiet(control: &str, at: &Place<'_>) -> [String; 4] {
    [
        format!("--unixctl={}", at.path(control)),
        "--verbose=console:warn".into(),
        "--verbose=syslog:off".into(),
        "--verbose=file:off".into(),
    ]
}

/// A mask of one processor, as Open vSwitch reads it.
fn mask(core: usize) -> String {
    let mut digits = String::from("0x");
    digits.push(['1', '2', '4', '8'][core % 4]);
    digits.extend(std::iter::repeat_n('0', core / 4));
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_their_processor() {
        let masks = [0, 1, 3, 4, 7, 64].map(mask);
        assert_eq!(masks, ["0x1", "0x2", "0x8", "0x10", "0x80", "0x10000000000000000"]);
    }
}
