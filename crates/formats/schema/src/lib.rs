//! Schemas: which configuration a function or a port takes, and whether a given one is that.
//!
//! The life of a configuration:
//! 1. An image's manifest or a port's driver brings a [`Schema`], itself YAML; its defaults are checked like
//!    any value.
//! 2. The operator's YAML is checked against it by [`Schema::check`]: every fault is told, with its line,
//!    what was found and what is allowed.
//! 3. What comes out is a [`Value`]: defaults filled in, units resolved, keys in the schema's order.
//! 4. A driver reads it by key; a function gets it as CBOR, see [`Value::to_cbor`].
//! 5. [`Schema::documentation`] says the same to people.
//!
//! A schema is a map from key to description:
//! ```yaml
//! max_flows: {type: integer, min: 1, max: 4000000, default: 65536, unit: flows, help: Flows that are tracked.}
//! rules:
//!   type: list
//!   max: 4096
//!   required: false
//!   items: {type: map, keys: {action: {type: enum, values: [accept, drop], required: true}}}
//! ```
//! Each key has one of `required: true`, `required: false` (it may be absent) and `default: ...`; `help` and
//! `unit` are optional. The types, with what they may have:
//!
//! | type | further keys | in YAML | [`Value`] |
//! |---|---|---|---|
//! | `boolean` | | `true`, `false` | `Boolean` |
//! | `integer` | `min`, `max` | `10`, `-3`, `0x1f` | `Integer` |
//! | `string` | `min_length`, `max_length` (in characters) | `text` | `Text` |
//! | `enum` | `values` | one of the values | `Text` |
//! | `duration` | `min`, `max` | `250ms`, `1.5s`; ns, us, ms, s, m, h, d | `Duration`, nanoseconds |
//! | `size` | `min`, `max` | `64KiB`; B, KiB, MiB, GiB | `Size`, bytes |
//! | `rate` | `of` (`packets`, `bits`), `min`, `max` | `1.5Mpps`, `10Gbps` | `Integer`, per second |
//! | `fraction` | `min`, `max` | `0.5%`, `20ppm`; %, ppm, ppb | `Integer`, parts per billion |
//! | `file` | `max` (a size) | `lists/web.rules` | `File`, with what is in it |
//! | `mac` | | `02:00:00:00:00:01` | `Mac` |
//! | `address` | `family` (`ipv4`, `ipv6`, `any`) | `192.0.2.1` | `Address` |
//! | `prefix` | `family` | `192.0.2.0/24` | `Prefix` |
//! | `port_range` | | `80`, `1000-2000` | `PortRange` |
//! | `list` | `items`, `min`, `max` (items) | `[a, b]` | `List` |
//! | `map` | `keys` | `{a: 1}` | `Map` |
//!
//! Limits: [`MAX_KEYS`] keys in a map, [`MAX_VALUES`] values in a checked configuration, text of
//! [`MAX_STRING`] characters and lists of [`MAX_ITEMS`] items unless the schema says otherwise.

#![forbid(unsafe_code)]

mod cbor;
mod check;
mod documentation;
mod files;
mod kind;
mod literal;
mod parse;
#[cfg(test)]
mod tests;
mod value;

pub use documentation::KeyDocumentation;
pub use files::{Files, NoFiles};
pub use kind::{Family, Kind, Presence, RateOf, Schema, SchemaKey};
pub use value::{Map, Value};

/// Most keys in one map of a schema.
pub const MAX_KEYS: usize = 256;

/// Most values in one checked configuration, defaults included.
pub const MAX_VALUES: usize = 1_000_000;

/// Longest string, in characters, unless the schema says otherwise.
pub const MAX_STRING: u64 = 4096;

/// Most items in a list, unless the schema says otherwise.
pub const MAX_ITEMS: u64 = 4096;

/// The whole of a fraction: a billion parts.
pub const WHOLE: u64 = 1_000_000_000;

/// Largest file, unless the schema says otherwise, in bytes.
pub const MAX_FILE: u64 = 16 << 20;

/// Reads a size as configurations spell it (`64KiB`, `2GiB`); bytes.
pub fn size(text: &str) -> Option<u64> {
    literal::number_with_unit(text, literal::SIZE).ok()
}

/// Reads a duration as configurations spell it (`250ms`, `10s`); nanoseconds.
pub fn duration(text: &str) -> Option<u64> {
    literal::number_with_unit(text, literal::DURATION).ok()
}
