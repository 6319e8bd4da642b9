//! Observers at ports, devices, sides of devices and wires, on the worker of the packets or another.

use super::devices::{Far, Plugs, echo, settings};
use super::scripted::Seen;
use super::stream::Rig;
use super::*;
use crate::path::observers::Observer;
use std::sync::atomic::AtomicU64;
use virtual_device::{Mode, Share, SwitchPort};

/// A function that is to observe, and what it saw.
fn eye(rig: &Rig, worker: usize, pool: usize) -> (FleetInstance, Seen) {
    rig.add(worker, pool, Manner::deciding(|_, _| Action::Fault))
}

fn observe(rig: &Rig, observer: impl Into<FleetObserver>, at: Place, view: View) {
    let observer = observer.into();
    let done = rig.fleet.change(|change| change.observe(observer, at, view));
    done.expect("not stopped").expect("both are there");
}

fn filter(text: &str) -> View {
    View { filter: Some(Arc::new(capture::Filter::parse(text).expect("a filter"))), one_of: 0 }
}

fn sorted(seen: &Seen) -> Vec<u8> {
    let mut bytes = seen.bytes();
    bytes.sort_unstable();
    bytes
}

#[test]
fn an_observer_of_a_port_sees_both_directions_wherever_it_is() {
    for (workers, pool) in [(1, 0), (1, 1), (2, 0), (3, 1)] {
        let rig = Rig::new(workers, 2);
        let (left, right) = (Far::of(&rig, 0, 0, (0..100).collect()), Far::of(&rig, 0, 0, vec![200; 3]));
        let f = rig.wire(0);
        rig.link(left.end(), End::Instance(f, 0));
        rig.link(right.end(), End::Instance(f, 1));
        let (all, some) = (eye(&rig, workers - 1, pool), eye(&rig, workers / 2, pool));
        observe(&rig, all.0, Place::Port(left.port), View::default());
        observe(&rig, some.0, Place::Port(left.port), filter("udp src portrange 7-9"));
        rig.turn(8);
        assert_eq!((left.take(), right.take()), (vec![200; 3], (0..100).collect()));
        assert_eq!(sorted(&all.1), [(0..100).collect(), vec![200; 3]].concat());
        assert_eq!(sorted(&some.1), [7, 8, 9], "of {workers} workers, pool {pool}");
        let account = rig.stop();
        assert_eq!(account.ledger.dropped.total(), 0);
        assert!(account.instances.iter().all(|instance| instance.missed == 0));
        if workers > 1 || pool > 0 {
            assert_eq!(account.ledger.copied, 106, "what it cannot borrow it is sent");
        }
    }
}

#[test]
fn an_observer_sees_a_device_or_one_side_of_it() {
    for workers in 1..=3 {
        let rig = Rig::new(workers, 1);
        let (left, right) =
            (Far::of(&rig, 0, 0, (0..40).collect()), Far::of(&rig, workers - 1, 0, vec![201, 202]));
        let (device, _) = Plugs::of(&rig, settings(Mode::Bridge, Share::Single, 2, 1));
        rig.link(left.end(), device.port(0));
        rig.link(right.end(), device.port(1));
        let f = rig.add(workers / 2, 0, echo()).0;
        rig.link(device.opener(0), End::Instance(f, 0));
        let (whole, side, opener, twice) =
            (eye(&rig, 0, 0), eye(&rig, workers - 1, 0), eye(&rig, 0, 0), eye(&rig, 0, 0));
        let at = |plug: Option<u16>| Place::Switch(device.0, plug.map(SwitchPort));
        observe(&rig, whole.0, at(None), View::default());
        observe(&rig, side.0, at(Some(1)), View::default());
        observe(&rig, opener.0, at(Some(devices::OPENERS)), filter("src port 201"));
        // One that is shown the same at two places is shown it twice, and ends where it is told to.
        observe(&rig, twice.0, at(None), View::default());
        let place = at(None);
        rig.fleet.change(|change| change.unobserve(twice.0, place)).expect("runs").expect("it did");
        let again = rig.fleet.change(|change| change.unobserve(twice.0, place)).expect("runs");
        assert!(matches!(again, Err(FleetError::Wire(WireError::Absent))), "{again:?}");
        rig.turn(8);
        assert_eq!((left.take(), right.take()), (vec![201, 202], (0..40).collect()));
        let passed = [(0..40).collect(), vec![201, 202]].concat();
        assert_eq!(sorted(&side.1), passed, "what came by the side, and what left by it");
        let mut both: Vec<u8> = [passed.clone(), passed].concat();
        both.sort_unstable();
        assert_eq!(sorted(&whole.1), both, "from ports, and from the opener");
        assert_eq!(sorted(&opener.1), [201, 201], "to the opener, and back");
        assert_eq!(twice.1.bytes(), [0; 0]);
        let account = rig.stop();
        assert_eq!(account.ledger.dropped.total(), 0);
        assert!(account.instances.iter().all(|instance| instance.missed == 0));
    }
}

#[test]
fn a_port_observes_as_an_instance_does_wherever_it_is() {
    for (workers, pool) in [(1, 0), (1, 1), (2, 0), (3, 1)] {
        let rig = Rig::new(workers, 2);
        let (left, right) = (Far::of(&rig, 0, 0, (0..100).collect()), Far::of(&rig, 0, 0, vec![200; 3]));
        let f = rig.wire(0);
        rig.link(left.end(), End::Instance(f, 0));
        rig.link(right.end(), End::Instance(f, 1));
        // What an observer sends goes nowhere: nothing takes it off the port.
        let all = Far::of(&rig, workers - 1, pool, vec![99; 5]);
        let some = Far::of(&rig, workers / 2, 0, vec![]);
        observe(&rig, all.port, Place::Port(left.port), View::default());
        observe(&rig, some.port, Place::Instance(f, Some(0)), filter("udp src portrange 7-9"));
        rig.turn(8);
        assert_eq!((left.take(), right.take()), (vec![200; 3], (0..100).collect()));
        assert_eq!(
            all.take(),
            [(0..100).collect(), vec![200; 3]].concat(),
            "of {workers} workers, pool {pool}"
        );
        assert_eq!(some.take(), [7, 8, 9]);
        // It goes along with what moves, and ends where it is told to.
        rig.fleet.move_to(&[all.end(), left.end()], workers / 2).expect("they move");
        rig.fleet.move_to(&[End::Instance(f, 0)], workers - 1).expect("it moves");
        let gone = some.port;
        rig.fleet.change(|change| change.remove_port(gone).map(drop)).expect("runs").expect("it was there");
        let again = rig.fleet.change(|change| change.unobserve(gone, Place::Instance(f, Some(0))));
        assert!(again.expect("runs").is_err(), "it ended with the port");
        rig.turn(2);
        let account = rig.stop();
        assert_eq!((account.ledger.dropped.total(), account.ledger.copied), (0, 106));
    }
}

#[test]
fn a_port_that_observes_misses_what_there_is_no_buffer_for() {
    for workers in 1..=2 {
        let rig = Rig::new(workers, 2);
        let (left, right) = (Far::of(&rig, 0, 0, vec![7; 60]), Far::of(&rig, 0, 0, vec![]));
        let f = rig.wire(0);
        rig.link(left.end(), End::Instance(f, 0));
        rig.link(right.end(), End::Instance(f, 1));
        let eye = Far::of(&rig, workers - 1, 1, vec![]);
        observe(&rig, eye.port, Place::Port(right.port), View::default());
        let mut taken = Vec::new();
        while let Some(packet) = rig.pools[1].0.allocate() {
            taken.push(packet);
        }
        rig.turn(8);
        assert_eq!((right.take().len(), eye.take().len()), (60, 0), "nothing else waits or is lost");
        rig.pools[1].0.free_batch(taken);
        let account = rig.stop();
        let missed =
            account.ports.iter().flat_map(|port| &port.details).find(|(name, _)| *name == "packets_missed");
        assert_eq!(missed, Some(&("packets_missed", 60)));
        assert_eq!((account.ledger.dropped.total(), account.ledger.copied), (0, 0));
    }
}

#[test]
fn what_no_device_takes_ends_where_it_was_seen() {
    let rig = Rig::new(1, 1);
    let link = Far::of(&rig, 0, 0, (0..20).collect());
    let (_, seen) = devices::under_devices(&rig, &link, &[("src portrange 5-9", true)], &[0]);
    rig.turn(4);
    assert_eq!(sorted(&seen[0].1), [5, 6, 7, 8, 9]);
    let account = rig.stop();
    assert_eq!((account.ledger.consumed, account.ledger.copied), (5, 0));
    assert_eq!(account.ledger.dropped[DropReason::NoDevice], 15);
}

#[test]
fn an_observer_that_stands_still_loses_its_own_copies_alone() {
    for workers in 1..=2 {
        let mut rig = Rig::new(workers, 1);
        rig.queue = 10;
        let (slow, seen) = eye(&rig, workers - 1, 0);
        let (brisk, _) = eye(&rig, 0, 0);
        rig.queue = 512;
        let (left, right) = (Far::of(&rig, 0, 0, vec![7; 2000]), Far::of(&rig, 0, 0, vec![]));
        let f = rig.wire(0);
        rig.link(left.end(), End::Instance(f, 0));
        rig.link(right.end(), End::Instance(f, 1));
        observe(&rig, slow, Place::Port(right.port), View::default());
        observe(&rig, brisk, Place::Port(right.port), View::default());
        rig.fleet.pause(slow).expect("it has not stopped");
        for _ in 0..64 {
            rig.turn(1);
        }
        assert_eq!(right.take().len(), 2000, "no packet waits for it");
        rig.fleet.resume(slow).expect("it has not stopped");
        rig.turn(64);
        let account = rig.stop();
        let of = |name: usize| &account.instances[name];
        let queued = seen.bytes().len() as u64;
        // Copies that came over a wire and found its queue full are its drops; it misses the others.
        let lost = of(0).ledger.dropped.total();
        assert_eq!(queued + of(0).missed + lost, 2000);
        assert!(of(0).missed > 0 && queued >= 10, "{queued} seen, {} missed", of(0).missed);
        assert_eq!((of(1).missed, of(1).packets), (0, 2000));
        assert_eq!(account.ledger.dropped.total(), lost, "none but its own");
    }
}

#[test]
fn copies_that_wait_for_an_observer_end_when_it_observes_no_more() {
    let rig = Rig::new(1, 1);
    let (left, right) = (Far::of(&rig, 0, 0, vec![7; 5]), Far::of(&rig, 0, 0, vec![]));
    let f = rig.wire(0);
    rig.link(left.end(), End::Instance(f, 0));
    rig.link(right.end(), End::Instance(f, 1));
    let ((observer, seen), place) = (eye(&rig, 0, 0), Place::Port(left.port));
    observe(&rig, observer, place, View::default());
    rig.fleet.pause(observer).expect("it has not stopped");
    rig.turn(4);
    rig.fleet.change(|change| change.unobserve(observer, place)).expect("runs").expect("it did");
    rig.fleet.resume(observer).expect("it has not stopped");
    rig.turn(4);
    assert_eq!((right.take().len(), seen.bytes().len()), (5, 0));
    let account = rig.stop();
    assert_eq!((account.instances[1].missed, account.ledger.dropped.total()), (5, 0));
}

#[test]
fn observers_follow_what_moves_and_end_with_what_goes() {
    let rig = Rig::new(3, 1);
    let left = Far::of(&rig, 0, 0, (0..10).collect());
    let right = Far::of(&rig, 0, 0, vec![]);
    let f = rig.wire(0);
    rig.link(left.end(), End::Instance(f, 0));
    rig.link(right.end(), End::Instance(f, 1));
    let (observer, seen) = eye(&rig, 1, 0);
    observe(&rig, observer, Place::Port(left.port), View::default());
    observe(&rig, observer, Place::Interface(f, 0), View::default());
    rig.fleet.move_to(&[left.end()], 2).expect("it moves");
    rig.fleet.move_to(&[End::Instance(observer, 0)], 0).expect("it moves");
    rig.fleet.move_to(&[End::Instance(f, 0)], 1).expect("it moves");
    rig.turn(8);
    assert_eq!(right.take(), (0..10).collect::<Vec<_>>());
    assert_eq!(sorted(&seen), (0..10).flat_map(|byte| [byte, byte]).collect::<Vec<_>>());
    let gone = left.port;
    rig.fleet.change(|change| change.remove_port(gone).map(drop)).expect("runs").expect("it was there");
    let done = rig.fleet.change(|change| change.unobserve(observer, Place::Port(gone))).expect("runs");
    assert!(done.is_err(), "it ended with the port");
    rig.fleet.change(|change| change.remove_instance(observer).map(drop)).expect("runs").expect("there");
    rig.turn(2);
    rig.stop();
}

#[test]
fn a_sample_is_one_of_so_many_and_favours_no_flow() {
    for one_of in [2, 3, 100] {
        let view = View { filter: None, one_of };
        let mut observer = Observer::new(Target::Port(PortId(0)), view, Arc::new(AtomicU64::new(0)));
        let taken: Vec<u32> = (0..1_000_000).filter(|_| observer.is_sampled()).collect();
        let expected = 1_000_000 / one_of as usize;
        assert!(taken.len().abs_diff(expected) < expected / 30, "{} of {expected}", taken.len());
        // Flows that come in turn, as many as are left out.
        let mut of_flow = vec![0; one_of as usize];
        taken.iter().for_each(|packet| of_flow[(packet % one_of) as usize] += 1);
        let fair = expected / one_of as usize;
        assert!(of_flow.iter().all(|count| *count > fair / 2 && *count < fair * 2), "{of_flow:?}");
    }
}
