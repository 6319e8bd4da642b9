//! Settings of a port, and their schema.

use clock::Nanos;
use schema::Value;

/// The schema of the settings, in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the interface, in the network namespace of the process.
    pub interface: String,
    /// Longest time that a frame waits in a block that is not full; whole milliseconds, rounded up.
    pub retire: Nanos,
    /// Bytes of the receive ring, rounded down to whole blocks, at least two.
    pub ring: u64,
    /// Bytes that may wait for transmission inside the kernel; `None`: 4 MiB, or what the kernel allows.
    pub transmit_buffer: Option<u64>,
    /// Whether frames for other hosts are received.
    pub promiscuous: bool,
    /// Whether checksum and segmentation state are carried; without it the interface must not merge frames or leave
    /// checksums out.
    pub offload: bool,
}

impl Settings {
    /// Default settings on an interface.
    pub fn new(interface: &str) -> Settings {
        Settings {
            interface: interface.to_owned(),
            retire: Nanos::from_millis(1),
            ring: 8 << 20,
            transmit_buffer: None,
            promiscuous: true,
            offload: true,
        }
    }

    /// Takes over what was checked against [`SCHEMA`], which has the same defaults. A value that was not checked and
    /// names no interface gives settings that no port opens with.
    pub fn from_value(value: &Value) -> Settings {
        let interface = value.get("interface").and_then(Value::as_text).unwrap_or_default();
        let default = Settings::new(interface);
        let size = |key: &str| value.get(key).and_then(Value::as_size);
        Settings {
            retire: value.get("retire").and_then(Value::as_duration).map_or(default.retire, Nanos),
            ring: size("ring").unwrap_or(default.ring),
            transmit_buffer: size("transmit_buffer"),
            promiscuous: value.get("promiscuous").and_then(Value::as_bool).unwrap_or(default.promiscuous),
            offload: value
                .get("offload")
                .and_then(Value::as_text)
                .map_or(default.offload, |text| text != "off"),
            ..default
        }
    }
}
