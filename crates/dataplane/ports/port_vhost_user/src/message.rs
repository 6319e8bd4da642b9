//! The messages of the vhost-user protocol that a back end of a network device reads, and its answers: a
//! header of 12 bytes, and a payload, in the processor's byte order.
//!
//! Source: QEMU's `docs/interop/vhost-user.rst`.

/// Bytes of a header: request, flags, bytes of the payload.
pub const HEADER: usize = 12;
/// Most regions of memory.
pub const REGIONS_MAX: usize = 8;
/// Most bytes of a payload: a table of memory.
pub const PAYLOAD_MAX: usize = 8 + 32 * REGIONS_MAX;
/// Most descriptors that come with a message.
pub const DESCRIPTORS_MAX: usize = REGIONS_MAX;

/// In a header's flags: the version, 1.
const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
/// It is an answer.
const REPLY: u32 = 1 << 2;
/// The peer waits for an answer that says whether it was carried out.
const NEED_REPLY: u32 = 1 << 3;

/// A region of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The guest's address.
    pub guest: u64,
    /// Bytes.
    pub size: u64,
    /// The address in the peer's process.
    pub user: u64,
    /// Where it begins in its file.
    pub offset: u64,
}

/// A number for a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Which ring.
    pub index: u32,
    /// The number.
    pub number: u32,
}

/// Where a ring's parts lie, by addresses of the peer's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAddresses {
    /// Which ring.
    pub index: u32,
    /// Bit 0: what is written to the ring is noted in the log.
    pub flags: u32,
    /// The table of descriptors.
    pub descriptors: u64,
    /// What this side writes.
    pub used: u64,
    /// What the guest writes.
    pub available: u64,
    /// The guest's address of `used`, for the log.
    pub log: u64,
}

/// A ring and whether a descriptor comes along for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFile {
    /// Which ring.
    pub index: u32,
    /// There is none: the other side polls.
    pub none: bool,
}

/// What a peer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What this side can do.
    GetFeatures,
    /// What of it is used.
    SetFeatures(u64),
    /// It begins.
    SetOwner,
    /// It is over. No longer used; nothing follows from it.
    ResetOwner,
    /// All memory that there is; a file for each region comes along.
    SetMemTable(Vec<Region>),
    /// Where writes are noted; a file comes along.
    SetLogBase {
        /// Bytes.
        size: u64,
        /// Where it begins in its file.
        offset: u64,
    },
    /// An eventfd for the log.
    SetLogFd,
    /// How many descriptors a ring has.
    SetVringNum(RingState),
    /// Where it lies.
    SetVringAddr(RingAddresses),
    /// Where it goes on.
    SetVringBase(RingState),
    /// Stops it; where it would go on is asked for.
    GetVringBase(RingState),
    /// The eventfd by which the guest wakes this side.
    SetVringKick(RingFile),
    /// The eventfd by which this side wakes the guest.
    SetVringCall(RingFile),
    /// An eventfd for errors.
    SetVringErr(RingFile),
    /// What of the protocol this side knows.
    GetProtocolFeatures,
    /// What of it is used.
    SetProtocolFeatures(u64),
    /// How many pairs of rings there can be.
    GetQueueNum,
    /// Whether a ring is used.
    SetVringEnable(RingState),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What is asked for.
    pub request: Request,
    /// Whether the peer waits to be told how it went.
    pub need_reply: bool,
}

/// What is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Of another version, or an answer.
    #[error("found: a message with flags {0:#x}; allowed: version 1, and bit 3")]
    Flags(u32),
    /// Of a request that a back end of a network device is not asked for, or that was not offered.
    #[error("found: request {0}; allowed: 1 to 18")]
    Request(u32),
    /// Its payload is too long, or not as long as its request's.
    #[error("request {request}: found: a payload of {found} bytes; allowed: {allowed}")]
    Length {
        /// The request's number.
        request: u32,
        /// Bytes of the payload.
        found: usize,
        /// Bytes that it has to have.
        allowed: usize,
    },
    /// More regions than there can be.
    #[error("SET_MEM_TABLE: found: {0} regions; allowed: 1 to {REGIONS_MAX}")]
    Regions(u32),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    request: u32,
    flags: u32,
    length: usize,
}

/// Reads fields one after the other, of a payload that was checked to be long enough.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *first
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn state(&mut self) -> RingState {
        RingState { index: self.u32(), number: self.u32() }
    }

    fn file(&mut self) -> RingFile {
        let word = self.u64();
        RingFile { index: (word & 0xff) as u32, none: word & 0x100 != 0 }
    }
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn from_bytes(bytes: &[u8; HEADER]) -> Result<Header, MessageError> {
        let mut fields = Fields(bytes);
        let (request, flags, length) = (fields.u32(), fields.u32(), fields.u32() as usize);
        if flags & VERSION_MASK != VERSION || flags & REPLY != 0 {
            return Err(MessageError::Flags(flags));
        }
        if length > PAYLOAD_MAX {
            return Err(MessageError::Length { request, found: length, allowed: PAYLOAD_MAX });
        }
        Ok(Header { request, flags, length })
    }

    /// Bytes of the payload that follows.
    pub fn payload(&self) -> usize {
        self.length
    }
}

impl Message {
    /// Reads a message, of which the header came before.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn from_payload(header: Header, payload: &[u8]) -> Result<Message, MessageError> {
        let request = header.request;
        let regions = payload.first_chunk().map_or(0, |count| u32::from_ne_bytes(*count));
        let allowed = match request {
            1 | 3 | 4 | 7 | 15 | 17 => 0,
            2 | 12 | 13 | 14 | 16 | 8 | 10 | 11 | 18 => 8,
            5 if payload.len() < 8 => 8,
            5 if regions == 0 || regions as usize > REGIONS_MAX => {
                return Err(MessageError::Regions(regions));
            }
            5 => 8 + 32 * regions as usize,
            6 => 16,
            9 => 40,
            other => return Err(MessageError::Request(other)),
        };
        // QEMU sends a u64 that says nothing with some that have no payload.
        let says_nothing = allowed == 0 && payload.len() == 8;
        // Space for regions that there are not.
        let has_room = request == 5 && payload.len() > allowed;
        if payload.len() != allowed && !says_nothing && !has_room {
            return Err(MessageError::Length { request, found: payload.len(), allowed });
        }
        let mut fields = Fields(payload);
        // The fields of each are read in the order in which they are written here.
        let request = match request {
            1 => Request::GetFeatures,
            2 => Request::SetFeatures(fields.u64()),
            3 => Request::SetOwner,
            4 => Request::ResetOwner,
            5 => {
                fields.u64();
                let region = |_| Region {
                    guest: fields.u64(),
                    size: fields.u64(),
                    user: fields.u64(),
                    offset: fields.u64(),
                };
                Request::SetMemTable((0..regions).map(region).collect())
            }
            6 => Request::SetLogBase { size: fields.u64(), offset: fields.u64() },
            7 => Request::SetLogFd,
            8 => Request::SetVringNum(fields.state()),
            9 => Request::SetVringAddr(RingAddresses {
                index: fields.u32(),
                flags: fields.u32(),
                descriptors: fields.u64(),
                used: fields.u64(),
                available: fields.u64(),
                log: fields.u64(),
            }),
            10 => Request::SetVringBase(fields.state()),
            11 => Request::GetVringBase(fields.state()),
            12 => Request::SetVringKick(fields.file()),
            13 => Request::SetVringCall(fields.file()),
            14 => Request::SetVringErr(fields.file()),
            15 => Request::GetProtocolFeatures,
            16 => Request::SetProtocolFeatures(fields.u64()),
            17 => Request::GetQueueNum,
            _ => Request::SetVringEnable(fields.state()),
        };
        Ok(Message { request, need_reply: header.flags & NEED_REPLY != 0 })
    }

    /// The message's bytes, header and payload.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut add = |number: u64| payload.extend_from_slice(&number.to_ne_bytes());
        let two = |RingState { index, number }: RingState| two(index, number);
        let file = |RingFile { index, none }: RingFile| u64::from(index & 0xff) | u64::from(none) << 8;
        match &self.request {
            Request::SetFeatures(bits) | Request::SetProtocolFeatures(bits) => add(*bits),
            Request::SetMemTable(regions) => {
                add(regions.len() as u64);
                for Region { guest, size, user, offset } in regions {
                    [*guest, *size, *user, *offset].into_iter().for_each(&mut add);
                }
            }
            Request::SetLogBase { size, offset } => [*size, *offset].into_iter().for_each(&mut add),
            Request::SetVringAddr(RingAddresses { index, flags, descriptors, used, available, log }) => {
                let state = RingState { index: *index, number: *flags };
                [two(state), *descriptors, *used, *available, *log].into_iter().for_each(&mut add);
            }
            Request::SetVringNum(state)
            | Request::SetVringBase(state)
            | Request::GetVringBase(state)
            | Request::SetVringEnable(state) => add(two(*state)),
            Request::SetVringKick(one) | Request::SetVringCall(one) | Request::SetVringErr(one) => {
                add(file(*one));
            }
            _ => {}
        }
        let number = self.request.name().1;
        with_header(number, VERSION | if self.need_reply { NEED_REPLY } else { 0 }, &payload)
    }
}

/// Two numbers of 32 bits, as they lie in memory.
fn two(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn with_header(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    for number in [request, flags, payload.len() as u32] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A number, and to which request.
    Number(u32, u64),
    /// Where a ring would go on.
    Base(RingState),
    /// The log is there.
    Log,
}

impl Reply {
    /// The answer's bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Reply::Number(request, number) => with_header(request, VERSION | REPLY, &number.to_ne_bytes()),
            Reply::Base(RingState { index, number }) => {
                with_header(11, VERSION | REPLY, &two(index, number).to_ne_bytes())
            }
            Reply::Log => with_header(6, VERSION | REPLY, &[]),
        }
    }
}

impl Request {
    /// The name of the protocol's, and its number.
    pub fn name(&self) -> (&'static str, u32) {
        match self {
            Request::GetFeatures => ("GET_FEATURES", 1),
            Request::SetFeatures(_) => ("SET_FEATURES", 2),
            Request::SetOwner => ("SET_OWNER", 3),
            Request::ResetOwner => ("RESET_OWNER", 4),
            Request::SetMemTable(_) => ("SET_MEM_TABLE", 5),
            Request::SetLogBase { .. } => ("SET_LOG_BASE", 6),
            Request::SetLogFd => ("SET_LOG_FD", 7),
            Request::SetVringNum(_) => ("SET_VRING_NUM", 8),
            Request::SetVringAddr(_) => ("SET_VRING_ADDR", 9),
            Request::SetVringBase(_) => ("SET_VRING_BASE", 10),
            Request::GetVringBase(_) => ("GET_VRING_BASE", 11),
            Request::SetVringKick(_) => ("SET_VRING_KICK", 12),
            Request::SetVringCall(_) => ("SET_VRING_CALL", 13),
            Request::SetVringErr(_) => ("SET_VRING_ERR", 14),
            Request::GetProtocolFeatures => ("GET_PROTOCOL_FEATURES", 15),
            Request::SetProtocolFeatures(_) => ("SET_PROTOCOL_FEATURES", 16),
            Request::GetQueueNum => ("GET_QUEUE_NUM", 17),
            Request::SetVringEnable(_) => ("SET_VRING_ENABLE", 18),
        }
    }
}
