//! A device with its queues: how it is found or made, and set up.

use crate::accounts::resolve;
use crate::inquiry::{Inquiry, identify};
use crate::link::{Change, Link};
use crate::queue::{DRIVER, Queue};
use crate::state::Presence;
use crate::{DeviceState, MAX_QUEUES, OpenError, Settings};
use rustix::event::epoll;
use rustix::process::geteuid;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use virtio_net::VnetHeader;

/// A TAP device that the port has attached to.
#[derive(Debug)]
pub(crate) struct Device {
    pub queues: Vec<Queue>,
    /// Readable when one of several queues is.
    ready: Option<OwnedFd>,
    /// What the kernel had lost when the port came.
    lost_before: u64,
}

impl Settings {
    /// Refuses settings that no device can have.
    ///
    /// # Errors
    /// [`OpenError::BadName`], [`OpenError::BadQueues`] or [`OpenError::BadMac`].
    pub fn check(&self) -> Result<(), OpenError> {
        let interface = self.interface.clone();
        let bad = |c: char| matches!(c, '/' | ':' | '%' | '\0') || c.is_whitespace();
        let dots = interface == "." || interface == "..";
        if interface.is_empty() || dots || interface.len() >= libc::IFNAMSIZ || interface.contains(bad) {
            return Err(OpenError::BadName { interface });
        }
        if self.queues == 0 || self.queues > MAX_QUEUES {
            return Err(OpenError::BadQueues { interface, found: self.queues });
        }
        if self.mac.is_some_and(|mac| mac[0] & 1 != 0 || mac == [0; 6]) {
            return Err(OpenError::BadMac { interface });
        }
        Ok(())
    }
}

impl Device {
    /// Takes the device that the settings name, or makes it. Nothing is left to us by the kernel yet.
    pub fn open(inquiry: &Inquiry, settings: &Settings) -> Result<Device, OpenError> {
        Device::open_by(DRIVER, inquiry, settings)
    }

    /// As above, by another file of the driver.
    pub fn open_by(driver: &str, inquiry: &Inquiry, settings: &Settings) -> Result<Device, OpenError> {
        let name = settings.interface.as_str();
        let owner = account(settings, "user", "/etc/passwd", settings.user.as_deref())?;
        let group = account(settings, "group", "/etc/group", settings.group.as_deref())?;
        let found = inquiry.link(name).map_err(system(name, "asking for it"))?;
        match &found {
            Some(link) => fits(settings, link)?,
            None if !settings.create => {
                return Err(OpenError::Absent {
                    interface: name.to_owned(),
                    present: kernel_interface::present(),
                });
            }
            None => {}
        }
        let queues = attach(driver, settings, found.as_ref())?;
        let first = &queues[0];
        let (_, flags) = first.describe().map_err(system(name, "asking for its flags"))?;
        if flags & libc::IFF_VNET_HDR == 0 || flags & libc::IFF_NO_PI == 0 {
            let why = "another process has a queue of the TAP device and uses it without virtio-net headers"
                .to_owned();
            return Err(OpenError::Busy { interface: name.to_owned(), why });
        }
        first.set_header_size(VnetHeader::LENGTH).map_err(system(name, "setting its header's size"))?;
        first.set_offload(0).map_err(system(name, "setting its offloads"))?;
        if let Some(owner) = owner {
            first.set_owner(owner).map_err(system(name, "setting its user"))?;
        }
        if let Some(group) = group {
            first.set_group(group).map_err(system(name, "setting its group"))?;
        }
        let lost_before = set_up(inquiry, settings)?;
        let ready = gather(&queues).map_err(system(name, "gathering its queues"))?;
        Ok(Device { queues, ready, lost_before })
    }

    /// Has the device stay when its queues are closed.
    pub fn stay(&self) -> io::Result<()> {
        self.queues[0].set_persistent()
    }

    /// A device of which another process has made ready this one queue, and nothing is left to us yet.
    pub fn of_queue(queue: OwnedFd) -> Device {
        Device { queues: vec![queue.into()], ready: None, lost_before: 0 }
    }

    /// Becomes readable when there is something to receive.
    pub fn ready(&self) -> BorrowedFd<'_> {
        self.ready.as_ref().map_or_else(|| self.queues[0].as_fd(), AsFd::as_fd)
    }

    /// What the kernel says of the device, wherever it is.
    pub fn look<'a>(&self, own: &'a Inquiry) -> (Presence, Option<Sight<'a>>) {
        // No longer attached: the device was removed.
        let Ok((name, _)) = self.queues[0].describe() else { return (Presence::Absent, None) };
        let inquiry = match self.queues[0].namespace() {
            Ok(namespace) => match Asking::within(namespace.as_fd(), own) {
                Ok(inquiry) => inquiry,
                Err(_) => return (Presence::Hidden, None),
            },
            // It may not ask where the device is; then that is known only of one that is where it was.
            Err(_) => Asking::Here(own),
        };
        let link = inquiry.get().link(&name).ok().flatten().filter(|link| link.tun.is_some());
        let Some(link) = link else { return (Presence::Hidden, None) };
        let moved = matches!(inquiry, Asking::There(_));
        (Presence::Present { up: link.up, carrier: link.carrier, moved }, Some(Sight { inquiry, link }))
    }

    /// What the kernel lost since it was asked last.
    pub fn newly_lost(&mut self, link: &Link) -> u64 {
        let lost = link.lost.saturating_sub(self.lost_before);
        self.lost_before = link.lost;
        lost
    }
}

/// A device that was found.
pub(crate) struct Sight<'a> {
    inquiry: Asking<'a>,
    pub link: Link,
}

impl Sight<'_> {
    /// Changes the device.
    pub fn change(&self, change: &Change) -> io::Result<()> {
        self.inquiry.get().change(self.link.index, change)
    }
}

/// Where to ask about a device.
enum Asking<'a> {
    /// It is in the port's own network namespace.
    Here(&'a Inquiry),
    /// It was moved to another one. Not kept for longer than a look: a namespace lives as long as there is a
    /// socket in it.
    There(Inquiry),
}

impl<'a> Asking<'a> {
    fn within(namespace: BorrowedFd<'_>, own: &'a Inquiry) -> io::Result<Asking<'a>> {
        if identify(namespace)? == own.namespace() {
            return Ok(Asking::Here(own));
        }
        Inquiry::within(namespace).map(Asking::There)
    }

    fn get(&self) -> &Inquiry {
        match self {
            Asking::Here(inquiry) => inquiry,
            Asking::There(inquiry) => inquiry,
        }
    }
}

/// Is what has the name a TAP device that the settings can be met with?
pub(crate) fn fits(settings: &Settings, link: &Link) -> Result<(), OpenError> {
    let name = &settings.interface;
    let Some(tun) = link.tun else {
        let kind = match &link.kind {
            Some(kind) => format!("an interface of kind `{kind}`"),
            None => "an interface that is no virtual one".to_owned(),
        };
        return Err(OpenError::OtherKind { interface: name.clone(), kind });
    };
    let why = if !tun.tap {
        "it is a TUN device, which carries no Ethernet headers".to_owned()
    } else if !tun.multi_queue && settings.queues > 1 {
        format!(
            "it is a TAP device with a single queue, and `queues: {}` needs one made for several",
            settings.queues
        )
    } else {
        return Ok(());
    };
    let user = tun.owner.map_or(String::new(), |owner| format!(" user {owner}"));
    let group = tun.group.map_or(String::new(), |group| format!(" group {group}"));
    let command =
        format!("ip link del {name} && ip tuntap add dev {name} mode tap{user}{group} multi_queue vnet_hdr");
    Err(OpenError::OtherFlags { interface: name.clone(), why, command })
}

fn account(
    settings: &Settings,
    key: &'static str,
    file: &'static str,
    name: Option<&str>,
) -> Result<Option<u32>, OpenError> {
    name.map(|name| {
        resolve(file, name).ok_or_else(|| OpenError::NoAccount {
            interface: settings.interface.clone(),
            key,
            name: name.to_owned(),
            file,
        })
    })
    .transpose()
}

/// A descriptor for each queue.
fn attach(driver: &str, settings: &Settings, found: Option<&Link>) -> Result<Vec<Queue>, OpenError> {
    let interface = settings.interface.clone();
    let tun = found.and_then(|link| link.tun);
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if settings.queues > 1 || tun.is_some_and(|tun| tun.multi_queue) {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    let queue = |_| {
        let queue = Queue::open(driver).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                OpenError::DriverDenied { interface: interface.clone(), file: driver.to_owned() }
            }
            _ => OpenError::NoDriver { interface: interface.clone(), file: driver.to_owned(), source },
        })?;
        queue.attach(&settings.interface, flags).map_err(|source| refusal(settings, found, source))?;
        Ok(queue)
    };
    (0..settings.queues).map(queue).collect()
}

/// Why a queue was not attached.
fn refusal(settings: &Settings, found: Option<&Link>, source: io::Error) -> OpenError {
    let interface = settings.interface.clone();
    let user = geteuid().as_raw();
    let tun = found.and_then(|link| link.tun);
    match (source.raw_os_error(), tun) {
        (Some(libc::EPERM), Some(tun)) => {
            let owner = match (tun.owner, tun.group) {
                (Some(owner), _) => format!("user {owner}"),
                (None, Some(group)) => format!("group {group}"),
                (None, None) => "no user".to_owned(),
            };
            OpenError::NotOwner { interface, owner, user }
        }
        (Some(libc::EPERM), None) => OpenError::NoPermission { interface, user },
        (Some(libc::EBUSY), _) => OpenError::Busy {
            interface,
            why: "another process has the only queue of the TAP device".to_owned(),
        },
        (Some(libc::E2BIG), _) => {
            OpenError::Busy { interface, why: "the TAP device has no further queue".to_owned() }
        }
        _ => OpenError::System { interface, operation: "attaching to it", source },
    }
}

/// Sets what differs from the settings; returns how many packets the kernel had lost until now.
fn set_up(inquiry: &Inquiry, settings: &Settings) -> Result<u64, OpenError> {
    let name = settings.interface.as_str();
    let link = inquiry
        .link(name)
        .and_then(|link| link.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV)))
        .map_err(system(name, "asking how it is"))?;
    let set = |key: &str, command: String, change: Change| {
        inquiry.change(link.index, &change).map_err(|source| OpenError::Setting {
            interface: name.to_owned(),
            key: key.to_owned(),
            command: format!("ip link set {name} {command}"),
            source,
        })
    };
    // One by one, so that a refusal says which. The state is last: the device comes up as it is meant to be.
    if let Some(mtu) = settings.mtu.filter(|mtu| *mtu != link.mtu) {
        set("mtu", format!("mtu {mtu}"), Change { mtu: Some(mtu), ..Change::default() })?;
    }
    if let Some(mac) = settings.mac.filter(|mac| Some(*mac) != link.mac) {
        let words = schema::Value::Mac(mac);
        set("mac", format!("address {words}"), Change { mac: Some(mac), ..Change::default() })?;
    }
    if let Some(length) = settings.queue_length.filter(|length| *length != link.queue_length) {
        let change = Change { queue_length: Some(length), ..Change::default() };
        set("queue_length", format!("txqueuelen {length}"), change)?;
    }
    let up = match settings.state {
        DeviceState::Up => Some(true),
        DeviceState::Down => Some(false),
        DeviceState::Keep => None,
    };
    if let Some(up) = up.filter(|up| *up != link.up) {
        let word = if up { "up" } else { "down" };
        set("state", word.to_owned(), Change { up: Some(up), ..Change::default() })?;
    }
    Ok(link.lost)
}

/// A descriptor that stands for several.
fn gather(queues: &[Queue]) -> io::Result<Option<OwnedFd>> {
    if queues.len() == 1 {
        return Ok(None);
    }
    let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (n, queue) in queues.iter().enumerate() {
        epoll::add(&all, queue, epoll::EventData::new_u64(n as u64), epoll::EventFlags::IN)?;
    }
    Ok(Some(all))
}

fn system(name: &str, operation: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let interface = name.to_owned();
    move |source| OpenError::System { interface, operation, source }
}

/// The index of the queue for a flow among so many.
#[inline]
pub(crate) fn queue_of(flow_hash: u32, queues: usize) -> usize {
    ((u64::from(flow_hash) * queues as u64) >> 32) as usize
}

const _: () = assert!(libc::IFF_VNET_HDR <= u16::MAX as c_int);
