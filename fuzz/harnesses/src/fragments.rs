//! Fragments of several datagrams of both families, in any order and with any overlap, against an array of
//! bytes for each datagram.

use nf_sdk::Nanos;
use nf_sdk::fragments::{FragmentOverlap, Fragments, Limits, Outcome};
use nf_sdk::headers::{self, dissect};
use nf_sdk::native::frames::{packet, seal};

#[path = "../../../crates/sandbox/nf_sdk/src/fragments/model.rs"]
mod model;
use model::{Expected, Fragment, Model, Policy};

const LIMITS: Limits =
    Limits { datagrams: 64, bytes: 1 << 20, timeout: Nanos::from_secs(30), makes_room: false };
const POLICIES: [(FragmentOverlap, Policy); 4] = [
    (FragmentOverlap::First, Policy::First),
    (FragmentOverlap::Last, Policy::Last),
    (FragmentOverlap::Discard, Policy::Discard),
    (FragmentOverlap::Around, Policy::Around),
];
/// What is behind the IP header: bytes without ports that anything would look for.
const PROTOCOL: u8 = 253;

/// A frame with these bytes of a datagram; its TTL or hop limit tells fragments apart.
fn frame(is_ipv4: bool, id: u8, ttl: u8, at: usize, more: bool, data: &[u8]) -> Vec<u8> {
    if is_ipv4 {
        let mut frame = packet("192.0.2.1", "192.0.2.2", PROTOCOL, data);
        frame[19] = id;
        frame[20..22].copy_from_slice(&((at as u16 / 8) | u16::from(more) << 13).to_be_bytes());
        frame[22] = ttl;
        seal(&mut frame);
        return frame;
    }
    let mut payload = vec![PROTOCOL, 0];
    payload.extend((at as u16 | u16::from(more)).to_be_bytes());
    payload.extend([0, 0, 0, id]);
    payload.extend(data);
    let mut frame = packet("2001:db8::1", "2001:db8::2", 44, &payload);
    frame[21] = ttl;
    frame
}

/// The datagram in one piece.
fn whole(is_ipv4: bool, id: u8, ttl: u8, data: &[u8]) -> Vec<u8> {
    if is_ipv4 {
        return frame(true, id, ttl, 0, false, data);
    }
    let mut frame = packet("2001:db8::1", "2001:db8::2", PROTOCOL, data);
    frame[21] = ttl;
    frame
}

/// The policy, and steps: which datagram and how much later, where, how long, what.
pub fn run(data: &[u8]) {
    let Some((&policy, steps)) = data.split_first() else { return };
    let (overlap, policy) = POLICIES[usize::from(policy) % POLICIES.len()];
    let mut table = Fragments::new(LIMITS, overlap, 7);
    let mut model = Model::new(LIMITS.timeout.0);
    let mut now = Nanos(1 << 60);
    let mut ttls = Vec::new();
    for (number, step) in steps.chunks_exact(4).enumerate() {
        let &[what, place, length, letter] = step else { continue };
        let (id, is_ipv4, at) = (what & 3, what & 4 == 0, usize::from(place & 31) * 8);
        // One that is first and last is no fragment.
        let more = what & 8 != 0 || at == 0;
        now = now.saturating_add(Nanos::from_secs([0, 0, 10, 31][usize::from(what >> 4 & 3)]));
        let ttl = letter | 0x80;
        ttls.push(ttl);
        let said: Vec<u8> =
            (0..=usize::from(length % 64)).map(|at| letter.wrapping_add(at as u8 / 16)).collect();
        let frame = frame(is_ipv4, id, ttl, at, more, &said);
        let found = dissect(&frame).expect("well-formed");
        let outcome = table.take(&frame, &found, 0, now);
        // All but the last have a multiple of eight bytes: of IPv4's the rest is left out, as hosts do.
        let said = match said.len() % 8 {
            rest if more && is_ipv4 => &said[..said.len() - rest],
            rest if more && rest != 0 => &[],
            _ => &said[..],
        };
        let expected = if said.is_empty() {
            Outcome::Discarded
        } else {
            let policy = if is_ipv4 { policy } else { Policy::Discard };
            match model.take((is_ipv4, id), policy, Fragment { number, at, more, data: said }, now.0) {
                Expected::Whole(head, said) => Outcome::Whole(whole(is_ipv4, id, ttls[head], &said)),
                Expected::Waiting => Outcome::Waiting,
                Expected::Discarded => Outcome::Discarded,
            }
        };
        assert_eq!(outcome, expected, "{number}: {id} {is_ipv4} {at} {more} {}", said.len());
        if let Outcome::Whole(frame) = outcome {
            let network = dissect(&frame).ok().and_then(|found| found.network).expect("IP");
            assert_eq!(network.fragment, headers::Fragment::Whole);
        }
    }
    table.expire(now);
    assert_eq!(table.count(), model.expire(now.0));
    assert!(table.bytes() <= LIMITS.bytes && (table.count() > 0 || table.bytes() == 0));
    table.expire(now.saturating_add(Nanos::from_secs(31)));
    assert_eq!((table.count(), table.bytes()), (0, 0));
}
