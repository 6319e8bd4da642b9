//! The headers of tunnels around a frame that is to be cut: of each piece they have lengths, identifications
//! and checksums of its own.
//!
//! Found are VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784, RFC 2890) and IP in IP (RFC 2003, RFC 2473),
//! up to [`DEPTH`] of them. The kernel leaves a packet in a tunnel to be cut with what is inside of it; where
//! its checksum begins says how far in that is.

use crate::checksum::{folded, sum};
use crate::segments::{checksum_at, put, v4_length, word};
use packet::ethernet::ethertype;
use packet::protocol::{GRE, IPV4, IPV6, UDP};
use packet::tunnel::{GENEVE_PORT, VXLAN_PORT};

/// Most tunnels.
const DEPTH: usize = 4;
/// Most VLAN tags.
const TAGS: usize = 4;

/// An IP header, and the UDP header behind it if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outer {
    network: usize,
    is_v4: bool,
    /// Where it begins, and whether it has a checksum.
    udp: Option<(usize, bool)>,
}

impl Outer {
    /// The headers in front, outermost first, and where the IP header begins behind them whose transport is
    /// to be cut: the one in front of `checksum`, where checksumming starts, or the first one when that is
    /// not said.
    pub(crate) fn of(frame: &[u8], checksum: Option<usize>) -> Option<(Vec<Outer>, usize)> {
        let (mut outer, mut at) = (Vec::new(), network_at(frame, 0)?);
        loop {
            let Some((own, inside)) = Outer::at(frame, at).filter(|(_, inside)| {
                checksum.is_some_and(|checksum| *inside < checksum) && outer.len() < DEPTH
            }) else {
                return Some((outer, at));
            };
            outer.push(own);
            at = inside;
        }
    }

    /// The tunnel of an IP header, and where the IP header inside of it begins.
    fn at(frame: &[u8], network: usize) -> Option<(Outer, usize)> {
        let first = *frame.get(network)?;
        let is_v4 = first >> 4 == 4;
        let (protocol, behind) = match is_v4 {
            true => (*frame.get(network + 9)?, network + v4_length(first)),
            false => (*frame.get(network + 6)?, network + 40),
        };
        let outer = Outer { network, is_v4, udp: None };
        Some(match protocol {
            IPV4 | IPV6 => (outer, behind),
            GRE => {
                let flags = word(frame, behind)?;
                let options = [0x8000, 0x2000, 0x1000].iter().filter(|flag| flags & **flag != 0).count();
                let inside = behind + 4 + 4 * options;
                match word(frame, behind + 2)? {
                    ethertype::TRANSPARENT_ETHERNET => (outer, network_at(frame, inside)?),
                    ethertype::IPV4 | ethertype::IPV6 => (outer, inside),
                    _ => return None,
                }
            }
            UDP => {
                let outer = Outer { udp: Some((behind, word(frame, behind + 6)? != 0)), ..outer };
                match word(frame, behind + 2)? {
                    VXLAN_PORT => (outer, network_at(frame, behind + 16)?),
                    GENEVE_PORT => {
                        let options = usize::from(*frame.get(behind + 8)? & 0x3f) * 4;
                        (outer, network_at(frame, behind + 16 + options)?)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// Where it begins, if it is IPv4.
    pub(crate) fn v4(&self) -> Option<usize> {
        self.is_v4.then_some(self.network)
    }

    /// Makes it that of a frame which ends at `end`. Everything behind it is made already, the checksum of
    /// the protocol at `transport` as far as it is partial.
    pub(crate) fn write(&self, headers: &mut [u8], end: usize, transport: usize, protocol: u8) {
        let network = self.network;
        if self.is_v4 {
            put(headers, network + 2, end - network);
            put(headers, network + 10, 0);
            let own = headers.get(network..network + v4_length(headers[network])).unwrap_or_default();
            let checksum = !folded(sum(own));
            put(headers, network + 10, usize::from(checksum));
        } else {
            put(headers, network + 4, end - network - 40);
        }
        let Some((udp, has_checksum)) = self.udp else { return };
        put(headers, udp + 4, end - udp);
        put(headers, udp + 6, 0);
        if !has_checksum {
            return;
        }
        // Once the inner checksum is complete, what it covers sums up to the complement of what is in its
        // field now: nothing of the payload needs to be read.
        let addresses = if self.is_v4 { network + 12..network + 20 } else { network + 8..network + 40 };
        let part = |range| sum(headers.get(range).unwrap_or_default());
        let seed = word(headers, transport + checksum_at(protocol)).unwrap_or(0);
        let total =
            part(addresses) + u64::from(UDP) + (end - udp) as u64 + part(udp..transport) + u64::from(!seed);
        let checksum = match !folded(total) {
            0 => 0xffff,
            other => other,
        };
        put(headers, udp + 6, usize::from(checksum));
    }
}

/// Where the network header begins: behind the Ethernet header at a place, and its tags.
fn network_at(frame: &[u8], ethernet: usize) -> Option<usize> {
    let mut at = ethernet + 12;
    for _ in 0..=TAGS {
        match word(frame, at)? {
            ethertype::VLAN | ethertype::SERVICE_VLAN => at += 4,
            ethertype::IPV4 | ethertype::IPV6 => return Some(at + 2),
            _ => return None,
        }
    }
    None
}
