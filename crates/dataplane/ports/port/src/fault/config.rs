//! Settings of the port.

use crate::taking::Taking;
use schema::Value;
use telemetry::clock::Nanos;

/// The settings in the language of configuration schemas: what stands under a port's key `fault`.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// Most packets that may overtake one.
pub const MOST_OVERTAKING: u32 = 64;

/// What is to happen to a port's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Another seed gives other decisions.
    pub seed: u64,
    /// Most packets that wait in each direction, at least 1.
    pub held: u32,
    /// To packets that come from the port.
    pub receive: Direction,
    /// To packets that go to the port.
    pub transmit: Direction,
}

/// What is to happen in one direction. Shares are in parts of [`schema::WHOLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Share that is lost.
    pub loss: u64,
    /// Share that comes twice.
    pub duplicate: u64,
    /// Share that is cut.
    pub truncate: u64,
    /// Share of which one bit is flipped.
    pub bit_flip: u64,
    /// Share that others overtake.
    pub reorder: u64,
    /// Most packets that overtake one, from 1 to [`MOST_OVERTAKING`].
    pub reorder_by: u32,
    /// How long every packet is held.
    pub delay: Nanos,
    /// Most that is added to that.
    pub jitter: Nanos,
    /// Most packets in a second.
    pub rate: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config { seed: 1, held: 4096, receive: Direction::default(), transmit: Direction::default() }
    }
}

impl Default for Direction {
    fn default() -> Direction {
        Direction {
            loss: 0,
            duplicate: 0,
            truncate: 0,
            bit_flip: 0,
            reorder: 0,
            reorder_by: 3,
            delay: Nanos(0),
            jitter: Nanos(0),
            rate: None,
        }
    }
}

impl Config {
    /// Takes settings that were checked against [`SCHEMA`].
    ///
    /// # Errors
    /// The setting that is not what the schema says.
    pub fn from_value(value: &Value) -> Result<Config, String> {
        let taking = Taking(value);
        let direction = |key: &str| match value.get(key) {
            None => Ok(Direction::default()),
            Some(value) => Direction::from_value(value).map_err(|why| format!("{key}: {why}")),
        };
        Ok(Config {
            seed: taking.count("seed")?.ok_or("seed: missing")?,
            held: taking.required("held", |v| v.as_integer().and_then(|n| u32::try_from(n).ok()))?,
            receive: direction("receive")?,
            transmit: direction("transmit")?,
        })
    }
}

impl Direction {
    fn from_value(value: &Value) -> Result<Direction, String> {
        let taking = Taking(value);
        let share = |key: &str| taking.count(key).map(Option::unwrap_or_default);
        let span = |key: &str| taking.span(key).map(Option::unwrap_or_default);
        Ok(Direction {
            loss: share("loss")?,
            duplicate: share("duplicate")?,
            truncate: share("truncate")?,
            bit_flip: share("bit_flip")?,
            reorder: share("reorder")?,
            reorder_by: taking
                .required("reorder_by", |v| v.as_integer().and_then(|n| u32::try_from(n).ok()))?,
            delay: span("delay")?,
            jitter: span("jitter")?,
            rate: taking.count("rate")?,
        })
    }
}
