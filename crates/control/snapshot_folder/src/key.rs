//! The keys that seal snapshots: in a file for its owner alone, in no answer of the interface.

use crate::FolderError;
use crate::files::Opened;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

/// The file of the keys, beside the folder of snapshots.
pub const KEY_FILE: &str = "snapshot-keys.json";
/// The same while it is written.
const PART: &str = "snapshot-keys.part";
/// Most bytes of it.
const KEY_FILE_MAX: u64 = 4096;
/// Bytes of a key, and of its MACs.
pub(crate) const KEY_BYTES: usize = 32;
/// Hexadecimal digits of a key's number.
pub(crate) const ID_DIGITS: usize = 16;

/// A key, and the number by which seals name it. The number is no secret.
#[derive(Clone)]
pub struct Key {
    id: String,
    secret: [u8; KEY_BYTES],
}

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// [`FolderError::Random`].
    pub fn generate() -> Result<Key, FolderError> {
        let (mut secret, mut id) = ([0; KEY_BYTES], [0; ID_DIGITS / 2]);
        let random = SystemRandom::new();
        random.fill(&mut secret).and_then(|()| random.fill(&mut id)).map_err(|_| FolderError::Random)?;
        Ok(Key { id: hexadecimal(&id), secret })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.secret)
    }

    /// HMAC-SHA-256 of these parts.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut mac = [0; KEY_BYTES];
        mac.copy_from_slice(hmac::sign(&self.key(), &joined(parts)).as_ref());
        mac
    }

    /// Whether it is theirs, in a time that does not depend on where they differ.
    pub(crate) fn verifies(&self, parts: &[&[u8]], mac: &[u8; KEY_BYTES]) -> bool {
        hmac::verify(&self.key(), &joined(parts), mac).is_ok()
    }
}

/// Parts, each behind its length, so that no two lists of parts are one text.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    all
}

/// Without the secret.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The keys whose seals are believed: the one that seals, and while a rotation is under way the one before.
#[derive(Clone, Debug)]
pub struct Keys {
    pub(crate) current: Key,
    pub(crate) former: Vec<Key>,
}

impl Keys {
    /// One key alone.
    #[must_use]
    pub fn of(current: Key) -> Keys {
        Keys { current, former: Vec::new() }
    }

    /// The key with this number.
    pub(crate) fn find(&self, id: &str) -> Option<&Key> {
        std::iter::once(&self.current).chain(&self.former).find(|key| key.id == id)
    }

    /// Reads the keys; where there is no file, makes a key and writes it. Says whether it made one.
    pub(crate) fn open(state: &Opened) -> Result<(Keys, bool), FolderError> {
        let Some((mut file, _)) = state.open(KEY_FILE, KEY_FILE_MAX)? else {
            let keys = Keys::of(Key::generate()?);
            keys.write(state)?;
            return Ok((keys, true));
        };
        let wrong = |reason: String| FolderError::Key { file: state.shown(KEY_FILE), reason };
        let io = |source| FolderError::Io { file: state.shown(KEY_FILE), source };
        let mode = file.metadata().map_err(io)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(wrong(format!("others may read it (mode {mode:o}; 600 is needed)")));
        }
        let mut text = Vec::new();
        (&mut file).take(KEY_FILE_MAX).read_to_end(&mut text).map_err(io)?;
        // The text of an error of JSON has bytes of what was read, which are secret.
        let written: Written = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("line {}, column {}", error.line(), error.column())))?;
        let mut keys = written.keys.iter().map(|key| {
            let secret = digits(&key.key);
            let id = digits::<{ ID_DIGITS / 2 }>(&key.id).map(|_| key.id.clone());
            id.zip(secret).map(|(id, secret)| Key { id, secret })
        });
        match (keys.next().flatten(), keys.collect::<Option<Vec<Key>>>()) {
            (Some(current), Some(former)) => Ok((Keys { current, former }, false)),
            _ => Err(wrong("it has no key, or one that is none".to_owned())),
        }
    }

    /// Writes them, for the owner alone, in one step.
    pub(crate) fn write(&self, state: &Opened) -> Result<(), FolderError> {
        let key = |key: &Key| WrittenKey { id: key.id.clone(), key: hexadecimal(&key.secret) };
        let written = Written { keys: std::iter::once(&self.current).chain(&self.former).map(key).collect() };
        state.replace(KEY_FILE, PART, |file| {
            file.write_all(serde_json::to_string(&written)?.as_bytes())?;
            file.write_all(b"\n")
        })
    }
}

/// The file: the key that seals comes first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    keys: Vec<WrittenKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKey {
    id: String,
    key: String,
}

/// Bytes as lower-case digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|half| char::from_digit(half.into(), 16))
        .collect()
}

/// Lower-case digits as bytes; `None` for any other text.
pub(crate) fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let half = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (half(*high)? << 4) | half(*low)?;
    }
    Some(bytes)
}
