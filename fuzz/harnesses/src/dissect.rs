//! Arbitrary frames through the dissector, the flow hash and every view.

use packet::{arp, dissect, ethernet, icmpv4, icmpv6, ipv4, ipv6, symmetric_flow_hash, tcp, udp};

pub fn run(frame: &[u8]) {
    let (hash, vlan) = symmetric_flow_hash(frame);
    match dissect(frame) {
        Ok(found) => {
            assert_eq!(hash != 0, found.network.is_some());
            assert_eq!(vlan, found.vlan());
            if let Some(network) = found.network {
                assert!(network.l4_offset <= frame.len().max(network.end));
                assert_eq!(network.flow_key().reversed().reversed(), network.flow_key());
            }
        }
        Err(_) => assert_eq!(hash, 0),
    }
    let _ = ethernet::View::new(frame).map(|v| ethernet::Repr::parse(&v));
    let _ = arp::View::new(frame).map(|v| arp::Repr::parse(&v));
    let _ = ipv4::View::new(frame).map(|v| (ipv4::Repr::parse(&v), v.options().count(), v.payload().len()));
    let _ = ipv6::View::new(frame).map(|v| (ipv6::Repr::parse(&v), v.upper().is_ok(), v.payload().len()));
    let _ = tcp::View::new(frame).map(|v| (tcp::Repr::parse(&v), v.options().count(), v.payload().len()));
    let _ = udp::View::new(frame).map(|v| (udp::Repr::parse(&v), v.payload().len()));
    let _ = icmpv4::View::new(frame).map(|v| (icmpv4::Repr::parse(&v), v.verify_checksum()));
    let _ = icmpv6::View::new(frame).map(|v| (icmpv6::Repr::parse(&v), v.payload().len()));
}
