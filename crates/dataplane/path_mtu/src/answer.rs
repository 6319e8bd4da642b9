//! Answers to senders of packets that are too long.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use packet::checksum::{self, Endpoints};
use packet::{icmpv4, icmpv6, ipv4, protocol};

/// Longest IPv4 packet that carries an answer (RFC 1812, section 4.3.2.3).
const LONGEST_V4: usize = 576;
/// Longest IPv6 packet that carries one (RFC 4443, section 2.4(c)), and the least MTU (RFC 8200, section 5).
const LONGEST_V6: usize = 1280;
/// Hops that an answer may take.
const HOPS: u8 = 64;

/// "Fragmentation needed and don't fragment was set".
pub(crate) fn v4(frame: &[u8], at: usize, mtu: u32) -> Option<Vec<u8>> {
    let packet = frame.get(at..)?;
    let view = ipv4::View::captured(packet).ok()?;
    let (from, to) = (view.destination(), view.source());
    let is_one = |address: Ipv4Addr| {
        !address.is_multicast()
            && !address.is_broadcast()
            && !address.is_unspecified()
            && !address.is_loopback()
    };
    if !view.dont_fragment() || !is_one(from) || !is_one(to) || !may_answer(frame) {
        return None;
    }
    let quoted = packet.get(..LONGEST_V4 - 28).unwrap_or(packet);
    let mut answer = back(frame, at)?;
    // Precedence 6 (RFC 1812, section 4.3.2.5), not to be fragmented.
    answer.extend([0x45, 0xc0]);
    answer.extend(u16::try_from(28 + quoted.len()).ok()?.to_be_bytes());
    answer.extend([0, 0, 0x40, 0, HOPS, protocol::ICMPV4, 0, 0]);
    answer.extend(from.octets());
    answer.extend(to.octets());
    let sum = checksum::of(answer.get(at..)?);
    answer.get_mut(at + 10..at + 12)?.copy_from_slice(&sum.to_be_bytes());
    answer.extend([icmpv4::kind::UNREACHABLE, 4, 0, 0, 0, 0]);
    answer.extend(u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
    answer.extend(quoted);
    let sum = checksum::of(answer.get(at + 20..)?);
    answer.get_mut(at + 22..at + 24)?.copy_from_slice(&sum.to_be_bytes());
    Some(answer)
}

/// "Packet too big".
pub(crate) fn v6(frame: &[u8], at: usize, mtu: u32) -> Option<Vec<u8>> {
    let packet = frame.get(at..)?;
    let address = |place: usize| -> Option<Ipv6Addr> {
        Some(Ipv6Addr::from(*packet.get(place..place + 16)?.first_chunk::<16>()?))
    };
    let (to, from) = (address(8)?, address(24)?);
    let is_one =
        |address: Ipv6Addr| !address.is_multicast() && !address.is_unspecified() && !address.is_loopback();
    if !is_one(from) || !is_one(to) || !may_answer(frame) {
        return None;
    }
    let quoted = packet.get(..LONGEST_V6 - 48).unwrap_or(packet);
    let mut message = vec![icmpv6::kind::PACKET_TOO_BIG, 0, 0, 0];
    message.extend(mtu.max(LONGEST_V6 as u32).to_be_bytes());
    message.extend(quoted);
    let sum = Endpoints::V6 { source: from, destination: to }.sum(protocol::ICMPV6, &message).checksum();
    message.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
    let mut answer = back(frame, at)?;
    answer.extend([0x60, 0, 0, 0]);
    answer.extend(u16::try_from(message.len()).ok()?.to_be_bytes());
    answer.extend([protocol::ICMPV6, HOPS]);
    answer.extend(from.octets());
    answer.extend(to.octets());
    answer.extend(message);
    Some(answer)
}

/// The Ethernet header with its tags, back to where it came from.
fn back(frame: &[u8], at: usize) -> Option<Vec<u8>> {
    let mut link = frame.get(..at)?.to_vec();
    let (to, rest) = link.split_at_mut_checked(6)?;
    let from = rest.get_mut(..6)?;
    // A group is no sender.
    if from.first()? & 1 != 0 || to.first()? & 1 != 0 {
        return None;
    }
    to.swap_with_slice(from);
    Some(link)
}

/// Whether an answer may be sent about a packet.
fn may_answer(frame: &[u8]) -> bool {
    let found = packet::dissect(frame).ok();
    found.and_then(|found| found.network).is_some_and(|network| network.may_be_answered())
}
