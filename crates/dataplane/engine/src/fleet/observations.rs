//! Observations of a fleet: which instance or port is shown what passes where, on whatever workers that is.
//!
//! An instance that observes another is brought to its worker, so that it can be called there at once. An
//! observer of a port or a switch, and a port that observes, stays where it is: workers other than its own
//! send it copies over a relay.

use super::FleetError;
use super::state::{End, FleetInstance, FleetPort, State};
use crate::control::quiesce::Quiesced;
use crate::ids::{SwitchId, WireError};
use crate::path::observers::{Observer, Seen, View};
use std::collections::BTreeSet;
use virtual_switch::SwitchPort;

/// Where an observer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Before an instance is called, with all packets or those that come in by one interface. The observer is
    /// brought to the instance, and both stay together.
    Instance(FleetInstance, Option<u16>),
    /// Before an instance is called with what comes in by one interface; the observer stays where it is.
    Interface(FleetInstance, u16),
    /// At a port: what it receives and what it transmits.
    Port(FleetPort),
    /// At a switch or device: all that comes in, or what comes in or goes out by one plug. Of a learning
    /// switch with a plug: what comes in by it.
    Switch(SwitchId, Option<SwitchPort>),
}

/// What is shown packets of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetObserver {
    /// An instance, which is called with them.
    Instance(FleetInstance),
    /// A port, which transmits copies of them.
    Port(FleetPort),
}

impl From<FleetInstance> for FleetObserver {
    fn from(instance: FleetInstance) -> FleetObserver {
        FleetObserver::Instance(instance)
    }
}

impl From<FleetPort> for FleetObserver {
    fn from(port: FleetPort) -> FleetObserver {
        FleetObserver::Port(port)
    }
}

impl FleetObserver {
    fn end(self) -> End {
        match self {
            FleetObserver::Instance(instance) => End::Instance(instance, 0),
            FleetObserver::Port(port) => End::Port(port),
        }
    }
}

/// An observer and what it is shown.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) observer: FleetObserver,
    pub(super) at: Place,
    view: View,
}

/// What a place is of: all observers there are laid together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Host {
    Instance(FleetInstance),
    Port(FleetPort),
    Switch(SwitchId),
}

impl Place {
    fn host(self) -> Host {
        match self {
            Place::Instance(instance, _) | Place::Interface(instance, _) => Host::Instance(instance),
            Place::Port(port) => Host::Port(port),
            Place::Switch(switch, _) => Host::Switch(switch),
        }
    }
}

impl Observation {
    /// The observer and the instance that have to be on one worker, if that is so.
    pub(super) fn pair(&self) -> Option<(FleetInstance, FleetInstance)> {
        match (self.observer, self.at) {
            (FleetObserver::Instance(observer), Place::Instance(at, _)) => Some((observer, at)),
            _ => None,
        }
    }
}

impl State {
    /// Shows an instance or a port what passes a place.
    pub(super) fn observe(
        &mut self,
        workers: &mut Quiesced<'_>,
        observer: FleetObserver,
        at: Place,
        view: View,
    ) -> Result<(), FleetError> {
        let (watching, _) = self.place(observer.end())?;
        let known = match at {
            Place::Instance(instance, _) | Place::Interface(instance, _) => self.instance(instance).is_some(),
            Place::Port(port) => self.port(port).is_some(),
            Place::Switch(switch, _) => self.switches.get(switch.index()).is_some_and(Option::is_some),
        };
        if !known {
            return Err(WireError::Absent.into());
        }
        if let (FleetObserver::Instance(_), Place::Instance(at, _)) = (observer, at)
            && let Some(home) = self.instance(at)
            && watching != Some(home.worker)
        {
            self.move_to(workers, &[observer.end()], home.worker)?;
        }
        self.change += 1;
        self.observations.push(Observation { observer, at, view });
        self.set_observing(workers, observer, true);
        self.lay_observers(workers, at.host())?;
        Ok(())
    }

    /// Ends an observation.
    pub(super) fn unobserve(
        &mut self,
        workers: &mut Quiesced<'_>,
        observer: FleetObserver,
        at: Place,
    ) -> Result<(), FleetError> {
        let before = self.observations.len();
        self.observations.retain(|seen| seen.observer != observer || seen.at != at);
        if self.observations.len() == before {
            return Err(WireError::Absent.into());
        }
        self.change += 1;
        self.lay_observers(workers, at.host())?;
        self.end_observing(workers, observer);
        Ok(())
    }

    /// Ends what an instance observes, and observations of it: all at once, so that no way is laid to it
    /// again.
    pub(super) fn unobserve_instance(
        &mut self,
        workers: &mut Quiesced<'_>,
        instance: FleetInstance,
    ) -> Result<(), FleetError> {
        self.end_all(workers, instance.into(), Host::Instance(instance))
    }

    /// The same of a port.
    pub(super) fn unobserve_port(
        &mut self,
        workers: &mut Quiesced<'_>,
        port: FleetPort,
    ) -> Result<(), FleetError> {
        self.end_all(workers, port.into(), Host::Port(port))
    }

    fn end_all(
        &mut self,
        workers: &mut Quiesced<'_>,
        observer: FleetObserver,
        host: Host,
    ) -> Result<(), FleetError> {
        let concerns = |seen: &mut Observation| seen.observer == observer || seen.at.host() == host;
        let ended: Vec<Observation> = self.observations.extract_if(.., concerns).collect();
        for seen in &ended {
            self.change += 1;
            self.lay_observers(workers, seen.at.host())?;
            self.end_observing(workers, seen.observer);
        }
        Ok(())
    }

    /// Ends observations of a switch that is no more.
    pub(super) fn unobserve_switch(&mut self, workers: &mut Quiesced<'_>, switch: SwitchId) {
        let ended: BTreeSet<FleetObserver> = self
            .observations
            .extract_if(.., |seen| seen.at.host() == Host::Switch(switch))
            .map(|seen| seen.observer)
            .collect();
        for observer in ended {
            self.change += 1;
            self.end_observing(workers, observer);
        }
    }

    fn end_observing(&self, workers: &mut Quiesced<'_>, observer: FleetObserver) {
        if !self.observations.iter().any(|seen| seen.observer == observer) {
            self.set_observing(workers, observer, false);
        }
    }

    fn set_observing(&self, workers: &mut Quiesced<'_>, observer: FleetObserver, observes: bool) {
        if let FleetObserver::Instance(observer) = observer
            && let Some(home) = self.instance(observer)
        {
            workers[home.worker].set_observer(home.id.index(), observes);
        }
    }

    /// Lays anew what has moved or is reached another way: observers, and what they observe.
    pub(super) fn lay_observations(
        &mut self,
        workers: &mut Quiesced<'_>,
        instances: &BTreeSet<FleetInstance>,
        ports: &BTreeSet<FleetPort>,
    ) -> Result<(), WireError> {
        let moved = |seen: &&Observation| {
            let moved = match seen.observer {
                FleetObserver::Instance(observer) => instances.contains(&observer),
                FleetObserver::Port(observer) => ports.contains(&observer),
            };
            moved
                || match seen.at.host() {
                    Host::Instance(at) => instances.contains(&at),
                    Host::Port(port) => ports.contains(&port),
                    Host::Switch(_) => false,
                }
        };
        let hosts: BTreeSet<Host> =
            self.observations.iter().filter(moved).map(|seen| seen.at.host()).collect();
        hosts.into_iter().try_for_each(|host| self.lay_observers(workers, host))
    }

    /// Enters the observers of a place, on every worker where packets may pass it.
    fn lay_observers(&mut self, workers: &mut Quiesced<'_>, host: Host) -> Result<(), WireError> {
        let at: Vec<(usize, Seen)> = match host {
            Host::Instance(instance) => self
                .instance(instance)
                .map(|home| (home.worker, Seen::Instance(home.id.index())))
                .into_iter()
                .collect(),
            Host::Port(port) => {
                self.port(port).map(|home| (home.worker, Seen::Port(home.id.index()))).into_iter().collect()
            }
            Host::Switch(switch) => {
                (0..workers.len()).map(|worker| (worker, Seen::Switch(switch.index()))).collect()
            }
        };
        let here = self.observations.iter().filter(|seen| seen.at.host() == host);
        let here: Vec<Observation> = here.cloned().collect();
        for (worker, seen) in at {
            let mut observers = Vec::new();
            for Observation { observer, at, view } in &here {
                let missed = match *observer {
                    FleetObserver::Instance(observer) => self
                        .instance(observer)
                        .map(|home| workers[home.worker].instances[home.id.index()].missed_elsewhere.clone()),
                    FleetObserver::Port(observer) => self
                        .port(observer)
                        .map(|home| workers[home.worker].ports[home.id.index()].missed.clone()),
                };
                let Some(missed) = missed else { continue };
                let target = self.way(workers, worker, None, observer.end())?;
                let observer = Observer::new(target, view.clone(), missed);
                observers.push(match *at {
                    Place::Instance(_, interface) => observer.at_interface(interface),
                    Place::Interface(_, interface) => observer.at_interface(Some(interface)),
                    Place::Switch(_, plug) => observer.at_plug(plug),
                    Place::Port(_) => observer,
                });
            }
            *workers[worker].observers_at(seen) = observers;
        }
        for home in std::mem::take(&mut self.laid) {
            workers[home.worker].find_consumer(home.id);
        }
        Ok(())
    }
}
