//! Observers as they are laid: the places of the engine at which each is shown packets.

use crate::deployed::Deployed;
use crate::devices::DeviceChange;
use engine::{Change, End, FleetError, FleetObserver, Place, View, WireError};
use wiring::{Edge, Endpoint, Observation, Plan, Watched};

/// An observation, in the engine's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaidObservation {
    observer: FleetObserver,
    at: Vec<Place>,
}

impl Deployed {
    /// Ends an observation.
    pub(crate) fn unobserve(
        &mut self,
        change: &mut Change<'_, '_>,
        seen: &Observation,
    ) -> Result<(), FleetError> {
        let Some(LaidObservation { observer, at }) = self.watched.remove(seen) else { return Ok(()) };
        for place in at {
            match change.unobserve(observer, place) {
                // It ended with what was observed.
                Ok(()) | Err(FleetError::Wire(WireError::Absent)) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// What a plan may have to lay: observations that it brings, those at devices that it changes, and those
    /// that could not be laid before.
    pub(crate) fn observations_to_lay(
        &self,
        plan: &Plan,
        devices: Option<&DeviceChange>,
    ) -> Vec<Observation> {
        let moves = |device: &str| devices.is_some_and(|devices| devices.touches(device));
        let unsure =
            |seen: &&Observation| seen.at.device().is_some_and(moves) || !self.watched.contains_key(*seen);
        let named = |seen: &Observation| plan.unobserve.contains(seen) || plan.observe.contains(seen);
        let there = self.wiring.observations.iter().filter(unsure).filter(|seen| !named(seen));
        there.chain(&plan.observe).cloned().collect()
    }

    /// Lays those of these observations that are not laid, and those anew whose place is another one now.
    /// Returns those that could not be laid.
    pub(crate) fn lay_observers(
        &mut self,
        change: &mut Change<'_, '_>,
        observations: Vec<Observation>,
    ) -> Vec<(String, FleetError)> {
        let mut troubles = Vec::new();
        for seen in observations {
            let Some(laid) = self.observation(&seen) else {
                troubles.push((seen.observer, WireError::Absent.into()));
                continue;
            };
            if self.watched.get(&seen) == Some(&laid) {
                continue;
            }
            let ended = self.unobserve(change, &seen);
            let view =
                View { filter: seen.filter.as_ref().map(|shown| shown.0.clone()), one_of: seen.one_of };
            let begun = ended.and_then(|()| {
                laid.at.iter().try_for_each(|place| change.observe(laid.observer, *place, view.clone()))
            });
            if let Err(error) = begun {
                troubles.push((seen.observer.clone(), error));
            }
            self.watched.insert(seen, laid);
        }
        troubles
    }

    fn observation(&self, seen: &Observation) -> Option<LaidObservation> {
        let instance = self.instances.get(&seen.observer).map(|instance| (*instance).into());
        let observer = instance.or_else(|| self.ports.get(&seen.observer).map(|port| (*port).into()))?;
        let at = match &seen.at {
            Watched::Instance(name, interface) => {
                vec![Place::Instance(*self.instances.get(name)?, *interface)]
            }
            Watched::Port(name) => vec![Place::Port(*self.ports.get(name)?)],
            Watched::Device(name, None) => vec![Place::Switch(self.devices.id_of(name)?, None)],
            Watched::Device(name, Some(port)) => {
                let plug = self.devices.plug_of_port(name, port)?;
                vec![Place::Switch(self.devices.id_of(name)?, Some(plug))]
            }
            Watched::Wire(edge) => self.places_at(edge)?,
        };
        Some(LaidObservation { observer, at })
    }

    /// The places at which all that passes a wire is seen once, in either direction.
    fn places_at(&self, edge: &Edge) -> Option<Vec<Place>> {
        if let Some((opener, opening)) = edge.opening() {
            let plug = self.devices.plug_of_opener(&opening.device, opener)?;
            return Some(vec![Place::Switch(self.devices.id_of(&opening.device)?, Some(plug))]);
        }
        let port = edge.ends().into_iter().find_map(|end| match end {
            Endpoint::Port(name) => self.ports.get(name),
            _ => None,
        });
        if let Some(port) = port {
            return Some(vec![Place::Port(*port)]);
        }
        let place = |end: &Endpoint| match self.end(edge, end)? {
            End::Instance(instance, interface) => Some(Place::Interface(instance, interface)),
            End::Switch(switch, plug) => Some(Place::Switch(switch, Some(plug))),
            End::Port(port) => Some(Place::Port(port)),
        };
        edge.ends().into_iter().map(place).collect()
    }
}
