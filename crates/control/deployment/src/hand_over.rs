//! Functions that hand over to another guest: of another image, or with another configuration or bound on
//! memory.
//!
//! 1. The new guest is started beside the old one.
//! 2. At a quiescent point the new one goes on with the old one's memory, if both lay it out alike and have
//!    the same configuration. It is started without populated pages for that. If the memory cannot be moved
//!    after all, it is started again with them.
//! 3. Else the old one is detached at that point: its packets wait, and its worker goes on. On a thread of
//!    [`Offload`], which the tenant has got before, the old one hands its state out and the new one takes it
//!    in, both within [`HAND_OVER`]. The quiescent points themselves are of the thread that asked for the
//!    change: a worker never waits for a thread of lower priority.
//! 4. At another quiescent point the new one takes the place. If anything went wrong, the old one takes it
//!    again, as it was.
//! 5. The old one is kept aside until the change has been written down, and takes over again if that fails.
//!    Until then the wiring says of the function what it was, and no other change lets it hand over
//!    ([`Handing`]).
//!
//! A function whose image takes what has changed about a file of its configuration, with nothing else of it
//! changed, gets no new guest ([`mod@crate::taking`]). One that does not take it goes the way above.

use crate::Host;
use crate::function::{StartedFunction, Unstarted};
use crate::prepare::{PrepareError, Prepared, failed};
use crate::present::await_present;
use crate::taking::{self, Took};
use engine::{Change, Detached, Fleet, FleetInstance, GuestSetup, TakeoverError};
use guest::{Guest, GuestFault};
use guest_wasm::watchdog;
use offload::{Offload, Slot};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use telemetry::clock::Nanos;
use telemetry::steps;
use wiring::Instance;

/// Longest time that one function's hand-over may take, from when it stands still. Its own packets wait for
/// as long; it costs others nothing.
pub const HAND_OVER: Nanos = Nanos::from_millis(2000);

/// How long to wait before a function is asked again that is in the middle of a call that was switched out.
const TRY_AGAIN: Duration = Duration::from_micros(200);

/// Memory of a new guest that is made ready however little the one before uses.
const AS_WELL: u64 = 1 << 20;

/// How a function goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Succession {
    /// Its guest stays, and has taken a changed file.
    TookFile,
    /// The new guest has the memory of the one before, which it lays out alike.
    Moved,
    /// The new one has taken in what the one before handed out.
    Carried,
    /// It had no guest: what that knew was lost before.
    WasDown,
    /// It begins anew, and what the one before knew is lost.
    Anew,
}

/// A function that another guest has taken over, with the one before kept aside.
pub struct TakenOver {
    pub(crate) name: String,
    pub(crate) id: FleetInstance,
    before: GuestSetup,
    /// What the wiring said of it, and what it is to say.
    pub(crate) instances: (Instance, Instance),
    /// How it goes on.
    pub how: Succession,
    /// For how long its worker did nothing else.
    pub stood_still: Nanos,
    /// For how long its own packets waited.
    pub waited: Nanos,
}

/// A function that is to hand over, and the guest that waits for that.
pub(crate) struct Successor {
    pub(crate) name: String,
    pub(crate) id: FleetInstance,
    /// As it is to be.
    pub(crate) instance: Instance,
    /// As it is.
    pub(crate) before: Instance,
    pub(crate) starting: Starting,
    /// Both images are of one function, and of such as hand their state over.
    pub(crate) hands_over: bool,
    /// The new one lays its memory out as the one before, and has the same configuration. It has no populated
    /// pages: it is to go on with those of the one before.
    pub(crate) alike: bool,
}

/// The guest that waits for a function's hand-over.
pub(crate) enum Starting {
    Started(StartedFunction),
    /// It is started if the guest that runs does not take what has changed about a file.
    IfRefused(Unstarted, Vec<u8>),
}

impl Starting {
    /// The guest, started if it was not. The thread is one for that.
    pub(crate) fn started(self) -> Result<StartedFunction, String> {
        match self {
            Starting::Started(started) => Ok(started),
            Starting::IfRefused(unstarted, _) => unstarted.start(),
        }
    }
}

/// Functions that hand over for changes that are not written down yet, each for one change.
#[derive(Default)]
pub(crate) struct Handing {
    names: Mutex<BTreeSet<String>>,
    ended: Condvar,
}

/// The functions of one change; see [`Handing`].
struct Held {
    handing: Arc<Handing>,
    names: BTreeSet<String>,
}

impl Handing {
    /// Waits until no other change has one of these functions.
    fn take(self: &Arc<Handing>, names: BTreeSet<String>) -> Held {
        let held = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = |held: &mut BTreeSet<String>| !names.is_disjoint(held);
        let mut held = self.ended.wait_while(held, theirs).unwrap_or_else(PoisonError::into_inner);
        held.extend(names.iter().cloned());
        drop(held);
        Held { handing: self.clone(), names }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.handing.names.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|name| !self.names.contains(name));
        drop(held);
        self.handing.ended.notify_all();
    }
}

/// Functions that have handed over for a change that is not written down yet. Dropped before it is kept, it
/// lets those before take over again, the last one first.
pub(crate) struct HandedOver {
    pub(crate) done: Vec<TakenOver>,
    fleet: Arc<Fleet>,
    offload: Arc<Offload>,
    handing: Arc<Handing>,
    held: Option<Held>,
}

impl HandedOver {
    pub(crate) fn none(fleet: Arc<Fleet>, offload: Arc<Offload>, handing: Arc<Handing>) -> HandedOver {
        HandedOver { done: Vec::new(), fleet, offload, handing, held: None }
    }

    /// The functions that have handed over, as they are now.
    pub(crate) fn instances(&self) -> impl Iterator<Item = (&str, &Instance)> {
        self.done.iter().map(|taken| (taken.name.as_str(), &taken.instances.1))
    }

    /// The new ones stay. Returns those before, whose memory is to be given back.
    pub(crate) fn keep(&mut self) -> Vec<TakenOver> {
        std::mem::take(&mut self.done)
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        while let Some(taken) = self.done.pop() {
            let name = taken.name.clone();
            match roll_back(&self.fleet, taken) {
                // One that was deleted meanwhile has nothing to be taken back.
                Ok(()) | Err(TakeoverError::Absent | TakeoverError::Stopped) => {}
                Err(error) => {
                    eprintln!("function `{name}` has handed over and could not be taken back: {error}");
                }
            }
        }
    }
}

impl Prepared {
    /// Lets the functions hand over that the plan changes, one after the other, and keeps those before aside.
    /// Dropping this lets them take over again. A function that hands nothing over begins anew if that is
    /// allowed.
    ///
    /// # Errors
    /// [`PrepareError`]: one does not; all go on as they were.
    pub fn hand_over(&mut self, allow_restart: bool) -> Result<(), PrepareError> {
        let successors = std::mem::take(&mut self.successors);
        if !successors.is_empty() {
            let names = successors.iter().map(|successor| successor.name.clone()).collect();
            self.handed.held = Some(self.handed.handing.take(names));
        }
        for successor in successors {
            let taken = successor.succeed(&self.handed.fleet, &self.handed.offload, allow_restart)?;
            self.handed.done.push(taken);
        }
        if !self.handed.done.is_empty() {
            steps::done("hand-over");
        }
        Ok(())
    }

    /// Functions of those that are to hand over that cannot: their images are of another function, or of none
    /// that hands over.
    pub fn cannot_hand_over(&self) -> Vec<String> {
        let cannot = self.successors.iter().filter(|successor| !successor.alike && !successor.hands_over);
        cannot.map(|successor| successor.name.clone()).collect()
    }

    /// Functions of those that are to hand over that would begin anew: their images hand nothing over. What a
    /// guest says of that is asked of the new one; one that breaks then has nothing to offer, and does not
    /// take over any more.
    pub fn would_begin_anew(&mut self) -> Vec<String> {
        let mut anew = Vec::new();
        for mut successor in std::mem::take(&mut self.successors) {
            let name = successor.name.clone();
            if !successor.alike && successor.hands_over {
                let payer = successor.instance.payer().to_owned();
                let asked = self.handed.offload.run(&payer, move || {
                    let mut started = successor.starting.started().ok()?;
                    let offers = started.offers_state(HAND_OVER);
                    Some((Successor { starting: Starting::Started(started), ..successor }, offers))
                });
                let Ok(Some((back, offers))) = asked else {
                    anew.push(name);
                    continue;
                };
                successor = back;
                if !offers {
                    anew.push(name);
                }
            } else if !successor.alike {
                anew.push(name);
            }
            self.successors.push(successor);
        }
        anew
    }

    /// Functions that have begun anew instead of handing over.
    pub fn began_anew(&self) -> Vec<String> {
        let anew = self.handed.done.iter().filter(|taken| taken.how == Succession::Anew);
        anew.map(|taken| taken.name.clone()).collect()
    }

    /// Functions that hand over, as they are to be.
    pub fn taken_over(&self) -> &[TakenOver] {
        &self.handed.done
    }
}

/// What the first quiescent point came to.
enum First {
    /// The new guest has taken over from this one.
    Done(GuestSetup, Succession),
    /// The one before is to hand its state over.
    Detached(Detached, GuestSetup),
    /// It would have to begin anew, and may not.
    Refused,
    /// It is in the middle of a call.
    Later(GuestSetup),
    /// It is being frozen.
    Away(GuestSetup),
    /// Memory cannot be moved to the new guest, which has no pages of its own.
    Unpopulated(GuestSetup),
}

impl Successor {
    /// Lets the new guest take over. What the wiring says is left to the caller.
    pub(crate) fn succeed(
        self,
        fleet: &Fleet,
        offload: &Offload,
        allow_restart: bool,
    ) -> Result<TakenOver, PrepareError> {
        let Successor { name, id, instance, before: wired, starting, hands_over, alike } = self;
        let failed = |reason: &dyn std::fmt::Display| failed("function", &name)(reason);
        let mut started = match starting {
            Starting::Started(started) => started,
            Starting::IfRefused(unstarted, lines) => {
                let payer = instance.payer();
                let took = taking::take(fleet, id, &unstarted, lines, (offload, payer));
                if let Took::All { before, stood_still } = took.map_err(|error| failed(&error))? {
                    let (how, instances) = (Succession::TookFile, (wired, instance));
                    return Ok(TakenOver { name, id, before, instances, how, stood_still, waited: Nanos(0) });
                }
                let started = offload.run(payer, move || unstarted.start())?;
                started.map_err(|reason| failed(&reason))?
            }
        };
        let mut slot = None;
        if !alike {
            // Before anything stands still: the tenant may have to wait for it.
            let got = slot.insert(offload.slot(instance.payer())?);
            make_ready(fleet, id, &mut started, got);
        }
        let mut may = May { hand_over: hands_over || alike, begin_anew: allow_restart, populated: !alike };
        let clock = watchdog::clock();
        let asked = clock.now();
        let mut new = started.taking_over();
        let (before, how, stood_still, began) = loop {
            let at_once = fleet.change(|change| {
                let since = change.still_since(id).unwrap_or_default();
                let first = first(change, id, new, may);
                (first, clock.now().since(since))
            });
            let (first, stood_still) = at_once.map_err(|error| failed(&error))?;
            match first.map_err(|error| failed(&error))? {
                First::Done(before, how) => break (before, how, stood_still, clock.now()),
                First::Detached(detached, new) => {
                    let began = clock.now();
                    let until = began.saturating_add(HAND_OVER);
                    let ways = (slot.as_ref(), until, allow_restart);
                    let (before, how, again) =
                        succeed_beside(fleet, id, detached, new, ways).map_err(|reason| failed(&reason))?;
                    break (before, how, stood_still.saturating_add(again), began);
                }
                First::Refused => return Err(failed(&NOTHING)),
                First::Later(again) if clock.now().since(asked) < HAND_OVER => {
                    new = again;
                    std::thread::sleep(TRY_AGAIN);
                }
                First::Later(_) => return Err(failed(&TakeoverError::Suspended(name.clone()))),
                First::Away(again) if await_present(fleet, id) => new = again,
                First::Away(_) => return Err(failed(&TakeoverError::Detached(name.clone()))),
                First::Unpopulated(bare) => {
                    let GuestSetup { guest, factory, .. } = bare;
                    drop(guest);
                    let got = slot.insert(offload.slot(instance.payer())?);
                    let started = got.run(factory.work())?;
                    let guest = Some(started.map_err(|reason| failed(&reason))?);
                    new = GuestSetup { guest, factory, ..bare };
                    may.populated = true;
                }
            }
        };
        let waited = stood_still.max(clock.now().since(began));
        Ok(TakenOver { name, id, before, instances: (wired, instance), how, stood_still, waited })
    }
}

/// Makes the memory of a new guest ready, so that it does not wait for pages when it is told what the one
/// before knows; not when it has far more than the one before uses.
fn make_ready(fleet: &Fleet, id: FleetInstance, started: &mut StartedFunction, slot: &Slot) {
    let Ok(Some(account)) = fleet.change(move |change| change.account_of(id)) else { return };
    let used = guest_wasm::resident(account.memory_place, account.memory as usize);
    let (place, bytes) = started.memory();
    if bytes as u64 <= used * 2 + AS_WELL {
        // Should the thread break, pages come as they are needed.
        let _ = slot.run(move || guest_wasm::make_resident(place, bytes));
    }
}

/// Why a function is not changed that hands nothing over.
const NOTHING: &str = "its image hands no state over to the new one: it would begin anew and lose what it knows; allowed: with `allow_restart=true` (`--allow-restart`)";

/// What a function may do to get another guest.
#[derive(Clone, Copy)]
struct May {
    hand_over: bool,
    begin_anew: bool,
    /// The new guest can do without the memory of the one before.
    populated: bool,
}

/// Succeeds at once where that can be, and else detaches the guest.
fn first(
    change: &mut Change<'_, '_>,
    id: FleetInstance,
    new: GuestSetup,
    may: May,
) -> Result<First, TakeoverError> {
    match change.check_present(id) {
        Ok(()) => {}
        Err(TakeoverError::Suspended(_)) => return Ok(First::Later(new)),
        Err(TakeoverError::Detached(_)) => return Ok(First::Away(new)),
        Err(TakeoverError::Down(..)) if !may.populated => return Ok(First::Unpopulated(new)),
        // What it knew is gone already.
        Err(TakeoverError::Down(..)) => {
            return Ok(First::Done(change.swap_guest(id, new)?, Succession::WasDown));
        }
        Err(error) => return Err(error),
    }
    if !may.hand_over {
        return match may.begin_anew {
            true => Ok(First::Done(change.swap_guest(id, new)?, Succession::Anew)),
            false => Ok(First::Refused),
        };
    }
    match change.succeed_guest(id, new)? {
        Ok(before) => Ok(First::Done(before, Succession::Moved)),
        Err(new) if !may.populated => Ok(First::Unpopulated(new)),
        Err(new) => Ok(First::Detached(change.detach(id)?, new)),
    }
}

/// Lets a guest that was detached hand its state over to the new one, which takes its place then; for how
/// long the worker stood still for that.
fn succeed_beside(
    fleet: &Fleet,
    id: FleetInstance,
    detached: Detached,
    mut new: GuestSetup,
    (slot, until, allow_restart): (Option<&Slot>, Nanos, bool),
) -> Result<(GuestSetup, Succession, Nanos), String> {
    let mut beside = fleet.beside(id, detached);
    let (Some(old), Some(slot)) = (beside.detached(), slot) else { return Err("it has no guest".to_owned()) };
    let carried = carry_beside(slot, old, &mut new, until, allow_restart)?;
    let swapped = beside.attach_and(|change| {
        let since = change.still_since(id).unwrap_or_default();
        let before = change.swap_guest(id, new);
        before.map(|before| (before, watchdog::clock().now().since(since)))
    });
    let swapped = swapped.and_then(|swapped| swapped);
    let (before, stood_still) = swapped.map_err(|error| error.to_string())?;
    Ok((before, if carried { Succession::Carried } else { Succession::Anew }, stood_still))
}

/// Carries state from one guest to the other on a thread of the tenant's; says whether there was any.
fn carry_beside(
    slot: &Slot,
    old: &mut Detached,
    new: &mut GuestSetup,
    until: Nanos,
    allow_restart: bool,
) -> Result<bool, String> {
    let (Some(from), Some(to)) = (old.lend(), new.guest.take()) else {
        return Err("it has no guest".to_owned());
    };
    // Should the thread break, both are still here.
    let guests = Arc::new(Mutex::new(Some((from, to))));
    let theirs = guests.clone();
    let carried = slot.run(move || {
        let mut guests = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        guests.as_mut().map(|(from, to)| carry(&mut **from, &mut **to, until, allow_restart))
    });
    if let Some((from, to)) = guests.lock().unwrap_or_else(PoisonError::into_inner).take() {
        old.give_back(from);
        new.guest = Some(to);
    }
    match carried {
        Ok(Some(Ok(carried))) => Ok(carried),
        Ok(Some(Err(NotCarried { reason, ended }))) => {
            if let Some(fault) = ended {
                old.end_with(fault);
            }
            Err(reason)
        }
        Ok(None) => Err("it has no guest".to_owned()),
        Err(refused) => Err(refused.to_string()),
    }
}

/// Why no state was carried over, and the fault of the old guest if that ended it.
struct NotCarried {
    reason: String,
    ended: Option<GuestFault>,
}

impl From<String> for NotCarried {
    fn from(reason: String) -> NotCarried {
        NotCarried { reason, ended: None }
    }
}

/// Carries state from one guest to the other; says whether there was any.
fn carry(
    old: &mut dyn Guest,
    new: &mut dyn Guest,
    until: Nanos,
    allow_restart: bool,
) -> Result<bool, NotCarried> {
    let left = || until.since(watchdog::clock().now());
    let state = match old.hand_out(left()) {
        Ok(state) => state,
        Err(failed) => {
            let goes_on = if failed.finished { "it is started again" } else { "it goes on as it was" };
            let why = in_words(&failed.fault);
            let reason = format!("its state was not handed over, and {goes_on}: {why}");
            return Err(NotCarried { reason, ended: failed.finished.then_some(failed.fault) });
        }
    };
    let Some(state) = state else {
        return if allow_restart { Ok(false) } else { Err(NOTHING.to_owned().into()) };
    };
    match new.hand_in(state, left()) {
        Ok(true) => Ok(true),
        Ok(false) if allow_restart => Ok(false),
        Ok(false) => {
            let log = new.kept_mut().take_log();
            let lines: String = log.iter().flat_map(|line| ["\n  ", line.text.as_str()]).collect();
            Err(format!("the new one does not take the state that the one before hands over{lines}").into())
        }
        Err(fault) => {
            let why = in_words(&fault);
            Err(format!("the new one does not take the state that the one before hands over: {why}").into())
        }
    }
}

/// Why a call for state ended. What it was given is what was left of the time for both, which says little.
fn in_words(fault: &GuestFault) -> String {
    match fault {
        GuestFault::TimedOut { .. } => {
            format!("handing over took longer than {} s in all", HAND_OVER.as_secs_f64())
        }
        other => other.to_string(),
    }
}

/// Lets the guest that was kept aside take over again.
fn roll_back(fleet: &Fleet, taken: TakenOver) -> Result<(), TakeoverError> {
    let TakenOver { id, mut before, how, .. } = taken;
    if how == Succession::TookFile {
        // Its guest has the changed file: another one has what it was.
        before.guest = Some(before.factory.start().map_err(GuestFault::Contract)?);
    }
    fleet.change(move |change| {
        if how != Succession::Moved {
            return change.swap_guest(id, before).map(drop);
        }
        let back = change.succeed_guest(id, before)?;
        back.map(drop).map_err(|_| GuestFault::Contract("its memory does not come back".to_owned()).into())
    })?
}

impl Host {
    /// Lets what was started for a function take over, with what the one before hands over.
    pub(crate) fn succeed(&self, successor: Successor) -> Result<TakenOver, PrepareError> {
        let _held = self.handing.take(BTreeSet::from([successor.name.clone()]));
        let taken = successor.succeed(&self.fleet, &self.offload, false)?;
        self.deployed().put_instance(&taken.name, taken.instances.1.clone());
        Ok(taken)
    }

    /// Lets the guest that was kept aside take over again.
    ///
    /// # Errors
    /// [`PrepareError`]; the new one stays.
    pub fn roll_back(&self, taken: TakenOver) -> Result<(), PrepareError> {
        let (name, before) = (taken.name.clone(), taken.instances.0.clone());
        roll_back(&self.fleet, taken).map_err(|error| failed("function", &name)(&error))?;
        self.deployed().put_instance(&name, before);
        Ok(())
    }
}
