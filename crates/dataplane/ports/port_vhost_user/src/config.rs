//! Settings of a port, and their schema.

use local_socket::Users;
use schema::Value;
use std::path::Path;

/// The schema of the settings, in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// Most pairs of rings of one port.
pub const QUEUES_MAX: usize = 16;

/// Who makes the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This port.
    Server,
    /// The front end.
    Client,
}

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who makes the socket.
    pub role: Role,
    /// Path of the socket.
    pub socket: String,
    /// Whose process the front end may be.
    pub users: Users,
    /// Most pairs of rings, 1 to [`QUEUES_MAX`].
    pub queues: u32,
    /// Whether checksums and segmentation may be left to the receivers.
    pub offload: bool,
    /// Most bytes of memory that the front end may share.
    pub memory: u64,
}

impl Settings {
    /// Default settings for a socket.
    pub fn new(role: Role, socket: &str) -> Settings {
        Settings {
            role,
            socket: socket.to_owned(),
            users: Users::own(),
            queues: 1,
            offload: true,
            memory: 4 << 30,
        }
    }

    /// Takes over what was checked against [`SCHEMA`], which has the same defaults. A value that was not
    /// checked and names no socket gives settings that no port opens with.
    pub fn from_value(value: &Value) -> Settings {
        let text = |key: &str| value.get(key).and_then(Value::as_text);
        let number =
            |key: &str| value.get(key).and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
        let role = if text("role") == Some("client") { Role::Client } else { Role::Server };
        let default = Settings::new(role, text("socket").unwrap_or_default());
        Settings {
            users: number("uid").map_or(default.users, Users::One),
            queues: number("queues").unwrap_or(default.queues),
            offload: text("offload").map_or(default.offload, |text| text != "off"),
            memory: value.get("memory").and_then(Value::as_size).unwrap_or(default.memory),
            ..default
        }
    }

    /// Those of a guest of the launcher's: the socket lies in this folder of guests' sockets, and processes
    /// of the guest's tenant may connect.
    #[must_use]
    pub fn of_guest(self, folder: &Path) -> Settings {
        let socket = folder.join(&self.socket).display().to_string();
        Settings { socket, users: Users::OfFolder, ..self }
    }
}
