//! Messages to and from the kernel about interfaces (rtnetlink(7), `linux/if_link.h`), as bytes.

use std::io;

/// What the kernel says of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its number; another one after it was made anew.
    pub index: i32,
    /// It is switched on.
    pub up: bool,
    /// It has a carrier.
    pub carrier: bool,
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// Packets that wait in a queue.
    pub queue_length: u32,
    /// A packet still to be cut into segments is shorter than this many bytes; 0 when the kernel does not
    /// say.
    pub gso_max_size: u32,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Packets that the kernel lost on their way to the port.
    pub lost: u64,
    /// The name of its driver, when that is a virtual device.
    pub kind: Option<String>,
    /// What a TUN or TAP device is like.
    pub tun: Option<TunFacts>,
}

/// What a TUN or TAP device is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TunFacts {
    /// It carries Ethernet frames.
    pub tap: bool,
    pub multi_queue: bool,
    /// User and group that may open it without privileges.
    pub owner: Option<u32>,
    pub group: Option<u32>,
}

/// What is to be set; only what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub up: Option<bool>,
    pub mtu: Option<u32>,
    pub mac: Option<[u8; 6]>,
    pub queue_length: Option<u32>,
    pub gso_max_size: Option<u32>,
}

/// Bytes of `struct nlmsghdr` and `struct ifinfomsg`.
const MESSAGE: usize = 16;
const INTERFACE: usize = 16;

/// Attributes of an interface.
mod attribute {
    pub const ADDRESS: u16 = 1;
    pub const NAME: u16 = 3;
    pub const MTU: u16 = 4;
    pub const QUEUE_LENGTH: u16 = 13;
    pub const LINK_INFO: u16 = 18;
    pub const STATISTICS: u16 = 23;
    pub const GSO_MAX_SIZE: u16 = 41;
    pub const INFO_KIND: u16 = 1;
    pub const INFO_DATA: u16 = 2;
    pub const TUN_OWNER: u16 = 1;
    pub const TUN_GROUP: u16 = 2;
    pub const TUN_TYPE: u16 = 3;
    pub const TUN_MULTI_QUEUE: u16 = 7;
    /// The upper bits of an attribute's type are flags.
    pub const TYPE_MASK: u16 = 0x3fff;
}

/// Where `tx_dropped` stands in `struct rtnl_link_stats64`.
const TX_DROPPED: usize = 7 * 8;

const IFF_UP: u32 = libc::IFF_UP as u32;
const IFF_RUNNING: u32 = libc::IFF_RUNNING as u32;

/// A request for what the kernel knows of an interface.
pub(crate) fn query(name: &str, sequence: u32) -> Vec<u8> {
    let mut message = begin(libc::RTM_GETLINK, libc::NLM_F_REQUEST, sequence, 0, [0, 0]);
    put(&mut message, attribute::NAME, &[name.as_bytes(), &[0]].concat());
    end(message)
}

/// A request to change an interface.
pub(crate) fn change(index: i32, change: &Change, sequence: u32) -> Vec<u8> {
    let up = change.up.map_or([0, 0], |up| [if up { IFF_UP } else { 0 }, IFF_UP]);
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
    let mut message = begin(libc::RTM_NEWLINK, flags, sequence, index, up);
    if let Some(mac) = change.mac {
        put(&mut message, attribute::ADDRESS, &mac);
    }
    let numbers = [
        (attribute::MTU, change.mtu),
        (attribute::QUEUE_LENGTH, change.queue_length),
        (attribute::GSO_MAX_SIZE, change.gso_max_size),
    ];
    for (kind, number) in numbers {
        if let Some(number) = number {
            put(&mut message, kind, &number.to_ne_bytes());
        }
    }
    end(message)
}

fn begin(kind: u16, flags: libc::c_int, sequence: u32, index: i32, [set, mask]: [u32; 2]) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend([0; 4]);
    // Address family and hardware type are left open.
    message.extend([0; 4]);
    message.extend(index.to_ne_bytes());
    message.extend(set.to_ne_bytes());
    message.extend(mask.to_ne_bytes());
    message
}

fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((4 + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn end(mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The interface.
    Link(Box<Link>),
    /// It was done.
    Done,
    /// It was refused, with this error number.
    Refused(i32),
}

/// Reads the answer to the request of this number; `None` when there is none among these messages.
pub(crate) fn answer(mut bytes: &[u8], sequence: u32) -> Option<Answer> {
    loop {
        let length = u32_at(bytes, 0)? as usize;
        let message = bytes.get(MESSAGE..length)?;
        if u32_at(bytes, 8)? == sequence {
            return match u16_at(bytes, 4)? {
                kind if libc::c_int::from(kind) == libc::NLMSG_ERROR => match u32_at(message, 0)? as i32 {
                    0 => Some(Answer::Done),
                    number => Some(Answer::Refused(number.wrapping_neg())),
                },
                libc::RTM_NEWLINK => Some(Answer::Link(Box::new(link(message)?))),
                _ => None,
            };
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn link(message: &[u8]) -> Option<Link> {
    let flags = u32_at(message, 8)?;
    let mut link = Link {
        index: u32_at(message, 4)? as i32,
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_RUNNING != 0,
        ..Link::default()
    };
    for (kind, value) in attributes(message.get(INTERFACE..)?) {
        match kind {
            attribute::ADDRESS => link.mac = value.try_into().ok(),
            attribute::MTU => link.mtu = u32_at(value, 0)?,
            attribute::QUEUE_LENGTH => link.queue_length = u32_at(value, 0)?,
            attribute::GSO_MAX_SIZE => link.gso_max_size = u32_at(value, 0)?,
            attribute::STATISTICS => {
                let lost = value.get(TX_DROPPED..TX_DROPPED + 8)?.try_into().ok()?;
                link.lost = u64::from_ne_bytes(lost);
            }
            attribute::LINK_INFO => {
                for (kind, value) in attributes(value) {
                    match kind {
                        attribute::INFO_KIND => link.kind = Some(text(value)),
                        attribute::INFO_DATA => link.tun = Some(tun(value)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    // What other drivers say of themselves has other meanings.
    link.tun = link.tun.filter(|_| link.kind.as_deref() == Some("tun"));
    Some(link)
}

fn tun(value: &[u8]) -> TunFacts {
    let mut facts = TunFacts::default();
    for (kind, value) in attributes(value) {
        let on = value.first().is_some_and(|&byte| byte != 0);
        match kind {
            attribute::TUN_OWNER => facts.owner = u32_at(value, 0),
            attribute::TUN_GROUP => facts.group = u32_at(value, 0),
            attribute::TUN_TYPE => facts.tap = value.first() == Some(&(libc::IFF_TAP as u8)),
            attribute::TUN_MULTI_QUEUE => facts.multi_queue = on,
            _ => {}
        }
    }
    facts
}

/// Walks attributes as far as they make sense.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & attribute::TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Answer {
    /// The interface, if it is there.
    ///
    /// # Errors
    /// Another refusal than that it is not there.
    pub fn into_link(self) -> io::Result<Option<Link>> {
        match self {
            Answer::Link(link) => Ok(Some(*link)),
            Answer::Refused(libc::ENODEV) => Ok(None),
            Answer::Refused(number) => Err(io::Error::from_raw_os_error(number)),
            Answer::Done => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    /// # Errors
    /// The refusal.
    pub fn into_done(self) -> io::Result<()> {
        match self {
            Answer::Refused(number) => Err(io::Error::from_raw_os_error(number)),
            Answer::Link(_) | Answer::Done => Ok(()),
        }
    }
}
