//! The sequence header: 12 bytes between a frame's addresses and what followed them, as a VLAN tag has it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+---------------+---------------+
//! |           EtherType           |    Version    |   Reserved    |
//! +-------------------------------+---------------+---------------+
//! |                            Session                            |
//! +---------------------------------------------------------------+
//! |                        Sequence number                        |
//! +---------------------------------------------------------------+
//! ```
//!
//! All fields are in network byte order. The EtherType is the bond's; 0x88B5 unless said, which IEEE Std 802
//! reserves for local experiments. The version is 1. Reserved bits are sent as 0 and not looked at.

/// Bytes of a frame in front of the header: the addresses of destination and source.
pub const ADDRESSES: usize = 12;
/// Bytes of the header.
pub const HEADER: usize = 12;

const VERSION: u8 = 1;
/// What is smaller is a length (IEEE Std 802.3, 3.2.6).
const LEAST: u16 = 0x0600;
/// Of headers that others put there, and look for: 802.1Q, 802.1ad, and its forerunner; IPv4, ARP, IPv6 and
/// MPLS.
const TAKEN: [u16; 8] = [0x8100, 0x88a8, 0x9100, 0x0800, 0x0806, 0x86dd, 0x8847, 0x8848];

/// By which the header is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherType(u16);

/// A number that cannot be the EtherType of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {0:#06x}; allowed: 0x0600 to 0xffff, except those of VLAN tags, IPv4, ARP, IPv6 and MPLS")]
pub struct InvalidEtherType(pub u16);

impl EtherType {
    /// A number as an EtherType.
    ///
    /// # Errors
    /// [`InvalidEtherType`] for a length, and for those that other headers have.
    pub fn new(number: u16) -> Result<EtherType, InvalidEtherType> {
        let is_good = number >= LEAST && !TAKEN.contains(&number);
        if is_good { Ok(EtherType(number)) } else { Err(InvalidEtherType(number)) }
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// The local experimental EtherType 1 of IEEE Std 802.
impl Default for EtherType {
    fn default() -> EtherType {
        EtherType(0x88b5)
    }
}

/// Which start of a sender numbers belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session(pub u32);

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's session.
    pub session: Session,
    /// The packet's number in it.
    pub number: u32,
}

impl Header {
    /// What takes the place of a frame's addresses: these, and the header behind them.
    #[inline]
    pub fn put_on(self, ether_type: EtherType, addresses: &[u8; ADDRESSES]) -> [u8; ADDRESSES + HEADER] {
        let mut front = [0; ADDRESSES + HEADER];
        front[..12].copy_from_slice(addresses);
        front[12..14].copy_from_slice(&ether_type.0.to_be_bytes());
        front[14] = VERSION;
        front[16..20].copy_from_slice(&self.session.0.to_be_bytes());
        front[20..24].copy_from_slice(&self.number.to_be_bytes());
        front
    }

    /// The addresses and the header at the beginning of a frame; `None` when it has no header of this
    /// EtherType and of a version that is known.
    #[inline]
    pub fn take_off(ether_type: EtherType, frame: &[u8]) -> Option<([u8; ADDRESSES], Header)> {
        let (addresses, rest) = frame.split_first_chunk::<ADDRESSES>()?;
        let [t0, t1, version, _, s0, s1, s2, s3, n0, n1, n2, n3] = *rest.first_chunk::<HEADER>()?;
        let is_ours = u16::from_be_bytes([t0, t1]) == ether_type.0 && version == VERSION;
        let session = Session(u32::from_be_bytes([s0, s1, s2, s3]));
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        is_ours.then_some((*addresses, Header { session, number }))
    }
}
