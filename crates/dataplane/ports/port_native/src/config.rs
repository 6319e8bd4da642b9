//! Settings of a port, and their schema.

use local_socket::Users;
use schema::Value;
use std::path::Path;
use telemetry::clock::Nanos;

/// The schema of the settings, in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Path of the socket.
    pub socket: String,
    /// Whose processes may attach.
    pub users: Users,
    /// Whether the process may write to packets.
    pub write: bool,
    /// Entries of the rings each way, a power of two.
    pub ring: u32,
    /// Buffers that the process may have at a time by this port.
    pub held: u32,
    /// After so long without a sign of life a process counts as hung.
    pub heartbeat: Nanos,
    /// Handed to the process.
    pub config: String,
    /// Processes that may be attached beside the one that has the packets, to take over from it.
    pub standby: u32,
    /// The guest of the launcher's whose processes these are.
    pub guest: Option<String>,
}

impl Settings {
    /// Default settings for a socket.
    pub fn new(socket: &str) -> Settings {
        Settings {
            socket: socket.to_owned(),
            users: Users::own(),
            write: false,
            ring: 512,
            held: 1024,
            heartbeat: Nanos(1_000_000_000),
            config: String::new(),
            standby: 0,
            guest: None,
        }
    }

    /// Takes over what was checked against [`SCHEMA`], which has the same defaults. A value that was not
    /// checked and names no socket gives settings that no port opens with.
    pub fn from_value(value: &Value) -> Settings {
        let text = |key: &str| value.get(key).and_then(Value::as_text);
        let number =
            |key: &str| value.get(key).and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
        let default = Settings::new(text("socket").unwrap_or_default());
        Settings {
            users: number("uid").map_or(default.users, Users::One),
            write: value.get("write").and_then(Value::as_bool).unwrap_or(default.write),
            ring: number("ring").unwrap_or(default.ring),
            held: number("held").unwrap_or(default.held),
            heartbeat: value.get("heartbeat").and_then(Value::as_duration).map_or(default.heartbeat, Nanos),
            standby: number("standby").unwrap_or(default.standby),
            config: text("config").unwrap_or_default().to_owned(),
            socket: default.socket,
            guest: default.guest,
        }
    }

    /// Those of a guest of the launcher's: the socket lies in this folder of guests' sockets, and processes
    /// of the guest's tenant may attach.
    #[must_use]
    pub fn of_guest(self, folder: &Path) -> Settings {
        let guest = self.socket.split_once('/').map(|(guest, _)| guest.to_owned());
        let socket = folder.join(&self.socket).display().to_string();
        Settings { socket, users: Users::OfFolder, guest, ..self }
    }
}
