//! What can be tested without a device: settings, the messages of rtnetlink, the decisions, the plan for
//! offloads.

use crate::device::{Device, fits, queue_of};
use crate::inquiry::Inquiry;
use crate::link::{Answer, Change, Link, TunFacts, answer, change, query};
use crate::offload::{self, plan};
use crate::state::{Presence, decide};
use crate::{DeviceState, OpenError, SCHEMA, Settings, TapPort, accounts};
use port::attachment::Action;
use proptest::prelude::*;
use schema::Schema;
use yaml_document::{Document, Location};

/// An attribute as the kernel writes it.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A message as the kernel writes it.
fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

/// `struct ifinfomsg`, and the attributes of a device with two drops on its way to us.
fn device_body(index: i32, flags: u32, kind: &str, tun: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend([0; 4]);
    body.extend(attribute(3, b"tap0\0"));
    body.extend(attribute(1, &[2, 0, 0, 0, 0, 7]));
    body.extend(attribute(4, &1500u32.to_ne_bytes()));
    body.extend(attribute(13, &1000u32.to_ne_bytes()));
    body.extend(attribute(41, &65_536u32.to_ne_bytes()));
    let mut statistics = [0; 24 * 8];
    statistics[56..64].copy_from_slice(&2u64.to_ne_bytes());
    body.extend(attribute(23, &statistics));
    let info =
        [attribute(1, &[kind.as_bytes(), &[0]].concat()), attribute(2 | 0x8000, &tun.concat())].concat();
    body.extend(attribute(18 | 0x8000, &info));
    body
}

#[test]
fn the_kernels_words_about_a_device_are_understood() {
    let tun =
        [attribute(3, &[libc::IFF_TAP as u8]), attribute(7, &[1]), attribute(1, &1000u32.to_ne_bytes())];
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let body = device_body(5, flags, "tun", &tun);
    // An answer to an older request stands before it.
    let bytes = [message(2, 6, &[0; 20]), message(libc::RTM_NEWLINK, 7, &body)].concat();
    let expected = Link {
        index: 5,
        up: true,
        carrier: true,
        mtu: 1500,
        queue_length: 1000,
        gso_max_size: 65_536,
        mac: Some([2, 0, 0, 0, 0, 7]),
        lost: 2,
        kind: Some("tun".into()),
        tun: Some(TunFacts { tap: true, multi_queue: true, owner: Some(1000), group: None }),
    };
    assert_eq!(answer(&bytes, 7), Some(Answer::Link(Box::new(expected))));
    assert_eq!(answer(&bytes, 6), Some(Answer::Done));
    assert_eq!(answer(&bytes, 8), None);
    let refused = message(2, 9, &(-libc::EPERM).to_ne_bytes());
    assert_eq!(answer(&refused, 9), Some(Answer::Refused(libc::EPERM)));
    // The same attributes of another driver are no words about a TAP device.
    let other = message(libc::RTM_NEWLINK, 7, &device_body(5, flags, "bridge", &tun));
    assert!(matches!(answer(&other, 7), Some(Answer::Link(link)) if link.tun.is_none() && link.up));
}

#[test]
fn the_kernel_understands_the_question() {
    let inquiry = Inquiry::here().expect("a socket");
    let loopback = inquiry.link("lo").expect("an answer").expect("it is always there");
    assert_eq!((loopback.index, loopback.kind, loopback.tun), (1, None, None));
    assert!(loopback.mtu > 1500 && loopback.gso_max_size > 1500);
    assert_eq!(inquiry.link("sf-absent-0").expect("an answer"), None);
    let nothing = inquiry.change(i32::MAX, &Change::default());
    assert!(nothing.is_err(), "there is no such interface for any user");
}

proptest! {
    #[test]
    fn any_answer_ends(mut bytes in prop::collection::vec(any::<u8>(), 0..400), sequence: u32, genuine: bool, changes in prop::collection::vec((0usize..400, any::<u16>()), 0..12)) {
        if genuine {
            bytes = message(libc::RTM_NEWLINK, sequence, &device_body(5, 1, "tun", &[attribute(7, &[1])]));
        }
        for (at, value) in changes {
            if let Some(place) = bytes.get_mut(at..at + 2) {
                place.copy_from_slice(&(value % 80).to_ne_bytes());
            }
        }
        let _ = answer(&bytes, sequence);
    }

    /// What is asked for is read back by the same rules.
    #[test]
    fn a_request_is_well_formed(index: i32, up: Option<bool>, mtu: Option<u32>, mac: Option<[u8; 6]>, queue_length: Option<u32>, gso_max_size: Option<u32>) {
        let wanted = Change { up, mtu, mac, queue_length, gso_max_size };
        let bytes = change(index, &wanted, 3);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(u32::from_ne_bytes(*bytes.first_chunk().expect("a length")) as usize, bytes.len());
        // Requests and answers have the same form.
        let Some(Answer::Link(link)) = answer(&bytes, 3) else { return Err(TestCaseError::fail("not read back")) };
        let expected = Link {
            index,
            up: up == Some(true),
            mtu: mtu.unwrap_or(0),
            mac,
            queue_length: queue_length.unwrap_or(0),
            gso_max_size: gso_max_size.unwrap_or(0),
            ..Link::default()
        };
        prop_assert_eq!(*link, expected);
    }

    /// The kernel cuts what has as many bytes as the maximum; a tag of four bytes comes on top of that.
    #[test]
    fn no_segment_is_longer_than_a_buffer_has_room_for(room in 1024u32..65_536, mtu in 68u32..65_521, wanted: bool) {
        match plan(room, mtu, wanted).gso_max_size {
            Some(most) => {
                prop_assert!(wanted && most - 1 + 4 <= room && most <= 65_536);
                prop_assert!(most > 2 * mtu, "at least two packets");
                prop_assert!(offload::fits(plan(room, mtu, wanted), most));
                prop_assert!(!offload::fits(plan(room, mtu, wanted), most + 1));
            }
            None => prop_assert!(!wanted || room < 2 * (mtu + 14) + 4),
        }
    }

    #[test]
    fn a_flow_has_one_queue(hash: u32, queues in 1usize..17) {
        prop_assert!(queue_of(hash, queues) < queues);
        prop_assert_eq!(queue_of(hash, queues), queue_of(hash, queues));
    }
}

#[test]
fn every_queue_has_flows() {
    for queues in 1..17 {
        let mut seen = vec![false; queues];
        for n in 0..1000u32 {
            seen[queue_of(n.wrapping_mul(0x9e37_79b9), queues)] = true;
        }
        assert!(seen.iter().all(|seen| *seen), "{queues}");
    }
    assert_eq!(queue_of(u32::MAX, 16), 15);
}

#[test]
fn a_question_names_the_device() {
    let bytes = query("tap0", 1);
    assert!(bytes.ends_with(b"tap0\0\0\0\0"), "{bytes:?}");
    assert_eq!(bytes.len(), 16 + 16 + 12);
}

#[test]
fn a_device_is_judged_by_where_and_how_it_is() {
    let there = |up, carrier, moved| decide("a", Presence::Present { up, carrier, moved });
    assert_eq!(decide("a", Presence::Absent), Action::Open);
    assert_eq!(decide("a", Presence::Hidden), Action::Up);
    assert_eq!(there(true, true, false), Action::Up);
    assert_eq!(there(true, true, true), Action::Up);
    let down = |action| match action {
        Action::Down(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert!(down(there(false, false, false)).ends_with("`ip link set a up` switches it on"));
    assert!(down(there(false, false, true)).contains("moved to"));
    assert!(down(there(true, false, false)).contains("carrier"));
}

#[test]
fn what_has_the_name_decides() {
    let link = |tap, multi_queue| Link {
        kind: Some("tun".into()),
        tun: Some(TunFacts { tap, multi_queue, owner: Some(7), group: None }),
        ..Link::default()
    };
    let settings = |queues| Settings { queues, ..Settings::new("a") };
    assert!(fits(&settings(1), &link(true, false)).is_ok());
    assert!(fits(&settings(1), &link(true, true)).is_ok());
    assert!(fits(&settings(4), &link(true, true)).is_ok());
    let refused = fits(&settings(4), &link(true, false)).expect_err("it has one queue").to_string();
    let command = "run `ip link del a && ip tuntap add dev a mode tap user 7 multi_queue vnet_hdr`";
    assert!(refused.ends_with(command), "{refused}");
    assert!(matches!(fits(&settings(1), &link(false, true)), Err(OpenError::OtherFlags { .. })));
    assert!(matches!(fits(&settings(1), &Link::default()), Err(OpenError::OtherKind { .. })));
}

#[test]
fn a_host_without_the_driver_is_told_what_to_do() {
    let inquiry = Inquiry::here().expect("a socket");
    let settings = Settings::new("sf-absent-0");
    let error = Device::open_by("/dev/net/no-such", &inquiry, &settings).expect_err("it is not there");
    let message = error.to_string();
    assert!(message.contains("modprobe tun") && message.contains("mknod /dev/net/no-such"), "{message}");
    assert!(!message.contains('\n'), "{message}");
    let denied = OpenError::DriverDenied { interface: "a".into(), file: "/dev/net/tun".into() }.to_string();
    assert!(denied.contains("chmod 666 /dev/net/tun"), "{denied}");
}

#[test]
fn settings_that_no_device_can_have_are_refused() {
    for name in ["", ".", "..", "a/b", "a b", "sixteen-letters-", "a:1", "a\0", "tap%d"] {
        let refused = TapPort::open(Settings::new(name)).err();
        assert!(matches!(refused, Some(OpenError::BadName { .. })), "{name:?}: {refused:?}");
    }
    for queues in [0, 17] {
        let refused = TapPort::waiting(Settings { queues, ..Settings::new("a") }).err();
        assert!(matches!(refused, Some(OpenError::BadQueues { .. })), "{refused:?}");
    }
    for mac in [[0; 6], [1, 0, 0, 0, 0, 1], [0xff; 6]] {
        let refused = TapPort::open(Settings { mac: Some(mac), ..Settings::new("a") }).err();
        assert!(matches!(refused, Some(OpenError::BadMac { .. })), "{refused:?}");
    }
}

#[test]
fn accounts_are_found_by_name_or_number() {
    let table =
        "root:x:0:0:root:/root:/bin/sh\n\nbroken\nalice:x:1000:1000::/home/alice:/bin/sh\nroot2:x:no:0\n";
    assert_eq!(accounts::number(table, "root"), Some(0));
    assert_eq!(accounts::number(table, "alice"), Some(1000));
    for unknown in ["ali", "broken", "root2", "", "x"] {
        assert_eq!(accounts::number(table, unknown), None, "{unknown}");
    }
    assert_eq!(accounts::resolve("/no/such/file", "42"), Some(42));
    assert_eq!(accounts::resolve("/no/such/file", "alice"), None);
}

fn settings(text: &str) -> Result<Settings, Vec<String>> {
    let schema = Schema::from_text("settings.yaml", SCHEMA).expect("a schema without faults");
    let document = Document::parse("edge.yaml", text).expect("YAML");
    let mut faults = Vec::new();
    let value = schema.check("edge.yaml", "ports.lan", Some(document.root()), &mut faults);
    value.map(|value| Settings::from_value(&value)).ok_or(faults.iter().map(ToString::to_string).collect())
}

#[test]
fn settings_come_from_the_operators_file() {
    assert_eq!(settings("interface: tap0"), Ok(Settings::new("tap0")), "the same defaults in both places");
    let all = "{interface: a, create: false, queues: 4, offload: off, state: keep, persist: true, user: alice, \
               group: \"1000\", mtu: 9000, mac: \"02:00:00:00:00:01\", queue_length: 500}";
    let expected = Settings {
        interface: "a".into(),
        create: false,
        queues: 4,
        offload: false,
        state: DeviceState::Keep,
        persist: true,
        user: Some("alice".into()),
        group: Some("1000".into()),
        mtu: Some(9000),
        mac: Some([2, 0, 0, 0, 0, 1]),
        queue_length: Some(500),
    };
    assert_eq!(settings(all), Ok(expected));
    assert_eq!(settings("{interface: a, state: down}").map(|s| s.state), Ok(DeviceState::Down));
    for (wrong, key) in [
        ("queues: 2", "interface"),
        ("{interface: a, queues: 17}", "queues"),
        ("{interface: a, state: sideways}", "state"),
        ("{interface: a, mtu: 67}", "mtu"),
        ("{interface: a, ring: 1MiB}", "ring"),
    ] {
        let faults = settings(wrong).expect_err(wrong);
        assert!(faults.len() == 1 && faults[0].contains(key), "{wrong}: {faults:?}");
    }
}

#[test]
fn the_readme_has_the_settings() {
    let table = Schema::from_text("settings.yaml", SCHEMA).expect("a schema without faults").to_markdown();
    assert!(include_str!("../README.md").contains(&table), "README.md must have this table:\n{table}");
}

#[test]
fn the_readmes_examples_are_accepted() {
    let (_, rest) = include_str!("../README.md").split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let document = Document::parse("README.md", example).expect("YAML");
    let schema = Schema::from_text("settings.yaml", SCHEMA).expect("a schema without faults");
    let (_, ports) = document.root().entry("ports").expect("ports");
    let ports = ports.as_map().expect("a map");
    assert_eq!(ports.len(), 4);
    for (name, node) in ports {
        let mut faults = Vec::new();
        let place = Location::new("README.md", &name.text, node.position);
        let value = schema.check_at(&place, Some(node), &["type"], &mut faults);
        let settings = Settings::from_value(&value.unwrap_or_else(|| panic!("{faults:?}")));
        assert!(settings.check().is_ok(), "{settings:?}");
    }
}
