//! Devices that another process makes, in a network namespace that the port may not enter, and whose queue
//! it hands to the port's process.
//!
//! 1. That process makes a device in the namespace of its thread ([`make`]). It stays until the namespace
//!    ends or the device is removed, whether or not a process has its queue.
//! 2. It opens the queue ([`open_queue`]), which is one: as long as a process has it, no other gets it.
//! 3. The port's process is given the descriptor and keeps it in [`Handed`], where the port finds it, also
//!    one that is opened in the place of another.
//!
//! A descriptor keeps the namespace alive in which the driver's file was opened. So that a device ends with
//! its guest, the process that made it removes it then, which the port sees at once.

use crate::device::Device;
use crate::inquiry::Inquiry;
use crate::link::Change;
use crate::{DeviceState, OpenError, Settings};
use kernel_interface::OnActive;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Segments of a device for guests are shorter than this. The longest that the kernel's TCP makes on any
/// other interface are 65,281 bytes; what is to go through a guest and is no shorter than this is cut there.
/// A buffer of 64 KiB has room for them, with a headroom of up to 233 bytes. In other pools there are none.
pub(crate) const SEGMENTS: u32 = 65_300;

/// What the kernel gives a device that is made.
const MTU: u32 = 1500;

/// Makes a device of this name in the network namespace of the calling thread, switched off.
///
/// # Errors
/// [`OpenError`].
pub fn make(interface: &str, mtu: Option<u32>, mac: [u8; 6]) -> Result<(), OpenError> {
    let settings = Settings {
        // Without an owner each process that may open the driver's file could take a queue that is free. A
        // guest's users are none of the host's, so that none of them is this one.
        user: Some("0".to_owned()),
        state: DeviceState::Keep,
        mtu,
        mac: Some(mac),
        ..Settings::new(interface)
    };
    let system =
        |operation| move |source| OpenError::System { interface: interface.to_owned(), operation, source };
    settings.check()?;
    let inquiry = Inquiry::here().map_err(system("opening a socket to ask about it"))?;
    let taken = inquiry.link(interface).map_err(system("asking for it"))?;
    if let Some(link) = taken {
        let kind = link.kind.unwrap_or_else(|| "another interface".to_owned());
        return Err(OpenError::OtherKind { interface: interface.to_owned(), kind });
    }
    let device = Device::open(&inquiry, &settings)?;
    let absent = || io::Error::from_raw_os_error(libc::ENODEV);
    let made = inquiry.link(interface).and_then(|link| link.ok_or_else(absent));
    let made = made.map_err(system("asking how it is"))?;
    let change = Change { gso_max_size: Some(SEGMENTS), ..Change::default() };
    inquiry.change(made.index, &change).map_err(system("limiting its segments"))?;
    // Last: what failed until here leaves no device behind.
    device.stay().map_err(system("making it stay"))
}

/// Opens the queue of a device that was made, in the network namespace of the calling thread.
///
/// # Errors
/// [`OpenError::Busy`]: another process has it; and the others.
pub fn open_queue(interface: &str) -> Result<OwnedFd, OpenError> {
    let settings = Settings { create: false, state: DeviceState::Keep, ..Settings::new(interface) };
    settings.check()?;
    let inquiry = Inquiry::here().map_err(|source| OpenError::System {
        interface: interface.to_owned(),
        operation: "opening a socket to ask about it",
        source,
    })?;
    let mut device = Device::open(&inquiry, &settings)?;
    // A device that was opened has a queue.
    Ok(device.queues.swap_remove(0).into())
}

/// Queues by the names of their ports' interfaces, of each guest.
type Queues = HashMap<String, Vec<(String, Arc<OwnedFd>)>>;

/// Where ports find the queues that were handed to this process.
#[derive(Clone, Debug, Default)]
pub struct Handed(Arc<Mutex<Queues>>);

impl Handed {
    /// Keeps the queues of a guest, in the place of those that it had.
    pub fn keep(&self, guest: &str, queues: Vec<(String, OwnedFd)>) {
        let queues: Vec<_> = queues.into_iter().map(|(name, queue)| (name, Arc::new(queue))).collect();
        match queues.is_empty() {
            true => self.queues().remove(guest),
            false => self.queues().insert(guest.to_owned(), queues),
        };
    }

    /// Keeps those of the guests alone for which this holds.
    pub fn retain(&self, stays: impl Fn(&str) -> bool) {
        self.queues().retain(|guest, _| stays(guest));
    }

    /// The queue of the port with this interface.
    pub(crate) fn queue(&self, interface: &str) -> Option<Arc<OwnedFd>> {
        let queues = self.queues();
        queues.values().flatten().find(|(name, _)| name == interface).map(|(_, queue)| queue.clone())
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port's hold on a queue that it was handed.
#[derive(Debug)]
pub(crate) struct Hold {
    handed: Handed,
    /// What the port has.
    has: Option<Arc<OwnedFd>>,
    /// Where others may stand by its guest.
    active: Option<OnActive>,
}

impl Hold {
    pub fn on(handed: &Handed, active: Option<OnActive>) -> Hold {
        Hold { handed: handed.clone(), has: None, active }
    }

    /// The name by which there is a queue for the port now, when another guest has become the active one.
    pub fn turn(&mut self) -> Option<String> {
        self.active.as_mut().and_then(OnActive::turn)
    }

    /// What there is to count of that.
    pub fn details(&self, is_up: bool) -> Vec<(&'static str, u64)> {
        self.active.as_ref().map(|active| active.details(is_up)).unwrap_or_default()
    }

    /// Whether the port has what there is for it.
    pub fn is_current(&self, interface: &str) -> bool {
        match (&self.has, self.handed.queue(interface)) {
            (Some(has), Some(there)) => Arc::ptr_eq(has, &there),
            (None, None) => true,
            _ => false,
        }
    }

    /// Takes what there is for the port.
    pub fn take(&mut self, settings: &Settings) -> Result<Device, String> {
        let interface = &settings.interface;
        self.has = None;
        let queue = self.handed.queue(interface);
        let queue =
            queue.ok_or_else(|| format!("interface `{interface}` comes with its guest; waiting for it"))?;
        let device =
            Device::of_queue(queue.try_clone().map_err(|error| format!("interface `{interface}`: {error}"))?);
        self.has = Some(queue);
        Ok(device)
    }
}

/// The longest IP packet of a device that was made with this.
pub(crate) fn mtu(settings: &Settings) -> u32 {
    settings.mtu.unwrap_or(MTU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_what_there_is_for_it_and_nothing_that_was_taken_back() {
        let (handed, settings) = (Handed::default(), Settings::new("sfg-0"));
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("a file"));
        let mut hold = Hold::on(&handed, None);
        assert!(hold.is_current("sfg-0"));
        assert!(hold.take(&settings).expect_err("none").contains("comes with its guest"));
        handed.keep("a", vec![("sfg-0".to_owned(), file()), ("sfg-1".to_owned(), file())]);
        assert!(!hold.is_current("sfg-0"));
        hold.take(&settings).expect("there is one");
        assert!(hold.is_current("sfg-0") && !hold.is_current("sfg-1"));
        // A second port in its place finds the same.
        Hold::on(&handed, None).take(&settings).expect("there is one");
        handed.keep("b", vec![("sfg-2".to_owned(), file())]);
        assert!(hold.is_current("sfg-0"));
        handed.keep("a", vec![("sfg-0".to_owned(), file())]);
        assert!(!hold.is_current("sfg-0"), "another one");
        hold.take(&settings).expect("there is one");
        handed.retain(|guest| guest != "a");
        assert!(!hold.is_current("sfg-0") && handed.queue("sfg-2").is_some());
        assert!(hold.take(&settings).is_err() && hold.is_current("sfg-0"));
    }
}
