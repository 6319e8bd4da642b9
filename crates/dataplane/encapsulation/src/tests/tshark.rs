//! What an independent reader makes of headers that were put on.

use super::{on, outer, udp};
use crate::{Encapsulation, LayerSettings, Outer};
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};

#[test]
fn tshark_reads_every_layer() {
    let mut six = outer();
    six.checksum = true;
    (six.local, six.remote) = (IpAddr::from([0x20; 16]), IpAddr::from([0x21; 16]));
    let tag = |service| LayerSettings::Vlan { id: 5, priority: 3, service };
    let label = |label| LayerSettings::Mpls { label, class: 2, ttl: 63 };
    let free = Outer { dont_fragment: false, services: Some(46), ..outer() };
    let cases = [
        (
            vec![LayerSettings::Vxlan { vni: 7, outer: outer() }],
            "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:udp:data",
        ),
        (
            vec![LayerSettings::Geneve { vni: 8, outer: six }],
            "eth:ethertype:ipv6:udp:geneve:eth:ethertype:ip:udp:data",
        ),
        (
            vec![LayerSettings::Nvgre { subnet: 9, outer: free }],
            "eth:ethertype:ip:gre:eth:ethertype:ip:udp:data",
        ),
        (
            vec![
                tag(true),
                tag(false),
                LayerSettings::Gre { key: Some(3), frames: false, outer: six },
                label(4),
            ],
            "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ipv6:gre:mpls:ip:udp:data",
        ),
        (vec![label(1), label(2)], "eth:ethertype:mpls:ip:udp:data"),
        (
            vec![LayerSettings::IpIp { outer: six }, LayerSettings::IpIp { outer: outer() }],
            "eth:ethertype:ipv6:ip:ip:udp:data",
        ),
        (
            vec![label(5), LayerSettings::Vxlan { vni: 6, outer: outer() }, tag(false)],
            "eth:ethertype:mpls:ip:udp:vxlan:eth:ethertype:vlan:ethertype:ip:udp:data",
        ),
    ];
    // pcap, microseconds, Ethernet.
    let mut file = [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65535, 1].map(u32::to_le_bytes).concat();
    file[4..8].copy_from_slice(&[2, 0, 4, 0]);
    for (layers, _) in &cases {
        let frame = on(&Encapsulation::new(layers).expect("allowed"), &udp(2));
        let length = frame.len() as u32;
        file.extend([0, 0, length, length].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    let fields = ["frame.protocols", "ip.checksum.status", "_ws.malformed", "udp.checksum.status"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", "-", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    command.args(["-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", *field]));
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = started else {
        println!("skipped: tshark is not installed");
        return;
    };
    child.stdin.take().expect("a pipe").write_all(&file).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), cases.len(), "{lines:#?}");
    for (line, (_, protocols)) in lines.iter().zip(&cases) {
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(columns[0], *protocols);
        assert!(columns[1].split(',').all(|status| status == "1"), "{line}");
        assert!(columns[2].is_empty(), "{line}");
        // 1: right; 3: none.
        let is_summed = protocols.contains("ipv6:udp:geneve");
        assert_eq!(columns[3].split(',').next() == Some("1"), is_summed, "{line}");
        assert!(columns[3].split(',').all(|status| status != "0"), "{line}");
    }
}
