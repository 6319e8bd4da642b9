//! Fragments of an IPv4 packet.

use alloc::vec::Vec;
use packet::{checksum, ipv4};

/// Options that each fragment has, not the first one alone (RFC 791, section 3.1).
const COPIED: u8 = 0x80;
const MORE: u16 = 0x2000;
const RESERVED: u16 = 0x8000;

/// The fragments of an IPv4 packet that may be fragmented, each a frame with a packet of at most `mtu` bytes;
/// `None` when it may not, or when not even eight bytes fit. The packet begins `at` so many bytes of the
/// frame, its checksums are complete.
pub fn fragments(frame: &[u8], at: usize, mtu: u32) -> Option<Vec<Vec<u8>>> {
    let (link, packet) = frame.split_at_checked(at)?;
    let view = ipv4::View::new(packet).ok()?;
    if view.dont_fragment() || view.is_cut() {
        return None;
    }
    let first = packet.get(..view.header_length())?;
    let further = further(first, view.options_bytes())?;
    let (payload, mtu) = (view.payload(), mtu as usize);
    let begin = usize::from(view.fragment_offset());
    let reserved = u16::from_be_bytes([*first.get(6)?, *first.get(7)?]) & RESERVED;
    let (mut fragments, mut done) = (Vec::new(), 0);
    while done < payload.len() {
        let header = if done == 0 { first } else { &further };
        let room = mtu.checked_sub(header.len()).map(|room| room & !7).filter(|room| *room > 0)?;
        let part = payload.get(done..(done + room).min(payload.len()))?;
        let last = done + part.len() == payload.len();
        let offset = u16::try_from((begin + done) / 8).ok().filter(|offset| *offset < 0x2000)?;
        let more = if last && !view.more_fragments() { 0 } else { MORE };
        let mut bytes = [link, header, part].concat();
        let total = u16::try_from(header.len() + part.len()).ok()?;
        let ip = bytes.get_mut(at..at + header.len())?;
        ip.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
        ip.get_mut(6..8)?.copy_from_slice(&(reserved | more | offset).to_be_bytes());
        ip.get_mut(10..12)?.copy_from_slice(&[0, 0]);
        let sum = checksum::of(ip);
        ip.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
        fragments.push(bytes);
        done += part.len();
    }
    (!fragments.is_empty()).then_some(fragments)
}

/// The header of fragments but the first: with the options alone that are copied.
fn further(first: &[u8], options: &[u8]) -> Option<Vec<u8>> {
    let (mut header, mut rest) = (first.get(..20)?.to_vec(), options);
    while let Some((&kind, behind)) = rest.split_first() {
        match kind {
            0 => break,
            1 => rest = behind,
            _ => {
                let length = usize::from(*behind.first()?);
                let option = rest.get(..length).filter(|option| option.len() >= 2)?;
                if kind & COPIED != 0 {
                    header.extend(option);
                }
                rest = rest.get(length..)?;
            }
        }
    }
    header.resize(header.len().next_multiple_of(4), 0);
    *header.first_mut()? = 0x40 | u8::try_from(header.len() / 4).ok()?;
    Some(header)
}
