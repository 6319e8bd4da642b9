//! Tunnels of devices that this kernel may have no devices of: scapy makes the frames, and tshark reads what
//! leaves, both ways.

use crate::{Product, is_installed};
use testbed::{Background, Line, Namespace, isolated};

/// Addresses of the hosts behind the tunnel.
const NEAR_MAC: &str = "02:00:00:00:00:31";
const FAR_MAC: &str = "02:00:00:00:00:32";
/// The device's own on the wire of its tunnel.
const OWN_MAC: &str = "02:00:00:00:00:aa";

/// Debian's, which has its package.
const PYTHON: &str = "/usr/bin/python3";

/// Sends a datagram without end, in this kind of tunnel or in none: ten times a second.
const FRAMES: &str = r#"
import sys
from scapy.all import Dot1AD, Dot1Q, Ether, GRE, IP, Raw, UDP, sendp
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
near, far, own, other = sys.argv[2:6]
inner = Ether(src=near, dst=far)
datagram = IP(src="10.1.0.1", dst="10.1.0.2") / UDP(sport=1111, dport=2222) / Raw(b"inside")
outer = Ether(src=other, dst=own) / IP(src="192.0.2.2", dst="192.0.2.1")
frames = {
    "802.1ad": inner / Dot1AD(vlan=7) / Dot1Q(vlan=8) / datagram,
    "mpls": inner / MPLS(label=7, s=1, ttl=64) / datagram,
    "gre": outer / GRE(proto=0x6558, key_present=1, key=7) / inner / datagram,
    "nvgre": outer / GRE(proto=0x6558, key_present=1, key=7 << 8 | 5) / inner / datagram,
    "geneve": outer / UDP(sport=50000, dport=6081) / GENEVE(vni=7, proto=0x6558) / inner / datagram,
    "none": inner / datagram,
}
sendp(frames[sys.argv[1]], iface="eth0", loop=1, inter=0.1, verbose=False)
"#;

/// What is read of each packet, all levels of it.
const FIELDS: [&str; 10] = [
    "eth.src",
    "ieee8021ad.id",
    "vlan.id",
    "mpls.label",
    "gre.key",
    "geneve.vni",
    "ip.src",
    "ip.dst",
    "ip.checksum.status",
    "udp.dstport",
];

/// What a datagram without a tunnel reads as.
const PLAIN: &str = "02:00:00:00:00:31,,,,,,10.1.0.1,10.1.0.2,1,2222";

/// A kind of tunnel.
struct Kind {
    name: &'static str,
    decapsulate: &'static str,
    encapsulate: &'static str,
    /// What the datagram reads as in the device's tunnel, the first letters of it.
    read: &'static str,
}

/// Starts the frames of a host.
fn send(host: &Namespace, kind: &str) -> Background {
    let mut command = host.command(PYTHON);
    command.args(["-c", FRAMES, kind, NEAR_MAC, FAR_MAC, OWN_MAC, "02:00:00:00:00:01"]);
    Background::start(&mut command).expect("it is installed")
}

/// The packets from the product that a host gets, as tshark reads them.
fn read(product: &mut Product, host: &Namespace) -> Vec<String> {
    let mut command = host.command("tshark");
    command.args(["-n", "-l", "-i", "eth0", "-c", "3", "-f"]);
    command.arg(format!("inbound and (ether src {NEAR_MAC} or ether src {OWN_MAC})"));
    command.args(["-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=,", "-E", "occurrence=a"]);
    command.args(["-E", "aggregator=;"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let mut reader = Background::start(&mut command).expect("it is installed");
    product.until("tshark has read three packets", || !reader.is_running());
    let (read, told) = reader.finish();
    let lines: Vec<String> = read.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{read}{told}");
    lines
}

fn through(kind: &Kind) {
    let line = Line::new().expect("a line");
    if !is_installed(&line.client, "tshark", "tshark") {
        return;
    }
    if testbed::run(line.client.command(PYTHON).args(["-c", "import scapy"]), crate::LIMIT).is_err() {
        eprintln!("skipped: there is no scapy (Debian: python3-scapy)");
        return;
    }
    let Kind { name, decapsulate, encapsulate, .. } = kind;
    let mut product = Product::start(
        &line,
        &format!(
            "\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  gateway:
    mode: bridge
    over:
      lan: {{decapsulate: [{decapsulate}], encapsulate: [{encapsulate}]}}
      wan: {{}}
functions:
  gate: {{image: firewall, config: {{default_action: accept}}}}
chains: {{c: ['gateway:lan', gate, 'gateway:wan']}}
"
        ),
    );
    // Out of the tunnel.
    let frames = send(&line.client, name);
    for packet in read(&mut product, &line.server) {
        assert_eq!(packet, PLAIN);
    }
    drop(frames);
    // And into it.
    let frames = send(&line.server, "none");
    for packet in read(&mut product, &line.client) {
        assert!(packet.starts_with(kind.read), "{packet}, not {}", kind.read);
        assert!(packet.ends_with(",2222") || packet.ends_with(";2222"), "{packet}");
    }
    drop(frames);
    let account = product.end();
    assert!(account["functions"]["gate"]["packets"].as_u64() >= Some(6), "{account}");
}

/// Keys of tunnels between two hosts, whose neighbours are in the configuration.
macro_rules! between {
    ($layer:literal, $network:literal) => {
        concat!(
            "{",
            $layer,
            ": {",
            $network,
            ", local: 192.0.2.1, remote: 192.0.2.2, local_mac: '02:00:00:00:00:aa', \
             remote_mac: '02:00:00:00:00:01'}}"
        )
    };
}

#[test]
#[ignore = "make peers"]
fn service_tags() {
    isolated("dissectors::service_tags", || {
        through(&Kind {
            name: "802.1ad",
            decapsulate: "vlan, vlan",
            encapsulate: "{vlan: {id: 7, service: true}}, {vlan: {id: 8}}",
            read: "02:00:00:00:00:31,7,8,,,,10.1.0.1,10.1.0.2,1,",
        });
    });
}

#[test]
#[ignore = "make peers"]
fn mpls() {
    isolated("dissectors::mpls", || {
        through(&Kind {
            name: "mpls",
            decapsulate: "mpls",
            encapsulate: "{mpls: {label: 7}}",
            read: "02:00:00:00:00:31,,,7,,,10.1.0.1,10.1.0.2,1,",
        });
    });
}

#[test]
#[ignore = "make peers"]
fn gre() {
    isolated("dissectors::gre", || {
        through(&Kind {
            name: "gre",
            decapsulate: "gre",
            encapsulate: between!("gre", "key: 7"),
            read: "02:00:00:00:00:aa;02:00:00:00:00:31,,,,0x00000007,,192.0.2.1;10.1.0.1,192.0.2.2;10.1.0.2,1;1,",
        });
    });
}

#[test]
#[ignore = "make peers"]
fn nvgre() {
    isolated("dissectors::nvgre", || {
        through(&Kind {
            name: "nvgre",
            decapsulate: "nvgre",
            encapsulate: between!("nvgre", "subnet: 7"),
            // The last eight bits are of the flow.
            read: "02:00:00:00:00:aa;02:00:00:00:00:31,,,,0x000007",
        });
    });
}

#[test]
#[ignore = "make peers"]
fn geneve() {
    isolated("dissectors::geneve", || {
        through(&Kind {
            name: "geneve",
            decapsulate: "geneve",
            encapsulate: between!("geneve", "vni: 7"),
            read: "02:00:00:00:00:aa;02:00:00:00:00:31,,,,,0x000007,192.0.2.1;10.1.0.1,192.0.2.2;10.1.0.2,1;1,6081;2222",
        });
    });
}
