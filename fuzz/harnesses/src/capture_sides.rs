//! Frames of a capture are of the side that a plain reading says: with a prefix the one whose bits its source
//! has; else that of the end which opened the connection, out of a list of all connections.

use packet::{FlowKey, Transport, dissect, protocol};
use port::pcap::{Side, SideFinder, Sides};
use std::net::IpAddr;

/// A connection as its opener sends.
type Opened = FlowKey;

/// The bits of an address, the first one first.
fn bits(address: IpAddr) -> Vec<bool> {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |place| byte >> place & 1 == 1)).collect()
}

fn side(frame: &[u8], sides: Sides, opened: &mut Vec<Opened>) -> Side {
    let network = dissect(frame).ok().and_then(|found| found.network);
    let Some(network) = network else { return Side::Outside };
    let is_inside = match sides {
        Sides::Prefix(prefix, length) => {
            let (prefix, source) = (bits(prefix), bits(network.source));
            prefix.len() == source.len()
                && prefix.iter().zip(source).take(length.into()).all(|(a, b)| *a == b)
        }
        Sides::Openers => {
            let sent = network.flow_key();
            let received = FlowKey {
                source: sent.destination,
                destination: sent.source,
                source_port: sent.destination_port,
                destination_port: sent.source_port,
                ..sent
            };
            if !opened.iter().any(|one| *one == sent || *one == received) {
                // A later fragment has no flags, and of what is cut before them none are known.
                let has_header = network.transport != Transport::Opaque && network.protocol == protocol::TCP;
                let flags = frame.get(network.l4_offset + 13).filter(|_| has_header);
                let answers = flags.is_some_and(|flags| flags & 0x02 != 0 && flags & 0x10 != 0);
                opened.push(if answers { received } else { sent });
            }
            opened.contains(&sent)
        }
    };
    if is_inside { Side::Inside } else { Side::Outside }
}

pub fn run(data: &[u8]) {
    let &[kind, length, ref data @ ..] = data else { return };
    let Some((address, mut frames)) = data.split_first_chunk::<16>() else { return };
    let sides = match kind % 3 {
        0 => Sides::Openers,
        1 => Sides::Prefix([address[0], address[1], address[2], address[3]].into(), length % 33),
        _ => Sides::Prefix((*address).into(), length % 129),
    };
    let (mut finder, mut opened) = (SideFinder::new(sides), vec![]);
    while let Some((length, rest)) = frames.split_first() {
        let (frame, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        assert_eq!(finder.of(frame), side(frame, sides, &mut opened), "{frame:02x?}");
        frames = rest;
    }
}
