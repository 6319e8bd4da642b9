//! Settings of the port.

use crate::taking::Taking;
use schema::Value;
use std::path::PathBuf;

/// The settings in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// When packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As recorded, so many times as fast, in percent (at least 1).
    Recorded(u32),
    /// As fast as they are taken.
    FlatOut,
}

/// What a port is opened with. At least one path is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The capture whose packets come from the port.
    pub read: Option<PathBuf>,
    /// The file for packets sent to the port.
    pub write: Option<PathBuf>,
    /// When packets come.
    pub pace: Pace,
    /// How often the capture is read; `None`: again and again.
    pub passes: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config { read: None, write: None, pace: Pace::Recorded(100), passes: Some(1) }
    }
}

impl Config {
    /// Takes settings that were checked against [`SCHEMA`], and checks what a schema cannot say.
    ///
    /// # Errors
    /// The setting that is wrong, what was found and what is allowed.
    pub fn from_value(value: &Value) -> Result<Config, String> {
        let taking = Taking(value);
        let path = |key| taking.optional(key, |value| value.as_text().map(PathBuf::from));
        let speed = taking.required("speed", |v| v.as_integer().and_then(|n| u32::try_from(n).ok()))?;
        let passes = taking.count("loop")?.unwrap_or(1);
        let config = Config {
            read: path("read")?,
            write: path("write")?,
            pace: match taking.required("pace", Value::as_text)? {
                "flat_out" => Pace::FlatOut,
                _ => Pace::Recorded(speed),
            },
            passes: (passes > 0).then_some(passes),
        };
        if config.read.is_none() && config.write.is_none() {
            return Err("read, write: found neither; allowed: one of them or both".to_owned());
        }
        Ok(config)
    }
}
