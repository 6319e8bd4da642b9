//! The function's configuration: a typed view over the CBOR that the host checked against the manifest's
//! schema.
//!
//! Only what the contract uses is read (RFC 8949): unsigned and negative integers, byte and text strings,
//! arrays and maps of definite length, booleans. Anything else is [`Error::Malformed`], never a panic.

use crate::{Error, Nanos, RANDOM, Secret, decimal};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address.
pub type Address = IpAddr;

/// An IP prefix: address and number of leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address; bits beyond `length` carry no meaning.
    pub address: IpAddr,
    /// 0 to 32 or 0 to 128.
    pub length: u8,
}

impl Prefix {
    /// Whether an address is of this prefix; one of the other family never is.
    pub fn contains(&self, address: IpAddr) -> bool {
        let length = u32::from(self.length);
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.checked_shr(u32::BITS - length.min(u32::BITS)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.checked_shr(u128::BITS - length.min(u128::BITS)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// A file that the operator named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'a> {
    /// Its path, as the operator wrote it.
    pub path: &'a str,
    /// What was in it when the function was started.
    pub contents: &'a [u8],
}

/// The whole configuration; used like the [`Map`] that it is. With it comes what is this start's alone, the
/// instance's [`Secret`].
#[derive(Debug)]
pub struct Config {
    bytes: Vec<u8>,
    secret: Option<Secret>,
}

impl Config {
    /// Takes a configuration as the host delivers it. No bytes at all mean an empty map.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn from_cbor(bytes: Vec<u8>) -> Result<Config, Error> {
        let bytes = if bytes.is_empty() { Vec::from([MAP << 5]) } else { bytes };
        let item = Value { bytes: &bytes };
        if item.end()? != bytes.len() {
            return Err(Error::Malformed);
        }
        item.as_map().ok_or(Error::Malformed)?;
        Ok(Config { bytes, secret: None })
    }

    /// With the bytes that the host drew for this start.
    pub(crate) fn with_random(mut self, random: Option<&[u8; RANDOM]>) -> Config {
        self.secret = random.map(Secret::new);
        self
    }

    /// What senders of packets do not know, another for each start of an instance: what tables are keyed
    /// with.
    ///
    /// # Errors
    /// The host gave no random bytes, as one from before them does: tables are not keyed with something
    /// else.
    pub fn secret(&self) -> Result<Secret, Error> {
        self.secret.ok_or_else(|| Error::Refused(String::from("the host gives no random bytes")))
    }

    /// The map of all keys.
    pub fn root(&self) -> Map<'_> {
        Value { bytes: &self.bytes }.as_map().unwrap_or(Map { items: &[], entries: 0 })
    }
}

macro_rules! forward {
    ($($(#[$doc:meta])* $name:ident -> $type:ty, $elided:ty;)*) => {
        impl<'a> Map<'a> {
            $($(#[$doc])*
            ///
            /// # Errors
            /// The key is missing, or its value is of another type.
            pub fn $name(&self, key: &str) -> Result<$type, Error> {
                self.value(key)?.$name().ok_or_else(|| Error::WrongType(String::from(key)))
            })*
        }
        impl Config {
            $($(#[$doc])*
            ///
            /// # Errors
            /// The key is missing, or its value is of another type.
            pub fn $name(&self, key: &str) -> Result<$elided, Error> {
                self.root().$name(key)
            })*
        }
    };
}

forward! {
    /// A `boolean`.
    boolean -> bool, bool;
    /// An `integer`.
    integer -> i64, i64;
    /// A `string` or an `enum`.
    text -> &'a str, &str;
    /// A `duration`.
    duration -> Nanos, Nanos;
    /// A `size` in bytes, a `rate` per second, or a `fraction` in parts per billion.
    size -> u64, u64;
    /// A `file`.
    file -> File<'a>, File<'_>;
    /// A `mac`.
    mac -> [u8; 6], [u8; 6];
    /// An `address`.
    address -> Address, Address;
    /// A `prefix`.
    prefix -> Prefix, Prefix;
    /// A `port_range`: first and last, both included.
    port_range -> (u16, u16), (u16, u16);
    /// A `list`.
    list -> List<'a>, List<'_>;
    /// A `map`.
    map -> Map<'a>, Map<'_>;
}

impl Map<'_> {
    /// A number as [`size`](Map::size) reads it, from `least` to `most`.
    ///
    /// # Errors
    /// The key is missing, its value is of another type, or `KEY: FOUND; allowed: LEAST to MOST`.
    pub fn bounded(&self, key: &str, least: u64, most: u64) -> Result<u64, Error> {
        self.value(key)?.bounded(key, least, most)
    }
}

impl Config {
    /// A number as [`size`](Config::size) reads it, from `least` to `most`.
    ///
    /// # Errors
    /// The key is missing, its value is of another type, or `KEY: FOUND; allowed: LEAST to MOST`.
    pub fn bounded(&self, key: &str, least: u64, most: u64) -> Result<u64, Error> {
        self.root().bounded(key, least, most)
    }

    /// The value of a key that may be absent (`required: false` without a default).
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn optional(&self, key: &str) -> Result<Option<Value<'_>>, Error> {
        self.root().optional(key)
    }
}

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const SIMPLE: u8 = 7;

/// One value; which type it has is found out by asking.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// Begins with the value's first byte; may go on beyond its last.
    bytes: &'a [u8],
}

/// The first byte and the length or number that follows it: major type, argument, bytes taken.
fn head(bytes: &[u8]) -> Result<(u8, u64, usize), Error> {
    let (&first, rest) = bytes.split_first().ok_or(Error::Malformed)?;
    let (major, low) = (first >> 5, first & 0x1f);
    let size = match low {
        0..=23 => return Ok((major, u64::from(low), 1)),
        24..=27 => 1usize << (low - 24),
        _ => return Err(Error::Malformed),
    };
    let argument = rest.get(..size).ok_or(Error::Malformed)?;
    Ok((major, argument.iter().fold(0, |all, byte| (all << 8) | u64::from(*byte)), 1 + size))
}

impl<'a> Value<'a> {
    /// Where the value ends.
    fn end(&self) -> Result<usize, Error> {
        let (mut position, mut left) = (0usize, 1u64);
        // Without recursion: the nesting of hostile input is not the depth of our stack.
        while left > 0 {
            left -= 1;
            let rest = self.bytes.get(position..).ok_or(Error::Malformed)?;
            let (major, argument, taken) = head(rest)?;
            position += taken;
            match major {
                UNSIGNED | NEGATIVE => {}
                SIMPLE if argument == 20 || argument == 21 => {}
                BYTES | TEXT => {
                    let length = usize::try_from(argument).map_err(|_| Error::Malformed)?;
                    position = position
                        .checked_add(length)
                        .filter(|end| *end <= self.bytes.len())
                        .ok_or(Error::Malformed)?;
                }
                // Every item takes a byte, so that a longer array cannot be there.
                ARRAY | MAP if argument <= self.bytes.len() as u64 => {
                    left += argument * if major == MAP { 2 } else { 1 };
                }
                _ => return Err(Error::Malformed),
            }
        }
        Ok(position)
    }

    fn head(&self) -> Option<(u8, u64, &'a [u8])> {
        let (major, argument, taken) = head(self.bytes).ok()?;
        Some((major, argument, self.bytes.get(taken..)?))
    }

    fn string(&self, major: u8) -> Option<&'a [u8]> {
        let (found, length, rest) = self.head()?;
        (found == major).then(|| rest.get(..usize::try_from(length).ok()?)).flatten()
    }

    fn pair(&self) -> Option<(Value<'a>, Value<'a>)> {
        let mut items = self.list()?;
        match (items.next(), items.next(), items.next()) {
            (Some(a), Some(b), None) => Some((a, b)),
            _ => None,
        }
    }

    fn as_map(&self) -> Option<Map<'a>> {
        let (major, entries, items) = self.head()?;
        (major == MAP).then_some(Map { items, entries })
    }

    /// A `boolean`.
    pub fn boolean(&self) -> Option<bool> {
        match self.head()? {
            (SIMPLE, 20, _) => Some(false),
            (SIMPLE, 21, _) => Some(true),
            _ => None,
        }
    }

    /// An `integer`.
    pub fn integer(&self) -> Option<i64> {
        match self.head()? {
            (UNSIGNED, argument, _) => i64::try_from(argument).ok(),
            (NEGATIVE, argument, _) => i64::try_from(argument).ok().map(|n| -1 - n),
            _ => None,
        }
    }

    /// A `string` or an `enum`.
    pub fn text(&self) -> Option<&'a str> {
        core::str::from_utf8(self.string(TEXT)?).ok()
    }

    /// A `duration`.
    pub fn duration(&self) -> Option<Nanos> {
        self.size().map(Nanos)
    }

    /// A `size` in bytes, a `rate` per second, or a `fraction` in parts per billion.
    pub fn size(&self) -> Option<u64> {
        match self.head()? {
            (UNSIGNED, argument, _) => Some(argument),
            _ => None,
        }
    }

    /// A number as [`size`](Value::size) reads it, from `least` to `most`; `key` is for the message.
    ///
    /// # Errors
    /// The value is of another type, or `KEY: FOUND; allowed: LEAST to MOST`.
    pub fn bounded(&self, key: &str, least: u64, most: u64) -> Result<u64, Error> {
        let found = self.size().ok_or_else(|| Error::WrongType(String::from(key)))?;
        if (least..=most).contains(&found) {
            return Ok(found);
        }
        let [found, least, most] = [found, least, most].map(decimal);
        Err(Error::refused(&[key, ": ", &found, "; allowed: ", &least, " to ", &most]))
    }

    /// A `file`.
    pub fn file(&self) -> Option<File<'a>> {
        let (path, contents) = self.pair()?;
        Some(File { path: path.text()?, contents: contents.string(BYTES)? })
    }

    /// A `mac`.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.string(BYTES)?.try_into().ok()
    }

    /// An `address`.
    pub fn address(&self) -> Option<Address> {
        let bytes = self.string(BYTES)?;
        if let Ok(four) = <[u8; 4]>::try_from(bytes) {
            return Some(IpAddr::V4(Ipv4Addr::from(four)));
        }
        <[u8; 16]>::try_from(bytes).ok().map(|sixteen| IpAddr::V6(Ipv6Addr::from(sixteen)))
    }

    /// A `prefix`.
    pub fn prefix(&self) -> Option<Prefix> {
        let (address, length) = self.pair()?;
        let (address, length) = (address.address()?, u8::try_from(length.size()?).ok()?);
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (length <= longest).then_some(Prefix { address, length })
    }

    /// A `port_range`: first and last, both included.
    pub fn port_range(&self) -> Option<(u16, u16)> {
        let (first, last) = self.pair()?;
        let (first, last) = (u16::try_from(first.size()?).ok()?, u16::try_from(last.size()?).ok()?);
        (first <= last).then_some((first, last))
    }

    /// A `list`.
    pub fn list(&self) -> Option<List<'a>> {
        let (major, left, items) = self.head()?;
        (major == ARRAY).then_some(List { items, left })
    }

    /// A `map`.
    pub fn map(&self) -> Option<Map<'a>> {
        self.as_map()
    }
}

/// The values of a list, in order.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    items: &'a [u8],
    left: u64,
}

impl List<'_> {
    /// How many values are left.
    pub fn len(&self) -> usize {
        self.left as usize
    }

    /// None is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for List<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let item = Value { bytes: self.items };
        self.items = self.items.get(item.end().ok()?..)?;
        Some(item)
    }
}

/// A map by text keys.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    items: &'a [u8],
    entries: u64,
}

impl<'a> Map<'a> {
    /// The value of a key that may be absent (`required: false` without a default).
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn optional(&self, key: &str) -> Result<Option<Value<'a>>, Error> {
        let mut items = List { items: self.items, left: self.entries * 2 };
        for _ in 0..self.entries {
            let (Some(name), Some(value)) = (items.next(), items.next()) else {
                return Err(Error::Malformed);
            };
            if name.text().ok_or(Error::Malformed)? == key {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The key is missing.
    pub fn value(&self, key: &str) -> Result<Value<'a>, Error> {
        self.optional(key)?.ok_or_else(|| Error::Missing(String::from(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::ConfigValue;
    use alloc::vec;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = ConfigValue> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(ConfigValue::Boolean),
            any::<i64>().prop_map(ConfigValue::Integer),
            "[a-z]{0,30}".prop_map(ConfigValue::Text),
            ("[a-z/.]{1,20}", prop::collection::vec(any::<u8>(), 0..300))
                .prop_map(|(path, contents)| ConfigValue::File(path, contents)),
            any::<[u8; 6]>().prop_map(ConfigValue::Mac),
            any::<[u8; 16]>().prop_map(|a| ConfigValue::Address(IpAddr::from(a))),
            (any::<[u8; 4]>(), 0u8..=32).prop_map(|(a, l)| ConfigValue::Prefix(IpAddr::from(a), l)),
            (any::<u16>(), any::<u16>()).prop_map(|(a, b)| ConfigValue::PortRange(a.min(b), a.max(b))),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(ConfigValue::List),
                prop::collection::btree_map("[a-z]{1,5}", inner, 0..5)
                    .prop_map(|map| ConfigValue::Map(map.into_iter().collect())),
            ]
        })
    }

    fn same(read: Value<'_>, written: &ConfigValue) -> bool {
        match written {
            ConfigValue::Boolean(v) => read.boolean() == Some(*v),
            ConfigValue::Integer(v) => read.integer() == Some(*v) && read.text().is_none(),
            ConfigValue::Text(v) => read.text() == Some(v) && read.integer().is_none(),
            ConfigValue::File(path, contents) => read.file() == Some(File { path, contents }),
            ConfigValue::Mac(v) => read.mac() == Some(*v),
            ConfigValue::Address(v) => read.address() == Some(*v),
            ConfigValue::Prefix(a, l) => read.prefix() == Some(Prefix { address: *a, length: *l }),
            ConfigValue::PortRange(a, b) => read.port_range() == Some((*a, *b)),
            ConfigValue::List(items) => {
                let list = read.list().expect("a list");
                list.len() == items.len() && list.zip(items).all(|(read, item)| same(read, item))
            }
            ConfigValue::Map(entries) => {
                let map = read.map().expect("a map");
                entries.iter().all(|(key, v)| same(map.value(key).expect("present"), v))
                    && map.value("NOT THERE").is_err()
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(entries in prop::collection::btree_map("[a-z]{1,9}", value(), 0..30)) {
            let written = ConfigValue::Map(entries.into_iter().collect());
            let config = Config::from_cbor(written.to_cbor()).expect("well-formed");
            let whole = Value { bytes: &config.bytes };
            prop_assert!(same(whole, &written));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            if let Ok(config) = Config::from_cbor(bytes) {
                let _ = (config.optional("a"), config.integer(""), config.list("b"), config.map("c"));
            }
            let mut cbor = ConfigValue::map([("list", ConfigValue::List(vec![ConfigValue::Integer(1000); 20]))]).to_cbor();
            if cut < cbor.len() {
                cbor.truncate(cut);
                prop_assert!(cut == 0 || Config::from_cbor(cbor).is_err());
            }
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for lie in [
            &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..],
            &[0x9f],
            &[0xa1, 0x61],
            &[0xa0, 0x00],
        ] {
            assert_eq!(Config::from_cbor(lie.to_vec()).err(), Some(Error::Malformed), "{lie:x?}");
        }
    }
}
