//! What is known of a family before anything is counted.

use crate::Notation;

/// What kind of number a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Only grows, until the thing that it is of begins anew.
    Counter,
    /// May go up and down.
    Gauge,
    /// Always 1: its labels are what there is to say.
    Info,
    /// How many values were not above each of several bounds.
    Histogram,
}

impl Type {
    /// Its word in a notation. Prometheus' text knows no `info`, which is a gauge there.
    pub const fn word(self, notation: Notation) -> &'static str {
        match (self, notation) {
            (Type::Counter, _) => "counter",
            (Type::Info, Notation::OpenMetrics) => "info",
            (Type::Gauge | Type::Info, _) => "gauge",
            (Type::Histogram, _) => "histogram",
        }
    }

    /// What a sample's name has behind that of its family. A histogram's have several.
    pub const fn suffix(self) -> &'static str {
        match self {
            Type::Counter => "_total",
            Type::Info => "_info",
            Type::Gauge | Type::Histogram => "",
        }
    }
}

/// Samples that have a name, a type and a meaning in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, without what the type puts behind it.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// Unit of the values; empty for those that have none.
    pub unit: &'static str,
    /// What is counted, in a sentence.
    pub help: &'static str,
    /// Names of the labels that each sample has.
    pub labels: &'static [&'static str],
    /// There are no samples of 0.
    pub sparse: bool,
}

impl Family {
    pub(crate) const fn counter(
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Family {
        Family { name, kind: Type::Counter, unit, help, labels, sparse: false }
    }

    pub(crate) const fn gauge(
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Family {
        Family { name, kind: Type::Gauge, unit, help, labels, sparse: false }
    }

    pub(crate) const fn info(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Family {
        Family { name, kind: Type::Info, unit: "", help, labels, sparse: false }
    }

    /// The same without samples of 0.
    pub(crate) const fn sparse(mut self) -> Family {
        self.sparse = true;
        self
    }

    /// The unit as OpenMetrics wants it told: only where the name ends with it.
    pub fn told_unit(&self) -> Option<&'static str> {
        let before = self.name.strip_suffix(self.unit)?;
        (!self.unit.is_empty() && before.ends_with('_')).then_some(self.unit)
    }
}
