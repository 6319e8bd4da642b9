//! Values in CBOR, as functions get them.

use crate::Value;
use std::net::IpAddr;

/// Major types, RFC 8949 section 3.1.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
/// Simple values false and true, RFC 8949 section 3.3.
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;

impl Value {
    /// The value in CBOR (RFC 8949), all lengths definite, all heads in their shortest form.
    ///
    /// | value | CBOR |
    /// |---|---|
    /// | `Boolean` | boolean |
    /// | `Integer` | integer |
    /// | `Text` | text |
    /// | `Duration`, `Size` | unsigned integer: nanoseconds, bytes |
    /// | `File` | array of path as text and contents as bytes |
    /// | `Mac` | 6 bytes |
    /// | `Address` | 4 or 16 bytes |
    /// | `Prefix` | array of 4 or 16 bytes and the length |
    /// | `PortRange` | array of first and last |
    /// | `List`, `Map` | array, map with text keys in the schema's order |
    pub fn to_cbor(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode(self, &mut out);
        out
    }
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Boolean(value) => out.push(if *value { TRUE } else { FALSE }),
        // -1 - n is stored as n, which is the number's complement.
        Value::Integer(value) if *value < 0 => head(out, NEGATIVE, !*value as u64),
        Value::Integer(value) => head(out, UNSIGNED, *value as u64),
        Value::Text(value) => text(out, value),
        Value::Duration(value) | Value::Size(value) => head(out, UNSIGNED, *value),
        Value::File(path, contents) => {
            head(out, ARRAY, 2);
            text(out, path);
            bytes(out, contents);
        }
        Value::Mac(value) => bytes(out, value),
        Value::Address(value) => address(out, value),
        Value::Prefix(value, length) => {
            head(out, ARRAY, 2);
            address(out, value);
            head(out, UNSIGNED, u64::from(*length));
        }
        Value::PortRange(first, last) => {
            head(out, ARRAY, 2);
            head(out, UNSIGNED, u64::from(*first));
            head(out, UNSIGNED, u64::from(*last));
        }
        Value::List(items) => {
            head(out, ARRAY, items.len() as u64);
            items.iter().for_each(|item| encode(item, out));
        }
        Value::Map(map) => {
            head(out, MAP, map.len() as u64);
            for (key, value) in map.iter() {
                text(out, key);
                encode(value, out);
            }
        }
    }
}

fn head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    let big_endian = argument.to_be_bytes();
    match argument {
        0..=23 => out.push(major | argument as u8),
        24..=0xff => out.extend([major | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend(&big_endian[6..]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend(&big_endian[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend(&big_endian);
        }
    }
}

fn text(out: &mut Vec<u8>, value: &str) {
    head(out, TEXT, value.len() as u64);
    out.extend(value.as_bytes());
}

fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    head(out, BYTES, value.len() as u64);
    out.extend(value);
}

fn address(out: &mut Vec<u8>, value: &IpAddr) {
    match value {
        IpAddr::V4(v4) => bytes(out, &v4.octets()),
        IpAddr::V6(v6) => bytes(out, &v6.octets()),
    }
}
