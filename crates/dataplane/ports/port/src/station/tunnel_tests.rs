//! Stations inside of tunnels: what they get and send, next hops, and frames that pretend.

use super::select::Around;
use super::tests::{Bench, answers, identity};
use super::*;
use encapsulation::{Encapsulation, Front, LayerKind, LayerSettings, Outer};
use packet::checksum::Sum;
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Mutex;
use telemetry::DropReason;

fn outer(is_v6: bool) -> Outer {
    let end = |last| if is_v6 { IpAddr::from([last; 16]) } else { IpAddr::from([192, 0, 2, last]) };
    Outer {
        local: end(1),
        remote: end(2),
        ttl: 64,
        services: None,
        dont_fragment: true,
        checksum: is_v6,
        link: ([2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 1, 1]),
    }
}

/// From the other end to this one.
fn turned(outer: Outer) -> Outer {
    Outer { local: outer.remote, remote: outer.local, link: (outer.link.1, outer.link.0), ..outer }
}

fn layers(outer: Outer) -> Vec<Vec<LayerSettings>> {
    vec![
        vec![LayerSettings::Vxlan { vni: 7, outer }],
        vec![LayerSettings::Geneve { vni: 7, outer }],
        vec![LayerSettings::Nvgre { subnet: 7, outer }],
        vec![LayerSettings::Gre { key: Some(7), frames: true, outer }],
        vec![
            LayerSettings::Vlan { id: 5, priority: 1, service: false },
            LayerSettings::Vxlan { vni: 7, outer },
        ],
    ]
}

fn put_on(layers: &[LayerSettings], frame: &[u8]) -> Vec<u8> {
    let mut front = Front::NONE;
    let encapsulation = Encapsulation::new(layers).expect("allowed");
    encapsulation.put_on(frame, frame.len() as u32, 0, 1, &mut front).expect("it fits");
    if front.is_incomplete() {
        front.complete(Sum::ZERO.add_bytes(&frame[front.removes()..]));
    }
    [front.bytes(), &frame[front.removes()..]].concat()
}

fn tunnel(layers: &[LayerSettings], outer: Outer) -> Tunnel {
    let tag = layers.iter().find_map(|layer| match layer {
        LayerSettings::Vlan { id, .. } => Some(*id),
        _ => None,
    });
    Tunnel {
        layers: layers.iter().map(LayerSettings::kind).collect(),
        encapsulation: Encapsulation::new(layers).expect("allowed"),
        tag,
        key: 7,
        local: outer.local,
        remote: outer.remote,
        next_hop: None,
    }
}

fn attach(bench: &Bench, tunnel: Tunnel) -> Link {
    let identity = Identity { around: Around::Tunnel(Arc::new(tunnel)), ..identity(&["192.0.2.9"]) };
    bench.port.stations().expect("room").attach(identity, || ())
}

#[test]
fn a_station_in_a_tunnel_gets_and_sends_what_is_inside() {
    for is_v6 in [false, true] {
        let outer = outer(is_v6);
        for (own, from_there) in layers(outer).into_iter().zip(layers(turned(outer))) {
            let mut bench = Bench::new();
            let mut link = attach(&bench, tunnel(&own, outer));
            let [arp, ..] = answers(7);
            let mut for_all = arp.clone();
            for_all[..6].fill(0xff);
            // Padding behind the tunnel is no part of the frame.
            let [mine, everyones] = [&arp, &for_all].map(|frame| put_on(&from_there, frame));
            let padded = [&mine[..], &[0; 9]].concat();
            assert_eq!(bench.receive([mine, padded]).len(), 0, "{own:?}");
            assert_eq!(bench.receive([everyones.clone()]), [everyones]);
            let got = std::array::from_fn(|_| link.next_frame());
            assert_eq!(got, [Some(arp.clone()), Some(arp.clone()), Some(for_all), None]);
            // Without the tunnel it is not for this station.
            assert_eq!(bench.receive([arp.clone()]), std::slice::from_ref(&arp));
            assert_eq!(link.next_frame(), None);
            assert!(link.send(arp.clone()));
            bench.receive([]);
            let sent = bench.outgoing.lock().expect("a test").pop().expect("one frame");
            assert_eq!(sent, put_on(&own, &arp), "{own:?}");
        }
    }
}

#[test]
fn frames_of_other_tunnels_and_ends_are_none_of_its_own() {
    let (outer, other) = (outer(false), IpAddr::from([192, 0, 2, 3]));
    let there = turned(outer);
    let mut bench = Bench::new();
    let mut link = attach(&bench, tunnel(&[LayerSettings::Vxlan { vni: 7, outer }], outer));
    let [arp, ..] = answers(7);
    let foreign = [
        vec![LayerSettings::Vxlan { vni: 8, outer: there }],
        vec![LayerSettings::Geneve { vni: 7, outer: there }],
        vec![LayerSettings::Vxlan { vni: 7, outer: Outer { local: other, ..there } }],
        vec![LayerSettings::Vxlan { vni: 7, outer: Outer { remote: other, ..there } }],
        vec![LayerSettings::Vxlan { vni: 7, outer: there }, LayerSettings::Vxlan { vni: 7, outer: there }],
        vec![
            LayerSettings::Vlan { id: 5, priority: 0, service: false },
            LayerSettings::Vxlan { vni: 7, outer: there },
        ],
    ];
    let foreign: Vec<Vec<u8>> = foreign.iter().map(|layers| put_on(layers, &arp)).collect();
    assert_eq!(bench.receive(foreign.clone()), foreign);
    assert_eq!(link.next_frame(), None);
    // Ends that share a group: any of them may send.
    let group = Outer { remote: IpAddr::from([239, 1, 1, 1]), ..outer };
    let mut bench = Bench::new();
    let mut link = attach(&bench, tunnel(&[LayerSettings::Vxlan { vni: 7, outer: group }], group));
    let from = |to| {
        put_on(&[LayerSettings::Vxlan { vni: 7, outer: Outer { local: other, remote: to, ..outer } }], &arp)
    };
    assert_eq!(bench.receive([from(group.remote), from(group.local)]).len(), 0);
    let strange = from(IpAddr::from([239, 1, 1, 2]));
    assert_eq!(bench.receive([strange.clone()]), [strange]);
    assert_eq!(
        [link.next_frame(), link.next_frame(), link.next_frame()],
        [Some(arp.clone()), Some(arp), None]
    );
}

#[test]
fn frames_go_where_the_next_hop_is_and_wait_for_none() {
    let outer = outer(false);
    let own = [LayerSettings::Vxlan { vni: 7, outer }];
    let known: Arc<Mutex<Option<[u8; 6]>>> = Arc::default();
    let hop = known.clone();
    let next_hop: NextHop = Arc::new(move || *hop.lock().expect("a test"));
    let mut bench = Bench::new();
    let mut link = attach(&bench, Tunnel { next_hop: Some(next_hop), ..tunnel(&own, outer) });
    let [arp, ..] = answers(7);
    assert!(link.send(arp.clone()));
    bench.receive([]);
    assert_eq!(bench.outgoing.lock().expect("a test")[..], [] as [Vec<u8>; 0]);
    *known.lock().expect("a test") = Some([2, 0, 0, 0, 9, 9]);
    assert!(link.send(arp.clone()));
    bench.receive([]);
    let sent = bench.outgoing.lock().expect("a test").pop().expect("one frame");
    let mut expected = put_on(&own, &arp);
    expected[..6].copy_from_slice(&[2, 0, 0, 0, 9, 9]);
    // The identification of a packet that is not fragmented says nothing.
    assert_eq!(sent, expected);
}

/// RFC 8200, section 8.1.
#[test]
fn what_has_a_wrong_checksum_is_missed() {
    let outer = outer(true);
    let mut bench = Bench::new();
    let mut link = attach(&bench, tunnel(&[LayerSettings::Vxlan { vni: 7, outer }], outer));
    let [arp, ..] = answers(7);
    let mut wrong = put_on(&[LayerSettings::Vxlan { vni: 7, outer: turned(outer) }], &arp);
    let at = wrong.len() - 1;
    wrong[at] ^= 1;
    assert_eq!(bench.receive([wrong]).len(), 0);
    assert_eq!((link.next_frame(), link.missed()), (None, 1));
    assert_eq!(bench.port.counters().ledger.dropped[DropReason::BadTunnel], 1);
}

/// As many as there are of them, a station takes what it may, and its memory is bounded.
#[test]
fn a_storm_in_a_tunnel_is_bounded() {
    let outer = outer(false);
    let mut bench = Bench::new();
    let mut link = attach(&bench, tunnel(&[LayerSettings::Vxlan { vni: 7, outer }], outer));
    let [arp, ..] = answers(7);
    let frame = put_on(&[LayerSettings::Vxlan { vni: 7, outer: turned(outer) }], &arp);
    for _ in 0..20 {
        bench.receive(vec![frame.clone(); 500]);
    }
    let taken = std::iter::from_fn(|| link.next_frame()).count();
    assert!((1..=2 * FRAMES).contains(&taken), "{taken}");
    assert_eq!(taken as u64 + link.missed(), 10_000);
}

proptest! {
    /// Any bytes are taken as a whole frame that is inside, or not at all.
    #[test]
    fn any_frame_is_inside_or_is_not(
        is_v6 in any::<bool>(),
        kind in 0usize..5,
        changes in prop::collection::vec((0usize..140, any::<u8>()), 0..4),
        cut in 0usize..120,
    ) {
        let outer = outer(is_v6);
        let [arp, ..] = answers(7);
        let mut frame = put_on(&layers(turned(outer))[kind], &arp);
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame.truncate(frame.len().saturating_sub(cut));
        let own = tunnel(&layers(outer)[kind], outer);
        let head = &frame[..frame.len().min(IN_TUNNEL)];
        let inside = own.inside(head, frame.len() as u32);
        let whole = own.take_off(&frame);
        prop_assert!(inside.is_some() || whole.is_none());
        if let (Some(inside), Some(whole)) = (inside, whole) {
            let (bytes, length) = inside.head(head);
            prop_assert_eq!(&bytes[..length], &whole[..whole.len().min(bytes.len())]);
        }
    }
}

#[test]
fn tunnels_are_told_apart_but_for_what_finds_the_next_hop() {
    let outer = outer(false);
    let one = tunnel(&[LayerSettings::Vxlan { vni: 7, outer }], outer);
    let next_hop = |last: u8| Some(Arc::new(move || Some([last; 6])) as NextHop);
    assert_ne!(one, Tunnel { key: 8, ..one.clone() });
    assert_ne!(one, Tunnel { layers: vec![LayerKind::Geneve], ..one.clone() });
    assert_ne!(one, Tunnel { next_hop: next_hop(1), ..one.clone() });
    assert_eq!(Tunnel { next_hop: next_hop(2), ..one.clone() }, Tunnel { next_hop: next_hop(1), ..one });
}
