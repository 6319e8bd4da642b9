//! Starts after faults: beside the workers, whenever they end, if they do.

use super::stream::Rig;
use super::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

type Job = Box<dyn FnOnce() + Send>;

/// Keeps jobs until the test has them done or dropped.
#[derive(Default)]
pub(super) struct Later {
    jobs: Mutex<VecDeque<(String, Job)>>,
    refuses: AtomicBool,
}

impl Later {
    /// Does a job that waits, or drops it; without one, nothing.
    pub(super) fn end(&self, which: usize, done: bool) {
        let mut jobs = self.jobs.lock().expect("not poisoned");
        let Some(last) = jobs.len().checked_sub(1) else { return };
        let job = jobs.remove(which % (last + 1));
        drop(jobs);
        if let Some((_, job)) = job.filter(|_| done) {
            job();
        }
    }

    /// From here on jobs are refused, or taken in again.
    pub(super) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, SeqCst);
    }

    /// Whose jobs wait.
    fn owners(&self) -> Vec<String> {
        self.jobs.lock().expect("not poisoned").iter().map(|(owner, _)| owner.clone()).collect()
    }

    fn end_all(&self) {
        while !self.owners().is_empty() {
            self.end(0, true);
        }
    }
}

impl Background for Later {
    fn submit(&self, tenant: &str, job: Job) -> Result<(), String> {
        if self.refuses.load(SeqCst) {
            return Err("too much waits".to_owned());
        }
        self.jobs.lock().expect("not poisoned").push_back((tenant.to_owned(), job));
        Ok(())
    }
}

/// Faults over the byte 0.
fn fragile() -> Manner {
    Manner::deciding(|byte, ingress| match byte {
        0 => Action::Fault,
        _ => Action::Give(Verdict::Interface(1 - ingress)),
    })
}

/// One function between a port that brings its end and others, and one that takes what is left.
fn rig(workers: usize, manner: Manner) -> (Rig, FleetInstance) {
    let rig = Rig::new(workers, 1);
    let mut offers = vec![0; 64];
    offers.extend([9; 200]);
    let (left, right) = (rig.script(0, 0, offers).0, rig.script(0, 0, vec![]).0);
    let f = rig.add(0, 0, manner).0;
    rig.chain((left, right), &[f]);
    (rig, f)
}

fn account(rig: &Rig) -> InstanceAccount {
    rig.balanced().instances.remove(0)
}

/// Turns until a start has been asked for: beside what is left of the guest before.
fn until_asked(rig: &Rig) {
    rig.wait("it is due again", || {
        rig.turn(1);
        rig.later.owners().len() >= 2
    });
}

#[test]
fn others_go_on_while_a_start_takes_its_time() {
    let (rig, _) = rig(1, fragile());
    let ends = (rig.stream(0, 0, 0, 5_000, 200), rig.stream(0, 0, 1, 5_000, 200));
    let beside = rig.wire(0);
    rig.chain(ends, &[beside]);
    until_asked(&rig);
    assert_eq!(rig.later.owners(), ["owner", "owner"], "in its tenant's account");
    // The start never ends, and the neighbour's packets all arrive.
    rig.wait("the neighbour's packets", || {
        rig.turn(1);
        rig.flows.arrived(0) + rig.flows.arrived(1) == 10_000
    });
    let f = account(&rig);
    assert_eq!((f.faults, f.restarts), (1, 0));
    assert!(f.down.as_deref().is_some_and(|why| why.contains("it is being started")), "{:?}", f.down);
    assert_eq!(f.ledger.dropped[DropReason::FunctionDown], 200, "what comes meanwhile is lost, and counted");
    rig.later.end_all();
    rig.turn(2);
    let f = account(&rig);
    assert_eq!((f.restarts, f.down), (1, None));
    rig.stop();
}

#[test]
fn a_start_that_fails_or_is_called_off_or_refused_is_tried_again_later() {
    for way in ["fails", "called off", "refused"] {
        let (rig, _) = rig(1, Manner { start_fails: way == "fails", ..fragile() });
        if way == "refused" {
            rig.later.refuse(true);
        } else {
            until_asked(&rig);
            // What is left of the guest before is dropped first.
            rig.later.end(0, true);
            rig.later.end(0, way == "fails");
        }
        let faults = || {
            let events = rig.events.lock().expect("not poisoned");
            let faults = events.iter().filter_map(|event| match event {
                Event::Fault { reason, retry_after, .. } => Some((reason.clone(), *retry_after)),
                _ => None,
            });
            faults.collect::<Vec<_>>()
        };
        rig.wait("the failure is told", || {
            rig.turn(1);
            faults().len() >= 2
        });
        let (reason, delay) = faults()[1].clone();
        let expected = match way {
            "fails" => "every other start fails",
            "called off" => "the start was called off",
            _ => "too much waits",
        };
        assert_eq!(reason, expected);
        assert_eq!(delay, Nanos(2_000), "twice the first");
        rig.later.refuse(false);
        rig.wait("it is up again", || {
            rig.later.end_all();
            rig.turn(1);
            account(&rig).down.is_none()
        });
        assert_eq!(account(&rig).restarts, 1);
        rig.stop();
    }
}

#[test]
fn a_start_finds_its_function_on_another_worker_and_wakes_it() {
    let (rig, f) = rig(2, fragile());
    until_asked(&rig);
    rig.fleet.move_to(&[End::Instance(f, 0)], 1).expect("it moves while it is started");
    rig.start();
    // Both workers fall asleep; only the start can wake one before its next look after everything.
    rig.wait("it is up", || {
        rig.later.end_all();
        account(&rig).down.is_none()
    });
    assert_eq!((account(&rig).worker, account(&rig).restarts), (1, 1));
    rig.stop();
}

#[test]
fn a_function_that_is_gone_or_has_another_guest_takes_no_late_start() {
    for removed in [true, false] {
        let (rig, f) = rig(1, fragile());
        until_asked(&rig);
        if removed {
            rig.fleet.change(move |change| drop(change.remove_instance(f))).expect("it has not stopped");
        } else {
            let (setup, guest) =
                instance(&rig.pools[0], cpu_share::TenantId(0), Manner::wire(), &Seen::default(), rig.clock);
            let new = GuestSetup {
                guest: Some(guest),
                factory: setup.factory,
                drop_reasons: vec!["own".into()],
                counters: vec![],
                flow_hash: false,
            };
            let swapped = rig.fleet.change(move |change| change.swap_guest(f, new).map(drop));
            swapped.expect("it has not stopped").expect("nothing is in the way");
        }
        rig.turn(3);
        rig.later.end_all();
        rig.turn(3);
        let account = rig.balanced();
        assert_eq!(account.instances.len(), usize::from(!removed));
        assert!(account.instances.iter().all(|f| f.restarts == 0 && f.down.is_none()));
        rig.stop();
    }
}

#[test]
fn a_paused_function_is_started_and_stays_paused() {
    let (rig, f) = rig(1, fragile());
    until_asked(&rig);
    rig.fleet.pause(f).expect("it has not stopped");
    rig.later.end_all();
    rig.turn(3);
    let seen = account(&rig);
    assert!(seen.paused && seen.down.is_none());
    rig.fleet.resume(f).expect("it has not stopped");
    rig.stop();
}

#[test]
fn workers_stop_while_a_start_is_under_way() {
    let (rig, _) = rig(1, fragile());
    until_asked(&rig);
    let later = rig.later.clone();
    rig.stop();
    // It comes to nothing, and is dropped where it was made.
    later.end_all();
}

#[test]
fn what_is_known_of_devices_is_told_once_and_to_the_next_guest_too() {
    let rig = Rig::new(1, 1);
    let mut offers = vec![0; 64];
    offers.extend([9; 200]);
    let (left, right) = (rig.script(0, 0, offers).0, rig.script(0, 0, vec![]).0);
    let (f, seen) = rig.add(0, 0, fragile());
    rig.fleet.set_devices(vec![(f, Arc::new([7]))]).expect("it works");
    rig.turn(5);
    let devices = |seen: &Seen| {
        let calls = seen.calls();
        calls.iter().filter(|call| matches!(call, Call::Devices(7))).count()
    };
    assert_eq!(devices(&seen), 1, "once");
    // It faults at a packet, and the guest that is started in its place is told as well.
    rig.chain((left, right), &[f]);
    until_asked(&rig);
    rig.later.end_all();
    rig.wait("the next guest", || {
        rig.turn(1);
        devices(&seen) == 2
    });
    rig.stop();
}
