//! Open vSwitch's userspace datapath at the other end: of tunnels of devices, and with DPDK of memif ports.

use crate::{LIMIT, Product, peer};
use std::path::Path;
use std::process::Command;
use testbed::{Background, Line, Namespace, SERVER, isolated};

/// The tunnel's ends on the wire.
const NEAR: &str = "192.0.2.1";
const FAR: &str = "192.0.2.2";
const STREAM: usize = 1 << 20;

/// A switch of its own: database and daemon, with all of their files in a folder.
struct Switch<'h> {
    host: &'h Namespace,
    folder: tempfile::TempDir,
    database: Option<Background>,
    daemon: Option<Background>,
}

impl<'h> Switch<'h> {
    /// Starts it; none when it is not installed.
    fn start(host: &'h Namespace) -> Option<Switch<'h>> {
        Switch::of(host, "ovs-vswitchd", "openvswitch-switch", &[])
    }

    /// With DPDK, in memory of ordinary pages.
    fn with_dpdk(host: &'h Namespace) -> Option<Switch<'h>> {
        let settings = [
            "other_config:dpdk-init=true",
            "other_config:dpdk-extra=\"--no-pci --no-huge --legacy-mem --no-shconf -m 512\"",
            "other_config:per-port-memory=true",
        ];
        let daemon = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
        Switch::of(host, daemon, "openvswitch-switch-dpdk", &settings)
    }

    /// This daemon, started with these settings in its database.
    fn of(host: &'h Namespace, program: &str, package: &str, settings: &[&str]) -> Option<Switch<'h>> {
        const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
        if !crate::is_installed(host, program, package) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut switch = Switch { host, folder, database: None, daemon: None };
        let at = |name: &str| switch.folder.path().join(name).display().to_string();
        let (file, remote) = (at("conf.db"), format!("unix:{}", at("db.sock")));
        let listen = format!("--remote=p{remote}");
        let mut make = switch.command("ovsdb-tool");
        testbed::run(make.args(["create", &file, SCHEMA]), LIMIT).expect("a database");
        let control = format!("--unixctl={}", at("database.ctl"));
        switch.database =
            Some(peer(switch.command("ovsdb-server").args([&file, &listen, &control]), package)?);
        if !settings.is_empty() {
            switch.told(&["--no-wait", "init"]);
            switch.told(&[&["--no-wait", "set", "Open_vSwitch", "."], settings].concat());
        }
        let control = format!("--unixctl={}", at("switch.ctl"));
        switch.daemon = Some(peer(switch.command(program).args([&remote, &control]), package)?);
        Some(switch)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.host.command(program);
        for key in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(key, self.folder.path());
        }
        command
    }

    /// Changes the configuration, and waits until it is in force.
    fn configure(&self, words: &str) {
        self.told(&words.split_whitespace().collect::<Vec<_>>());
    }

    /// The same, of words that may have spaces.
    fn told(&self, words: &[&str]) {
        let socket: &Path = &self.folder.path().join("db.sock");
        let mut command = self.command("ovs-vsctl");
        command.arg(format!("--db=unix:{}", socket.display())).arg("--retry").arg("--timeout=20");
        testbed::run(command.args(words), LIMIT).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The server's address is behind a tunnel of the switch, whose other end is a device.
fn through(tunnel: &str, receive: &str, layer: &str) {
    let line = Line::new().expect("a line");
    let Some(switch) = Switch::start(&line.server) else { return };
    // The switch takes frames as they are from packet sockets, and a wire has them with their checksums.
    line.middle.run("ethtool -K sf-wan tx off", LIMIT).expect("ethtool");
    line.server.run("ethtool -K eth0 tx off rx off gro off", LIMIT).expect("ethtool");
    line.server.ip("addr flush dev eth0").expect("the switch has it");
    crate::set(&line.server, "ipv4/conf/all/arp_ignore", "1");
    switch.configure(
        "-- add-br outer -- set bridge outer datapath_type=netdev other-config:hwaddr=02:00:00:00:00:22",
    );
    switch.configure("-- add-port outer eth0");
    line.server.ip(&format!("addr add {FAR}/24 dev outer")).expect("an address");
    line.server.ip("link set outer up").expect("switched on");
    switch.configure("-- add-br inner -- set bridge inner datapath_type=netdev");
    switch.configure("-- set interface inner mtu_request=1400");
    switch.configure(&format!(
        "-- add-port inner tunnel -- set interface tunnel type={tunnel} options:remote_ip={NEAR} options:key=7"
    ));
    line.server.ip(&format!("addr add {SERVER}/24 dev inner")).expect("an address");
    line.server.ip("link set inner up").expect("switched on");

    let mut product = Product::start(
        &line,
        &format!(
            "\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  gateway:
    mode: bridge
    addresses: [{NEAR}/24]
    over:
      lan: {{}}
      wan:
        receive: {receive}
        decapsulate: [{layer}]
        encapsulate: [{{{layer}: {{{}: 7, local: {NEAR}, remote: {FAR}}}}}]
functions:
  gate:
    image: firewall
    config:
      default_action: drop
      rules:
        - {{name: ping, action: accept, from: inside, protocol: icmp, icmp_type: 8, destination: {SERVER}/32}}
        - {{name: web, action: accept, from: inside, protocol: tcp, destination_ports: 7000}}
chains: {{c: ['gateway:lan', gate, 'gateway:wan']}}
",
            if layer == "gre" { "key" } else { "vni" }
        ),
    );
    product.until_done(&line.client, &format!("ping -c 1 -W 1 {SERVER}"));
    line.client.run(&format!("ping -c 20 -i 0.01 -W 2 {SERVER}"), LIMIT).expect("answers");
    testbed::echo(&line.client, &line.server, STREAM);
    let account = product.end();
    assert!(account["functions"]["gate"]["packets"].as_u64() > Some(100), "{account}");
    assert!(account["packets"]["dropped"]["bad-tunnel"].is_null(), "{account}");
}

/// Between client and server stand two memif ports in these roles, and a switch with DPDK at their other
/// ends.
fn between_memifs(ours: [&str; 2]) {
    let line = Line::new().expect("a line");
    let Some(switch) = Switch::with_dpdk(&line.server) else { return };
    let sockets = ["in", "out"].map(|name| switch.folder.path().join(name).display().to_string());
    let mut product = Product::start(
        &line,
        &format!(
            "\
superfluid: 1
ports:
  lan: {{type: af_packet, interface: sf-lan}}
  wan: {{type: af_packet, interface: sf-wan}}
  in: {{type: memif, role: {}, socket: {}, queues: 2}}
  out: {{type: memif, role: {}, socket: {}, queues: 2}}
functions:
  gate:
    image: firewall
    config:
      default_action: drop
      rules:
        - {{name: ping, action: accept, from: inside, protocol: icmp, icmp_type: 8}}
        - {{name: web, action: accept, from: inside, protocol: tcp, destination_ports: 7000}}
  behind: {{image: monitor}}
chains: {{before: [lan, gate, in], after: [out, behind, wan]}}
",
            ours[0], sockets[0], ours[1], sockets[1]
        ),
    );
    switch.configure("-- add-br br -- set bridge br datapath_type=netdev fail_mode=standalone");
    for (n, (role, socket)) in ours.into_iter().zip(&sockets).enumerate() {
        let theirs = if role == "master" { "client" } else { "server" };
        let device = format!("net_memif{n},role={theirs},socket={socket},socket-abstract=no,rsize=10");
        switch.configure(&format!(
            "-- add-port br memif{n} -- set interface memif{n} type=dpdk options:n_rxq=2 \
             options:dpdk-devargs={device}"
        ));
    }
    product.until_done(&line.client, &format!("ping -c 1 -W 1 {SERVER}"));
    line.client.run(&format!("ping -c 20 -i 0.01 -W 2 {SERVER}"), LIMIT).expect("answers");
    testbed::echo(&line.client, &line.server, STREAM);
    let account = product.end();
    for name in ["gate", "behind"] {
        assert!(account["functions"][name]["packets"].as_u64() > Some(100), "{account}");
    }
    for name in ["in", "out"] {
        assert!(account["ports"][name]["packets"]["delivered"].as_u64() > Some(50), "{account}");
    }
}

#[test]
#[ignore = "make peers"]
fn memif_as_master() {
    isolated("open_vswitch::memif_as_master", || between_memifs(["master", "master"]));
}

#[test]
#[ignore = "make peers"]
fn memif_as_slave() {
    isolated("open_vswitch::memif_as_slave", || between_memifs(["slave", "slave"]));
}

#[test]
#[ignore = "make peers"]
fn vxlan() {
    isolated("open_vswitch::vxlan", || through("vxlan", "udp port 4789 and vni 7", "vxlan"));
}

#[test]
#[ignore = "make peers"]
fn geneve() {
    isolated("open_vswitch::geneve", || through("geneve", "udp port 6081 and vni 7", "geneve"));
}

#[test]
#[ignore = "make peers"]
fn gre() {
    isolated("open_vswitch::gre", || through("gre", "gre key 7", "gre"));
}
