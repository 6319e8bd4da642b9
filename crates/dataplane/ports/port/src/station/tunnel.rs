//! The tunnel that a station is inside of.

use super::select::{LONG_HEAD, Tag};
use encapsulation::{Encapsulation, Front, Headers, LayerKind, MAX_BYTES, datagram, take_off};
use packet::checksum::Sum;
use packet::ethernet::is_tag;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Bytes that are looked at of a frame in a tunnel: as long as headers may be, and the head of what is
/// inside.
pub(super) const IN_TUNNEL: usize = MAX_BYTES + LONG_HEAD;

/// What knows the Ethernet address of the next hop, while it is known. It must not wait.
pub type NextHop = Arc<dyn Fn() -> Option<[u8; 6]> + Send + Sync>;

/// A tunnel between two ends that carries frames, at a port.
#[derive(Clone)]
pub struct Tunnel {
    /// The headers that its frames have, outermost first: tags, and the tunnel.
    pub layers: Vec<LayerKind>,
    /// The same to be put on.
    pub encapsulation: Encapsulation,
    /// The outermost tag's control, if it is in a VLAN, of which the number is looked at.
    pub tag: Option<u16>,
    /// Its network or key.
    pub key: u32,
    /// This end.
    pub local: IpAddr,
    /// The other end, or the group that they share.
    pub remote: IpAddr,
    /// Where frames go, if it is not what `encapsulation` says.
    pub next_hop: Option<NextHop>,
}

/// What of a frame is inside of the tunnel.
pub(super) struct Inside {
    front: Front,
    length: usize,
    sums: [u8; encapsulation::MAX_LAYERS],
}

/// The beginning of a frame inside of a tunnel.
pub(super) type Head = ([u8; LONG_HEAD], usize);

/// But for the next hop, which is asked each time.
impl PartialEq for Tunnel {
    fn eq(&self, other: &Tunnel) -> bool {
        let ends = |it: &Tunnel| (it.tag, it.key, it.local, it.remote, it.next_hop.is_some());
        ends(self) == ends(other) && self.layers == other.layers && self.encapsulation == other.encapsulation
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tunnel { layers, key, local, remote, .. } = self;
        write!(f, "Tunnel {{ {layers:?}, key: {key}, local: {local}, remote: {remote} }}")
    }
}

impl Tunnel {
    /// What is inside of a frame of so many bytes, of which these are the first; `None`: it is not in this
    /// tunnel, or malformed.
    pub(super) fn inside(&self, head: &[u8], length: u32) -> Option<Inside> {
        let (mut front, mut kept) = (Front::NONE, Headers::NONE);
        let taken = take_off(head, length, &self.layers, &mut front, &mut kept).ok()?;
        let is_of_tag = self.tag.is_none_or(|tag| (taken.vlan ^ tag) & Tag::NUMBER == 0);
        let is_it = is_of_tag && taken.key == self.key && self.is_between_ends(head);
        is_it.then_some(Inside { front, length: taken.length as usize, sums: taken.sums })
    }

    /// Whether a frame, behind its tags, comes from the other end, or from any where that is a group, and is
    /// for this one, or the group.
    fn is_between_ends(&self, head: &[u8]) -> bool {
        let word = |at: usize| head.get(at..)?.first_chunk().copied().map(u16::from_be_bytes);
        let mut at = 12;
        while word(at).is_some_and(is_tag) {
            at += 4;
        }
        let ends = || -> Option<[IpAddr; 2]> {
            let ip = head.get(at + 2..)?;
            let v4 = |at: usize| -> Option<IpAddr> {
                Some(Ipv4Addr::from(*ip.get(at..)?.first_chunk::<4>()?).into())
            };
            let v6 = |at: usize| -> Option<IpAddr> {
                Some(Ipv6Addr::from(*ip.get(at..)?.first_chunk::<16>()?).into())
            };
            Some(match ip.first()? >> 4 {
                4 => [v4(12)?, v4(16)?],
                _ => [v6(8)?, v6(24)?],
            })
        };
        let Some([from, to]) = ends() else { return false };
        match self.remote.is_multicast() {
            true => to == self.local || to == self.remote,
            false => to == self.local && from == self.remote,
        }
    }

    /// A frame inside of the tunnel, without that; `None`: it is not, or its checksum is wrong.
    pub(super) fn take_off(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let Inside { front, length, sums } = self.inside(frame, u32::try_from(frame.len()).ok()?)?;
        let is_right = |at: &u8| {
            let (pseudo, range) = datagram(frame, *at)?;
            Some(pseudo.add_bytes(frame.get(range)?).folded() == 0xffff)
        };
        if !sums.iter().filter(|at| **at > 0).all(|at| is_right(at) == Some(true)) {
            return None;
        }
        let mut inner = [front.bytes(), frame.get(front.removes()..)?].concat();
        inner.truncate(length);
        Some(inner)
    }

    /// A frame in the tunnel; `None`: it is too long, or the next hop is not known. `identification` is
    /// another one for each.
    pub(super) fn put_on(&self, frame: &[u8], identification: u16) -> Option<Vec<u8>> {
        let mut front = Front::NONE;
        let length = u32::try_from(frame.len()).ok()?;
        self.encapsulation.put_on(frame, length, 0, identification, &mut front).ok()?;
        let rest = frame.get(front.removes()..)?;
        if front.is_incomplete() {
            front.complete(Sum::ZERO.add_bytes(rest));
        }
        if let Some(next_hop) = &self.next_hop {
            front.set_destination(next_hop()?);
        }
        Some([front.bytes(), rest].concat())
    }
}

impl Inside {
    /// Its first bytes, of the frame with this beginning.
    pub(super) fn head(&self, head: &[u8]) -> Head {
        let rest = head.get(self.front.removes()..).unwrap_or_default();
        let (mut bytes, mut length) = ([0; LONG_HEAD], 0);
        let all = self.front.bytes().iter().chain(rest).take(self.length);
        for (place, byte) in bytes.iter_mut().zip(all) {
            *place = *byte;
            length += 1;
        }
        (bytes, length)
    }
}
