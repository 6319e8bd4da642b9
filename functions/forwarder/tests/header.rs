// UNSAFETY: calls into C, to compare what the header says with the crate that is the authority.
#![allow(unsafe_code)]
//! `include/superfluid.h` says the same as `nf_abi`, and its readers take anything.

use minicbor::Encoder;
use nf_abi::{PacketRecord, Verdict, change, error, offload, stream, tunnel};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::mem::offset_of;

use forwarder::Reading;

#[repr(C)]
struct Place {
    name: *const c_char,
    offset: u32,
    size: u32,
}

#[repr(C)]
struct Number {
    name: *const c_char,
    value: i64,
}

unsafe extern "C" {
    static header_places: [Place; 23];
    static header_numbers: [Number; 42];
    fn header_verdict(kind: u32, argument: u16) -> u32;
}

/// The records' layout by the authority: name, offset, size.
macro_rules! places {
    ($($field:ident)*) => {{
        let record = PacketRecord::default();
        [$((stringify!($field), offset_of!(PacketRecord, $field), size_of_val(&record.$field)),)*]
    }};
}

#[test]
fn every_field_stands_where_the_crate_has_it() {
    let ours = places!(verdict offset length buffer mark timestamp flow_hash tunnel_key nsh_path service_id vlan
        ingress flow_class hop_budget tunnel_type offload_flags gso_type device_port gso_size csum_start csum_offset
        reserved2);
    // SAFETY: a constant table with an entry of zeros behind it.
    let theirs = unsafe { &header_places };
    assert!(theirs[ours.len()].name.is_null(), "as many fields");
    for ((name, offset, size), place) in ours.into_iter().zip(theirs) {
        // SAFETY: a string literal of C.
        let theirs = unsafe { CStr::from_ptr(place.name) };
        assert_eq!((theirs.to_str(), place.offset as usize, place.size as usize), (Ok(name), offset, size));
    }
    assert_eq!(ours.iter().map(|(_, _, size)| size).sum::<usize>(), size_of::<PacketRecord>(), "no gaps");
}

#[test]
fn every_number_is_the_crates() {
    let ours: BTreeMap<&str, i64> = BTreeMap::from([
        ("SF_ABI_VERSION", nf_abi::ABI_VERSION.into()),
        ("SF_WINDOW_BASE", nf_abi::WINDOW_BASE.into()),
        ("SF_WINDOW_MAX", nf_abi::WINDOW_MAX.into()),
        ("SF_MAX_BATCH", nf_abi::MAX_BATCH as i64),
        ("SF_MAX_EVENT", nf_abi::MAX_EVENT as i64),
        ("SF_MAX_SLOTS", nf_abi::MAX_SLOTS.into()),
        ("SF_STREAM_CONFIG", stream::CONFIG.into()),
        ("SF_STREAM_STATE", stream::STATE.into()),
        ("SF_STREAM_REPORT", stream::REPORT.into()),
        ("SF_STREAM_EVENT", stream::EVENT.into()),
        ("SF_MAX_ASKS", nf_abi::MAX_ASKS as i64),
        ("SF_STREAM_DEVICES", stream::DEVICES.into()),
        ("SF_STREAM_SLOTS", stream::SLOTS.into()),
        ("SF_STREAM_CHANGE", stream::CHANGE.into()),
        ("SF_STREAM_RANDOM", stream::RANDOM.into()),
        ("SF_RANDOM", nf_abi::RANDOM as i64),
        ("SF_CHANGE_TAKEN", change::TAKEN.into()),
        ("SF_CHANGE_MORE", change::MORE.into()),
        ("SF_CHANGE_REFUSED", change::REFUSED.into()),
        ("SF_LOG_ERROR", stream::LOG_ERROR.into()),
        ("SF_LOG_WARNING", stream::LOG_WARNING.into()),
        ("SF_LOG_INFO", stream::LOG_INFO.into()),
        ("SF_LOG_DEBUG", stream::LOG_DEBUG.into()),
        ("SF_ERROR_RANGE", error::RANGE.into()),
        ("SF_ERROR_STREAM", error::STREAM.into()),
        ("SF_ERROR_COUNTER", error::COUNTER.into()),
        ("SF_ERROR_SLOT", error::SLOT.into()),
        ("SF_ERROR_VERDICT", error::VERDICT.into()),
        ("SF_ERROR_LIMIT", error::LIMIT.into()),
        ("SF_TUNNEL_NONE", tunnel::NONE.into()),
        ("SF_TUNNEL_VXLAN", tunnel::VXLAN.into()),
        ("SF_NEEDS_CHECKSUM", offload::NEEDS_CHECKSUM.into()),
        ("SF_CHECKSUM_VALID", offload::CHECKSUM_VALID.into()),
        ("SF_GSO_NONE", offload::GSO_NONE.into()),
        ("SF_GSO_TCPV4", offload::GSO_TCPV4.into()),
        ("SF_GSO_UDP", offload::GSO_UDP.into()),
        ("SF_GSO_TCPV6", offload::GSO_TCPV6.into()),
        ("SF_GSO_UDP_L4", offload::GSO_UDP_L4.into()),
        ("SF_GSO_ECN", offload::GSO_ECN.into()),
        ("SF_VERDICT_NONE", Verdict::None.encode().into()),
        ("SF_CONSUME", Verdict::Consume.encode().into()),
    ]);
    // SAFETY: a constant table with an entry of zeros behind it.
    let theirs = unsafe { &header_numbers };
    assert!(theirs[ours.len()].name.is_null(), "as many numbers");
    for number in &theirs[..ours.len()] {
        // SAFETY: a string literal of C.
        let name = unsafe { CStr::from_ptr(number.name) }.to_str().expect("ASCII");
        assert_eq!(ours.get(name), Some(&number.value), "{name}");
    }
}

fn read(bytes: &[u8], length: usize, key: &CStr) -> Reading {
    Reading::of(&bytes[..length], key)
}

/// A value of a configuration.
#[derive(Clone, Debug)]
enum Value {
    Bool(bool),
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        (-300i64..300).prop_map(Value::Integer),
        ".{0,40}".prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        prop::collection::vec(any::<u8>(), 6).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            prop::collection::vec(("[a-z_]{1,30}", inner), 0..4).prop_map(Value::Map),
        ]
    })
}

fn encode(value: &Value, to: &mut Encoder<Vec<u8>>) {
    match value {
        Value::Bool(truth) => _ = to.bool(*truth),
        Value::Integer(integer) => _ = to.i64(*integer),
        Value::Text(text) => _ = to.str(text),
        Value::Bytes(bytes) => _ = to.bytes(bytes),
        Value::List(items) => {
            _ = to.array(items.len() as u64);
            items.iter().for_each(|item| encode(item, to));
        }
        Value::Map(pairs) => {
            _ = to.map(pairs.len() as u64);
            for (key, item) in pairs {
                _ = to.str(key);
                encode(item, to);
            }
        }
    }
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    encode(value, &mut encoder);
    encoder.into_writer()
}

proptest! {
    #[test]
    fn verdicts_are_the_crates(argument: u16) {
        // SAFETY: plain numbers.
        let theirs = [1, 2, 3, 4].map(|kind| unsafe { header_verdict(kind, argument) });
        let ours = [Verdict::Drop(argument), Verdict::Interface(argument), Verdict::Service(argument),
            Verdict::Hold(argument)].map(Verdict::encode);
        prop_assert_eq!(theirs, ours);
    }

    #[test]
    fn every_key_is_found_with_its_value(pairs in prop::collection::btree_map("[a-z_]{1,30}", value(), 0..8)) {
        let pairs: Vec<_> = pairs.into_iter().collect();
        let bytes = encoded(&Value::Map(pairs.clone()));
        for (key, value) in &pairs {
            let key = CString::new(key.as_str()).expect("no zeros");
            let got = read(&bytes, bytes.len(), &key);
            prop_assert_eq!(got.found, 1);
            let place = got.start as usize..(got.start + got.length) as usize;
            match value {
                Value::Bool(truth) => prop_assert_eq!((got.kinds, got.truth), (1, u8::from(*truth))),
                Value::Integer(integer) => {
                    prop_assert_eq!((got.kinds, got.integer), (if *integer < 0 { 4 } else { 6 }, *integer));
                    prop_assert!(*integer < 0 || got.number == *integer as u64);
                }
                Value::Text(text) => prop_assert_eq!((got.kinds, &bytes[place]), (8, text.as_bytes())),
                Value::Bytes(wanted) => {
                    let mac = <[u8; 6]>::try_from(wanted.as_slice());
                    prop_assert_eq!((got.kinds, &bytes[place]), (if mac.is_ok() { 48 } else { 16 }, &wanted[..]));
                    prop_assert_eq!(got.mac, mac.unwrap_or_default());
                }
                Value::List(items) => {
                    let sum = items.iter().fold(0i64, |sum, item| match item {
                        Value::Integer(integer) => sum.wrapping_add(*integer),
                        _ => sum,
                    });
                    prop_assert_eq!((got.kinds, got.items, got.sum, got.ended), (64, items.len() as u64, sum, 0));
                }
                Value::Map(_) => prop_assert_eq!(got.kinds, 128),
            }
        }
        prop_assert_eq!(read(&bytes, bytes.len(), c"not there").found, 0);
    }

    #[test]
    fn what_lies_behind_the_configuration_is_never_looked_at(
        value in value(), cut: prop::sample::Index, spoiled: prop::sample::Index, spoil: u8,
    ) {
        let mut bytes = encoded(&Value::Map(vec![("a".into(), Value::Bool(true)), ("key".into(), value)]));
        let place = spoiled.index(bytes.len());
        bytes[place] = spoil;
        let length = cut.index(bytes.len() + 1);
        let mut other = bytes.clone();
        other[length..].fill(0xff);
        other.extend([0xff; 64]);
        bytes.extend([0; 64]);
        for key in [c"a", c"key", c"absent"] {
            prop_assert_eq!(read(&bytes, length, key), read(&other, length, key));
        }
    }
}

#[test]
fn items_of_indefinite_length_tags_and_lying_lengths_are_refused() {
    for bytes in [
        &[][..],
        &[0x80],                                                                   // not a map
        &[0xbf, 0xff],                                                             // indefinite map
        &[0xa1],                                                                   // a pair that is not there
        &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],                   // 2^64 - 1 pairs
        &[0xa1, 0x61],                                                             // a key beyond the end
        &[0xa1, 0x00, 0x00],                                                       // a key that is no text
        &[0xa1, 0x61, b'k', 0xc0, 0x00],                                           // a tag
        &[0xa1, 0x61, b'k', 0x9f, 0xff],                                           // an indefinite list
        &[0xa1, 0x61, b'k', 0x1c],                                                 // a reserved length
        &[0xa1, 0x61, b'k', 0x9b, 0x80, 0, 0, 0, 0, 0, 0, 0],                      // 2^63 items
        &[0xa1, 0x61, b'k', 0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], // 2^64 - 1 bytes
    ] {
        assert_eq!(read(bytes, bytes.len(), c"k").found, -1, "{bytes:x?}");
    }
    let deep: Vec<u8> = [0xa1, 0x61, b'k'].into_iter().chain(std::iter::repeat_n(0x81, 100_000)).collect();
    assert_eq!(read(&deep, deep.len(), c"k").found, -1, "neither an end nor a stack overflow");
}
