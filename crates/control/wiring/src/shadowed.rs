//! Policies of devices at one port that lose packets to others there.

use crate::{Device, PortPolicy};
use capture::Filter;
use classifier::{Classifier, Rule};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Devices at one port whose policies are compared with each other: the first ones.
const COMPARED: usize = 256;
/// Pairs that are told of at one port one by one.
const TOLD: usize = 8;

/// Whether no packet can be what a filter says, as far as that is found out.
pub fn is_impossible(filter: Filter) -> bool {
    let rule = Rule { filter: Some(filter), priority: 0, class: 0, observes: false };
    !Classifier::new(vec![rule]).never_taken().is_empty()
}

/// A policy that loses packets to another one at its port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shadowed {
    /// The port.
    pub port: String,
    /// The device that takes the packets.
    pub first: String,
    /// The device that does not get them.
    pub second: String,
    /// How many.
    pub loss: Loss,
}

/// What a policy loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// No packet can be what it wants; `first` and `second` are one device then.
    Impossible,
    /// Another one takes all that it wants.
    All,
    /// Another one of the same priority takes some of it, being the first by name.
    Some,
    /// Others take packets that it wants, so many of which are not told one by one; `first` and `second` are
    /// one device.
    Further(usize),
    /// It is not known: there are more at the port than are compared. `first` and `second` are one device.
    NotCompared,
}

impl Shadowed {
    /// The policies at a port that never get a packet, and those of one priority that want the same ones: the
    /// first [`TOLD`] pairs of them, and of each device how many it is in besides. Then those beyond the
    /// first [`COMPARED`], of which that is not known. `only_seeing`: devices with the ports of which they
    /// take nothing.
    pub fn among(
        devices: &IndexMap<String, Device>,
        only_seeing: &BTreeSet<(String, String)>,
        at: impl Fn(&str) -> bool,
    ) -> Vec<Shadowed> {
        let mut over: BTreeMap<&str, Vec<(u32, &str, &PortPolicy)>> = BTreeMap::new();
        for (name, device) in devices {
            for (port, policy) in device.over.iter().filter(|(port, _)| at(port)) {
                over.entry(port).or_default().push((policy.priority, name, policy));
            }
        }
        let mut all = Vec::new();
        for (port, mut wanting) in over {
            wanting.sort_by_key(|(priority, name, _)| (*priority, *name));
            let beyond = wanting.split_off(wanting.len().min(COMPARED));
            let rules = wanting.iter().zip(0..).map(|((priority, name, policy), class)| Rule {
                filter: policy.receive.clone(),
                priority: *priority,
                class,
                observes: only_seeing.contains(&((*name).to_owned(), port.to_owned())),
            });
            let classifier = Classifier::new(rules.collect());
            let never: BTreeSet<_> = classifier.never_taken().into_iter().collect();
            let mut pairs = classifier.shadowed().into_iter().filter_map(|(first, second)| {
                let (a, b) = (&wanting[first], &wanting[second]);
                let loss = match never.contains(&(first, second)) {
                    true if first == second => Loss::Impossible,
                    true => Loss::All,
                    false if a.0 == b.0 => Loss::Some,
                    false => return None,
                };
                Some(Shadowed { port: port.to_owned(), first: a.1.to_owned(), second: b.1.to_owned(), loss })
            });
            all.extend(pairs.by_ref().take(TOLD));
            let mut further: BTreeMap<String, usize> = BTreeMap::new();
            pairs.for_each(|pair| *further.entry(pair.second).or_default() += 1);
            let alone = |name: String, loss| Shadowed {
                port: port.to_owned(),
                first: name.clone(),
                second: name,
                loss,
            };
            all.extend(further.into_iter().map(|(name, count)| alone(name, Loss::Further(count))));
            all.extend(beyond.into_iter().map(|(_, name, _)| alone(name.to_owned(), Loss::NotCompared)));
        }
        all
    }

    /// It in words, where `first` and `second` stand for the devices.
    pub fn told(&self, first: &str, second: &str) -> String {
        let port = &self.port;
        match self.loss {
            Loss::Impossible => format!("no packet of `{port}` can be what {second} wants"),
            Loss::All => format!("{second} never gets a packet of `{port}`: {first} takes all that it wants"),
            Loss::Some => format!(
                "{first} and {second} want the same packets of `{port}`, and {first} takes them, being the first by name; a \
                 `priority` of one of them says which is meant"
            ),
            Loss::Further(count) => format!(
                "{second} loses packets of `{port}` to others' policies: {count} times besides the {TOLD} pairs of policies there \
                 that are told one by one"
            ),
            Loss::NotCompared => format!(
                "whether {second} gets packets of `{port}` is not checked: the policies of {COMPARED} devices there are compared, \
                 the first ones by priority and name"
            ),
        }
    }
}
