//! Open vSwitch's datapath in user space, with connection tracking, between two hosts that send and receive
//! by the kernel: TCP in large segments (`userspace-tso-enable`), which needs the daemon that is built with
//! DPDK.

use crate::openvswitch::{DAEMON, Place};
use crate::process::Process;
use crate::{Folder, PeerError, missing_of};
use std::fmt::Write;
use testbed::{CLIENT, Hosts, SERVER};

/// Megabytes of huge pages.
const MEMORY: u32 = 256;

/// A running Open vSwitch between a client and a server.
#[derive(Debug)]
pub struct OpenVswitchLine {
    /// What it was told.
    pub configuration: String,
    // In this order: the daemon ends before its database, and the folder goes last.
    _daemon: Process,
    _database: Process,
    _folder: Folder,
}

impl OpenVswitchLine {
    /// Says what is missing, if anything is.
    ///
    /// # Errors
    /// [`PeerError::Missing`].
    pub fn missing() -> Result<(), PeerError> {
        missing_of(&[
            ("ovsdb-server", "openvswitch-switch"),
            ("ovs-vsctl", "openvswitch-switch"),
            ("ovs-ofctl", "openvswitch-common"),
            (DAEMON, "openvswitch-switch-dpdk"),
        ])
    }

    /// Joins two hosts: the client may open connections of TCP to these ports.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(hosts: &Hosts, ports: &[u16]) -> Result<OpenVswitchLine, PeerError> {
        let folder = Folder::new()?;
        for (name, host, address) in [("inside", &hosts.client, CLIENT), ("outside", &hosts.server, SERVER)] {
            hosts.middle.join(name, host, "eth0")?;
            host.ip(&format!("addr add {address}/24 dev eth0"))?;
        }
        let at = Place { folder: &folder, namespace: &hosts.middle };
        let database = at.database()?;
        at.vsctl(&["--no-wait", "init"])?;
        let mut configuration = at.vsctl(&[
            "--no-wait",
            "set",
            "Open_vSwitch",
            ".",
            "other_config:dpdk-init=true",
            "other_config:userspace-tso-enable=true",
            &format!("other_config:dpdk-socket-mem={MEMORY}"),
            "other_config:dpdk-extra=\"--no-pci --in-memory --file-prefix=ovs-line\"",
        ])?;
        let daemon = at.start()?;
        configuration += &at.add_bridge()?;
        for (n, name) in ["inside", "outside"].into_iter().enumerate() {
            let number = format!("ofport_request={}", n + 1);
            configuration +=
                &at.vsctl(&["add-port", "br0", name, "--", "set", "Interface", name, &number])?;
        }
        let flows = flows(ports);
        at.set_flows(&flows)?;
        configuration += &flows;
        Ok(OpenVswitchLine { configuration, _daemon: daemon, _database: database, _folder: folder })
    }
}

/// Tracked and established packets pass; a new connection may begin from inside alone.
fn flows(ports: &[u16]) -> String {
    let mut flows = "\
table=0,priority=5,arp,actions=normal
table=0,priority=10,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=10,in_port=1,ip,ct_state=+trk+est,actions=output:2
table=1,priority=10,in_port=2,ip,ct_state=+trk+est,actions=output:1
table=1,priority=0,actions=drop
"
    .to_owned();
    for port in ports {
        let opens = format!("in_port=1,tcp,tp_dst={port},ct_state=+trk+new");
        let _ = writeln!(flows, "table=1,priority=10,{opens},actions=ct(commit),output:2");
    }
    flows
}
