//! Messages of DHCP (RFC 2131 section 2, RFC 2132), read and written by the crate `dhcproto`, as far as a client needs
//! them.

use crate::Prefix;
use crate::settings::{Mac, is_unicast};
use dhcproto::v4::{self, DhcpOption, HType, MessageType, Opcode, OptionCode};
use dhcproto::{Decodable, Decoder, Encodable, Encoder};
use std::net::Ipv4Addr;

/// The first four bytes of options (RFC 2131 section 3).
const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// Where these are.
const MAGIC_AT: usize = 236;
/// Bytes of the shortest message that every server takes (RFC 1542 section 2.1).
const SHORTEST: usize = 300;
/// A lease of fewer seconds is none: it would be over before the address is known to be the device's alone.
const SHORTEST_LEASE: u32 = 10;
/// Routers that are taken from a message.
const MAX_ROUTERS: usize = 4;

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An address may be had.
    Offer(Terms),
    /// It is the client's.
    Ack(Terms),
    /// It is not to be used.
    Nak(Option<Ipv4Addr>),
}

/// An address, and what comes with it. Spans are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) server: Ipv4Addr,
    pub(crate) prefix: Prefix,
    pub(crate) routers: Vec<Ipv4Addr>,
    pub(crate) mtu: Option<u16>,
    pub(crate) lease: u32,
    pub(crate) renew: u32,
    pub(crate) rebind: u32,
}

/// The identifier of the exchange that a message belongs to, unchecked.
pub(crate) fn exchange(bytes: &[u8]) -> Option<u32> {
    bytes.get(4..8).and_then(|xid| xid.try_into().ok()).map(u32::from_be_bytes)
}

/// Reads an answer to a client; none when it is not one to this client, or lacks what it needs.
pub(crate) fn read(bytes: &[u8], mac: Mac, xid: u32) -> Option<Answer> {
    if bytes.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) != Some(&MAGIC) {
        return None;
    }
    let message = v4::Message::decode(&mut Decoder::new(bytes)).ok()?;
    let to_this = message.opcode() == Opcode::BootReply
        && message.xid() == xid
        && message.hlen() == 6
        && message.chaddr() == mac;
    if !to_this {
        return None;
    }
    let options = message.opts();
    let server = match options.get(OptionCode::ServerIdentifier) {
        Some(DhcpOption::ServerIdentifier(server)) if is_unicast((*server).into()) => Some(*server),
        _ => None,
    };
    let terms = || terms(&message, server?);
    match options.msg_type()? {
        MessageType::Offer => terms().map(Answer::Offer),
        MessageType::Ack => terms().map(Answer::Ack),
        MessageType::Nak => Some(Answer::Nak(server)),
        _ => None,
    }
}

fn terms(message: &v4::Message, server: Ipv4Addr) -> Option<Terms> {
    let (options, address) = (message.opts(), message.yiaddr());
    let length = match options.get(OptionCode::SubnetMask) {
        Some(DhcpOption::SubnetMask(mask)) => {
            let mask = u32::from(*mask);
            (mask.leading_ones() == mask.count_ones() && mask != 0).then_some(mask.leading_ones() as u8)?
        }
        // The network's class says it (RFC 2132 section 3.3 has no other).
        _ => match address.octets() {
            [0..=127, ..] => 8,
            [128..=191, ..] => 16,
            _ => 24,
        },
    };
    let prefix = Prefix { address: address.into(), length };
    if !is_unicast(address.into()) || prefix.broadcast() == Some(address.into()) || server == address {
        return None;
    }
    let routers = match options.get(OptionCode::Router) {
        Some(DhcpOption::Router(routers)) => routers.as_slice(),
        _ => &[],
    };
    let usable = |router: &Ipv4Addr| is_unicast((*router).into()) && *router != address;
    let lease = match options.get(OptionCode::AddressLeaseTime) {
        Some(DhcpOption::AddressLeaseTime(lease)) if *lease >= SHORTEST_LEASE => *lease,
        _ => return None,
    };
    let mtu = match options.get(OptionCode::InterfaceMtu) {
        Some(DhcpOption::InterfaceMtu(mtu)) => Some(*mtu),
        _ => None,
    };
    // By default half, and seven eighths (RFC 2131 section 4.4.5).
    let (half, most) = (lease / 2, lease - lease / 8);
    let said = (options.get(OptionCode::Renewal), options.get(OptionCode::Rebinding));
    let (renew, rebind) = match said {
        (Some(DhcpOption::Renewal(renew)), Some(DhcpOption::Rebinding(rebind)))
            if renew <= rebind && *rebind <= lease =>
        {
            (*renew, *rebind)
        }
        (Some(DhcpOption::Renewal(renew)), _) if *renew <= most => (*renew, most),
        _ => (half, most),
    };
    Some(Terms {
        server,
        prefix,
        routers: routers.iter().filter(|router| usable(router)).take(MAX_ROUTERS).copied().collect(),
        mtu,
        lease,
        renew,
        rebind,
    })
}

/// What a client says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) kind: MessageType,
    pub(crate) xid: u32,
    pub(crate) mac: Mac,
    /// Seconds since it began.
    pub(crate) seconds: u16,
    /// The address that it has.
    pub(crate) has: Ipv4Addr,
    /// The address that it wants, or declines.
    pub(crate) wants: Option<Ipv4Addr>,
    /// The server that it speaks to.
    pub(crate) server: Option<Ipv4Addr>,
    /// Bytes of the longest IP packet.
    pub(crate) mtu: u16,
}

impl Request {
    /// Its bytes; none if it cannot be written.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let zero = Ipv4Addr::UNSPECIFIED;
        let mut message = v4::Message::new_with_id(self.xid, self.has, zero, zero, zero, &self.mac);
        message.set_htype(HType::Eth).set_secs(self.seconds);
        let options = message.opts_mut();
        options.insert(DhcpOption::MessageType(self.kind));
        let identifier = [&[1][..], &self.mac].concat();
        options.insert(DhcpOption::ClientIdentifier(identifier));
        if let Some(wants) = self.wants {
            options.insert(DhcpOption::RequestedIpAddress(wants));
        }
        if let Some(server) = self.server {
            options.insert(DhcpOption::ServerIdentifier(server));
        }
        if matches!(self.kind, MessageType::Discover | MessageType::Request) {
            options.insert(DhcpOption::MaxMessageSize(self.mtu));
            options.insert(DhcpOption::ParameterRequestList(vec![
                OptionCode::SubnetMask,
                OptionCode::Router,
                OptionCode::InterfaceMtu,
                OptionCode::AddressLeaseTime,
                OptionCode::Renewal,
                OptionCode::Rebinding,
            ]));
        }
        let mut bytes = Vec::new();
        message.encode(&mut Encoder::new(&mut bytes)).ok()?;
        bytes.resize(bytes.len().max(SHORTEST), 0);
        Some(bytes)
    }
}
