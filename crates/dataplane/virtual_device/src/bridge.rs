//! Bridges of more than two ports: behind which port a station is.

use crate::decisions::Way;
use std::sync::Arc;
use telemetry::clock::Nanos;
use virtual_switch::{HEAD, Route, Switch, SwitchPort, SwitchSettings};

/// A station that a device has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its address.
    pub address: [u8; 6],
    /// Its VLAN; 0: untagged.
    pub vlan: u16,
    /// The port behind which it is: an index into [`DeviceSettings::ports`](crate::DeviceSettings::ports).
    pub port: usize,
    /// How long ago it was heard of, exact to a second.
    pub age: Nanos,
}

/// What a bridge has learned, in the table of a switch. It outlives a change of the device.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    table: Arc<Switch>,
    /// The number in the table of each port, beside its plug.
    numbers: Vec<(SwitchPort, SwitchPort)>,
}

impl Bridge {
    /// For these ports. What was learned at those that the bridge before has too is kept. `None` when no
    /// table can be made, which settings that are right rule out.
    pub(crate) fn new(ports: &[SwitchPort], before: Option<&Bridge>) -> Option<Bridge> {
        let table = match before {
            Some(before) => before.table.clone(),
            None => Arc::new(Switch::new(SwitchSettings::default()).ok()?),
        };
        let former = before.map_or(&[][..], |before| &before.numbers);
        let number_of = |plug: &SwitchPort| {
            let known = former.iter().find(|(other, _)| other == plug).map(|(_, number)| *number);
            known.or_else(|| table.attach().ok())
        };
        // New numbers first: none is one that the bridge before still uses.
        let numbers = ports.iter().map(|plug| Some((*plug, number_of(plug)?))).collect::<Option<Vec<_>>>()?;
        let gone = former.iter().filter(|(plug, _)| !ports.contains(plug));
        gone.for_each(|(_, number)| table.detach(*number));
        Some(Bridge { table, numbers })
    }

    /// A frame came by a port.
    #[inline]
    pub(crate) fn hear(&self, port: usize, head: &[u8; HEAD], now: Nanos) {
        if let Some((_, number)) = self.numbers.get(port) {
            self.table.hear(*number, head, now);
        }
    }

    /// Where a frame's destination is; `None` when it is not known, or a group's. `came_by`: the port by
    /// which it came, if any.
    #[inline]
    pub(crate) fn find(&self, came_by: Option<usize>, head: &[u8; HEAD], now: Nanos) -> Option<Way> {
        match self.table.look_up(head, now) {
            Route::To(number) => {
                let index = self.numbers.iter().position(|(_, other)| *other == number)?;
                let (plug, _) = self.numbers[index];
                Some(if came_by == Some(index) { Way::Filter } else { Way::To(plug) })
            }
            Route::Flood => None,
            Route::Filter => Some(Way::Filter),
        }
    }

    pub(crate) fn sweep(&self, now: Nanos) {
        self.table.sweep(now);
    }

    pub(crate) fn stations(&self, now: Nanos) -> impl Iterator<Item = Station> {
        self.table.table(now).filter_map(|entry| {
            let port = self.numbers.iter().position(|(_, number)| *number == entry.port)?;
            Some(Station { address: entry.address, vlan: entry.vlan, port, age: entry.age })
        })
    }
}
