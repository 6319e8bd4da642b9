//! The devices at one port: which of them takes what comes in.

use crate::counters::{Count, Counters, PortDevicesCounters};
use crate::decisions::Way;
use classifier::{Classifier, Rule};
use virtual_switch::SwitchPort;

/// Bytes of a packet's beginning that are classified.
pub const HEAD: usize = 128;

/// What devices are at a port.
#[derive(Debug)]
pub struct PortDevices {
    port: SwitchPort,
    classifier: Classifier,
    /// The plug of each device, by its class.
    devices: Vec<SwitchPort>,
    /// The one device that takes everything, if that needs no look at the packets.
    all: Option<Way>,
    counters: Counters,
}

impl PortDevices {
    /// The devices at a port by their plugs, each with what it wants; the rules' classes are set here. It
    /// goes on counting for the one before, if there is one.
    pub fn new(
        port: SwitchPort,
        devices: Vec<(Rule, SwitchPort)>,
        before: Option<&PortDevices>,
    ) -> PortDevices {
        let (mut rules, plugs): (Vec<Rule>, Vec<SwitchPort>) = devices.into_iter().unzip();
        rules.iter_mut().zip(0..).for_each(|(rule, class)| rule.class = class);
        let first = rules.iter().min_by_key(|rule| rule.priority);
        let all = match first {
            None => Some(Way::Nowhere),
            Some(_) if rules.iter().any(|rule| rule.observes) => None,
            Some(first) if first.filter.is_none() => {
                plugs.get(usize::from(first.class)).copied().map(Way::To)
            }
            Some(_) => None,
        };
        PortDevices {
            port,
            all,
            counters: Counters::new(
                plugs.iter().copied().chain([port]),
                before.map(|before| &before.counters),
            ),
            devices: plugs,
            classifier: Classifier::new(rules),
        }
    }

    /// The one plug by which everything leaves that comes in by a plug, if that is so.
    #[inline]
    pub fn only(&self, from: SwitchPort) -> Option<SwitchPort> {
        match self.all {
            _ if from != self.port => Some(self.port),
            Some(Way::To(device)) => Some(device),
            _ => None,
        }
    }

    /// Where all of a batch of so many packets goes that comes in by a plug, if that does not depend on its
    /// packets. They are counted then.
    #[inline]
    pub fn whole(&self, from: SwitchPort, count: usize) -> Option<Way> {
        if from != self.port {
            self.counters.add(from, Count::FromOpener, count as u64);
            return Some(Way::To(self.port));
        }
        let way = self.all?;
        self.counters.add(from, Count::FromPort, count as u64);
        if way == Way::Nowhere {
            self.counters.add(from, Count::Nowhere, count as u64);
        }
        Some(way)
    }

    /// Begins the decisions on a batch of so many packets from the port, where they may differ.
    #[inline]
    pub fn decide(&self, count: usize) -> PortDecisions<'_> {
        self.counters.add(self.port, Count::FromPort, count as u64);
        PortDecisions { devices: self, seen: 0, nowhere: 0 }
    }

    /// What was counted so far.
    pub fn counters(&self) -> PortDevicesCounters {
        self.counters.at_port()
    }
}

/// The decisions on one batch at a port. What was decided is counted when this is dropped.
#[derive(Debug)]
pub struct PortDecisions<'a> {
    devices: &'a PortDevices,
    seen: u64,
    nowhere: u64,
}

impl PortDecisions<'_> {
    /// Where the next packet of the port goes. `head` is its beginning, [`HEAD`] bytes or as many as it has,
    /// `length` its whole length. Calls `see` with the plug of each device that sees it and takes none.
    #[inline]
    pub fn next(&mut self, head: &[u8], length: u32, mut see: impl FnMut(SwitchPort)) -> Way {
        let (devices, mut seen) = (&self.devices.devices, 0);
        let taken = self.devices.classifier.classify(head, length, |class| {
            if let Some(device) = devices.get(usize::from(class)) {
                seen += 1;
                see(*device);
            }
        });
        self.seen += seen;
        match taken.and_then(|class| devices.get(usize::from(class))) {
            Some(device) => Way::To(*device),
            None if seen > 0 => Way::Seen,
            None => {
                self.nowhere += 1;
                Way::Nowhere
            }
        }
    }
}

impl Drop for PortDecisions<'_> {
    #[inline]
    fn drop(&mut self) {
        let PortDecisions { devices, seen, nowhere } = self;
        devices.counters.add(devices.port, Count::Copied, *seen);
        devices.counters.add(devices.port, Count::Nowhere, *nowhere);
    }
}
