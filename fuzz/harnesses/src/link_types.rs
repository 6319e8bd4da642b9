//! A packet of any link is given the Ethernet header that a plain reading of tcpdump.org's list says, or
//! none.

use port::pcap::{Link, Replaced};

const NO_SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NO_DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// What a header says of the packet behind it: its kind, whether it was for all, and its sender if that has
/// an Ethernet address.
struct Said {
    kind: u64,
    is_for_all: bool,
    source: Option<[u8; 6]>,
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    rest.split_off(..count)
}

fn number(rest: &mut &[u8], count: usize) -> Option<u64> {
    Some(take(rest, count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// An address in a field of eight bytes.
fn address(rest: &mut &[u8], length: u64) -> Option<Option<[u8; 6]>> {
    let field = take(rest, 8)?;
    Some(field.first_chunk().copied().filter(|_| length == 6))
}

/// Takes the link's header. LINKTYPE_RAW and its kin, LINKTYPE_NULL and LINKTYPE_LOOP, LINKTYPE_LINUX_SLL and
/// LINKTYPE_LINUX_SLL2.
fn said(link_type: u16, rest: &mut &[u8]) -> Option<Said> {
    let ip =
        |is_v6| Some(Said { kind: if is_v6 { 0x86dd } else { 0x0800 }, is_for_all: false, source: None });
    match link_type {
        12 | 14 | 101 | 228 | 229 => match rest.first()? / 16 {
            version @ (4 | 6) => ip(version == 6),
            _ => None,
        },
        0 | 108 => match take(rest, 4)? {
            [family, 0, 0, 0] | [0, 0, 0, family] => match family {
                2 => ip(false),
                10 | 24 | 28 | 30 => ip(true),
                _ => None,
            },
            _ => None,
        },
        113 => {
            let (packet, _, length) = (number(rest, 2)?, number(rest, 2)?, number(rest, 2)?);
            let source = address(rest, length)?;
            Some(Said { kind: number(rest, 2)?, is_for_all: packet == 1, source })
        }
        276 => {
            let (kind, _, _, _) = (number(rest, 2)?, number(rest, 2)?, number(rest, 4)?, number(rest, 2)?);
            let (packet, length) = (number(rest, 1)?, number(rest, 1)?);
            Some(Said { kind, is_for_all: packet == 1, source: address(rest, length)? })
        }
        _ => None,
    }
}

fn model(link_type: u16, packet: &[u8]) -> Option<Vec<u8>> {
    let mut rest = packet;
    let Said { kind, is_for_all, source } = said(link_type, &mut rest)?;
    let kind = match kind {
        // LLC: the length stands for the kind (IEEE 802.3), and it is less than any kind.
        4 => Some(rest.len() as u64).filter(|length| *length < 0x600)?,
        kind => Some(kind).filter(|kind| *kind >= 0x600)?,
    };
    let destination = if is_for_all { [0xff; 6] } else { NO_DESTINATION };
    let frame = [&destination[..], &source.unwrap_or(NO_SOURCE), &(kind as u16).to_be_bytes(), rest];
    Some(frame.concat())
}

pub fn run(data: &[u8]) {
    let Some((link_type, packet)) = data.split_first_chunk() else { return };
    let link_type = u16::from_be_bytes(*link_type);
    let link = Link::of(link_type);
    assert_eq!(link.is_some(), [0, 1, 12, 14, 101, 108, 113, 228, 229, 276].contains(&link_type));
    let replaced = link.and_then(|link| link.replace(packet));
    let made = replaced.map(|Replaced { header, skip }| [&header, &packet[skip..]].concat());
    assert_eq!(made, model(link_type, packet));
}
