//! What the engine tells of the device behind a port, and asking it for neighbours.

use native_abi::devices::{ASKS_MAX, DEVICES_MESSAGE_MAX, DevicesPart, MAX_DEVICE_ENTRIES, asks};
use nf_abi::{DEVICE_ENTRY, DeviceEntry};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// The socket for devices, and what came there.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// `None`: the port is of an older program, or is closed.
    socket: Option<OwnedFd>,
    /// Entries of the last table that came whole.
    table: Vec<u8>,
    /// Those of the next one.
    begun: Vec<u8>,
    /// The table is another one than that which was last asked for.
    pub changed: bool,
}

impl Devices {
    pub fn new(socket: Option<OwnedFd>) -> Devices {
        Devices { socket, ..Devices::default() }
    }

    /// Reads what has come.
    pub fn read(&mut self) {
        let mut message = [0u8; DEVICES_MESSAGE_MAX];
        while let Some(socket) = &self.socket {
            match recv(socket, &mut message[..], RecvFlags::DONTWAIT) {
                Ok((_, length @ 1..)) => self.take(message.get(..length).unwrap_or_default()),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                _ => self.socket = None,
            }
        }
    }

    fn take(&mut self, message: &[u8]) {
        let part = DevicesPart::from_bytes(message);
        let most = MAX_DEVICE_ENTRIES * DEVICE_ENTRY;
        // Of an engine that breaks the contract nothing more is read.
        let Some(part) = part.ok().filter(|part| self.begun.len() + part.entries.len() <= most) else {
            self.socket = None;
            return;
        };
        self.begun.extend_from_slice(part.entries);
        if part.left == 0 {
            self.table = std::mem::take(&mut self.begun);
            self.changed = true;
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = DeviceEntry> {
        self.table.as_chunks::<DEVICE_ENTRY>().0.iter().filter_map(DeviceEntry::decode)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.table
    }

    pub fn ask(&self, addresses: &[IpAddr]) -> usize {
        let Some(socket) = &self.socket else { return 0 };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut sent = 0;
        for some in addresses.chunks(ASKS_MAX) {
            if send(socket, &asks(some), flags).is_err() {
                break;
            }
            sent += some.len();
        }
        sent
    }
}
