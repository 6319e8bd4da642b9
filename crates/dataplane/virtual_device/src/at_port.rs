//! The devices at one port: which of them takes what comes in.

use crate::counters::{Count, Counters, PortDevicesCounters};
use crate::decisions::Way;
use classifier::{Classifier, Rule};
use std::sync::Arc;
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
    counters: Arc<Counters>,
}

impl PortDevices {
    /// The devices at a port by their plugs, each with what it wants; the rules' classes are set here. It goes
    /// on counting for the one before, if there is one.
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
            devices: plugs,
            classifier: Classifier::new(rules),
            counters: before.map_or_else(Arc::default, |before| before.counters.clone()),
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

    /// Begins the decisions on a batch of so many packets that comes in by a plug.
    #[inline]
    pub fn decide(&self, from: SwitchPort, count: usize) -> PortDecisions<'_> {
        let received = from == self.port;
        let counted = if received { Count::FromPort } else { Count::FromOpener };
        self.counters.add(from, counted, count as u64);
        let whole = if received { self.all } else { Some(Way::To(self.port)) };
        let nowhere = if whole == Some(Way::Nowhere) { count as u64 } else { 0 };
        PortDecisions { devices: self, whole, copied: 0, nowhere }
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
    whole: Option<Way>,
    copied: u64,
    nowhere: u64,
}

impl PortDecisions<'_> {
    /// Where all of the batch goes, if that does not depend on its packets.
    #[inline]
    pub fn whole(&self) -> Option<Way> {
        self.whole
    }

    /// Where the next packet of the port goes. `head` is its beginning, [`HEAD`] bytes or as many as it has,
    /// `length` its whole length. Calls `see` with each plug by which a copy goes out: of devices that see
    /// what another takes. Where none takes it, the last one that sees it gets the packet itself.
    #[inline]
    pub fn next(&mut self, head: &[u8], length: u32, mut see: impl FnMut(SwitchPort)) -> Way {
        if let Some(way) = self.whole {
            return way;
        }
        let (devices, mut last, mut copied) = (&self.devices.devices, None, 0);
        let mut show = |device: SwitchPort| {
            copied += 1;
            see(device);
        };
        let taken = self.devices.classifier.classify(head, length, |class| {
            let before = std::mem::replace(&mut last, devices.get(usize::from(class)).copied());
            before.into_iter().for_each(&mut show);
        });
        let taken = taken.and_then(|class| devices.get(usize::from(class)).copied());
        let to = match (taken, last) {
            (Some(taken), seen) => {
                seen.into_iter().for_each(&mut show);
                Some(taken)
            }
            (None, seen) => seen,
        };
        self.copied += copied;
        self.nowhere += u64::from(to.is_none());
        to.map_or(Way::Nowhere, Way::To)
    }
}

impl Drop for PortDecisions<'_> {
    #[inline]
    fn drop(&mut self) {
        let PortDecisions { devices, copied, nowhere, .. } = self;
        devices.counters.add(devices.port, Count::Copied, *copied);
        devices.counters.add(devices.port, Count::Nowhere, *nowhere);
    }
}
