//! What a packet is, in words.

use packet::tcp::{self, Flags};
use packet::{Fragment, Transport, dissect, protocol};
use std::fmt::Write as _;

/// A line about a packet: its first bytes, and its whole length. `10.1.0.1:1000 > 10.2.0.2:53 UDP, 60 bytes`.
pub fn words(bytes: &[u8], length: u32) -> String {
    let mut text = headers(bytes);
    let _ = write!(text, ", {length} bytes");
    text
}

fn headers(bytes: &[u8]) -> String {
    let Ok(found) = dissect(bytes) else { return "malformed".to_owned() };
    let Some(network) = &found.network else {
        return match found.ethertype {
            0x0806 => "ARP".to_owned(),
            ethertype => format!("ethertype {ethertype:#06x}"),
        };
    };
    let (source, destination) = (network.source, network.destination);
    let name = match network.protocol {
        protocol::TCP => "TCP".to_owned(),
        protocol::UDP => "UDP".to_owned(),
        protocol::ICMPV4 => "ICMP".to_owned(),
        protocol::ICMPV6 => "ICMPv6".to_owned(),
        number => format!("protocol {number}"),
    };
    let mut text = match network.transport {
        Transport::Ports { source: from, destination: to } => {
            let ends =
                [(source, from), (destination, to)].map(|(ip, port)| std::net::SocketAddr::new(ip, port));
            format!("{} > {} {name}", ends[0], ends[1])
        }
        Transport::Icmp { kind, code, .. } => {
            format!("{source} > {destination} {name} type {kind} code {code}")
        }
        Transport::Opaque => format!("{source} > {destination} {name}"),
    };
    if matches!(network.fragment, Fragment::Later { .. }) {
        text.push_str(" fragment");
    } else if network.protocol == protocol::TCP
        && let Some(view) = bytes.get(network.l4_offset..).and_then(|segment| tcp::View::new(segment).ok())
    {
        let flags = view.flags();
        let all = [(Flags::SYN, "SYN"), (Flags::ACK, "ACK"), (Flags::FIN, "FIN"), (Flags::RST, "RST")];
        for (flag, name) in all {
            if flags.0 & flag.0 != 0 {
                text.push(' ');
                text.push_str(name);
            }
        }
    }
    text
}
