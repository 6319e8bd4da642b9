//! What the operator chose.

use alloc::string::String;
use nf_sdk::{Config, Error, Nanos};

/// Most flows that a table has room for: entries are numbered in 20 bits.
pub(crate) const MOST_FLOWS: usize = 1_000_000;

/// The checked configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Flows in the table.
    pub(crate) flows: usize,
    /// Flows in each list of the report.
    pub(crate) top: usize,
    /// Whether both directions are one flow.
    pub(crate) bidirectional: bool,
    /// How often totals are logged.
    pub(crate) interval: Option<Nanos>,
}

impl Settings {
    pub(crate) fn read(config: &Config) -> Result<Settings, Error> {
        let within = |key: &str, limit: usize| match usize::try_from(config.integer(key)?) {
            Ok(number) if (1..=limit).contains(&number) => Ok(number),
            _ => Err(Error::Refused(String::from(key) + " is out of range")),
        };
        let interval = match config.optional("interval")? {
            Some(value) => Some(value.duration().ok_or_else(|| Error::WrongType(String::from("interval")))?),
            None => None,
        };
        if interval.is_some_and(|interval| interval < Nanos::from_millis(1)) {
            return Err(Error::Refused(String::from("interval is out of range")));
        }
        Ok(Settings {
            flows: within("flows", MOST_FLOWS)?,
            top: within("top", 1000)?,
            bidirectional: config.boolean("bidirectional")?,
            interval,
        })
    }
}
