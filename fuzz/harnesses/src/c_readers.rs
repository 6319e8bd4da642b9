//! Any bytes are read as a configuration by the readers of the header for C as a plain reader reads them,
//! which makes a tree of values; and where Rust's take them, they say the same.

use forwarder::Reading;
use nf_sdk::Config;
use std::ffi::CString;

/// A value, and where its bytes are.
#[derive(Debug)]
enum Value {
    Unsigned(u64),
    Negative(u64),
    Bytes(std::ops::Range<usize>),
    Text(std::ops::Range<usize>),
    List(Vec<Value>),
    Map(Vec<[Value; 2]>),
    Boolean(bool),
    Other,
}

/// Reads values, one after the other (RFC 8949 section 3).
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        (0..bytes).try_fold(0, |number, _| {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            Some(number << 8 | u64::from(byte))
        })
    }

    fn head(&mut self) -> Option<(u64, u64)> {
        let first = self.number(1)?;
        let argument = match first % 32 {
            24 => self.number(1)?,
            25 => self.number(2)?,
            26 => self.number(4)?,
            27 => self.number(8)?,
            28.. => return None,
            small => small,
        };
        Some((first / 32, argument))
    }

    fn value(&mut self) -> Option<Value> {
        let start = self.at;
        let (kind, argument) = self.head()?;
        Some(match kind {
            0 => Value::Unsigned(argument),
            1 => Value::Negative(argument),
            2 | 3 => {
                let start = self.at;
                self.at = start
                    .checked_add(usize::try_from(argument).ok()?)
                    .filter(|end| *end <= self.bytes.len())?;
                if kind == 2 { Value::Bytes(start..self.at) } else { Value::Text(start..self.at) }
            }
            4 => Value::List(self.values(argument)?),
            5 => {
                let mut all = self.values(argument.checked_mul(2)?)?.into_iter();
                let mut pairs = vec![];
                while let (Some(key), Some(value)) = (all.next(), all.next()) {
                    pairs.push([key, value]);
                }
                Value::Map(pairs)
            }
            7 => match self.bytes[start] {
                0xf4 => Value::Boolean(false),
                0xf5 => Value::Boolean(true),
                _ => Value::Other,
            },
            _ => return None,
        })
    }

    fn values(&mut self, count: u64) -> Option<Vec<Value>> {
        (0..count).map(|_| self.value()).collect()
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Unsigned(number) => i64::try_from(*number).ok(),
        Value::Negative(number) => i64::try_from(*number).ok().map(|number| -1 - number),
        _ => None,
    }
}

/// The value of a key in a map of which what comes before is whole; -1 and 0 as in [`Reading`].
fn value_of(bytes: &[u8], key: &[u8]) -> Result<Value, i32> {
    let mut reader = Reader { bytes, at: 0 };
    let Some((5, pairs)) = reader.head() else { return Err(-1) };
    for _ in 0..pairs {
        let Some(Value::Text(place)) = reader.value() else { return Err(-1) };
        let value = reader.value().ok_or(-1)?;
        if bytes[place] == *key {
            return Ok(value);
        }
    }
    Err(0)
}

fn model(bytes: &[u8], key: &[u8]) -> Reading {
    let value = match value_of(bytes, key) {
        Ok(value) => value,
        Err(found) => return Reading { found, ..Reading::default() },
    };
    let mut told = Reading { found: 1, ..Reading::default() };
    if let Some(integer) = integer(&value) {
        (told.kinds, told.integer) = (4, integer);
    }
    match value {
        Value::Unsigned(number) => (told.kinds, told.number) = (told.kinds | 2, number),
        Value::Negative(_) | Value::Other => {}
        Value::Boolean(truth) => (told.kinds, told.truth) = (1, truth.into()),
        Value::Text(place) => {
            (told.kinds, told.start, told.length) = (8, place.start as u32, place.len() as u32);
        }
        Value::Bytes(place) => {
            (told.kinds, told.start, told.length) = (16, place.start as u32, place.len() as u32);
            if let Ok(mac) = <[u8; 6]>::try_from(&bytes[place]) {
                (told.kinds, told.mac) = (48, mac);
            }
        }
        Value::List(items) => {
            (told.kinds, told.items) = (64, items.len() as u64);
            told.sum = items.iter().filter_map(integer).fold(0, i64::wrapping_add);
        }
        Value::Map(pairs) => {
            // A key that is no text, before one that is empty, is what the header's look-up ends at.
            let end =
                pairs.iter().position(|[key, _]| !matches!(key, Value::Text(place) if !place.is_empty()));
            let is_right = end.is_none_or(|end| matches!(pairs[end][0], Value::Text(_)));
            told.kinds = if is_right { 128 } else { 0 };
        }
    }
    told
}

/// What the readers for Rust say of a key; `None` where a key before it is no text of theirs.
fn in_rust(config: &Config, bytes: &[u8], key: &str) -> Option<Reading> {
    let mut told = Reading::default();
    let root = config.root();
    if root.optional(key).ok()?.is_none() {
        return Some(told);
    }
    told.found = 1;
    if let Ok(truth) = root.boolean(key) {
        (told.kinds, told.truth) = (1, truth.into());
    }
    if let Ok(number) = root.size(key) {
        (told.kinds, told.number) = (2, number);
    }
    if let Ok(integer) = root.integer(key) {
        (told.kinds, told.integer) = (told.kinds | 4, integer);
    }
    if let Ok(mac) = root.mac(key) {
        (told.kinds, told.mac) = (48, mac);
    }
    if let Ok(text) = root.text(key) {
        (told.kinds, told.length) = (8, text.len() as u32);
        assert!(bytes.windows(text.len().max(1)).any(|some| some == text.as_bytes()) || text.is_empty());
    }
    if let Ok(list) = root.list(key) {
        told.kinds = 64;
        for item in list {
            told.items += 1;
            told.sum = told.sum.wrapping_add(item.integer().unwrap_or(0));
        }
    }
    if root.map(key).is_ok() {
        told.kinds = 128;
    }
    Some(told)
}

pub fn run(data: &[u8]) {
    let Some((length, data)) = data.split_first() else { return };
    let (name, bytes) = data.split_at(usize::from(*length).min(data.len()));
    let name: Vec<u8> = name.iter().copied().filter(|byte| *byte != 0).collect();
    let config = Config::from_cbor(bytes.to_vec()).ok().filter(|_| !bytes.is_empty());
    let key = CString::new(name.clone()).expect("no zeros");
    let told = Reading::of(bytes, &key);
    assert_eq!(told, model(bytes, &name));
    let (Some(config), Ok(key)) = (config, std::str::from_utf8(&name)) else { return };
    let Some(mut expected) = in_rust(&config, bytes, key) else { return };
    if told.kinds & 24 == 0 || expected.kinds & 8 != 0 {
        // Where it begins is not told.
        expected.start = told.start;
    } else {
        // Bytes that are no address, and text that is no UTF-8, have no reader for Rust alone.
        expected = Reading {
            kinds: told.kinds,
            start: told.start,
            length: told.length,
            mac: expected.mac,
            ..expected
        };
    }
    // The keys of a map are looked at when one is asked for.
    if expected.kinds == 128 {
        expected.kinds = told.kinds & 128;
    }
    assert_eq!(told, expected);
}
