//! The messages of memif 2.0: 128 bytes each, little-endian, whatever they say.
//!
//! Source: the description of the protocol in DPDK's guide of network drivers, "Memif Poll Mode Driver".

/// Bytes of every message.
pub const LENGTH: usize = 128;
/// Version 2.0, the only one: major number in the upper byte.
pub const VERSION: u16 = 0x0200;
/// Mode of an interface that passes Ethernet frames.
pub const ETHERNET: u8 = 0;

/// A name, filled up with zeros.
pub type Name = [u8; 32];

/// The master's first message: what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Of the program.
    pub name: Name,
    /// Oldest version that it speaks.
    pub min_version: u16,
    /// Newest.
    pub max_version: u16,
    /// Highest number of a region.
    pub max_region: u16,
    /// Highest number of a ring from master to slave.
    pub max_m2s_ring: u16,
    /// Highest number of a ring from slave to master.
    pub max_s2m_ring: u16,
    /// Binary logarithm of the entries of the largest ring.
    pub max_log2_ring_size: u8,
}

/// The slave's first message: what it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The version that it chose.
    pub version: u16,
    /// Number of the interface.
    pub id: u32,
    /// [`ETHERNET`], or another that no port here has.
    pub mode: u8,
    /// Filled up with zeros.
    pub secret: [u8; 24],
    /// Of the program.
    pub name: Name,
}

/// A ring lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddRing {
    /// Bit 0: from slave to master.
    pub flags: u16,
    /// Number among those of its direction.
    pub index: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Where it begins there, in bytes.
    pub offset: u32,
    /// Binary logarithm of its entries.
    pub log2_ring_size: u8,
    /// Bytes of the peer's own in front of each packet.
    pub private_header_size: u16,
}

impl AddRing {
    /// In `flags`: the ring is from slave to master.
    pub const S2M: u16 = 1;
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was carried out.
    Ack,
    /// See [`Hello`].
    Hello(Hello),
    /// See [`Init`].
    Init(Init),
    /// A memory file, whose descriptor comes along.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its bytes.
        size: u64,
    },
    /// See [`AddRing`]; an eventfd comes along.
    AddRing(AddRing),
    /// The slave has said all; its interface has this name.
    Connect(Name),
    /// The master is ready; its interface has this name.
    Connected(Name),
    /// It is over.
    Disconnect {
        /// Of the peer's own.
        code: u32,
        /// Filled up with zeros.
        reason: [u8; 96],
    },
}

/// What is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Of another length.
    #[error("found: a message of {0} bytes; allowed: 128")]
    Length(usize),
    /// Of another type.
    #[error("found: a message of type {0}; allowed: 1 to 8")]
    Type(u16),
}

/// Reads fields one after the other, of a message that was checked to be long enough.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *first
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
}

impl Message {
    /// Reads a message. Fields beyond what its type has are passed over.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Message, MessageError> {
        if bytes.len() != LENGTH {
            return Err(MessageError::Length(bytes.len()));
        }
        let mut fields = Fields(bytes);
        // The fields of each are read in the order in which they are written here.
        Ok(match fields.u16() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: fields.take(),
                min_version: fields.u16(),
                max_version: fields.u16(),
                max_region: fields.u16(),
                max_m2s_ring: fields.u16(),
                max_s2m_ring: fields.u16(),
                max_log2_ring_size: fields.u8(),
            }),
            3 => Message::Init(Init {
                version: fields.u16(),
                id: fields.u32(),
                mode: fields.u8(),
                secret: fields.take(),
                name: fields.take(),
            }),
            4 => Message::AddRegion { index: fields.u16(), size: u64::from_le_bytes(fields.take()) },
            5 => Message::AddRing(AddRing {
                flags: fields.u16(),
                index: fields.u16(),
                region: fields.u16(),
                offset: fields.u32(),
                log2_ring_size: fields.u8(),
                private_header_size: fields.u16(),
            }),
            6 => Message::Connect(fields.take()),
            7 => Message::Connected(fields.take()),
            8 => Message::Disconnect { code: fields.u32(), reason: fields.take() },
            other => return Err(MessageError::Type(other)),
        })
    }

    /// The message's bytes.
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let mut bytes = Vec::with_capacity(LENGTH);
        let mut add = |field: &[u8]| bytes.extend_from_slice(field);
        match self {
            Message::Ack => add(&1u16.to_le_bytes()),
            Message::Hello(hello) => {
                add(&2u16.to_le_bytes());
                add(&hello.name);
                let Hello { min_version, max_version, max_region, max_m2s_ring, max_s2m_ring, .. } = *hello;
                for number in [min_version, max_version, max_region, max_m2s_ring, max_s2m_ring] {
                    add(&number.to_le_bytes());
                }
                add(&[hello.max_log2_ring_size]);
            }
            Message::Init(init) => {
                add(&3u16.to_le_bytes());
                add(&init.version.to_le_bytes());
                add(&init.id.to_le_bytes());
                add(&[init.mode]);
                add(&init.secret);
                add(&init.name);
            }
            Message::AddRegion { index, size } => {
                add(&4u16.to_le_bytes());
                add(&index.to_le_bytes());
                add(&size.to_le_bytes());
            }
            Message::AddRing(ring) => {
                for number in [5, ring.flags, ring.index, ring.region] {
                    add(&number.to_le_bytes());
                }
                add(&ring.offset.to_le_bytes());
                add(&[ring.log2_ring_size]);
                add(&ring.private_header_size.to_le_bytes());
            }
            Message::Connect(name) => {
                add(&6u16.to_le_bytes());
                add(name);
            }
            Message::Connected(name) => {
                add(&7u16.to_le_bytes());
                add(name);
            }
            Message::Disconnect { code, reason } => {
                add(&8u16.to_le_bytes());
                add(&code.to_le_bytes());
                add(reason);
            }
        }
        let mut message = [0; LENGTH];
        message.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        message
    }

    /// The message that ends a connection for this reason, cut where it is too long.
    pub fn disconnect(reason: &str) -> Message {
        Message::Disconnect { code: 1, reason: padded(reason) }
    }
}

/// Text, cut to `N` bytes or filled up with zeros.
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// The text of a field, up to its first zero, fit to be shown on one line.
pub fn shown(field: &[u8]) -> String {
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    printable::harmless(&String::from_utf8_lossy(text), 96)
}
