//! Settings of a port, and their schema.

use schema::Value;

/// The schema of the settings, in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// Most queues of one port.
pub const MAX_QUEUES: u32 = 16;

/// The state into which a device is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Switched on.
    Up,
    /// Switched off.
    Down,
    /// As it is.
    Keep,
}

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the device, in the network namespace of the process.
    pub interface: String,
    /// Whether it is made when it is not there.
    pub create: bool,
    /// How many queues, 1 to [`MAX_QUEUES`].
    pub queues: u32,
    /// Whether checksums and segmentation may be left to the receivers of the packets.
    pub offload: bool,
    /// The state into which it is set when it is opened.
    pub state: DeviceState,
    /// Whether the device outlives the port. One that does already is left so.
    pub persist: bool,
    /// User, by name or number, that may open it without privileges.
    pub user: Option<String>,
    /// Group, by name or number, whose members may.
    pub group: Option<String>,
    /// Longest IP packet in bytes; `None` leaves it as it is.
    pub mtu: Option<u32>,
    /// Ethernet address of the kernel's side; `None` leaves it as it is.
    pub mac: Option<[u8; 6]>,
    /// Packets that wait in each queue for the port; `None` leaves it as it is.
    pub queue_length: Option<u32>,
}

impl Settings {
    /// Default settings for a device.
    pub fn new(interface: &str) -> Settings {
        Settings {
            interface: interface.to_owned(),
            create: true,
            queues: 1,
            offload: true,
            state: DeviceState::Up,
            persist: false,
            user: None,
            group: None,
            mtu: None,
            mac: None,
            queue_length: None,
        }
    }

    /// Takes over what was checked against [`SCHEMA`], which has the same defaults. A value that was not
    /// checked and names no interface gives settings that no port opens with.
    pub fn from_value(value: &Value) -> Settings {
        let text = |key: &str| value.get(key).and_then(Value::as_text);
        let flag = |key: &str| value.get(key).and_then(Value::as_bool);
        let number =
            |key: &str| value.get(key).and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
        let default = Settings::new(text("interface").unwrap_or_default());
        Settings {
            create: flag("create").unwrap_or(default.create),
            queues: number("queues").unwrap_or(default.queues),
            offload: text("offload").map_or(default.offload, |text| text != "off"),
            state: match text("state") {
                Some("down") => DeviceState::Down,
                Some("keep") => DeviceState::Keep,
                _ => default.state,
            },
            persist: flag("persist").unwrap_or(default.persist),
            user: text("user").map(str::to_owned),
            group: text("group").map(str::to_owned),
            mtu: number("mtu"),
            mac: value.get("mac").and_then(Value::as_mac),
            queue_length: number("queue_length"),
            interface: default.interface,
        }
    }
}
