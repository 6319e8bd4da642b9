//! Guests that are elsewhere: their packets wait, others go on, and every packet is accounted for however it
//! ends.

use super::stream::Rig;
use super::*;

/// Two chains on one worker: the first function gets `offers` and holds each packet of `7` until it is called
/// again, the second passes everything.
fn two(rig: &Rig, offers: &[u8]) -> [(FleetInstance, Arc<Mutex<Vec<u8>>>); 2] {
    let holding = Manner {
        hold: Nanos::from_millis(600_000),
        ..Manner::deciding(|byte, ingress| {
            Action::Give(if byte == 7 { Verdict::Hold(1) } else { Verdict::Interface(1 - ingress) })
        })
    };
    [holding, Manner::wire()].map(|manner| {
        let (left, _) = rig.script(0, 0, offers.to_vec());
        let (right, sent) = rig.script(0, 0, vec![]);
        let (function, _) = rig.add(0, 0, manner);
        rig.chain((left, right), &[function]);
        (function, sent)
    })
}

fn detach(rig: &Rig, function: FleetInstance) -> Detached {
    rig.fleet.change(|change| change.detach(function)).expect("it works").expect("it is in no call")
}

fn sent(of: &Arc<Mutex<Vec<u8>>>) -> usize {
    of.lock().expect("not poisoned").len()
}

#[test]
fn while_one_is_elsewhere_its_packets_wait_and_its_neighbour_goes_on() {
    let rig = Rig::new(1, 1);
    let [(one, to_one), (_, to_other)] = two(&rig, &[5; 300]);
    let guest = detach(&rig, one);
    rig.turn(50);
    assert_eq!((sent(&to_one), sent(&to_other)), (0, 300));
    assert_eq!(rig.balanced().instances[0].packets, 0);
    // It cannot be taken out twice, looked into, or replaced meanwhile.
    let again = rig.fleet.change(|change| change.detach(one).err()).expect("it works");
    assert!(matches!(again, Some(TakeoverError::Detached(_))), "{again:?}");
    let saved = rig.fleet.save(one).err();
    assert!(matches!(saved, Some(TakeoverError::Detached(_))), "{saved:?}");
    // Pausing and resuming it changes nothing about that.
    rig.fleet.pause(one).expect("it works");
    rig.fleet.resume(one).expect("it works");
    rig.turn(5);
    assert_eq!(sent(&to_one), 0);
    rig.fleet.change(|change| change.attach(one, guest)).expect("it works").expect("it is there");
    rig.turn(50);
    assert_eq!(sent(&to_one), 300, "nothing is lost");
    assert_eq!(rig.balanced().ledger.dropped.total(), 0);
    rig.stop();
}

#[test]
fn dropped_on_the_way_it_goes_back() {
    let rig = Rig::new(1, 1);
    let [(one, to_one), _] = two(&rig, &[5; 300]);
    let guest = detach(&rig, one);
    drop(rig.fleet.beside(one, guest));
    rig.turn(50);
    assert_eq!(sent(&to_one), 300);
    // One that ended meanwhile is started again, as after any fault.
    let mut guest = detach(&rig, one);
    guest.end_with(GuestFault::Trap("elsewhere".into()));
    rig.fleet.beside(one, guest).attach_and(|_| ()).expect("it is there");
    let account = rig.balanced();
    assert_eq!((account.instances[0].faults, account.instances[0].down.is_some()), (1, true));
    rig.stop();
}

#[test]
fn what_is_held_elsewhere_is_counted_when_the_instance_ends() {
    let rig = Rig::new(1, 1);
    let [(one, _), _] = two(&rig, &[7]);
    rig.turn(5);
    assert_eq!(rig.balanced().instances[0].in_flight, 1, "it holds one");
    let guest = detach(&rig, one);
    assert_eq!(rig.balanced().instances[0].in_flight, 1, "it still does");
    let removed =
        rig.fleet.change(|change| change.remove_instance(one)).expect("it works").expect("it is there");
    assert_eq!((removed.account.in_flight, removed.account.ledger.dropped[DropReason::HeldAtStop]), (0, 1));
    rig.balanced();
    let refused = rig.fleet.change(|change| change.attach(one, guest)).expect("it works");
    assert!(matches!(refused, Err(TakeoverError::Absent)), "{refused:?}");
    rig.stop();
}
