//! Functions that take a changed file of their configuration while they run.
//!
//! 1. At a quiescent point the guest gets what has changed, and the instance the factory that has the changed
//!    file: should the function end in the middle, it is started with that.
//! 2. The worker has the function take it, in its turns, between its packets. The thread that asked for the
//!    change waits.
//! 3. If it refuses, the factory before comes back, and the function gets another guest, which reads the
//!    whole file and says what is wrong.
//!
//! Limits: [`LONGEST`] for all of it. A function that takes longer is started anew as it was.

use crate::function::Unstarted;
use engine::{Fleet, FleetInstance, GuestFactory, GuestSetup, Started, TakeoverError};
use guest::{GuestFault, Offer};
use guest_wasm::watchdog;
use offload::Offload;
use std::sync::Arc;
use std::time::Duration;
use telemetry::clock::Nanos;

/// Longest time that a function may take.
const LONGEST: Nanos = Nanos::from_millis(60_000);
/// Time between two looks at whether it has.
const LOOKS: Duration = Duration::from_micros(200);

/// What became of a changed file.
pub(crate) enum Took {
    /// The function has taken it.
    All {
        /// What makes guests with the file before; without a guest.
        before: GuestSetup,
        /// For how long its worker did nothing else.
        stood_still: Nanos,
    },
    /// It is as it was.
    Nothing,
}

/// Has an instance's guest take what has changed, which `unstarted` would read as a whole.
///
/// # Errors
/// It took too long, and was started anew as it was; or the fleet has stopped.
pub(crate) fn take(
    fleet: &Fleet,
    id: FleetInstance,
    unstarted: &Unstarted,
    lines: Vec<u8>,
    (offload, payer): (&Offload, &str),
) -> Result<Took, TakeoverError> {
    let offer = Arc::new(Offer::new(lines, unstarted.config()));
    let (clock, factory, theirs) = (watchdog::clock(), unstarted.factory(), offer.clone());
    let (offered, stood_still) = fleet.change(move |change| {
        let since = change.still_since(id).unwrap_or_default();
        let offered = change.offer(id, &theirs, factory);
        drop(theirs);
        (offered, clock.now().since(since))
    })?;
    // One that is down, or in the middle of a call, gets another guest.
    let Ok(Ok(before)) = offered else { return Ok(Took::Nothing) };
    let begun = clock.now();
    loop {
        match offer.answer() {
            Some(true) => {
                return Ok(Took::All { before: unstarted.setup(None, before), stood_still });
            }
            Some(false) => break,
            // It ended in the middle, and is started with the changed file, or not at all.
            None if offer.is_alone() && offer.answer().is_none() => break,
            None if clock.now().since(begun) > LONGEST => {
                let started = offload.run(payer, before.work());
                let started = started.unwrap_or_else(|refused| Err(refused.to_string()));
                return Err(give_up(fleet, id, unstarted, (started, before)));
            }
            None => std::thread::sleep(LOOKS),
        }
    }
    swap_back(fleet, id, before)?;
    Ok(Took::Nothing)
}

fn swap_back(fleet: &Fleet, id: FleetInstance, before: Box<dyn GuestFactory>) -> Result<(), TakeoverError> {
    fleet.change(move |change| change.swap_factory(id, before).map(drop))?
}

/// A guest that is as the function was takes the place of one that is in the middle of a change.
fn give_up(
    fleet: &Fleet,
    id: FleetInstance,
    unstarted: &Unstarted,
    (started, before): (Started, Box<dyn GuestFactory>),
) -> TakeoverError {
    let told = format!("it did not take the changed file within {} s", LONGEST.as_secs_f64());
    let swapped = started.map_err(GuestFault::Contract).map_err(TakeoverError::from).and_then(|guest| {
        let setup = unstarted.setup(Some(guest), before);
        fleet.change(move |change| change.swap_guest(id, setup).map(drop))?
    });
    match swapped {
        Ok(()) => GuestFault::Contract(format!("{told}, and was started anew as it was")).into(),
        Err(error) => GuestFault::Contract(format!("{told}, and is as it was in parts: {error}")).into(),
    }
}
