//! Functions that the launcher runs, as a run tells of them: what they have done, and whether one was down at
//! the end.

use controller::{Attaching, ContainerSources, container_accounts};
use deployment::Host;
use engine::Account;
use launcher::Keeper;
use launcher::keeper::{Phase, Why};
use metrics::json::ContainerAccount;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use wiring::{Container, Wiring};

/// What is known of guests that run, by the threads that see to them.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Those threads go on.
    pub(crate) goes_on: Arc<AtomicBool>,
    pub(crate) attaching: Arc<Attaching>,
    /// What part of a core each is promised that stays beside a worker.
    pub(crate) promised: Arc<Mutex<HashMap<String, f64>>>,
}

/// All that a run has.
pub(crate) struct RunGuests {
    host: Arc<Host>,
    keeper: Option<(Arc<Keeper>, Known)>,
    guests: Vec<(String, Container)>,
}

impl RunGuests {
    pub(crate) fn new(host: &Arc<Host>, wiring: &Wiring, keeper: Option<&(Arc<Keeper>, Known)>) -> RunGuests {
        let guests = wiring.containers.iter().map(|(name, it)| (name.clone(), it.clone())).collect();
        RunGuests { host: host.clone(), keeper: keeper.cloned(), guests }
    }

    /// What they have done, with what their ports count in this account.
    pub(crate) fn accounts(&self, account: &Account) -> Vec<ContainerAccount> {
        let Some((keeper, known)) = &self.keeper else { return Vec::new() };
        let promised = known.promised.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let from = ContainerSources {
            host: &self.host,
            keeper: Some(keeper),
            attaching: &known.attaching,
            promised: &promised,
        };
        container_accounts(self.guests.iter().map(|(name, it)| (name, it)), account, from, Why::to_string)
    }

    /// The same after the end, of ones that were like this before it: with its ports one may end, too.
    pub(crate) fn at_the_end(
        &self,
        account: &Account,
        before: Vec<ContainerAccount>,
    ) -> Vec<ContainerAccount> {
        let mut ended = self.accounts(account);
        for (one, before) in ended.iter_mut().zip(before) {
            (one.state, one.reason, one.memory) = (before.state, before.reason, before.memory);
            (one.faults, one.restarts) = (before.faults, before.restarts);
        }
        ended
    }

    /// Why those that are down are.
    pub(crate) fn failures(&self) -> Vec<String> {
        let Some((keeper, _)) = &self.keeper else { return Vec::new() };
        let failure = |(name, _): &(String, Container)| {
            let condition = keeper.condition(name)?;
            match condition.phase {
                Phase::Down(why) => Some(format!("function {name}: it was down at the end: {why}")),
                Phase::Starting(why) if condition.faults > 0 => {
                    Some(format!("function {name}: it was down at the end: {why}"))
                }
                Phase::Runs | Phase::Starting(_) => None,
            }
        };
        self.guests.iter().filter_map(failure).collect()
    }
}

/// How one is, in a few words.
pub(crate) fn in_words(container: &ContainerAccount) -> String {
    match (container.state, &container.reason, container.faults) {
        ("running", _, faults) if faults > 0 => format!("{faults} faults"),
        (state, Some(why), _) => format!("{state}: {why}"),
        (state, None, _) => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_usual_is_said() {
        let told = |state, reason: Option<&str>, faults| {
            let reason = reason.map(str::to_owned);
            in_words(&ContainerAccount { state, reason, faults, ..ContainerAccount::default() })
        };
        assert_eq!(told("running", None, 0), "running");
        assert_eq!(told("running", None, 3), "3 faults");
        assert_eq!(told("down", Some("it ended with status 1"), 3), "down: it ended with status 1");
        assert_eq!(told("starting", Some("it waits to be started"), 0), "starting: it waits to be started");
    }
}
