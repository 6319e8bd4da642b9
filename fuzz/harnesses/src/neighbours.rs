//! Frames of any bytes, asks and other settings at any time: the tables of a device stay within their bounds,
//! what it sends is well-formed, its own, and no more than its limits allow, and it asks to be called again
//! only later.
//!
//! An input begins with a byte of settings. Then come steps: a kind, by how much time passes (a mantissa and
//! an exponent), a length, and so many bytes.

use neighbours::{Asker, Device, Input, Limits, Prefix, Rate, Resolution, Settings, classify};
use packet::checksum::{self, Endpoints};
use packet::{arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol, udp};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use telemetry::clock::Nanos;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CAPACITY: usize = 16;
const LIMITS: Limits = Limits {
    sent: Rate { per_second: 50, burst: 20 },
    answers: Rate { per_second: 30, burst: 10 },
    processed: Rate { per_second: 1_000, burst: 1_000 },
};

fn settings(bits: u8) -> Settings {
    let four = Prefix { address: Ipv4Addr::new(192, 0, 2, 1).into(), length: 24 };
    let six = Prefix { address: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(), length: 64 };
    let ipv6 = bits & 1 != 0;
    let chosen = [(bits & 2 != 0, four), (ipv6 && bits & 4 != 0, six)];
    Settings {
        addresses: chosen.into_iter().filter(|(wanted, _)| *wanted).map(|(_, prefix)| prefix).collect(),
        dhcp: bits & 8 != 0,
        ipv6,
        router_advertisements: bits & 16 != 0,
        multicast: if bits & 32 != 0 { vec![Ipv4Addr::new(239, 1, 1, 1).into()] } else { vec![] },
        capacity: CAPACITY,
        limits: LIMITS,
        ..Settings::new(MAC)
    }
}

/// The frame with its checksums made right, so that what is behind them is reached; a DHCP message is of the
/// exchange that the device began last.
fn repaired(frame: &[u8], xid: [u8; 4]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let Some((_, packet)) = frame.split_at_mut_checked(ethernet::HEADER_LENGTH) else { return frame };
    if let Ok(view) = ipv4::View::new(packet) {
        let (header, kind) = (view.header_length(), view.protocol());
        let end = usize::from(view.total_length()).min(packet.len());
        packet[ipv4::field::CHECKSUM].fill(0);
        let sum = checksum::of(&packet[..header]);
        packet[ipv4::field::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        let body = &mut packet[header..end];
        match kind {
            protocol::UDP if body.len() > 16 => {
                body[6..8].fill(0);
                body[12..16].copy_from_slice(&xid);
            }
            protocol::ICMPV4 | protocol::IGMP if body.len() > 4 => {
                body[2..4].fill(0);
                let sum = checksum::of(body);
                body[2..4].copy_from_slice(&sum.to_be_bytes());
            }
            _ => {}
        }
    } else if let Ok(view) = ipv6::View::new(packet) {
        let endpoints = Endpoints::V6 { source: view.source(), destination: view.destination() };
        let length = view.payload().len();
        let Ok(upper) = view.upper() else { return frame };
        let body = &mut packet[ipv6::HEADER_LENGTH..][..length][upper.offset..];
        if body.len() > 4 {
            body[2..4].fill(0);
            let sum = endpoints.sum(protocol::ICMPV6, body).checksum();
            body[2..4].copy_from_slice(&sum.to_be_bytes());
        }
    }
    frame
}

/// Whether a frame is one that the device may have sent, and the identifier of a DHCP exchange in it.
fn sent(frame: &[u8], mtu: u16) -> Option<[u8; 4]> {
    let view = ethernet::View::new(frame).expect("a frame");
    assert_eq!(view.source(), MAC);
    assert!(frame.len() <= ethernet::HEADER_LENGTH + usize::from(mtu).max(576), "{} bytes", frame.len());
    match view.ethertype() {
        ethernet::ethertype::ARP => {
            assert_eq!(arp::View::new(view.payload()).expect("a message").sender_mac(), MAC);
            None
        }
        ethernet::ethertype::IPV4 => {
            let packet = ipv4::View::new(view.payload()).expect("a packet");
            assert!(packet.verify_checksum() && !packet.is_cut());
            match packet.protocol() {
                protocol::UDP => {
                    let data = udp::View::new(packet.payload()).expect("a datagram");
                    let endpoints =
                        Endpoints::V4 { source: packet.source(), destination: packet.destination() };
                    assert!(data.verify_checksum(&endpoints) && data.destination_port() == 67);
                    data.payload().get(4..8).and_then(|xid| xid.try_into().ok())
                }
                protocol::ICMPV4 => {
                    assert!(icmpv4::View::new(packet.payload()).expect("a message").verify_checksum());
                    None
                }
                other => {
                    assert!(other == protocol::IGMP && checksum::verify(packet.payload()));
                    None
                }
            }
        }
        _ => {
            let packet = ipv6::View::new(view.payload()).expect("a packet");
            let endpoints = Endpoints::V6 { source: packet.source(), destination: packet.destination() };
            let upper = packet.upper().expect("headers");
            let message = icmpv6::View::new(&packet.payload()[upper.offset..]).expect("a message");
            assert!(message.verify_checksum(&endpoints) && !packet.is_cut());
            None
        }
    }
}

pub fn run(data: &[u8]) {
    let Some((&bits, mut rest)) = data.split_first() else { return };
    let start = Nanos(1_700_000_000_000_000_000);
    let mut now = start;
    let mut device = Device::new(settings(bits), 7, now).expect("allowed settings");
    let (mut xid, mut frames, mut inputs) = ([0; 4], 0u32, 0u64);
    while let &[kind, wait, shift, length, ref bytes @ ..] = rest {
        let (bytes, after) = bytes.split_at(usize::from(length).min(bytes.len()));
        rest = after;
        now = now.saturating_add(Nanos(u64::from(wait) << (shift % 36)));
        let address = match *bytes {
            [a, b, ..] if kind & 8 == 0 => IpAddr::from([192, 0, 2 + (a >> 7), b]),
            [_, b, ..] => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(b)]),
            _ => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        match kind % 8 {
            0 => {
                let asker = Asker(u64::from((kind >> 4) & 3));
                if let Resolution::Known(mac) = device.resolve_for(asker, address, now) {
                    assert!(mac != [0; 6]);
                }
            }
            1 => device.change(settings(wait), now).expect("allowed settings"),
            kind => {
                // The length of frames of DHCP is beyond one byte: options follow the fixed part.
                let frame = if kind == 2 { bytes.to_vec() } else { repaired(&padded(bytes), xid) };
                let interest = classify(&frame);
                inputs += 1;
                let outcome = device.input(&frame, now);
                assert!(outcome != Input::Taken || interest.is_some());
            }
        }
        let mut polls = 0;
        loop {
            device.poll(now);
            while let Some(frame) = device.next_frame() {
                frames += 1;
                xid = sent(&frame, 1500).unwrap_or(xid);
            }
            if device.next_deadline().is_none_or(|due| due > now) {
                break;
            }
            polls += 1;
            assert!(polls < 4, "it asks to be called for ever");
        }
        assert!(device.neighbours().count() <= CAPACITY && device.neighbours_count() <= CAPACITY);
        let asked = (0..4).flat_map(|asker| device.neighbours_of(Asker(asker)));
        let asked: BTreeSet<IpAddr> = asked.map(|neighbour| neighbour.address).collect();
        assert!(device.neighbours().map(|neighbour| neighbour.address).eq(asked));
        assert!(device.addresses().count() <= 2 + 1 + 1 + 16 && device.routers().count() <= 4 + 8);
        assert!(device.groups().count() <= 1 + 2 + 16 && device.mtu() >= 576);
        let elapsed = now.since(start).as_secs_f64();
        let each = |rate: Rate| f64::from(rate.burst + 1) + elapsed * f64::from(rate.per_second);
        assert!(f64::from(frames) <= each(LIMITS.sent) + each(LIMITS.answers), "{frames} in {elapsed} s");
    }
    let counters = device.counters();
    assert_eq!(counters.taken + counters.ignored + counters.dropped.iter().sum::<u64>(), inputs);
    assert_eq!((counters.sent, counters.lost), (u64::from(frames), 0));
    device.stop(now);
    while let Some(frame) = device.next_frame() {
        sent(&frame, 1500);
    }
    assert_eq!(device.next_deadline(), None);
}

/// A frame of DHCP is stored without the zeros between its fixed part and its options.
fn padded(bytes: &[u8]) -> Vec<u8> {
    // Ethernet, IPv4 and UDP; then up to the client's hardware address; then 192 zeros; then magic and
    // options.
    const FIXED: usize = 14 + 20 + 8 + 44;
    let is_dhcp = bytes.get(12..14) == Some(&[8, 0]) && bytes.get(23) == Some(&protocol::UDP);
    if !is_dhcp || bytes.len() <= FIXED {
        return bytes.to_vec();
    }
    let (fixed, options) = bytes.split_at(FIXED);
    let mut frame = [fixed, &[0; 192], options].concat();
    let length = frame.len() - ethernet::HEADER_LENGTH;
    frame[16..18].copy_from_slice(&(length as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&((length - 20) as u16).to_be_bytes());
    frame
}
