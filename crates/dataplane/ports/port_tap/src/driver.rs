//! The port itself: receive, transmit, and the life of the device behind them.

use crate::device::{Device, Sight, queue_of};
use crate::handed::{self, Handed, Hold};
use crate::inquiry::Inquiry;
use crate::intake::{Intake, Target};
use crate::link::Change;
use crate::offload::{self, plan};
use crate::state::{Presence, decide};
use crate::{OpenError, Settings};
use kernel_interface::OnActive;
use packet_memory::{Packet, Pool};
use port::attachment::{Action, Attached, look};
use port::{Condition, Port, PortCounters, PortEvent, PortStatus, Wake};
use std::io;
use std::time::Duration;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::{VnetHeader, split_in_tunnels};

/// Packets that are taken from one queue before the next has its turn.
const BURST: usize = 16;

/// After so many packets in a row that the kernel had no memory for, the rest is dropped untried.
const FULL_LIMIT: u32 = 3;

/// Most packets that are looked for in each queue at the end.
const MOST_HELD: usize = 1 << 16;

/// Most packets that are looked for in the queue of a guest that takes over: the kernel keeps 500 in one.
const MOST_OLD: usize = 1024;

/// A worker has duplicates of its ports' descriptors while it sleeps, and is woken when a port goes. If it
/// closed the last one, it would be the one that waits for the kernel.
const AWHILE: Duration = Duration::from_millis(5);

/// A port on a TAP device. See the crate's documentation.
pub struct TapPort {
    settings: Settings,
    inquiry: Inquiry,
    device: Option<Device>,
    /// That of a port that was closed. The kernel takes its time to remove one, for which the port's last
    /// owner waits, and no worker.
    ended: Option<Device>,
    /// Where its queue comes from, if another process makes the device.
    hold: Option<Hold>,
    /// The next device is that of a guest that has stood by.
    takes_over: bool,
    intake: Intake,
    /// The queue whose turn it is.
    turn: usize,
    /// What a buffer has room for, once that is known; what the kernel leaves to us depends on it.
    room: Option<u32>,
    told_too_long: bool,
    /// The device's, when it was last looked at.
    mtu: Option<u32>,
    condition: Condition,
    closed: bool,
}

impl TapPort {
    /// Opens the device. One that is switched off, because the settings leave it so, is opened, and the port
    /// is down until that changes.
    ///
    /// # Errors
    /// [`OpenError`], with what the operator can do about it.
    pub fn open(settings: Settings) -> Result<TapPort, OpenError> {
        let mut port = TapPort::new(settings)?;
        port.device = Some(Device::open(&port.inquiry, &port.settings)?);
        look(&mut port);
        // How it is from the beginning is no event.
        port.condition.take_events();
        Ok(port)
    }

    /// A port that need not have its device yet: it is down, with the reason, until [`Port::maintain`] can
    /// take it up.
    ///
    /// # Errors
    /// Settings that no device can have, or the process has no descriptors left.
    pub fn waiting(settings: Settings) -> Result<TapPort, OpenError> {
        let mut port = TapPort::new(settings)?;
        look(&mut port);
        port.condition.take_events();
        Ok(port)
    }

    /// A port whose device another process makes and whose queue that one hands to this process: of the
    /// active one of the guests that stand by each other, if others do. It is down until there is one.
    ///
    /// # Errors
    /// Settings that no device can have, or the process has no descriptors left.
    pub fn handed(
        mut settings: Settings,
        handed: &Handed,
        active: Option<OnActive>,
    ) -> Result<TapPort, OpenError> {
        if let Some(interface) = active.as_ref().and_then(OnActive::interface) {
            settings.interface = interface.to_owned();
        }
        let mut port = TapPort::new(settings)?;
        port.hold = Some(Hold::on(handed, active));
        look(&mut port);
        port.condition.take_events();
        Ok(port)
    }

    fn new(settings: Settings) -> Result<TapPort, OpenError> {
        settings.check()?;
        let interface = settings.interface.clone();
        let inquiry = Inquiry::here().map_err(|source| OpenError::System {
            interface: interface.clone(),
            operation: "opening a socket to ask about it",
            source,
        })?;
        let condition = Condition::unseen(&interface);
        Ok(TapPort {
            settings,
            inquiry,
            device: None,
            ended: None,
            hold: None,
            takes_over: false,
            intake: Intake::new(),
            turn: 0,
            room: None,
            told_too_long: false,
            mtu: None,
            condition,
            closed: false,
        })
    }

    /// Lets go of a guest's device when another guest has become the active one.
    fn turn(&mut self) {
        let Some(interface) = self.hold.as_mut().and_then(Hold::turn) else { return };
        self.condition
            .down(format!("interface `{interface}`, of the guest that takes over, is being opened"));
        (self.settings.interface, self.takes_over) = (interface, true);
    }

    /// Where the device is and how, and what the kernel lost on the way here.
    fn presence(&mut self) -> Presence {
        let Some(device) = &mut self.device else { return Presence::Absent };
        if self.hold.as_ref().is_some_and(|hold| !hold.is_current(&self.settings.interface)) {
            return Presence::Absent;
        }
        let (presence, found) = device.look(&self.inquiry);
        if let Some(sight) = found {
            self.intake.counters.kernel_lost += device.newly_lost(&sight.link);
            self.mtu = Some(sight.link.mtu);
        }
        presence
    }

    /// Tells the kernel what the pool's buffers have room for, when that is news.
    #[inline]
    fn fit(&mut self, pool: &Pool) {
        if self.room != Some(pool.room()) {
            self.room = Some(pool.room());
            self.fit_again();
        }
    }

    /// What is to be done with a device once the port is used, and knows its pool. Only then does it stay: a
    /// port that was opened for a change that failed leaves no device behind.
    fn fit_again(&mut self) {
        if self.settings.persist
            && let (Some(_), Some(device), None) = (self.room, &self.device, &self.hold)
            && let Err(error) = device.stay()
        {
            let name = &self.settings.interface;
            self.condition.notice(format!("interface `{name}`: it does not stay: {error}"));
        }
        if let (Some(room), Some(device)) = (self.room, &self.device)
            && let Err(words) = leave_to_us(device, &self.inquiry, room, &self.settings, self.hold.is_some())
        {
            self.condition.notice(format!("interface `{}`: {words}", self.settings.interface));
        }
    }

    /// Counts what the queues still hold; they are closed with what is returned.
    fn leave_device(&mut self) -> Option<Device> {
        let device = self.device.take()?;
        for queue in &device.queues {
            for _ in 0..MOST_HELD {
                if self.intake.lose(queue, DropReason::HeldAtStop).is_err() {
                    break;
                }
            }
        }
        Some(device)
    }

    fn lost_device(&mut self, error: &io::Error) {
        let name = &self.settings.interface;
        let reason = match error.raw_os_error() {
            Some(libc::EBADFD) => format!("interface `{name}` was removed"),
            Some(libc::EIO) => format!("interface `{name}` is switched off"),
            _ => format!("interface `{name}`: {error}"),
        };
        self.condition.down(reason);
        // A queue without a device is always readable, and a worker that waits for it would not sleep.
        if error.raw_os_error() != Some(libc::EIO) {
            drop(self.leave_device());
        }
    }
}

/// Asks the kernel for checksums and segments as far as they fit.
///
/// # Errors
/// What is not as it was meant to be, in words.
fn leave_to_us(
    device: &Device,
    own: &Inquiry,
    room: u32,
    settings: &Settings,
    handed: bool,
) -> Result<(), String> {
    let wanted = settings.offload;
    let mut features = if wanted { offload::CHECKSUM } else { 0 };
    let mut trouble = None;
    let (presence, found) = device.look(own);
    if presence == Presence::Absent {
        // The maintenance of the device will find out.
        return Ok(());
    }
    if handed {
        // The process that made it has limited its segments, and its guest cannot change that.
        if offload::fits(plan(room, handed::mtu(settings), wanted), handed::SEGMENTS) {
            features = offload::UDP;
        }
    } else if let Some(sight) = found {
        let plan = plan(room, sight.link.mtu, wanted);
        match limit_segments(&sight, plan, &settings.interface) {
            Ok(true) => features = offload::UDP,
            Ok(false) => {}
            Err(words) => trouble = Some(words),
        }
    }
    let queue = &device.queues[0];
    queue
        .set_offload(features)
        .or_else(|_| queue.set_offload(features & offload::TCP))
        .map_err(|error| format!("its offloads are not as they were meant to be: {error}"))?;
    trouble.map_or(Ok(()), Err)
}

/// Makes the kernel's segments fit; false when there are to be none.
fn limit_segments(sight: &Sight<'_>, plan: offload::Plan, name: &str) -> Result<bool, String> {
    let Some(most) = plan.gso_max_size else { return Ok(false) };
    // The operator cannot have asked here for longer ones than this driver's usual.
    if sight.link.gso_max_size == most {
        return Ok(true);
    }
    let change = Change { gso_max_size: Some(most), ..Change::default() };
    match sight.change(&change) {
        Ok(()) => Ok(true),
        Err(_) if offload::fits(plan, sight.link.gso_max_size) => Ok(true),
        Err(error) => Err(format!(
            "segments may not be limited to the {most} bytes that a buffer has room for ({error}), so that TCP comes in \
             single packets; `ip link set dev {name} gso_max_size {most}` as root sets it beforehand"
        )),
    }
}

impl Attached for TapPort {
    const CUT_OFF: &'static str = "was removed";

    fn interface(&self) -> &str {
        &self.settings.interface
    }

    fn condition(&mut self) -> &mut Condition {
        &mut self.condition
    }

    fn assess(&mut self) -> Action {
        let presence = self.presence();
        decide(&self.settings.interface, presence)
    }

    fn attach(&mut self) -> Result<(), String> {
        // The kernel has removed it.
        drop(self.leave_device());
        let device = match &mut self.hold {
            Some(hold) => hold.take(&self.settings)?,
            None => Device::open(&self.inquiry, &self.settings).map_err(|error| error.to_string())?,
        };
        self.mtu = self.hold.as_ref().map(|_| handed::mtu(&self.settings));
        if std::mem::take(&mut self.takes_over) {
            // What its guest has sent while it stood by, to no one, has waited for however long.
            let old =
                device.queues.first().into_iter().flat_map(|queue| std::iter::repeat_n(queue, MOST_OLD));
            for queue in old {
                if self.intake.lose(queue, DropReason::PortDown).is_err() {
                    break;
                }
            }
        }
        self.device = Some(device);
        self.fit_again();
        Ok(())
    }
}

impl Port for TapPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.fit(pool);
        let Some(device) = &self.device else { return };
        let mut target = Target { pool, now, out };
        let (mut left, mut dry, mut failed) = (budget, 0, None);
        while left > 0 && dry < device.queues.len() {
            self.turn = if self.turn + 1 < device.queues.len() { self.turn + 1 } else { 0 };
            let share = left.min(BURST);
            match self.intake.take(&device.queues[self.turn], share, &mut target) {
                Ok(taken) => {
                    left -= taken;
                    dry = if taken < share { dry + 1 } else { 0 };
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.intake.rest(pool);
        if let Some(error) = failed {
            self.lost_device(&error);
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.fit(pool);
        self.intake.counters.note_split(split_in_tunnels(pool, packets));
        let (mut next, mut full) = (0, 0);
        while next < packets.len() {
            let Some(device) = self.device.as_ref().filter(|_| self.condition.is_up() && full < FULL_LIMIT)
            else {
                break;
            };
            let packet = &packets[next];
            let queue = &device.queues[queue_of(packet.record().flow_hash, device.queues.len())];
            let mut header = VnetHeader::of(packet.record()).to_bytes();
            let counters = &mut self.intake.counters;
            match queue.write(&mut header, pool, packet) {
                Ok(()) => {
                    counters.ledger.delivered += 1;
                    counters.delivered_bytes += u64::from(packet.length());
                    next += 1;
                    full = 0;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                        counters.ledger.dropped[DropReason::PortFull] += 1;
                        next += 1;
                        full += 1;
                    }
                    Some(libc::EIO | libc::EBADFD | libc::ENODEV) => self.lost_device(&error),
                    _ => {
                        counters.ledger.dropped[DropReason::PortRefused] += 1;
                        next += 1;
                    }
                },
            }
        }
        let reason = if full == FULL_LIMIT { DropReason::PortFull } else { DropReason::PortDown };
        self.intake.counters.ledger.dropped[reason] += (packets.len() - next) as u64;
        pool.free_batch(packets.drain(..));
    }

    fn reads_flow_hash(&self) -> bool {
        self.settings.queues > 1
    }

    fn wake(&self) -> Wake<'_> {
        Wake { readable: self.device.as_ref().map(Device::ready), ..Wake::default() }
    }

    fn status(&self) -> PortStatus {
        self.condition.status().clone()
    }

    fn mtu(&self) -> Option<u32> {
        self.mtu.filter(|_| self.device.is_some())
    }

    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        if !self.closed {
            self.turn();
            look(self);
        }
        if let Some(too_long) = self.intake.too_long.filter(|_| !self.told_too_long) {
            self.told_too_long = true;
            self.condition.notice(too_long.explain(&self.settings.interface));
        }
        self.condition.take_events()
    }

    fn counters(&self) -> &PortCounters {
        &self.intake.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        self.hold.as_ref().map(|hold| hold.details(self.condition.is_up())).unwrap_or_default()
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        if !self.closed {
            self.presence();
        }
        self.closed = true;
        self.ended = self.leave_device().or(self.ended.take());
        self.condition.closed(&self.settings.interface);
        Ok(())
    }
}

impl Drop for TapPort {
    fn drop(&mut self) {
        if let Some(device) = self.ended.take() {
            std::thread::sleep(AWHILE);
            drop(device);
        }
    }
}
