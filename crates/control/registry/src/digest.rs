//! The name of content in registries: `sha256:` and the hexadecimal SHA-256 of all its bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

/// SHA-256 (FIPS 180-4) in the notation of the OCI image specification, the one algorithm that every registry
/// has.
///
/// [`image::Digest`] is the same function in the engine's notation: an image's digest is that of its layer
/// here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// A text is no digest; the caller says where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no digest; allowed: sha256: and 64 digits of 0-9 and a-f")]
pub struct NoDigest;

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The digest whose sum was was worked out piece by piece.
    pub(crate) fn from_sum(sum: [u8; 32]) -> Digest {
        Digest(sum)
    }

    /// The digits alone, the name of the content's file in a store.
    pub(crate) fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            for nibble in [byte >> 4, byte & 15] {
                hex.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
            }
            hex
        })
    }
}

impl From<image::Digest> for Digest {
    fn from(digest: image::Digest) -> Digest {
        Digest(*digest.as_bytes())
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Digest, NoDigest> {
        let hex = text.strip_prefix("sha256:").ok_or(NoDigest)?.as_bytes();
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(NoDigest),
        };
        let mut bytes = [0; 32];
        if hex.len() != 64 {
            return Err(NoDigest);
        }
        for (byte, digits) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = value(digits[0])? << 4 | value(digits[1])?;
        }
        Ok(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| {
            serde::de::Error::custom(format_args!("`{}` is {error}", crate::harmless(&text, 80)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_is_read_and_written() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        assert_eq!(Digest::from(image::Digest::of(b"x")), Digest::of(b"x"));
        for wrong in
            [&empty[..70], &empty.replace('e', "E"), &empty[7..], &format!("{empty}0"), "sha256:\u{e4}"]
        {
            assert_eq!(wrong.parse::<Digest>(), Err(NoDigest), "{wrong}");
        }
    }
}
