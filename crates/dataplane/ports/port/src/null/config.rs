//! Settings of the port.

use crate::taking::Taking;
use schema::Value;

/// The settings in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether packets are supplied, as fast as they are asked for.
    pub supply: bool,
    /// Length of the supplied packets, in bytes without frame check sequence.
    pub size: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { supply: false, size: 60 }
    }
}

impl Config {
    /// Takes settings that were checked against [`SCHEMA`].
    ///
    /// # Errors
    /// The setting that is not what the schema says.
    pub fn from_value(value: &Value) -> Result<Config, String> {
        let taking = Taking(value);
        Ok(Config {
            supply: taking.required("supply", Value::as_bool)?,
            size: taking.required("size", |v| v.as_integer().and_then(|n| u32::try_from(n).ok()))?,
        })
    }
}
