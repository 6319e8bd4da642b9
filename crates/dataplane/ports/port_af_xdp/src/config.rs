//! Settings of a port, and their schema.

use kernel_interface::{OnActive, Owner};
use schema::Value;

/// The schema of the settings, in the language of configuration schemas.
pub const SCHEMA: &str = include_str!("settings.yaml");

/// How packets come out of the kernel and go into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The driver runs the program, the device reads and writes the UMEM.
    ZeroCopy,
    /// The driver runs the program, the kernel copies.
    Native,
    /// The kernel runs the program on what the driver gave it, and copies.
    Generic,
}

impl Mode {
    /// All, the best first.
    pub const ALL: [Mode; 3] = [Mode::ZeroCopy, Mode::Native, Mode::Generic];

    /// The name in the settings.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::ZeroCopy => "zero_copy",
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }
}

/// Whose memory the kernel reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UmemChoice {
    /// The pool, unless the kernel refuses it.
    Pool,
    /// Memory of the port's own.
    Own,
}

/// Whether received packets are looked at for checksums that their sender left unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedChecksums {
    /// On interfaces whose other end may be a kernel.
    Auto,
    /// They are.
    Find,
    /// They are not.
    Ignore,
}

/// What a port is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the interface, in the network namespace of the process.
    pub interface: String,
    /// The mode; `None` takes the best that works.
    pub mode: Option<Mode>,
    /// Receive queues; `None` takes all.
    pub queues: Option<Vec<u32>>,
    /// Whose memory the kernel reads and writes.
    pub umem: UmemChoice,
    /// Most buffers that lie ready for each queue, rounded up to a power of two.
    pub receive_ring: u32,
    /// Most packets that wait for the kernel in each queue, rounded up to a power of two.
    pub transmit_ring: u32,
    /// Whether frames for other hosts are received.
    pub promiscuous: bool,
    /// Whether unfinished checksums are looked for.
    pub unfinished_checksums: UnfinishedChecksums,
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
            mode: None,
            queues: None,
            umem: UmemChoice::Pool,
            receive_ring: 1024,
            transmit_ring: 1024,
            promiscuous: true,
            unfinished_checksums: UnfinishedChecksums::Auto,
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
        let number = |value: &Value| value.as_integer().and_then(|number| u32::try_from(number).ok());
        let text = |key: &str| value.get(key).and_then(Value::as_text);
        let queues = value.get("queues").and_then(Value::as_list);
        Settings {
            mode: Mode::ALL.into_iter().find(|mode| text("mode") == Some(mode.name())),
            queues: queues.map(|queues| queues.iter().filter_map(number).collect()),
            umem: if text("umem") == Some("own") { UmemChoice::Own } else { UmemChoice::Pool },
            receive_ring: value.get("receive_ring").and_then(number).unwrap_or(default.receive_ring),
            transmit_ring: value.get("transmit_ring").and_then(number).unwrap_or(default.transmit_ring),
            promiscuous: value.get("promiscuous").and_then(Value::as_bool).unwrap_or(default.promiscuous),
            unfinished_checksums: match text("unfinished_checksums") {
                Some("find") => UnfinishedChecksums::Find,
                Some("ignore") => UnfinishedChecksums::Ignore,
                _ => UnfinishedChecksums::Auto,
            },
            ..default
        }
    }
}
