use super::*;
use crate::generator::{self, GeneratorPort};
use crate::taking::checked;
use crate::testing::{NOW, assert_conserved, packets, pool, receive_all};

fn config(text: &str) -> Config {
    Config::from_value(&checked(SCHEMA, text).unwrap()).unwrap()
}

#[test]
fn settings_come_from_the_schema() {
    assert_eq!(config(""), Config::default());
    let all = config("{check: checksums, report: 2s}");
    assert_eq!(all, Config { check: Check::Checksums, report: Some(Nanos::from_millis(2000)) });
}

#[test]
fn takes_everything() {
    let pool = pool(8);
    let mut port = SinkPort::new(Config::default());
    let mut out = packets(&pool, [&[1u8; 60][..], &[2; 100]]);
    port.transmit(&pool, NOW, &mut out);
    assert!(receive_all(&mut port, &pool, NOW).is_empty() && port.details().is_empty());
    assert_eq!((port.counters().ledger.delivered, port.counters().delivered_bytes), (2, 160));
    assert_conserved(&port, &pool, 2, 0);
}

#[test]
fn finds_every_flipped_bit_under_a_checksum() {
    let pool = pool(8);
    for protocol in ["{protocol: udp, count: 1}", "{protocol: tcp, count: 1, size: 70}"] {
        let settings = checked(generator::SCHEMA, protocol).unwrap();
        let mut source = GeneratorPort::new(generator::Config::from_value(&settings).unwrap()).unwrap();
        let mut sent = receive_all(&mut source, &pool, NOW);
        let right = pool.to_vec(&sent[0]);
        source.transmit(&pool, NOW, &mut sent);
        // From the IPv4 identification on: what is before says lengths and versions, and is judged as
        // malformed.
        for bit in 18 * 8..right.len() * 8 {
            let mut wrong = right.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let mut port = SinkPort::new(config("{check: checksums}"));
            let mut out = packets(&pool, [&right[..], &wrong]);
            port.transmit(&pool, NOW, &mut out);
            let details: std::collections::BTreeMap<_, _> = port.details().into_iter().collect();
            assert_eq!(details["malformed"] + details["wrong_checksum"], 1, "bit {bit}: {details:?}");
            assert_eq!(details["checked"], 2);
            assert_eq!(port.maintain(NOW).len(), 1);
            assert!(port.maintain(NOW).is_empty());
            assert_conserved(&port, &pool, 2, 0);
        }
    }
}

#[test]
fn a_missing_end_is_malformed_and_padding_is_not() {
    let pool = pool(8);
    let settings = checked(generator::SCHEMA, "{count: 1}").unwrap();
    let mut source = GeneratorPort::new(generator::Config::from_value(&settings).unwrap()).unwrap();
    let mut sent = receive_all(&mut source, &pool, NOW);
    let whole = pool.to_vec(&sent[0]);
    let padded = [&whole[..], &[0x55; 9]].concat();
    let mut port = SinkPort::new(config("{check: checksums}"));
    port.transmit(&pool, NOW, &mut sent);
    port.transmit(&pool, NOW, &mut packets(&pool, [&whole[..63], &padded]));
    assert_eq!(port.details(), [("checked", 3), ("not_ip", 0), ("malformed", 1), ("wrong_checksum", 0)]);
}

#[test]
fn a_partial_checksum_is_not_judged() {
    let pool = pool(8);
    let settings = checked(generator::SCHEMA, "{count: 1}").unwrap();
    let mut source = GeneratorPort::new(generator::Config::from_value(&settings).unwrap()).unwrap();
    let mut sent = receive_all(&mut source, &pool, NOW);
    pool.patch(&mut sent[0], 40, &[0, 1]).unwrap();
    sent[0].edit(|record| record.offload_flags = nf_abi::offload::NEEDS_CHECKSUM);
    let mut port = SinkPort::new(config("{check: checksums}"));
    port.transmit(&pool, NOW, &mut sent);
    assert_eq!(port.details(), [("checked", 1), ("not_ip", 0), ("malformed", 0), ("wrong_checksum", 0)]);
}

#[test]
fn tells_the_rate() {
    let pool = pool(100);
    let mut port = SinkPort::new(config("{report: 100ms}"));
    assert!(port.maintain(NOW).is_empty());
    let mut out = packets(&pool, [&[0u8; 125][..]; 100]);
    port.transmit(&pool, NOW, &mut out);
    assert!(port.maintain(Nanos(NOW.0 + 99_000_000)).is_empty());
    let events = port.maintain(Nanos(NOW.0 + 100_000_000));
    assert_eq!(events, [PortEvent::Notice("0.001 Mpps, 1.0 Mbit/s".to_owned())]);
}
