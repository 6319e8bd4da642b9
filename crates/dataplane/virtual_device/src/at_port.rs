//! The devices at one port: which of them takes what comes in.

use crate::counters::{Counters, Counts, PortDevicesCounters};
use crate::decisions::Way;
use classifier::{Classifier, Rule};
use std::sync::Arc;
use virtual_switch::SwitchPort;

/// Bytes of a packet's beginning that are classified.
pub const HEAD: usize = 128;

/// What the devices at a port want of it. It is made before it is known by which plugs they are there: with
/// many devices, that takes its time.
#[derive(Debug)]
pub struct Policies {
    classifier: Classifier,
    /// The class that takes everything, or none, if that needs no look at the packets.
    all: Option<Option<u16>>,
}

impl Policies {
    /// Of what each device wants; the rules' classes are set here.
    pub fn new(mut rules: Vec<Rule>) -> Policies {
        rules.iter_mut().zip(0..).for_each(|(rule, class)| rule.class = class);
        let first = rules.iter().min_by_key(|rule| rule.priority);
        let all = match first {
            None => Some(None),
            Some(_) if rules.iter().any(|rule| rule.observes) => None,
            Some(first) => first.filter.is_none().then_some(Some(first.class)),
        };
        Policies { classifier: Classifier::new(rules), all }
    }
}

/// What devices are at a port.
#[derive(Debug)]
pub struct PortDevices {
    port: SwitchPort,
    classifier: Classifier,
    /// The plug of each device, by its class. What one wants that has none goes nowhere, and to no other.
    devices: Vec<Option<SwitchPort>>,
    /// The one device that takes everything, if that needs no look at the packets.
    all: Option<Way>,
    counters: Arc<Counters>,
}

impl PortDevices {
    /// The devices at a port by their plugs, each with what it wants, as [`PortDevices::of`].
    pub fn new(
        port: SwitchPort,
        devices: Vec<(Rule, SwitchPort)>,
        before: Option<&PortDevices>,
    ) -> PortDevices {
        let (rules, plugs) = devices.into_iter().map(|(rule, plug)| (rule, Some(plug))).unzip();
        PortDevices::of(port, Policies::new(rules), plugs, before)
    }

    /// The devices at a port by their plugs, in the order of what they want; `None`: of a device that has got
    /// none. It goes on counting for the one before, if there is one.
    pub fn of(
        port: SwitchPort,
        policies: Policies,
        devices: Vec<Option<SwitchPort>>,
        before: Option<&PortDevices>,
    ) -> PortDevices {
        let Policies { classifier, all } = policies;
        let plug =
            |class: u16| devices.get(usize::from(class)).copied().flatten().map_or(Way::Nowhere, Way::To);
        PortDevices {
            port,
            all: all.map(|class| class.map_or(Way::Nowhere, plug)),
            counters: before.map(|before| before.counters.clone()).unwrap_or_default(),
            devices,
            classifier,
        }
    }

    /// The one plug by which everything leaves that comes in by a plug, if that is so.
    #[inline]
    pub fn only(&self, from: SwitchPort) -> Option<SwitchPort> {
        if let Some(Way::To(plug)) = self.whole(from) { Some(plug) } else { None }
    }

    /// Whether a plug is the port's own; by any other one, a device sends.
    #[inline]
    pub fn is_port(&self, plug: SwitchPort) -> bool {
        plug == self.port
    }

    /// Where all of a batch goes that comes in by a plug, if that does not depend on its packets.
    #[inline]
    pub fn whole(&self, from: SwitchPort) -> Option<Way> {
        if self.is_port(from) { self.all } else { Some(Way::To(self.port)) }
    }

    /// Where a packet of the port goes, where packets may differ. `head` is its beginning, [`HEAD`] bytes or
    /// as many as it has, `length` its whole length. Calls `see` with the plug of each device that sees it
    /// and takes none.
    #[inline]
    pub fn decide(&self, head: &[u8], length: u32, mut see: impl FnMut(SwitchPort)) -> Way {
        let mut is_seen = false;
        let taken = self.classifier.classify(head, length, |class| {
            if let Some(Some(device)) = self.devices.get(usize::from(class)) {
                is_seen = true;
                see(*device);
            }
        });
        match taken.and_then(|class| *self.devices.get(usize::from(class))?) {
            Some(device) => Way::To(device),
            None if is_seen => Way::Seen,
            None => Way::Nowhere,
        }
    }

    /// In which one more worker counts; not by plug.
    pub fn counts(&self) -> Counts {
        self.counters.counts(0)
    }

    /// What was counted so far.
    pub fn counters(&self) -> PortDevicesCounters {
        self.counters.at_port()
    }
}
