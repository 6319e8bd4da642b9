//! smcroute routes a group's packets to a device that has joined the group.

use crate::{Product, peer, shown};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use testbed::{Line, Namespace, isolated};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);

const FILE: &str = "superfluid: 1
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
devices:
  edge: {mode: direct, over: [lan], addresses: [10.83.0.9/24], multicast: [239.1.1.1]}
functions:
  gate: {image: firewall, config: {default_action: accept}}
chains: {c: [edge, gate, wan]}
";

#[test]
#[ignore = "make peers"]
fn packets_of_a_group_pass_a_multicast_router_and_a_device() {
    isolated("multicast::packets_of_a_group_pass_a_multicast_router_and_a_device", || {
        let line = Line::new().expect("a line");
        let source = Namespace::new().expect("a host");
        line.client.join("eth1", &source, "eth0").expect("a second link");
        line.client.ip("addr add 10.85.0.1/24 dev eth1").expect("an address");
        source.ip("addr add 10.85.0.2/24 dev eth0").expect("an address");
        source.ip("route add 224.0.0.0/4 dev eth0").expect("a route");
        for key in ["all", "eth0", "eth1"] {
            crate::set(&line.client, &format!("ipv4/conf/{key}/rp_filter"), "0");
            crate::set(&line.server, "ipv4/conf/all/rp_filter", "0");
        }
        crate::set(&line.server, "ipv4/conf/eth0/rp_filter", "0");
        if !std::path::Path::new("/proc/net/ip_mr_vif").exists() {
            eprintln!("skipped: the kernel has no multicast routing (CONFIG_IP_MROUTE)");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("smcroute.conf");
        fs::write(&file, format!("mgroup from eth1 group {GROUP}\nmroute from eth1 group {GROUP} to eth0\n"))
            .expect("written");
        let mut command = line.client.command("smcrouted");
        command.args(["-n", "-s", "-i", "peers", "-f"]).arg(&file);
        command.arg("-P").arg(folder.path().join("pid")).arg("-u").arg(folder.path().join("socket"));
        let Some(mut router) = peer(&mut command, "smcroute") else { return };
        // The device's own reports come without this host asking: the router's link has a member.
        let mut product = Product::start(&line, FILE);
        let receiver = line.server.enter(|| {
            let socket = UdpSocket::bind((GROUP, 7000)).expect("a socket");
            socket.join_multicast_v4(&GROUP, &Ipv4Addr::new(10, 83, 0, 2)).expect("it joins");
            socket
        });
        receiver.set_read_timeout(Some(Duration::from_millis(100))).expect("it can");
        let sender = source.enter(|| UdpSocket::bind("10.85.0.2:0").expect("a socket"));
        sender.set_multicast_ttl_v4(8).expect("it can");
        let mut bytes = [0; 64];
        product.until("a packet of the group", || {
            sender.send_to(b"to the group", (GROUP, 7000)).expect("it is sent");
            receiver.recv_from(&mut bytes).is_ok_and(|(length, from)| {
                &bytes[..length] == b"to the group" && from.ip().to_string() == "10.85.0.2"
            })
        });
        assert!(router.is_running(), "{}", router.finish().1);
        let counted = shown(&line.client, "ip -statistics mroute show");
        assert!(counted.contains("239.1.1.1"), "{counted}");
        // Duplicate detection lasts some seconds (RFC 5227).
        product.until_done(&line.client, "ping -c 1 -W 2 10.83.0.9");
        product.end();
    });
}
