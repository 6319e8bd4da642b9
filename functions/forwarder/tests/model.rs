//! The C function does what this model of a few lines says, field by field and byte by byte.

use forwarder::{Forwarder, OutsideWindow, Refused};
use minicbor::Encoder;
use nf_abi::{PacketRecord, Verdict, WINDOW_BASE};
use proptest::prelude::*;

/// Bytes of a buffer in these tests.
const BUFFER: usize = 256;

#[derive(Clone, Debug, Default)]
struct Config {
    mode: Option<&'static str>,
    source: Option<[u8; 6]>,
    destination: Option<[u8; 6]>,
    reflect: Option<bool>,
}

impl Config {
    fn cbor(&self) -> Vec<u8> {
        let mut to = Encoder::new(Vec::new());
        let keys =
            [self.mode.is_some(), self.source.is_some(), self.destination.is_some(), self.reflect.is_some()];
        _ = to.map(keys.iter().filter(|given| **given).count() as u64);
        if let Some(mode) = self.mode {
            _ = to.str("mode").and_then(|to| to.str(mode));
        }
        if let Some(mac) = self.source {
            _ = to.str("source").and_then(|to| to.bytes(&mac));
        }
        if let Some(mac) = self.destination {
            _ = to.str("destination").and_then(|to| to.bytes(&mac));
        }
        if let Some(reflect) = self.reflect {
            _ = to.str("reflect").and_then(|to| to.bool(reflect));
        }
        to.into_writer()
    }

    /// What becomes of a packet.
    fn apply(&self, frame: &mut [u8], record: &mut PacketRecord) {
        if frame.len() < 14 {
            record.verdict = Verdict::Drop(0).encode();
            return;
        }
        if self.mode == Some("rewrite") {
            if let Some(mac) = self.destination {
                frame[..6].copy_from_slice(&mac);
            }
            if let Some(mac) = self.source {
                frame[6..12].copy_from_slice(&mac);
            }
        } else {
            frame[..12].rotate_left(6);
        }
        let out = if self.reflect == Some(true) { record.ingress } else { 1 - record.ingress };
        record.verdict = Verdict::Interface(out).encode();
    }
}

fn config() -> impl Strategy<Value = Config> {
    let mac = any::<[u8; 6]>();
    let reflect = prop::option::of(any::<bool>());
    prop_oneof![
        (prop_oneof![Just(None), Just(Some("swap"))], reflect.clone()).prop_map(|(mode, reflect)| Config {
            mode,
            reflect,
            ..Config::default()
        }),
        (prop::option::of(mac), mac, any::<bool>(), reflect).prop_map(|(one, other, swapped, reflect)| {
            let (source, destination) = if swapped { (Some(other), one) } else { (one, Some(other)) };
            Config { mode: Some("rewrite"), source, destination, reflect }
        }),
    ]
}

/// A packet: its bytes, where they begin in their buffer, and the rest of its record.
fn packet() -> impl Strategy<Value = (Vec<u8>, PacketRecord)> {
    let length = prop_oneof![3 => 0..32usize, 1 => 60..200usize];
    (length, 0..2u16, any::<[u64; 4]>(), any::<u8>()).prop_flat_map(|(length, ingress, noise, byte)| {
        let record = PacketRecord {
            length: length as u32,
            ingress,
            mark: noise[0],
            timestamp: noise[1],
            flow_hash: noise[2] as u32,
            tunnel_key: (noise[2] >> 32) as u32,
            nsh_path: noise[3] as u32,
            service_id: (noise[3] >> 32) as u16,
            vlan: (noise[3] >> 48) as u16,
            flow_class: byte,
            hop_budget: !byte,
            offload_flags: byte & 3,
            gso_size: u16::from(byte),
            csum_start: 34,
            csum_offset: 6,
            ..PacketRecord::default()
        };
        (prop::collection::vec(any::<u8>(), length), 0..=BUFFER - length)
            .prop_map(move |(bytes, offset)| (bytes, PacketRecord { offset: offset as u32, ..record }))
    })
}

proptest! {
    #[test]
    fn does_what_the_model_does(
        config in config(),
        mut packets in prop::collection::vec(packet(), 0..150),
        filler: u8,
    ) {
        let mut window = vec![filler; packets.len() * BUFFER];
        for (n, (bytes, record)) in packets.iter_mut().enumerate() {
            record.buffer = WINDOW_BASE + (n * BUFFER) as u32;
            let start = n * BUFFER + record.offset as usize;
            window[start..start + bytes.len()].copy_from_slice(bytes);
        }
        let mut records: Vec<PacketRecord> = packets.iter().map(|(_, record)| *record).collect();

        let (mut wanted_window, mut wanted) = (window.clone(), records.clone());
        for record in &mut wanted {
            let start = (record.buffer - WINDOW_BASE + record.offset) as usize;
            config.apply(&mut wanted_window[start..start + record.length as usize], record);
        }

        let mut forwarder = Forwarder::new(&config.cbor()).expect("a sensible configuration");
        prop_assert_eq!(forwarder.process(&mut window, &mut records, 1), Ok(()));
        prop_assert_eq!(&records, &wanted);
        prop_assert!(window == wanted_window, "bytes beside the addresses were touched");
    }

    #[test]
    fn instances_do_not_share_state(one in config(), other in config()) {
        let frame: Vec<u8> = (0..20).collect();
        let record = PacketRecord { buffer: WINDOW_BASE, length: 20, ..PacketRecord::default() };
        let mut first = Forwarder::new(&one.cbor()).expect("a sensible configuration");
        let mut second = Forwarder::new(&other.cbor()).expect("a sensible configuration");
        for (config, forwarder) in [(&one, &mut first), (&other, &mut second)] {
            let (mut window, mut records) = (frame.clone(), [record]);
            forwarder.process(&mut window, &mut records, 1).expect("inside");
            let (mut wanted, mut wanted_record) = (frame.clone(), record);
            config.apply(&mut wanted, &mut wanted_record);
            prop_assert_eq!((window, records[0]), (wanted, wanted_record));
        }
    }

    #[test]
    fn any_bytes_are_a_configuration_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Err(Refused { code, log }) = Forwarder::new(&bytes) {
            prop_assert!((1..=3).contains(&code));
            prop_assert_eq!(log.len(), 1);
        }
    }
}

#[test]
fn contradictions_are_refused_with_a_reason() {
    let mac = Some([2, 0, 0, 0, 0, 1]);
    for (config, code, word) in [
        (Config { mode: Some("rewrite"), ..Config::default() }, 2, "needs"),
        (Config { source: mac, ..Config::default() }, 3, "no effect"),
        (Config { mode: Some("swap"), destination: mac, ..Config::default() }, 3, "no effect"),
        (Config { mode: Some("swapped"), ..Config::default() }, 1, "neither"),
        (Config { mode: Some("swa"), ..Config::default() }, 1, "neither"),
    ] {
        let refused = Forwarder::new(&config.cbor()).expect_err("a contradiction");
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.log.iter().any(|line| line.contains(word)), "{refused}");
    }
    for wrong in [
        &b"\xa1\x64mode\x01"[..],
        b"\xa1\x66source\x45\x01\x02\x03\x04\x05",
        b"\xa1\x67reflect\x00",
        b"",
        b"\x80",
    ] {
        assert_eq!(Forwarder::new(wrong).expect_err("a wrong type").code, 1, "{wrong:x?}");
    }
}

#[test]
fn records_outside_of_the_window_are_not_touched() {
    let mut forwarder = Forwarder::new(&[0xa0]).expect("the defaults");
    for (buffer, offset, length) in [
        (0, 0, 14),
        (WINDOW_BASE, 0, 65),
        (WINDOW_BASE, u32::MAX, 14),
        (WINDOW_BASE + 51, 0, 14),
        (u32::MAX, 0, 14),
    ] {
        let good = PacketRecord { buffer: WINDOW_BASE, length: 14, ..PacketRecord::default() };
        let mut records = [good, PacketRecord { buffer, offset, length, ..good }];
        let mut window = [1u8; 64];
        let error = forwarder.process(&mut window, &mut records, 0).expect_err("outside");
        assert_eq!(error, OutsideWindow { index: 1, buffer, offset, length, window: 64 });
        assert_eq!((records[0].verdict, window), (0, [1; 64]));
    }
}
