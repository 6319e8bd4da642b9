//! Checked values.

use crate::literal;
use std::fmt;
use std::net::IpAddr;

/// A checked value. Enumerations are [`Value::Text`], rates are [`Value::Integer`] per second, fractions in
/// parts per billion ([`crate::WHOLE`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// True or false.
    Boolean(bool),
    /// A number.
    Integer(i64),
    /// Text, or the name of an enumeration's value.
    Text(String),
    /// Nanoseconds.
    Duration(u64),
    /// Bytes.
    Size(u64),
    /// A file: its path as it was written, and what was in it.
    File(String, Vec<u8>),
    /// An Ethernet address.
    Mac([u8; 6]),
    /// An IP address.
    Address(IpAddr),
    /// An IP prefix: address, with no bit set beyond the length, and length.
    Prefix(IpAddr, u8),
    /// First and last port, both included.
    PortRange(u16, u16),
    /// Values in order.
    List(Vec<Value>),
    /// Values by key.
    Map(Map),
}

/// Values by key, in the order of the schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map(Vec<(String, Value)>);

impl Map {
    /// No keys.
    pub fn new() -> Map {
        Map::default()
    }

    /// Adds a key at the end, or replaces its value where it is.
    pub fn insert(&mut self, key: &str, value: Value) {
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Are there no keys?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<String>> FromIterator<(K, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (K, Value)>>(entries: T) -> Map {
        let mut map = Map::new();
        for (key, value) in entries {
            map.insert(&key.into(), value);
        }
        map
    }
}

impl Value {
    /// A map without keys: the configuration of a function that has none.
    pub fn empty() -> Value {
        Value::Map(Map::new())
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// True or false, if this is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if this is an integer, a rate or a fraction.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if this is text or an enumeration's value.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(value) => Some(value),
            _ => None,
        }
    }

    /// Nanoseconds, if this is a duration.
    pub fn as_duration(&self) -> Option<u64> {
        match self {
            Value::Duration(value) => Some(*value),
            _ => None,
        }
    }

    /// Bytes, if this is a size.
    pub fn as_size(&self) -> Option<u64> {
        match self {
            Value::Size(value) => Some(*value),
            _ => None,
        }
    }

    /// Path and contents, if this is a file.
    pub fn as_file(&self) -> Option<(&str, &[u8])> {
        match self {
            Value::File(path, contents) => Some((path, contents)),
            _ => None,
        }
    }

    /// The address, if this is an Ethernet address.
    pub fn as_mac(&self) -> Option<[u8; 6]> {
        match self {
            Value::Mac(value) => Some(*value),
            _ => None,
        }
    }

    /// The address, if this is an IP address.
    pub fn as_address(&self) -> Option<IpAddr> {
        match self {
            Value::Address(value) => Some(*value),
            _ => None,
        }
    }

    /// Address and length, if this is a prefix.
    pub fn as_prefix(&self) -> Option<(IpAddr, u8)> {
        match self {
            Value::Prefix(address, length) => Some((*address, *length)),
            _ => None,
        }
    }

    /// First and last port, if this is a range of ports.
    pub fn as_port_range(&self) -> Option<(u16, u16)> {
        match self {
            Value::PortRange(first, last) => Some((*first, *last)),
            _ => None,
        }
    }

    /// The items, if this is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The keys and values, if this is a map.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// How many values this is, itself and all inside.
    pub fn count(&self) -> usize {
        match self {
            Value::List(items) => 1 + items.iter().map(Value::count).sum::<usize>(),
            Value::Map(map) => 1 + map.iter().map(|(_, value)| value.count()).sum::<usize>(),
            _ => 1,
        }
    }
}

/// The value as one would write it in YAML, on one line.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Text(text) | Value::File(text, _) => quoted(f, text),
            Value::Duration(ns) => f.write_str(&literal::with_unit(*ns, literal::DURATION)),
            Value::Size(bytes) => f.write_str(&literal::with_unit(*bytes, literal::SIZE)),
            Value::Mac([a, b, c, d, e, g]) => write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"),
            Value::Address(address) => write!(f, "{address}"),
            Value::Prefix(address, length) => write!(f, "{address}/{length}"),
            Value::PortRange(first, last) if first == last => write!(f, "{first}"),
            Value::PortRange(first, last) => write!(f, "{first}-{last}"),
            Value::List(items) => {
                f.write_str("[")?;
                for (n, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                f.write_str("{")?;
                for (n, (key, value)) in map.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Text as a YAML scalar: plain when that is certainly read back as it is, else in double quotes.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let word = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    if word && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && !text.eq_ignore_ascii_case("null") {
        return f.write_str(text);
    }
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            ' '..='~' => write!(f, "{c}")?,
            c => write!(f, "\\U{:08x}", u32::from(c))?,
        }
    }
    f.write_str("\"")
}
