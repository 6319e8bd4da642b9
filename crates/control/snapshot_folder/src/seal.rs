//! The line between what a snapshot is and the function itself: `seal`, the key's number, length and SHA-256
//! of what follows, and the MAC. There is one spelling of each seal.

use crate::key::{KEY_BYTES, Key, Keys, digits, hexadecimal};
use ring::digest::{SHA256, digest};

/// What all MACs begin with, so that no other use of the key makes one.
const DOMAIN: &[u8] = b"superfluid snapshot, version 1";
/// How the line begins.
const WORD: &str = "seal ";
/// Most bytes of the line: the word, two digits for each byte of number, digest and MAC, a length, three
/// spaces and the line's end.
pub(crate) const SEAL_MAX: u64 = 5 + 16 + 1 + 20 + 1 + 64 + 1 + 64 + 1;

/// A seal as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) key: String,
    /// Bytes that follow.
    pub(crate) bytes: u64,
    /// Their SHA-256.
    pub(crate) sha256: [u8; 32],
    mac: [u8; KEY_BYTES],
}

impl Seal {
    /// Seals a snapshot: its name, the line that says what it is, with its end, and what follows.
    pub(crate) fn new(key: &Key, name: &str, line: &[u8], (bytes, sha256): (u64, [u8; 32])) -> Seal {
        let mut seal = Seal { key: key.id().to_owned(), bytes, sha256, mac: [0; KEY_BYTES] };
        seal.mac = key.mac(&seal.parts(name, line, &bytes.to_le_bytes()));
        seal
    }

    fn parts<'a>(&'a self, name: &'a str, line: &'a [u8], bytes: &'a [u8; 8]) -> [&'a [u8]; 6] {
        [DOMAIN, self.key.as_bytes(), name.as_bytes(), line, bytes, &self.sha256]
    }

    /// Whether one of these keys has sealed this name and line, and what the seal says of the rest.
    pub(crate) fn holds(&self, keys: &Keys, name: &str, line: &[u8]) -> bool {
        let bytes = self.bytes.to_le_bytes();
        let parts = self.parts(name, line, &bytes);
        keys.find(&self.key).is_some_and(|key| key.verifies(&parts, &self.mac))
    }

    /// The line.
    pub(crate) fn line(&self) -> String {
        let (sha256, mac) = (hexadecimal(&self.sha256), hexadecimal(&self.mac));
        format!("{WORD}{} {} {sha256} {mac}\n", self.key, self.bytes)
    }

    /// Reads a line, with its end.
    pub(crate) fn read(line: &[u8]) -> Option<Seal> {
        let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.strip_prefix(WORD)?;
        let mut words = text.split(' ');
        let seal = Seal {
            key: words.next()?.to_owned(),
            bytes: words.next()?.parse().ok()?,
            sha256: digits(words.next()?)?,
            mac: digits(words.next()?)?,
        };
        // Numbers have several spellings, lines one.
        (words.next().is_none() && seal.line().as_bytes() == line).then_some(seal)
    }
}

/// Length and SHA-256.
pub(crate) fn sum(bytes: &[u8]) -> (u64, [u8; 32]) {
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(digest(&SHA256, bytes).as_ref());
    (bytes.len() as u64, sha256)
}
