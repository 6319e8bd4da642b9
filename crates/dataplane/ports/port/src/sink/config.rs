//! Settings of the port.

use crate::taking::Taking;
use schema::Value;
use telemetry::clock::Nanos;

/// The settings in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// What is looked at in each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing.
    #[default]
    None,
    /// Headers and checksums.
    Checksums,
}

/// What a port is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// What is looked at in each packet.
    pub check: Check,
    /// How often the rate is told.
    pub report: Option<Nanos>,
}

impl Config {
    /// Takes settings that were checked against [`SCHEMA`].
    ///
    /// # Errors
    /// The setting that is not what the schema says.
    pub fn from_value(value: &Value) -> Result<Config, String> {
        let taking = Taking(value);
        let check = taking.required("check", |value| match value.as_text()? {
            "none" => Some(Check::None),
            "checksums" => Some(Check::Checksums),
            _ => None,
        })?;
        Ok(Config { check, report: taking.span("report")? })
    }
}
