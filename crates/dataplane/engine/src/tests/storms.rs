//! Storms: frames in loops that double at switches and devices end, and what comes behind them passes.

use super::devices::{Far, Plugs, settings};
use super::stream::Rig;
use super::*;
use virtual_device::{Mode, Share};
use virtual_switch::{Switch, SwitchSettings};

/// A frame for all: the first byte of its destination is its name.
const FOR_ALL: u8 = 255;

/// Turns until nothing arrives any more; what arrived.
fn until_quiet(rig: &Rig, far: &Far) -> usize {
    let mut arrived = 0;
    for _ in 0..2000 {
        rig.turn(20);
        match far.take().len() {
            0 => return arrived,
            more => arrived += more,
        }
    }
    panic!("it goes on after {arrived} packets");
}

#[test]
fn a_storm_between_two_switches_ends() {
    for (ways, workers) in [(2, 1), (3, 1), (4, 1), (3, 2)] {
        let rig = Rig::new(workers, 1);
        let tables = [0, 1].map(|_| Arc::new(Switch::new(SwitchSettings::default()).expect("good settings")));
        let ids =
            [0, 1].map(|n| rig.fleet.add_switch("hall", tables[n].clone(), None).expect("few switches"));
        let plug = |n: usize| End::Switch(ids[n], tables[n].attach().expect("few ports"));
        let (near, far) = (Far::of(&rig, 0, 0, vec![FOR_ALL]), Far::of(&rig, 0, 0, vec![]));
        rig.link(near.end(), plug(0));
        rig.link(far.end(), plug(1));
        for n in 0..ways {
            let f = rig.wire(n % workers);
            rig.link(End::Instance(f, 0), plug(0));
            rig.link(End::Instance(f, 1), plug(1));
        }
        let arrived = until_quiet(&rig, &far);
        assert!((1..=65_536).contains(&arrived), "{ways} ways: {arrived}");
        let account = rig.stop();
        assert!(account.ledger.dropped[DropReason::HopBudget] > 0, "{ways} ways");
    }
}

#[test]
fn a_storm_between_two_rootless_devices_ends() {
    let rig = Rig::new(1, 1);
    let devices = [0, 1].map(|_| Plugs::of(&rig, settings(Mode::Rootless, Share::Duplicate, 0, 4)).0);
    let (near, far) = (Far::of(&rig, 0, 0, vec![FOR_ALL]), Far::of(&rig, 0, 0, vec![]));
    rig.link(near.end(), devices[0].opener(0));
    rig.link(far.end(), devices[1].opener(0));
    for n in 1..4 {
        let f = rig.wire(0);
        rig.link(End::Instance(f, 0), devices[0].opener(n));
        rig.link(End::Instance(f, 1), devices[1].opener(n));
    }
    let arrived = until_quiet(&rig, &far);
    assert!((1..=65_536).contains(&arrived), "{arrived}");
    assert!(rig.stop().ledger.dropped[DropReason::HopBudget] > 0);
}

#[test]
fn floods_without_a_loop_reach_all_through_many_switches() {
    let rig = Rig::new(1, 1);
    let near = Far::of(&rig, 0, 0, vec![FOR_ALL]);
    let mut fars = Vec::new();
    let mut before = near.end();
    for _ in 0..7 {
        let table = Arc::new(Switch::new(SwitchSettings::default()).expect("good settings"));
        let id = rig.fleet.add_switch("hall", table.clone(), None).expect("few switches");
        let plug = || End::Switch(id, table.attach().expect("few ports"));
        rig.link(before, plug());
        // A port ends what goes there, a function does not.
        for _ in 0..20 {
            let far = Far::of(&rig, 0, 0, vec![]);
            rig.link(far.end(), plug());
            fars.push(far);
        }
        let behind = Far::of(&rig, 0, 0, vec![]);
        let (f, next) = (rig.wire(0), rig.wire(0));
        rig.link(End::Instance(f, 0), plug());
        rig.link(End::Instance(f, 1), behind.end());
        rig.link(End::Instance(next, 0), plug());
        fars.push(behind);
        before = End::Instance(next, 1);
    }
    rig.turn(60);
    assert!(fars.iter().all(|far| far.take() == [FOR_ALL]));
    rig.stop();
}
