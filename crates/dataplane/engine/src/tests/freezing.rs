//! Guests that are frozen and thawed beside the workers, and what is asked of them meanwhile.

use super::scripted::{Meanwhile, Scripted};
use super::stream::Rig;
use super::*;
use guest::{Frozen, Kept, NotThawed, SaveError};
use snapshot::Saved;
use std::sync::atomic::Ordering::SeqCst;

/// A scripted guest that is frozen.
pub(super) struct Asleep(Scripted);

impl Asleep {
    pub(super) fn new(guest: Scripted) -> Asleep {
        Asleep(guest)
    }
}

impl Frozen for Asleep {
    fn thaw(self: Box<Self>) -> Result<Box<dyn Guest>, NotThawed> {
        if self.0.seen.no_room.load(SeqCst) {
            return Err(NotThawed { frozen: self, reason: "there is no room".to_owned() });
        }
        self.0.seen.note(Call::Thaw);
        Ok(Box::new(self.0))
    }
    fn save(&self) -> Result<Saved<'static>, SaveError> {
        Err(SaveError::Unable)
    }
    fn footprint(&self) -> usize {
        0
    }
    fn set_limits(&mut self, _max_call: Nanos, _slots: SlotConfig) {}
    fn kept(&self) -> &Kept {
        self.0.kept()
    }
    fn kept_mut(&mut self) -> &mut Kept {
        self.0.kept_mut()
    }
    fn set_devices(&mut self, entries: Arc<[u8]>) {
        self.0.set_devices(entries);
    }
}

/// A function that can be frozen, with so many packets for it at its port.
struct One {
    rig: Rig,
    function: FleetInstance,
    seen: Seen,
    meanwhile: Meanwhile,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl One {
    /// It is paused, and its packets wait.
    fn paused() -> One {
        let rig = Rig::new(1, 1);
        let meanwhile = Meanwhile::default();
        let (left, _) = rig.script(0, 0, vec![5; 100]);
        let (right, sent) = rig.script(0, 0, vec![]);
        let manner = Manner { freezes: Some(meanwhile.clone()), ..Manner::wire() };
        let (function, seen) = rig.add(0, 0, manner);
        rig.chain((left, right), &[function]);
        rig.fleet.pause(function).expect("it works");
        rig.turn(5);
        One { rig, function, seen, meanwhile, sent }
    }

    /// Does this in the middle of the next freeze.
    fn meanwhile(&self, does: impl FnOnce(&Fleet, FleetInstance) + Send + 'static) {
        let (fleet, function) = (self.rig.fleet.clone(), self.function);
        *self.meanwhile.lock().expect("not poisoned") = Some(Box::new(move || does(&fleet, function)));
    }

    fn is_frozen(&self) -> bool {
        self.rig.balanced().instances[0].frozen
    }

    /// All packets pass, and no worker thaws anything for it.
    fn passes(self) {
        let thawed = self.thaws();
        self.rig.turn(50);
        assert_eq!(self.sent.lock().expect("not poisoned").len(), 100);
        assert_eq!(self.thaws(), thawed, "its worker thaws nothing");
        assert_eq!(self.rig.balanced().ledger.dropped.total(), 0);
        self.rig.stop();
    }

    fn thaws(&self) -> usize {
        self.seen.calls().iter().filter(|call| **call == Call::Thaw).count()
    }
}

#[test]
fn what_is_frozen_is_thawed_before_it_goes_on() {
    let one = One::paused();
    assert!(one.rig.fleet.freeze(one.function).expect("it can be"));
    assert!(one.is_frozen());
    let refused = one.rig.fleet.resume(one.function);
    assert!(matches!(refused, Err(FleetError::Frozen { .. })), "{refused:?}");
    one.rig.fleet.thaw(one.function).expect("there is room");
    assert_eq!((one.is_frozen(), one.thaws()), (false, 1));
    one.passes();
}

#[test]
fn what_is_resumed_while_it_is_being_frozen_is_thawed_beside_the_worker() {
    let one = One::paused();
    one.meanwhile(|fleet, function| fleet.resume(function).expect("it is not frozen"));
    assert!(!one.rig.fleet.freeze(one.function).expect("it can be"), "it was resumed last");
    assert_eq!((one.is_frozen(), one.thaws()), (false, 1));
    one.passes();
    // What asks for a frozen one to go on, in its tenant's share, finds the same.
    let one = One::paused();
    one.meanwhile(|fleet, function| fleet.thaw(function).expect("it is not frozen"));
    assert!(!one.rig.fleet.freeze(one.function).expect("it can be"), "it was resumed last");
    assert_eq!((one.is_frozen(), one.thaws()), (false, 1));
    one.passes();
}

#[test]
fn what_is_resumed_and_paused_while_it_is_being_frozen_is_frozen() {
    let one = One::paused();
    one.meanwhile(|fleet, function| {
        fleet.resume(function).expect("it is not frozen");
        fleet.pause(function).expect("it works");
    });
    assert!(one.rig.fleet.freeze(one.function).expect("it can be"), "it was paused last");
    assert!(one.is_frozen());
    one.rig.fleet.thaw(one.function).expect("there is room");
    one.passes();
}

#[test]
fn what_was_resumed_and_cannot_be_thawed_is_started_again() {
    let one = One::paused();
    one.seen.no_room.store(true, SeqCst);
    assert!(one.rig.fleet.freeze(one.function).expect("it can be"));
    let refused = one.rig.fleet.thaw(one.function);
    assert!(matches!(refused, Err(TakeoverError::Frozen(_))), "{refused:?}");
    assert!(one.is_frozen(), "it is as it was, and has been told");
    one.rig.stop();
    // What was said to go on does, with a guest that is new.
    let one = One::paused();
    one.seen.no_room.store(true, SeqCst);
    one.meanwhile(|fleet, function| fleet.resume(function).expect("it is not frozen"));
    assert!(!one.rig.fleet.freeze(one.function).expect("it can be"));
    let account = one.rig.balanced();
    let down = account.instances[0].down.as_deref().unwrap_or_default();
    assert!(
        account.instances[0].faults == 1 && down.contains("cannot be thawed: there is no room"),
        "{down}"
    );
    one.rig.stop();
}
