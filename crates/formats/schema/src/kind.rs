//! What a schema is made of, and its words for what is allowed.

use crate::{Value, literal};
use yaml_document::spelling;

/// The keys that a map may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    pub(crate) keys: Vec<SchemaKey>,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaKey {
    /// Its name.
    pub name: String,
    /// What its value may be.
    pub kind: Kind,
    /// What happens when it is left out.
    pub presence: Presence,
    /// The unit of a number, for people: `flows`.
    pub unit: Option<String>,
    /// What it is for, in a sentence; may be empty.
    pub help: String,
}

/// What happens when a key is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// That is a fault.
    Required,
    /// The value has no such key.
    Optional,
    /// The value gets this.
    Default(Value),
}

/// What a value may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A number, bounds included.
    Integer {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// Text.
    Text {
        /// Fewest characters.
        min_length: u64,
        /// Most characters.
        max_length: u64,
    },
    /// One of some names.
    Enum {
        /// The names.
        values: Vec<String>,
    },
    /// A time span in nanoseconds, bounds included.
    Duration {
        /// Shortest.
        min: u64,
        /// Longest.
        max: u64,
    },
    /// A size in bytes, bounds included.
    Size {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// So much in a second, bounds included.
    Rate {
        /// Of what.
        of: RateOf,
        /// Lowest.
        min: u64,
        /// Highest.
        max: u64,
    },
    /// A share of a whole in parts per billion, bounds included.
    Fraction {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A file, by its path; the value is what is in it.
    File {
        /// Most bytes.
        max: u64,
    },
    /// An Ethernet address.
    Mac,
    /// An IP address.
    Address {
        /// Of which family.
        family: Family,
    },
    /// An IP prefix.
    Prefix {
        /// Of which family.
        family: Family,
    },
    /// A transport port, or a range of them.
    PortRange,
    /// Values of one kind.
    List {
        /// The kind.
        items: Box<Kind>,
        /// Fewest.
        min: u64,
        /// Most.
        max: u64,
    },
    /// Values by key.
    Map(Schema),
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateOf {
    /// Packets: `1.5Mpps`.
    Packets,
    /// Bits: `10Gbps`.
    Bits,
}

/// Which version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Version 4.
    Ipv4,
    /// Version 6.
    Ipv6,
    /// Both.
    Any,
}

impl Schema {
    /// The keys in order.
    pub fn keys(&self) -> &[SchemaKey] {
        &self.keys
    }

    /// One key.
    pub fn key(&self, name: &str) -> Option<&SchemaKey> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Kind {
    /// What is allowed, in the words of a message: "an integer from 1 to 10".
    pub fn allowed(&self) -> String {
        self.allowed_in("")
    }

    /// The same, with bounds in the unit of a text that was found, as far as they can be said so.
    pub(crate) fn allowed_in(&self, found: &str) -> String {
        match self {
            Kind::Boolean => "true or false".to_owned(),
            Kind::Integer { min, max } => {
                format!("an integer{}", range((*min, i64::MIN), (*max, i64::MAX), |n| n.to_string()))
            }
            Kind::Text { min_length: 0, max_length } => format!("text of at most {max_length} characters"),
            Kind::Text { min_length, max_length } => {
                format!("text of {min_length} to {max_length} characters")
            }
            Kind::Enum { values } => {
                format!("one of {}", spelling::listed(values.iter().map(String::as_str)))
            }
            Kind::Duration { min, max } => {
                let bounds =
                    range((*min, 0), (*max, u64::MAX), |n| literal::in_unit_of(found, *n, literal::DURATION));
                let example = example("10s", 10_000_000_000, (*min, *max), literal::DURATION);
                format!("a duration{bounds}, such as `{example}` (units: ns, us, ms, s, m, h, d)")
            }
            Kind::Size { min, max } => {
                let bounds =
                    range((*min, 0), (*max, u64::MAX), |n| literal::in_unit_of(found, *n, literal::SIZE));
                let example = example("64KiB", 64 << 10, (*min, *max), literal::SIZE);
                format!("a size{bounds}, such as `{example}` (units: B, KiB, MiB, GiB)")
            }
            Kind::Rate { of, min, max } => {
                let units = of.units();
                let bounds =
                    range((*min, 0), (*max, i64::MAX as u64), |n| literal::in_unit_of(found, *n, units));
                let (usual, value, named) = match of {
                    RateOf::Packets => ("1.5Mpps", 1_500_000, "pps, kpps, Mpps, Gpps"),
                    RateOf::Bits => ("10Gbps", 10_000_000_000, "bps, kbps, Mbps, Gbps"),
                };
                let example = example(usual, value, (*min, *max), units);
                format!("a rate{bounds}, such as `{example}` (units: {named})")
            }
            Kind::Fraction { min, max } => {
                let bounds =
                    range((*min, 0), (*max, u64::MAX), |n| literal::in_unit_of(found, *n, literal::FRACTION));
                let example = example("0.5%", 5_000_000, (*min, *max), literal::FRACTION);
                format!("a fraction{bounds}, such as `{example}` (units: %, ppm, ppb)")
            }
            Kind::File { max } => {
                format!("the path of a file of at most {}", literal::with_unit(*max, literal::SIZE))
            }
            Kind::Mac => "a MAC address such as `02:00:00:00:00:01`".to_owned(),
            Kind::Address { family: Family::Ipv4 } => "an IPv4 address such as `192.0.2.1`".to_owned(),
            Kind::Address { family: Family::Ipv6 } => "an IPv6 address such as `2001:db8::1`".to_owned(),
            Kind::Address { family: Family::Any } => {
                "an IP address such as `192.0.2.1` or `2001:db8::1`".to_owned()
            }
            Kind::Prefix { family: Family::Ipv4 } => "an IPv4 prefix such as `192.0.2.0/24`".to_owned(),
            Kind::Prefix { family: Family::Ipv6 } => "an IPv6 prefix such as `2001:db8::/32`".to_owned(),
            Kind::Prefix { family: Family::Any } => {
                "an IP prefix such as `192.0.2.0/24` or `2001:db8::/32`".to_owned()
            }
            Kind::PortRange => "a port such as `80` or a range such as `1000-2000`".to_owned(),
            Kind::List { min: 0, max, .. } => format!("a list of at most {max} items"),
            Kind::List { min, max, .. } if min == max => format!("a list of {min} items"),
            Kind::List { min, max, .. } => format!("a list of {min} to {max} items"),
            Kind::Map(schema) => {
                format!(
                    "a map of these keys: {}",
                    spelling::listed(schema.keys.iter().map(|k| k.name.as_str()))
                )
            }
        }
    }
}

impl Kind {
    /// A value of this kind as one would write it in YAML, on one line. Unlike [`Value`]'s own text this
    /// knows of rates.
    pub fn spelled(&self, value: &Value) -> String {
        match (self, value) {
            (Kind::Rate { of, .. }, Value::Integer(rate)) if *rate >= 0 => {
                literal::with_unit(rate.unsigned_abs(), of.units())
            }
            (Kind::Fraction { .. }, Value::Integer(parts)) if *parts >= 0 => {
                literal::with_unit(parts.unsigned_abs(), literal::FRACTION)
            }
            (Kind::List { items, .. }, Value::List(values)) => {
                let items: Vec<String> = values.iter().map(|value| items.spelled(value)).collect();
                format!("[{}]", items.join(", "))
            }
            (Kind::Map(schema), Value::Map(map)) => {
                let entry = |(name, value): (&str, &Value)| match schema.key(name) {
                    Some(key) => format!("{name}: {}", key.kind.spelled(value)),
                    None => format!("{name}: {value}"),
                };
                format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            _ => value.to_string(),
        }
    }
}

impl RateOf {
    pub(crate) fn units(self) -> &'static [literal::Unit] {
        match self {
            RateOf::Packets => literal::PACKET_RATE,
            RateOf::Bits => literal::BIT_RATE,
        }
    }
}

/// A value within bounds: the usual one, or else the bound that is nearest to it.
fn example(usual: &str, value: u64, (min, max): (u64, u64), units: &[literal::Unit]) -> String {
    let nearest = value.max(min).min(max);
    if nearest == value { usual.to_owned() } else { literal::with_unit(nearest, units) }
}

/// Bounds in words; the second of each pair is the bound that needs no word.
fn range<T: PartialEq>(min: (T, T), max: (T, T), show: impl Fn(&T) -> String) -> String {
    match (min.0 == min.1, max.0 == max.1) {
        (true, true) => String::new(),
        (true, false) => format!(" of at most {}", show(&max.0)),
        (false, true) => format!(" of at least {}", show(&min.0)),
        (false, false) => format!(" from {} to {}", show(&min.0), show(&max.0)),
    }
}
