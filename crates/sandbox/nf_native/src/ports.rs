//! The ports of the function's interfaces.

use crate::StartError;
use manifest::{Access, Manifest};
use nf_sdk::Nanos;
use std::net::IpAddr;
use std::time::Duration;
use superfluid_native::{Attachment, DeviceEntry, Interest, Packet, Woken, poll};

/// An attachment for each interface; all share one pool.
#[derive(Debug)]
pub(crate) struct Ports(Vec<Attachment>);

impl Ports {
    /// Attaches to them.
    pub fn attach(sockets: &[String], manifest: &Manifest) -> Result<Ports, StartError> {
        let mut ports: Vec<Attachment> = Vec::new();
        for socket in sockets {
            let wrong = |reason: &str| StartError::Port { socket: socket.clone(), reason: reason.to_owned() };
            let port = Attachment::attach(socket)
                .map_err(|source| StartError::Attach { socket: socket.clone(), source })?;
            if manifest.access == Access::Write && !port.told().write {
                return Err(wrong(
                    "found a port with `write: false`; allowed: `write: true`, because the function writes to packets",
                ));
            }
            if ports.first().is_some_and(|first| !first.shares_pool_with(&port)) {
                return Err(wrong(
                    "found a port of another pool than the first one's; allowed: ports of one tenant and pool",
                ));
            }
            ports.push(port);
        }
        Ok(Ports(ports))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The text that the first port has for the process.
    pub fn told(&self) -> &[u8] {
        self.0.first().map_or(&[], |port| &port.told().config)
    }

    /// Buffers that the process may have by its first port.
    pub fn held(&self) -> usize {
        self.0.first().map_or(0, |port| port.told().held as usize)
    }

    pub fn buffer_size(&self) -> u32 {
        self.0.first().map_or(0, |port| port.told().buffer_size)
    }

    /// Where the pool lies.
    pub fn window(&self) -> *mut u8 {
        self.0.first().map_or(std::ptr::null_mut(), |port| port.data(&Packet::default()))
    }

    pub fn receive(&mut self, interface: usize, packets: &mut [Packet]) -> usize {
        self.0.get_mut(interface).map_or(0, |port| port.receive(packets))
    }

    /// Sends as many as there is room for; how many.
    pub fn send(&mut self, interface: usize, packets: &[Packet]) -> usize {
        self.0.get_mut(interface).map_or(0, |port| port.send(packets))
    }

    /// Gives buffers back. There is room for all that the process can have.
    pub fn release(&mut self, packets: &[Packet]) {
        if let Some(port) = self.0.first_mut() {
            port.release(packets);
        }
    }

    /// Empty buffers, as many as there are already: what is missing comes later.
    pub fn allocate(&mut self, packets: &mut [Packet]) -> usize {
        self.0.first_mut().map_or(0, |port| port.allocate(packets))
    }

    /// Whether a device behind one of them has changed since this was last called.
    pub fn devices_changed(&mut self) -> bool {
        self.0.iter_mut().fold(false, |changed, port| port.devices_changed() | changed)
    }

    /// What is behind all of them, by the function's interfaces, as the host would tell it.
    pub fn devices(&self) -> Vec<DeviceEntry> {
        let all =
            (0..).zip(&self.0).flat_map(|(number, port)| port.devices().map(move |entry| of(entry, number)));
        all.take(nf_abi::MAX_DEVICE_ENTRIES).collect()
    }

    /// Asks for neighbours behind an interface. What the port does not take is lost: functions ask again.
    pub fn ask(&self, interface: u16, addresses: &[IpAddr]) {
        if let Some(port) = self.0.get(usize::from(interface)) {
            port.ask(addresses);
        }
    }

    /// Sleeps until there is something, or the time is there; false when a port is closed. Where something is
    /// `blocked` by an interface, it sleeps until there is room there instead, and nothing is received.
    pub fn wait(&mut self, now: Nanos, until: Option<Nanos>, blocked: impl Fn(usize) -> bool) -> bool {
        let receive = !(0..self.0.len()).any(&blocked);
        let interest = |(interface, attachment)| Interest { attachment, receive, send: blocked(interface) };
        let mut all: Vec<Interest<'_>> = self.0.iter_mut().enumerate().map(interest).collect();
        let span = until.map(|until| Duration::from_nanos(until.since(now).0));
        !matches!(poll(&mut all, span), Woken::Closed(_))
    }
}

/// What a port says of its one interface, which has this number here.
fn of(entry: DeviceEntry, number: u16) -> DeviceEntry {
    match entry {
        DeviceEntry::Interface { is_up, mac, mtu, .. } => {
            DeviceEntry::Interface { interface: number, is_up, mac, mtu }
        }
        DeviceEntry::Address { address, prefix, .. } => {
            DeviceEntry::Address { interface: number, address, prefix }
        }
        DeviceEntry::Neighbour { address, state, mac, .. } => {
            DeviceEntry::Neighbour { interface: number, address, state, mac }
        }
        DeviceEntry::Gateway { address, .. } => DeviceEntry::Gateway { interface: number, address },
        member @ DeviceEntry::Member { .. } => member,
    }
}
