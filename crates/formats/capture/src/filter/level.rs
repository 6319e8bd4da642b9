//! The packets inside of a frame, and the headers between them that keywords ask for.

use packet::ethernet::ethertype;
use packet::tunnel::{Level, MAX_LEVELS, Tunnel, Tunnels};
use packet::{Fragment, dissect, protocol};

/// Tunnels that there are keywords for.
pub(super) fn tunnels() -> Tunnels {
    Tunnels::new([Tunnel::Vxlan, Tunnel::Geneve, Tunnel::Mpls, Tunnel::Gre])
}

/// The packets of a frame, outermost first, as far as they are asked for and can be read.
pub(super) struct Levels {
    list: [Option<Level>; MAX_LEVELS + 1],
}

impl Levels {
    pub fn read(frame: &[u8], tunnels: &Tunnels, deepest: usize) -> Levels {
        let mut list = [None; MAX_LEVELS + 1];
        let mut next = dissect(frame).ok().map(|found| Level::outermost(found, frame.len()));
        for (depth, place) in list.iter_mut().enumerate() {
            let Some(level) = next else { break };
            *place = Some(level);
            if depth == deepest {
                break;
            }
            next = tunnels.inside(frame, &level).ok().flatten();
        }
        Levels { list }
    }

    pub fn get(&self, level: u8) -> Option<&Level> {
        self.list.get(usize::from(level))?.as_ref()
    }
}

/// Whether the packet carries VXLAN or Geneve of this network, or of any.
pub(super) fn vni(frame: &[u8], level: &Level, tunnels: &Tunnels, wanted: Option<u32>) -> bool {
    match tunnels.header(frame, level) {
        Ok(Some((Tunnel::Vxlan | Tunnel::Geneve, id))) => wanted.is_none_or(|wanted| wanted == id),
        _ => false,
    }
}

/// Whether the packet carries GRE, with this key if one is wanted.
pub(super) fn gre(frame: &[u8], level: &Level, tunnels: &Tunnels, wanted: Option<u32>) -> bool {
    // RFC 2890: flag K of the first byte. A header without a key has the identifier 0 as well.
    const KEY: u8 = 0x20;
    let has_key = || {
        let at = level.dissection.network.map(|network| network.l4_offset);
        at.and_then(|at| frame.get(at)).is_some_and(|flags| flags & KEY != 0)
    };
    match tunnels.header(frame, level) {
        Ok(Some((Tunnel::Gre, key))) => wanted.is_none_or(|wanted| wanted == key && has_key()),
        _ => false,
    }
}

/// Whether the packet has a label at this place of its stack, of this value if one is wanted (RFC 3032).
pub(super) fn mpls(frame: &[u8], level: &Level, place: u8, wanted: Option<u32>) -> bool {
    let (at, end) = match level.dissection.network {
        Some(network) if network.protocol == protocol::MPLS && network.fragment == Fragment::Whole => {
            (network.l4_offset, network.end.min(level.limit()))
        }
        None if matches!(level.dissection.ethertype, ethertype::MPLS | ethertype::MPLS_UPSTREAM) => {
            (level.dissection.l3_offset, level.limit())
        }
        _ => return false,
    };
    let (labels, _) = frame.get(at..end).unwrap_or_default().as_chunks::<4>();
    let (above, rest) = labels.split_at(usize::from(place).min(labels.len()));
    let is_bottom = |entry: &[u8; 4]| entry[2] & 1 != 0;
    let Some(entry) = rest.first().filter(|_| !above.iter().any(is_bottom)) else { return false };
    wanted.is_none_or(|wanted| wanted == u32::from_be_bytes(*entry) >> 12)
}
