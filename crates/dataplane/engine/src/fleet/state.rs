//! What a fleet knows of its parts: on which worker each is, and what is connected to what.

use super::FleetError;
use super::counters::Boards;
use super::observations::Observation;
use crate::control::quiesce::Quiesced;
use crate::ids::{InstanceId, PoolId, PortId, ServiceId, SwitchId, Target, WireError};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use virtual_switch::SwitchPort;

/// Number of a port of a fleet. None is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetPort(pub(crate) u64);

/// Number of an instance of a fleet. None is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetInstance(pub(crate) u64);

/// An end of a wire, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// An instance, by this interface of it.
    Instance(FleetInstance, u16),
    /// A port.
    Port(FleetPort),
    /// A switch, by this port of it.
    Switch(SwitchId, SwitchPort),
}

/// Where a part is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<Id> {
    pub(crate) worker: usize,
    pub(crate) id: Id,
}

/// All ends of whatever one end is of.
pub(super) fn all_of(end: End) -> RangeInclusive<End> {
    match end {
        End::Instance(instance, _) => End::Instance(instance, 0)..=End::Instance(instance, u16::MAX),
        End::Port(_) => end..=end,
        End::Switch(id, _) => End::Switch(id, SwitchPort(0))..=End::Switch(id, SwitchPort(u16::MAX)),
    }
}

/// A wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) both_ways: bool,
}

/// The ports at either end of a way from one worker to an end on another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relay {
    pub(super) sending: PortId,
    /// Worker and port where packets arrive.
    pub(super) arriving: Home<PortId>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct State {
    ports: BTreeMap<FleetPort, Home<PortId>>,
    instances: BTreeMap<FleetInstance, Home<InstanceId>>,
    /// How many instances each worker has.
    populations: BTreeMap<usize, usize>,
    /// The number of the next port or instance.
    next: u64,
    /// The worker of each switch that has one of its own. Removed ones are `None`.
    pub(super) switches: Vec<Option<Option<usize>>>,
    /// How many ends on a worker are plugged into a switch.
    pub(super) users: BTreeMap<(SwitchId, usize), u32>,
    /// How many wires there are between two switches, from each one's point of view.
    pub(super) joined: BTreeMap<(SwitchId, SwitchId), u32>,
    /// How many ends of a switch lead somewhere.
    pub(super) plugs: BTreeMap<SwitchId, u32>,
    /// By a number of their own.
    pub(super) wires: BTreeMap<u64, Wire>,
    /// Numbers of the wires at each end; those at all ends of a part or a switch follow one another.
    pub(super) wired: BTreeMap<End, Vec<u64>>,
    pub(super) observations: Vec<Observation>,
    /// Where each tenant's functions reach which service.
    pub(super) services: BTreeMap<ServiceId, End>,
    /// By the end that they lead to, the worker that they come from, and the pool of their packets.
    pub(super) relays: BTreeMap<(End, usize, PoolId), Relay>,
    /// Relays' ports that were laid just now: which instance takes what they bring is to be found out.
    pub(super) laid: Vec<Home<PortId>>,
    /// Where accounts are read without the workers, and what was counted by what is no more.
    pub(super) boards: Arc<Boards>,
    /// Counts what comes, goes, moves and is connected.
    pub(super) change: u64,
}

impl State {
    /// Of nothing yet; what comes has its boards there.
    pub(super) fn with_boards(boards: Arc<Boards>) -> State {
        State { boards, ..State::default() }
    }

    pub(super) fn add_port(&mut self, worker: usize, id: PortId) -> FleetPort {
        let port = FleetPort(self.number());
        self.ports.insert(port, Home { worker, id });
        port
    }

    pub(super) fn add_instance(&mut self, worker: usize, id: InstanceId) -> FleetInstance {
        let instance = FleetInstance(self.number());
        self.set_home(instance, Home { worker, id });
        instance
    }

    /// A number that nothing else has.
    pub(super) fn number(&mut self) -> u64 {
        self.change += 1;
        self.next += 1;
        self.next
    }

    pub(super) fn forget_port(&mut self, port: FleetPort) -> Option<Home<PortId>> {
        self.change += 1;
        self.boards.forget_port(port);
        self.ports.remove(&port)
    }

    pub(super) fn forget_instance(&mut self, instance: FleetInstance) -> Option<Home<InstanceId>> {
        self.change += 1;
        self.boards.forget_instance(instance);
        let home = self.instances.remove(&instance);
        self.count(home, |count| count.saturating_sub(1));
        home
    }

    fn count(&mut self, home: Option<Home<InstanceId>>, change: impl Fn(usize) -> usize) {
        if let Some(home) = home {
            let population = self.populations.entry(home.worker).or_default();
            *population = change(*population);
        }
    }

    /// How many instances a worker has.
    pub(super) fn population(&self, worker: usize) -> usize {
        self.populations.get(&worker).copied().unwrap_or(0)
    }

    pub(super) fn set_home(&mut self, instance: FleetInstance, home: Home<InstanceId>) {
        let before = self.instances.insert(instance, home);
        self.count(before, |count| count.saturating_sub(1));
        self.count(Some(home), |count| count + 1);
    }

    pub(super) fn set_home_of_port(&mut self, port: FleetPort, home: Home<PortId>) {
        self.ports.insert(port, home);
    }

    pub(super) fn port(&self, port: FleetPort) -> Option<Home<PortId>> {
        self.ports.get(&port).copied()
    }

    pub(super) fn instance(&self, instance: FleetInstance) -> Option<Home<InstanceId>> {
        self.instances.get(&instance).copied()
    }

    /// All ports, and where they are.
    pub(super) fn ports(&self) -> impl Iterator<Item = (FleetPort, &Home<PortId>)> {
        self.ports.iter().map(|(port, home)| (*port, home))
    }

    /// All instances, and where they are.
    pub(super) fn instances(&self) -> impl Iterator<Item = (FleetInstance, &Home<InstanceId>)> {
        self.instances.iter().map(|(instance, home)| (*instance, home))
    }

    /// The numbers of the wires at the ends of whatever one end is of.
    pub(super) fn wires_at(&self, end: End) -> impl Iterator<Item = u64> {
        self.wired.range(all_of(end)).flat_map(|(_, wires)| wires.iter().copied())
    }

    /// The worker of a port or an instance.
    pub(super) fn worker_of(&self, end: End) -> Option<usize> {
        self.place(end).ok()?.0
    }

    /// On which worker an end is, and what that worker calls it; a switch without a worker of its own is on
    /// all.
    pub(super) fn place(&self, end: End) -> Result<(Option<usize>, Target), WireError> {
        match end {
            End::Port(port) => {
                let home = self.port(port).ok_or(WireError::Absent)?;
                Ok((Some(home.worker), Target::Port(home.id)))
            }
            End::Instance(instance, interface) => {
                let home = self.instance(instance).ok_or(WireError::Absent)?;
                Ok((Some(home.worker), Target::Instance(home.id, interface)))
            }
            End::Switch(id, port) => {
                let home = self.switches.get(id.index()).copied().flatten().ok_or(WireError::Absent)?;
                Ok((home, Target::Switch(id, port)))
            }
        }
    }

    /// Everything that must be where one instance is: its observers, what it observes, and so on.
    pub(super) fn together(&self, first: FleetInstance) -> Vec<FleetInstance> {
        let mut all = vec![first];
        let mut next = 0;
        while let Some(&one) = all.get(next) {
            next += 1;
            for (observer, at) in self.observations.iter().filter_map(Observation::pair) {
                for (mine, other) in [(observer, at), (at, observer)] {
                    if mine == one && !all.contains(&other) {
                        all.push(other);
                    }
                }
            }
        }
        all
    }

    /// Refuses to move what is in the middle of a call.
    pub(super) fn check_moves(
        &self,
        workers: &Quiesced<'_>,
        instances: &[FleetInstance],
    ) -> Result<(), FleetError> {
        for instance in instances {
            let home = self.instance(*instance).ok_or(WireError::Absent)?;
            let instance = &workers[home.worker].instances[home.id.index()];
            if instance.suspended.is_some() {
                return Err(FleetError::Suspended { instance: instance.name.clone() });
            }
        }
        Ok(())
    }
}
