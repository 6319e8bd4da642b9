//! Settings of a port, and their schema.

use kernel_interface::{OnActive, Owner};
use schema::Value;

/// The schema of the settings, in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the interface, in the network namespace of the process.
    pub interface: String,
    /// Bytes of the receive ring, rounded down to whole blocks of 256 KiB, at least two. As much, and at
    /// least 4 MiB, may wait in the queue of frames that are longer than a slot.
    pub ring: u64,
    /// Bytes that may wait for transmission inside the kernel; `None`: 4 MiB, or what the kernel allows.
    pub transmit_buffer: Option<u64>,
    /// Whether packets are sent past the interface's queueing discipline.
    pub qdisc_bypass: bool,
    /// Whether frames for other hosts are received.
    pub promiscuous: bool,
    /// Whether checksum and segmentation state are carried; without it the interface must not merge frames or
    /// leave checksums out.
    pub offload: bool,
    /// This program, where the interface is that of a guest: another program's is not opened.
    pub owner: Option<Owner>,
    /// Where the interface is that of a guest that others may stand by.
    pub active: Option<OnActive>,
}

impl Settings {
    /// Default settings on an interface.
    pub fn new(interface: &str) -> Settings {
        Settings {
            interface: interface.to_owned(),
            ring: 8 << 20,
            transmit_buffer: None,
            qdisc_bypass: false,
            promiscuous: true,
            offload: true,
            owner: None,
            active: None,
        }
    }

    /// The same of a guest's interface, which another program's guest may have under this name.
    pub fn of_guest(self, owner: Option<Owner>, active: Option<OnActive>) -> Settings {
        let interface = active.as_ref().and_then(OnActive::interface).map(str::to_owned);
        Settings { owner, active, interface: interface.unwrap_or(self.interface), ..self }
    }

    /// Takes over what was checked against [`SCHEMA`], which has the same defaults. A value that was not
    /// checked and names no interface gives settings that no port opens with.
    pub fn from_value(value: &Value) -> Settings {
        let interface = value.get("interface").and_then(Value::as_text).unwrap_or_default();
        let default = Settings::new(interface);
        let size = |key: &str| value.get(key).and_then(Value::as_size);
        let truth = |key: &str| value.get(key).and_then(Value::as_bool);
        Settings {
            ring: size("ring").unwrap_or(default.ring),
            transmit_buffer: size("transmit_buffer"),
            qdisc_bypass: truth("qdisc_bypass").unwrap_or(default.qdisc_bypass),
            promiscuous: truth("promiscuous").unwrap_or(default.promiscuous),
            offload: value
                .get("offload")
                .and_then(Value::as_text)
                .map_or(default.offload, |text| text != "off"),
            ..default
        }
    }
}
