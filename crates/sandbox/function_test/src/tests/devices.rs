//! A function is told of devices before its first packet.

use super::{MANIFEST, test};
use crate::Judge;
use image::cut::Trial;
use image::{Names, assemble};
use nf_abi::{DeviceEntry, NeighbourState};
use schema::NoFiles;

const TEST: &str = "
cases:
  - name: devices are told
    devices:
      - interface: right
        mac: 02:00:00:00:00:01
        neighbours: [{address: 192.0.2.7, state: asked}, {address: 192.0.2.1, mac: 02:00:00:00:00:02}]
        addresses: [{address: 192.0.2.9}]
        gateways: [192.0.2.1]
      - {interface: left, up: false, mtu: 9000}
    packets:
      - {length: 60, to: right}
    counters: {passed: 6, seen: 1}
";

#[test]
fn entries_are_in_their_order() {
    let entries = &test(TEST).cases[0].devices;
    let of = |host| [192, 0, 2, host].into();
    let mac = |last| [2, 0, 0, 0, 0, last];
    let neighbour = |host, state, mac| DeviceEntry::Neighbour { interface: 1, address: of(host), state, mac };
    assert_eq!(
        entries[..],
        [
            DeviceEntry::Interface { interface: 0, is_up: false, mac: [0; 6], mtu: 9000 },
            DeviceEntry::Interface { interface: 1, is_up: true, mac: mac(1), mtu: 1500 },
            DeviceEntry::Address { interface: 1, address: of(9), prefix: 24 },
            neighbour(1, NeighbourState::Reachable, mac(2)),
            neighbour(7, NeighbourState::Asked, [0; 6]),
            DeviceEntry::Gateway { interface: 1, address: of(1) },
        ]
    );
}

#[test]
fn an_interface_that_is_none_is_told() {
    let text = TEST.replace("interface: left", "interface: lift");
    let faults =
        crate::ImageTest::parse("image.yaml", &text, &super::manifest(), &NoFiles).expect_err("none");
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let told = "devices[1].interface: no interface `lift`; allowed: left, right; did you mean `left`?";
    assert!(faults[0].contains(told), "{faults:?}");
}

#[test]
fn a_function_is_told_before_its_first_packet() {
    // `passed` counts entries, `seen` calls of `sf_devices`; packets pass when there was one.
    let wat = r#"(module
        (import "superfluid_v1" "read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "superfluid_v1" "counter_add" (func $count (param i32 i64) (result i32)))
        (memory (export "memory") 1)
        (func (export "sf_batch") (result i32) (i32.const 1024))
        (func (export "sf_init") (result i32) (i32.const 0))
        (func (export "sf_devices") (param i64)
            (drop (call $count (i32.const 1) (i64.const 1)))
            (drop (call $count (i32.const 0) (i64.extend_i32_u (i32.div_u
                (call $read (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const 32)))))
            (i32.store (i32.const 0) (i32.const 0x102)))
        (func (export "sf_process") (param i32 i64) (i32.store (i32.const 1024) (i32.load (i32.const 0)))))"#;
    let (image, ..) =
        assemble(&wat::parse_str(wat).expect("text"), MANIFEST, Names::Dropped).expect("an image");
    let mut judge = Judge::new(test(TEST)).expect("a sandbox");
    assert_eq!(judge.passes(&image), Ok(()));
}
