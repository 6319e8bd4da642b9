//! Settings of a port, and their schema.

use local_socket::Users;
use schema::Value;
use std::path::Path;

/// The schema of the settings, in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// Most queues of one port.
pub const QUEUES_MAX: usize = 16;

/// Which end of the interface the port is. The names are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Makes the socket; maps the memory of its peer.
    Master,
    /// Connects to the socket; makes the memory.
    Slave,
}

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which end the port is.
    pub role: Role,
    /// Path of the socket.
    pub socket: String,
    /// Whose process the peer may be.
    pub users: Users,
    /// Number of the interface.
    pub id: u32,
    /// Given by a slave, compared by a master; `None`: a master takes any.
    pub secret: Option<String>,
    /// Rings each way, 1 to [`QUEUES_MAX`].
    pub queues: u32,
    /// Entries of each ring, a power of two.
    pub ring: u32,
    /// Bytes of the buffers that a slave makes.
    pub buffer: u32,
    /// Whether the peer has the tenant's pool, for writing, in the place of memory that a slave makes.
    pub write: bool,
}

impl Settings {
    /// Default settings for a socket.
    pub fn new(role: Role, socket: &str) -> Settings {
        Settings {
            role,
            socket: socket.to_owned(),
            users: Users::own(),
            id: 0,
            secret: None,
            queues: 1,
            ring: 1024,
            buffer: 2048,
            write: false,
        }
    }

    /// Takes over what was checked against [`SCHEMA`], which has the same defaults. A value that was not
    /// checked and names no socket gives settings that no port opens with.
    pub fn from_value(value: &Value) -> Settings {
        let text = |key: &str| value.get(key).and_then(Value::as_text);
        let number =
            |key: &str| value.get(key).and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
        let role = if text("role") == Some("master") { Role::Master } else { Role::Slave };
        let default = Settings::new(role, text("socket").unwrap_or_default());
        Settings {
            users: number("uid").map_or(default.users, Users::One),
            id: number("id").unwrap_or(default.id),
            secret: text("secret").map(str::to_owned),
            queues: number("queues").unwrap_or(default.queues),
            ring: number("ring").unwrap_or(default.ring),
            buffer: number("buffer").unwrap_or(default.buffer),
            write: value.get("write").and_then(Value::as_bool).unwrap_or(default.write),
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
