//! Digests of content, and reading what has to have one.

use crate::ImageError;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read};

/// `sha256:` and 64 hexadecimal digits in lower case, as the OCI image specification writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest(String);

impl Digest {
    /// The digits alone: the name of the content's file in a layout.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }

    fn of(sum: Sha256) -> Digest {
        let digits = sum.finalize().iter().fold(String::from("sha256:"), |mut text, byte| {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
            }
            text
        });
        Digest(digits)
    }
}

impl TryFrom<String> for Digest {
    type Error = ImageError;

    fn try_from(text: String) -> Result<Digest, ImageError> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64);
        match digits {
            Some(digits) if digits.as_bytes().iter().all(is_digit) => Ok(Digest(text)),
            _ => Err(ImageError::NoDigest(printable::harmless(&text, 80))),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts and sums up what is read through it, and ends with an error where there is more than `most`.
pub(crate) struct Summed<R> {
    from: R,
    sum: Sha256,
    read: u64,
    most: u64,
}

impl<R: Read> Summed<R> {
    pub(crate) fn new(from: R, most: u64) -> Summed<R> {
        Summed { from, sum: Sha256::new(), read: 0, most }
    }

    /// Reads on to the end, so that all of it counts. What is left is at most what `most` allows.
    pub(crate) fn exhaust(&mut self) -> io::Result<()> {
        io::copy(self, &mut io::sink()).map(drop)
    }

    /// What was read.
    pub(crate) fn into_sum(self) -> (Digest, u64) {
        (Digest::of(self.sum), self.read)
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        self.read = self.read.saturating_add(read as u64);
        if self.read > self.most {
            return Err(io::Error::other(format!("more than {} bytes", self.most)));
        }
        self.sum.update(&to[..read]);
        Ok(read)
    }
}
