//! Writes a configuration the way the host does.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

/// A value of a configuration, to be written as CBOR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigValue {
    /// `boolean`.
    Boolean(bool),
    /// `integer`, `size`, `rate`, `fraction` in parts per billion, and `duration` in nanoseconds.
    Integer(i64),
    /// `string` and `enum`.
    Text(String),
    /// `file`: its path and its contents.
    File(String, Vec<u8>),
    /// `mac`.
    Mac([u8; 6]),
    /// `address`.
    Address(IpAddr),
    /// `prefix`.
    Prefix(IpAddr, u8),
    /// `port_range`.
    PortRange(u16, u16),
    /// `list`.
    List(Vec<ConfigValue>),
    /// `map`.
    Map(Vec<(String, ConfigValue)>),
}

impl ConfigValue {
    /// A map from pairs.
    pub fn map<'a>(pairs: impl IntoIterator<Item = (&'a str, ConfigValue)>) -> ConfigValue {
        ConfigValue::Map(pairs.into_iter().map(|(key, value)| (String::from(key), value)).collect())
    }

    /// A text.
    pub fn text(text: &str) -> ConfigValue {
        ConfigValue::Text(String::from(text))
    }

    /// In CBOR.
    pub fn to_cbor(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            ConfigValue::Boolean(value) => out.push(0xf4 | u8::from(*value)),
            ConfigValue::Integer(value) if *value < 0 => head(out, 1, !*value as u64),
            ConfigValue::Integer(value) => head(out, 0, *value as u64),
            ConfigValue::Text(text) => string(out, 3, text.as_bytes()),
            ConfigValue::File(path, contents) => {
                head(out, 4, 2);
                string(out, 3, path.as_bytes());
                string(out, 2, contents);
            }
            ConfigValue::Mac(mac) => string(out, 2, mac),
            ConfigValue::Address(address) => self::address(out, address),
            ConfigValue::Prefix(address, length) => {
                head(out, 4, 2);
                self::address(out, address);
                head(out, 0, u64::from(*length));
            }
            ConfigValue::PortRange(first, last) => {
                head(out, 4, 2);
                head(out, 0, u64::from(*first));
                head(out, 0, u64::from(*last));
            }
            ConfigValue::List(items) => {
                head(out, 4, items.len() as u64);
                items.iter().for_each(|item| item.write(out));
            }
            ConfigValue::Map(entries) => {
                head(out, 5, entries.len() as u64);
                for (key, value) in entries {
                    string(out, 3, key.as_bytes());
                    value.write(out);
                }
            }
        }
    }
}

fn head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let bytes = argument.to_be_bytes();
    let (low, skip) = match argument {
        0..=23 => return out.push(major << 5 | argument as u8),
        24..=0xff => (24, 7),
        0x100..=0xffff => (25, 6),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 0),
    };
    out.push(major << 5 | low);
    out.extend_from_slice(&bytes[skip..]);
}

fn string(out: &mut Vec<u8>, major: u8, bytes: &[u8]) {
    head(out, major, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn address(out: &mut Vec<u8>, address: &IpAddr) {
    match address {
        IpAddr::V4(four) => string(out, 2, &four.octets()),
        IpAddr::V6(sixteen) => string(out, 2, &sixteen.octets()),
    }
}
