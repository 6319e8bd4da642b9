//! Messages on the socket, one in each packet of it (`SOCK_SEQPACKET`).

use crate::{Layout, VERSION};

/// How a greeting begins.
const MAGIC: [u8; 8] = *b"SFNATIVE";

/// Longest message.
pub const MESSAGE_MAX: usize = 4096 + 64;
/// Longest configuration, in bytes.
pub const CONFIG_MAX: usize = 4096;
/// Longest reason of a refusal, in bytes.
pub const REASON_MAX: usize = 512;

/// Kinds of answers.
const ATTACHED: u32 = 1;
const REFUSED: u32 = 2;
const WAKE: u32 = 3;

/// Bytes of an [`Attached`] before its configuration.
const FIXED: usize = 48;

/// The bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Of a length that no such message has.
    #[error("{0} bytes long; allowed: {1}")]
    Length(usize, &'static str),
    /// It does not begin as messages do.
    #[error("it does not begin as a message of this protocol does")]
    Unknown,
    /// A number that is not possible.
    #[error("{0} is {1}, which is not possible")]
    Impossible(&'static str, u64),
}

/// The process's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the contract that it was built with.
    pub version: u32,
    /// Whether it wants to be told of the device behind the port: it is given a socket for that. A port of an
    /// older program does not look at this, and gives none.
    pub devices: bool,
}

impl Hello {
    /// Bytes of it.
    pub const LENGTH: usize = 16;

    /// As it is sent.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12] = self.devices.into();
        bytes
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`MessageError`]: it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Hello, MessageError> {
        if bytes.len() != Self::LENGTH {
            return Err(MessageError::Length(bytes.len(), "16"));
        }
        match (bytes.strip_prefix(&MAGIC), u32_at(bytes, 8)) {
            (Some(_), Some(version)) => Ok(Hello { version, devices: bytes[12] & 1 != 0 }),
            _ => Err(MessageError::Unknown),
        }
    }
}

/// What an attached process is told. The descriptors of the pool's memory and of the rings' come with it, in
/// this order, and that of the socket for devices if the process wants one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Whether the process may write to packets, and send some of its own.
    pub write: bool,
    /// Where the rings lie.
    pub layout: Layout,
    /// Buffers that the process may have at a time by this attachment.
    pub held: u32,
    /// Buffers of the pool.
    pub buffers: u32,
    /// Bytes in each, a power of two.
    pub buffer_size: u32,
    /// Milliseconds after which a process that shows no sign of life counts as hung.
    pub heartbeat: u32,
    /// The configuration that the operator wrote for it.
    pub config: Vec<u8>,
}

/// A message of the engine; the last kind goes both ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The process is attached.
    Attached(Attached),
    /// It is not, for this reason.
    Refused(String),
    /// There is something in a ring.
    Wake,
}

impl Answer {
    /// As it is sent. Texts that are too long are cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Answer::Attached(attached) => {
                let (size, returned) = (attached.layout.packets().size, attached.layout.returned().size);
                let config = &attached.config[..attached.config.len().min(CONFIG_MAX)];
                let numbers = [
                    ATTACHED,
                    VERSION,
                    u32::from(attached.write),
                    size,
                    returned,
                    attached.held,
                    attached.buffers,
                    attached.buffer_size,
                    attached.heartbeat,
                    config.len() as u32,
                    0,
                    0,
                ];
                numbers.into_iter().flat_map(u32::to_le_bytes).chain(config.iter().copied()).collect()
            }
            Answer::Refused(reason) => [&REFUSED.to_le_bytes(), cut(reason).as_bytes()].concat(),
            Answer::Wake => WAKE.to_le_bytes().to_vec(),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`MessageError`]: it is none, or says what cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Answer, MessageError> {
        match u32_at(bytes, 0) {
            Some(ATTACHED) => attached(bytes).map(Answer::Attached),
            Some(REFUSED) => {
                let reason = &bytes[4..bytes.len().min(4 + REASON_MAX)];
                // What is no text becomes longer.
                Ok(Answer::Refused(cut(&String::from_utf8_lossy(reason)).to_owned()))
            }
            Some(WAKE) if bytes.len() == 4 => Ok(Answer::Wake),
            Some(_) => Err(MessageError::Unknown),
            None => Err(MessageError::Length(bytes.len(), "at least 4")),
        }
    }
}

/// As much of a reason as is sent, in whole characters.
fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_MAX)]
}

fn attached(bytes: &[u8]) -> Result<Attached, MessageError> {
    let length = MessageError::Length(bytes.len(), "48 and a configuration of up to 4096");
    if bytes.len() < FIXED || bytes.len() > FIXED + CONFIG_MAX {
        return Err(length);
    }
    let number = |at: usize| u32_at(bytes, at * 4).unwrap_or(0);
    let impossible = |what, number: u32| Err(MessageError::Impossible(what, number.into()));
    let (version, size, returned) = (number(1), number(3), number(4));
    if version != VERSION {
        return impossible("the version", version);
    }
    let Some(layout) = Layout::new(size, returned) else {
        return impossible("the size of a ring", size.max(returned));
    };
    let (buffers, buffer_size) = (number(6), number(7));
    if !buffer_size.is_power_of_two() || !(2048..=65_536).contains(&buffer_size) {
        return impossible("the size of a buffer", buffer_size);
    }
    if buffers == 0 || u64::from(buffers) * u64::from(buffer_size) > 1 << 30 {
        return impossible("the number of buffers", buffers);
    }
    if number(5) > returned {
        return impossible("the number of buffers held", number(5));
    }
    if number(9) as usize != bytes.len() - FIXED {
        return impossible("the length of the configuration", number(9));
    }
    Ok(Attached {
        write: number(2) & 1 != 0,
        layout,
        held: number(5),
        buffers,
        buffer_size,
        heartbeat: number(8),
        config: bytes[FIXED..].to_vec(),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Attached {
        let layout = Layout::new(256, 1024).expect("allowed");
        let config = b"mode: fast".to_vec();
        Attached { write: true, layout, held: 600, buffers: 512, buffer_size: 4096, heartbeat: 100, config }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for devices in [false, true] {
            let hello = Hello { version: 7, devices };
            assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
        }
        for answer in [Answer::Attached(example()), Answer::Refused("no".into()), Answer::Wake] {
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
        }
    }

    #[test]
    fn what_cannot_be_is_refused_and_named() {
        let with = |at: usize, number: u32| {
            let mut bytes = Answer::Attached(example()).to_bytes();
            bytes[at * 4..at * 4 + 4].copy_from_slice(&number.to_le_bytes());
            Answer::from_bytes(&bytes).expect_err("impossible").to_string()
        };
        for (at, number, named) in [
            (1, 2, "the version is 2"),
            (3, 100, "the size of a ring"),
            (5, 1025, "the number of buffers held is 1025"),
            (6, 1 << 20, "the number of buffers is 1048576"),
            (7, 3000, "the size of a buffer is 3000"),
            (9, 3, "the length of the configuration is 3"),
        ] {
            assert!(with(at, number).contains(named), "{}", with(at, number));
        }
        assert!(Hello::from_bytes(b"SFNATIVE").is_err());
        assert_eq!(Hello::from_bytes(&[0; 16]), Err(MessageError::Unknown));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..700), kind in 1u8..5) {
            let bytes = [&[kind, 0, 0, 0], &bytes[..]].concat();
            let _ = Hello::from_bytes(&bytes);
            if let Ok(answer) = Answer::from_bytes(&bytes) {
                let again = Answer::from_bytes(&answer.to_bytes()).expect("it was just read");
                prop_assert_eq!(again, answer);
            }
        }
    }
}
