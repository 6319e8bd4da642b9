//! Settings of the port.

use super::sides::Sides;
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
    /// How the capture's two sides are told apart, if only the inner one's packets come from this port.
    pub sides: Option<Sides>,
    /// The port of whose capture the outer side's packets come from this one.
    pub side_of: Option<String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            read: None,
            write: None,
            pace: Pace::Recorded(100),
            passes: Some(1),
            sides: None,
            side_of: None,
        }
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
            sides: taking.optional("sides", |sides| {
                Some(match sides.get("inside") {
                    None => Sides::Openers,
                    Some(prefix) => {
                        prefix.as_prefix().map(|(address, length)| Sides::Prefix(address, length))?
                    }
                })
            })?,
            side_of: taking.optional("side_of", |value| value.as_text().map(str::to_owned))?,
        };
        let Config { read, write, pace, passes, sides, side_of } = &config;
        if read.is_none() && write.is_none() && side_of.is_none() {
            return Err("read, write: found neither; allowed: one of them or both".to_owned());
        }
        if side_of.is_some() && (read.is_some() || sides.is_some()) {
            return Err(
                "side_of: found beside read or sides; allowed: the port that it names has them".to_owned()
            );
        }
        if side_of.is_some() && (*pace, *passes) != (Pace::Recorded(100), Some(1)) {
            return Err(
                "side_of: found beside pace, speed or loop; allowed: the port that it names has them"
                    .to_owned(),
            );
        }
        if sides.is_some() && read.is_none() {
            return Err("sides: found without read; allowed: beside read".to_owned());
        }
        Ok(config)
    }
}
