//! Messages of DHCP (RFC 2131 section 2, RFC 2132), read and written by the crate `dhcproto`, as far as a
//! client needs them.

use crate::Prefix;
use crate::settings::{Mac, is_unicast};
use dhcproto::v4::{self, DhcpOption, HType, MessageType, Opcode, OptionCode, borrowed};
use dhcproto::{Encodable, Encoder};
use std::net::Ipv4Addr;

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

/// The options that a client wants, each whole: one of another length than it has to be is not there.
#[derive(Debug, Default)]
struct Options {
    kind: Option<u8>,
    server: Option<[u8; 4]>,
    mask: Option<[u8; 4]>,
    routers: Vec<u8>,
    mtu: Option<[u8; 2]>,
    lease: Option<[u8; 4]>,
    renew: Option<[u8; 4]>,
    rebind: Option<[u8; 4]>,
}

impl Options {
    fn of(message: &borrowed::Message<'_>) -> Options {
        let mut options = Options::default();
        for option in message.opts() {
            let data = option.data();
            match option.code() {
                OptionCode::MessageType => options.kind = <[u8; 1]>::try_from(data).ok().map(|[kind]| kind),
                OptionCode::ServerIdentifier => options.server = data.try_into().ok(),
                OptionCode::SubnetMask => options.mask = data.try_into().ok(),
                OptionCode::Router => options.routers = data.to_vec(),
                OptionCode::InterfaceMtu => options.mtu = data.try_into().ok(),
                OptionCode::AddressLeaseTime => options.lease = data.try_into().ok(),
                OptionCode::Renewal => options.renew = data.try_into().ok(),
                OptionCode::Rebinding => options.rebind = data.try_into().ok(),
                _ => {}
            }
        }
        options
    }
}

/// Reads an answer to a client; none when it is not one to this client, or lacks what it needs.
///
/// The lazy view of `dhcproto` is used: its reader of whole messages panics on some lengths of options.
pub(crate) fn read(bytes: &[u8], mac: Mac, xid: u32) -> Option<Answer> {
    let message = borrowed::Message::new(bytes).ok()?;
    // `chaddr` of a longer address would reach out of the message.
    let to_this = message.opcode() == Opcode::BootReply
        && message.xid() == xid
        && message.hlen() == 6
        && message.chaddr() == mac;
    if !to_this {
        return None;
    }
    let options = Options::of(&message);
    let server = options.server.map(Ipv4Addr::from).filter(|server| is_unicast((*server).into()));
    let terms = || terms(message.yiaddr(), &options, server?);
    match MessageType::from(options.kind?) {
        MessageType::Offer => terms().map(Answer::Offer),
        MessageType::Ack => terms().map(Answer::Ack),
        MessageType::Nak => Some(Answer::Nak(server)),
        _ => None,
    }
}

fn terms(address: Ipv4Addr, options: &Options, server: Ipv4Addr) -> Option<Terms> {
    let length = match options.mask.map(u32::from_be_bytes) {
        Some(mask) => {
            (mask.leading_ones() == mask.count_ones() && mask != 0).then_some(mask.leading_ones() as u8)?
        }
        // The network's class says it (RFC 2132 section 3.3 has no other).
        None => match address.octets() {
            [0..=127, ..] => 8,
            [128..=191, ..] => 16,
            _ => 24,
        },
    };
    let prefix = Prefix { address: address.into(), length };
    if !is_unicast(address.into()) || prefix.broadcast() == Some(address.into()) || server == address {
        return None;
    }
    let routers = options.routers.chunks_exact(4).filter_map(|router| <[u8; 4]>::try_from(router).ok());
    let usable = |router: &Ipv4Addr| is_unicast((*router).into()) && *router != address;
    let lease = options.lease.map(u32::from_be_bytes).filter(|lease| *lease >= SHORTEST_LEASE)?;
    // By default half, and seven eighths (RFC 2131 section 4.4.5).
    let (half, most) = (lease / 2, lease - lease / 8);
    // What a server says of them, unless it would be asked without a pause.
    let renew = options.renew.map(u32::from_be_bytes).filter(|renew| *renew >= SHORTEST_LEASE / 2);
    let said = (renew, options.rebind.map(u32::from_be_bytes));
    let (renew, rebind) = match said {
        (Some(renew), Some(rebind)) if renew <= rebind && rebind <= lease => (renew, rebind),
        (Some(renew), None) if renew <= most => (renew, most),
        _ => (half, most),
    };
    Some(Terms {
        server,
        prefix,
        routers: routers.map(Ipv4Addr::from).filter(usable).take(MAX_ROUTERS).collect(),
        mtu: options.mtu.map(u16::from_be_bytes),
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
