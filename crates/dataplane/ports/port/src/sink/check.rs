//! Whether a packet is what it claims to be.

use nf_abi::{PacketRecord, offload};
use packet::checksum::{self, Endpoints};
use packet::{Fragment, Network, dissect, ipv4, protocol, tcp, udp};
use packet_memory::{Packet, Pool};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Packets that were looked at.
    pub checked: u64,
    /// Those that are neither IPv4 nor IPv6, of which nothing can be said.
    pub not_ip: u64,
    /// Those whose headers are impossible or whose end is missing.
    pub malformed: u64,
    /// Those with a wrong checksum.
    pub wrong_checksum: u64,
}

/// Checks packets, with a copy of their bytes: those in the pool may change meanwhile.
#[derive(Debug, Default)]
pub(super) struct Checker {
    pub findings: Findings,
    bytes: Vec<u8>,
}

impl Checker {
    /// Looks at one packet; says what is wrong with it.
    pub fn look_at(&mut self, pool: &Pool, packet: &Packet) -> Option<String> {
        self.bytes.resize(packet.length() as usize, 0);
        pool.read(packet, 0, &mut self.bytes);
        self.findings.checked += 1;
        let found = match dissect(&self.bytes) {
            Err(error) => Err((&mut self.findings.malformed, error.to_string())),
            Ok(dissection) => match dissection.network {
                None => {
                    self.findings.not_ip += 1;
                    Ok(())
                }
                Some(network) if network.end > self.bytes.len() => {
                    let what = format!("{} bytes of {}", self.bytes.len(), network.end);
                    Err((&mut self.findings.malformed, what))
                }
                Some(network) => wrong_checksum(&self.bytes, dissection.l3_offset, &network, packet.record())
                    .map_or(Ok(()), |which| {
                        Err((&mut self.findings.wrong_checksum, format!("a wrong {which} checksum")))
                    }),
            },
        };
        let (counter, what) = found.err()?;
        *counter += 1;
        Some(what)
    }
}

/// The protocol whose checksum is wrong. Fragments and partial checksums cannot be judged.
fn wrong_checksum(
    bytes: &[u8],
    l3_offset: usize,
    network: &Network,
    record: &PacketRecord,
) -> Option<&'static str> {
    if network.source.is_ipv4()
        && !ipv4::View::new(bytes.get(l3_offset..)?).is_ok_and(|v| v.verify_checksum())
    {
        return Some("IPv4");
    }
    if network.fragment != Fragment::Whole || record.offload_flags & offload::NEEDS_CHECKSUM != 0 {
        return None;
    }
    let segment = bytes.get(network.l4_offset..network.end)?;
    let endpoints = Endpoints::new(network.source, network.destination)?;
    let (right, name) = match network.protocol {
        protocol::TCP => (tcp::View::new(segment).is_ok_and(|v| v.verify_checksum(&endpoints)), "TCP"),
        protocol::UDP => (udp::View::new(segment).is_ok_and(|v| v.verify_checksum(&endpoints)), "UDP"),
        protocol::ICMPV4 if network.source.is_ipv4() => (checksum::verify(segment), "ICMP"),
        protocol::ICMPV6 if network.source.is_ipv6() => {
            (endpoints.verify(protocol::ICMPV6, segment), "ICMPv6")
        }
        _ => return None,
    };
    (!right).then_some(name)
}
