use super::*;
use crate::taking::checked;
use crate::testing::{NOW, assert_conserved, packets, pool, receive_all};
use crate::{PortEvent, PortStatus};

#[test]
fn settings_come_from_the_schema() {
    let config = |text| Config::from_value(&checked(SCHEMA, text).unwrap()).unwrap();
    assert_eq!(config(""), Config::default());
    assert_eq!(config("{supply: true, size: 1514}"), Config { supply: true, size: 1514 });
    assert_eq!(checked(SCHEMA, "{size: 13}").unwrap_err().len(), 1);
}

#[test]
fn takes_everything_and_gives_nothing() {
    let pool = pool(8);
    let mut port = NullPort::new(Config::default());
    assert!(receive_all(&mut port, &pool, NOW).is_empty());
    let mut out = packets(&pool, [&[1u8; 60][..], &[2; 100]]);
    port.transmit(&pool, NOW, &mut out);
    assert!(out.is_empty() && port.wake().at.is_none());
    assert_eq!((port.counters().ledger.delivered, port.counters().delivered_bytes), (2, 160));
    assert_conserved(&port, &pool, 2, 0);
}

#[test]
fn supplies_as_much_as_there_are_buffers() {
    let pool = pool(40);
    let mut port = NullPort::new(Config { supply: true, size: 60 });
    let mut all = receive_all(&mut port, &pool, NOW);
    assert_eq!((all.len(), port.wake().at), (40, Some(Nanos(0))));
    assert!(all.iter().all(|p| p.length() == 60 && p.record().timestamp == NOW.0));
    assert_conserved(&port, &pool, 0, 40);
    port.transmit(&pool, NOW, &mut all);
    assert_eq!((port.counters().ledger.received, port.counters().received_bytes), (40, 2400));
    assert_conserved(&port, &pool, 0, 0);
}

#[test]
fn packets_longer_than_a_buffer_are_dropped_and_told_once() {
    let pool = pool(4);
    let mut port = NullPort::new(Config { supply: true, size: 9000 });
    let mut out = Vec::new();
    port.receive(&pool, NOW, 10, &mut out);
    port.receive(&pool, NOW, 10, &mut out);
    assert!(out.is_empty());
    assert_eq!(port.counters().ledger.dropped[DropReason::TooLong], 20);
    let [PortEvent::Notice(text)] = &port.maintain(NOW)[..] else { panic!("one notice") };
    assert!(text.contains("9000") && text.contains("1728"), "{text}");
    assert!(port.maintain(NOW).is_empty() && port.status() == PortStatus::Up);
    assert_conserved(&port, &pool, 0, 0);
}
