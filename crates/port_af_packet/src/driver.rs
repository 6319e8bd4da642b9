//! The port itself: receive, transmit, and the life of the socket behind them.

use crate::block::Reader;
use crate::intake::{Intake, Target};
use crate::ring::Ring;
use crate::socket::{Inquiry, SEND_BATCH, Socket};
use crate::state::{Action, decide};
use crate::{OpenError, Settings};
use clock::Nanos;
use nf_abi::offload;
use packet_memory::{Packet, Pool};
use port::{Condition, Port, PortCounters, PortEvent, PortStatus, Wake};
use std::io;
use std::os::fd::AsFd;
use telemetry::DropReason;
use virtio_net::complete_checksum;

/// How often an idle port asks for errors of its socket. A socket with an error is always readable, so a worker would
/// not sleep before somebody asked.
const ERROR_CHECK: Nanos = Nanos::from_millis(1);

/// After so many packets in a row that the kernel had no room for, the rest is dropped untried.
const FULL_LIMIT: u32 = 3;

/// A socket with its ring, as far as that was read.
struct Link {
    socket: Socket,
    ring: Ring,
    reader: Option<Reader>,
}

/// A port on an interface of the kernel. See the crate's documentation.
pub struct AfPacketPort {
    settings: Settings,
    inquiry: Inquiry,
    link: Option<Link>,
    intake: Intake,
    /// How many of the intake's troubles were told.
    told: usize,
    state: Condition,
    error_checked: Nanos,
    closed: bool,
}

impl AfPacketPort {
    /// Opens the interface. One that is there but switched off or without carrier is opened, and the port is down
    /// until that changes.
    ///
    /// # Errors
    /// [`OpenError`], with what the operator can do about it.
    pub fn open(settings: Settings) -> Result<AfPacketPort, OpenError> {
        let mut port = AfPacketPort::new(settings)?;
        let link = port.open_link()?;
        port.begin(Some(link));
        Ok(port)
    }

    /// A port that need not find its interface yet: it is down, with the reason, until [`Port::maintain`] can take it
    /// up.
    ///
    /// # Errors
    /// [`OpenError::BadName`], or the process has no descriptors left.
    pub fn waiting(settings: Settings) -> Result<AfPacketPort, OpenError> {
        let mut port = AfPacketPort::new(settings)?;
        port.begin(None);
        Ok(port)
    }

    fn new(settings: Settings) -> Result<AfPacketPort, OpenError> {
        let interface = settings.interface.clone();
        let bad = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ || interface.contains(bad) {
            return Err(OpenError::BadName { interface });
        }
        let inquiry = Inquiry::new().map_err(|source| OpenError::System {
            interface: interface.clone(),
            operation: "opening a socket to ask about it",
            source,
        })?;
        let state =
            Condition::new(PortStatus::Down(format!("interface `{interface}` was not looked at yet")));
        let intake = Intake::default();
        Ok(AfPacketPort {
            settings,
            inquiry,
            link: None,
            intake,
            told: 0,
            state,
            error_checked: Nanos(0),
            closed: false,
        })
    }

    fn begin(&mut self, link: Option<Link>) {
        self.link = link;
        self.look();
        // How it is from the beginning is no event.
        self.state.take_events();
        let granted = self.link.as_ref().map(|link| link.socket.transmit_buffer());
        if let (Some(wanted), Some(granted)) = (self.settings.transmit_buffer, granted)
            && granted < wanted
        {
            let name = &self.settings.interface;
            self.state.notice(format!(
                "interface `{name}`: a transmit buffer of {granted} bytes was granted where {wanted} were asked for; \
                 `sysctl -w net.core.wmem_max={wanted}` allows more"
            ));
        }
    }

    fn open_link(&self) -> Result<Link, OpenError> {
        let (socket, ring) = Socket::open(&self.inquiry, &self.settings)?;
        Ok(Link { socket, ring, reader: None })
    }

    /// Compares the interface with what the socket is bound to.
    fn assess(&self) -> Action {
        let name = &self.settings.interface;
        let bound_to = self.link.as_ref().and_then(|link| link.socket.bound_to().ok());
        match self.inquiry.presence(name) {
            Ok(presence) => decide(name, presence, bound_to),
            Err(error) => Action::Down(format!("interface `{name}`: {error}")),
        }
    }

    /// Looks at the interface and does what follows.
    fn look(&mut self) {
        let name = self.settings.interface.clone();
        let mut action = self.assess();
        if action == Action::Open {
            // The port was cut off, however short: what was sent meanwhile is lost.
            self.state.down(format!("interface `{name}` was replaced"));
            action = match self.open_link() {
                Ok(link) => {
                    self.leave_link();
                    self.link = Some(link);
                    self.assess()
                }
                Err(error) => Action::Down(error.to_string()),
            };
        }
        match action {
            Action::Up => self.state.up(&format!("interface `{name}` is there")),
            Action::Down(reason) => self.state.down(reason),
            // Replaced once more in between: that shows at the next look.
            Action::Open => {}
        }
    }

    /// Counts what the socket lost and what its ring still holds, and closes it.
    fn leave_link(&mut self) {
        let Some(mut link) = self.link.take() else { return };
        self.intake.counters.kernel_lost += link.socket.lost();
        let mut held = 0;
        // Once round at most: the kernel may be filling blocks as quickly as we count them.
        for _ in 0..link.ring.blocks() {
            let Some(block) = link.ring.current() else { break };
            held += u64::from(link.reader.take().unwrap_or_else(|| Reader::new(block)).remaining());
            link.ring.release();
        }
        self.intake.counters.ledger.received += held;
        self.intake.counters.ledger.dropped[DropReason::HeldAtStop] += held;
    }

    fn check_error(&mut self, now: Nanos) {
        self.error_checked = now;
        if let Some(error) = self.link.as_ref().and_then(|link| link.socket.pending_error()) {
            self.lost_interface(&error);
        }
    }

    fn lost_interface(&mut self, error: &io::Error) {
        let name = &self.settings.interface;
        self.state.down(format!("interface `{name}`: {error}"));
    }
}

impl Port for AfPacketPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let Some(link) = &mut self.link else { return };
        let vnet = self.settings.offload;
        let mut target = Target { pool, now, out };
        let mut left = budget;
        while left > 0
            && let Some(block) = link.ring.current()
        {
            let mut reader = link.reader.take().unwrap_or_else(|| Reader::new(block));
            left -= self.intake.take_block(block, &mut reader, vnet, left, &mut target);
            if reader.remaining() > 0 {
                link.reader = Some(reader);
            } else {
                link.ring.release();
            }
        }
        if left == budget && now.since(self.error_checked) >= ERROR_CHECK {
            self.check_error(now);
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        let mut next = 0;
        let mut full = 0;
        while next < packets.len() {
            let Some(link) = self.link.as_mut().filter(|_| self.state.is_up() && full < FULL_LIMIT) else {
                break;
            };
            if !self.settings.offload {
                complete_checksums(pool, &mut packets[next..]);
            }
            let counters = &mut self.intake.counters;
            match link.socket.send(pool, &packets[next..]) {
                Ok(sent) => {
                    let sent = sent.max(1);
                    counters.ledger.delivered += sent as u64;
                    counters.delivered_bytes += packets[next..next + sent]
                        .iter()
                        .map(|packet| u64::from(packet.length()))
                        .sum::<u64>();
                    next += sent;
                    full = 0;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel took this one and had no room for it further down; the next may find some.
                    Some(libc::ENOBUFS | libc::ENOMEM) => {
                        counters.ledger.dropped[DropReason::PortFull] += 1;
                        next += 1;
                        full += 1;
                    }
                    Some(libc::EAGAIN) => full = FULL_LIMIT,
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => self.lost_interface(&error),
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

    fn wake(&self) -> Wake<'_> {
        Wake { readable: self.link.as_ref().map(|link| link.socket.as_fd()), at: None }
    }

    fn status(&self) -> PortStatus {
        self.state.status().clone()
    }

    fn maintain(&mut self, now: Nanos) -> Vec<PortEvent> {
        if let Some(link) = &self.link {
            self.intake.counters.kernel_lost += link.socket.lost();
        }
        if !self.closed {
            self.check_error(now);
            self.look();
        }
        for trouble in &self.intake.troubles[self.told..] {
            self.state.notice(trouble.explain(&self.settings.interface));
        }
        self.told = self.intake.troubles.len();
        self.state.take_events()
    }

    fn counters(&self) -> &PortCounters {
        &self.intake.counters
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        self.closed = true;
        self.leave_link();
        self.state.down(format!("interface `{}` was closed", self.settings.interface));
        self.state.take_events();
        Ok(())
    }
}

/// Computes the checksums that nobody behind this port will; a packet whose fields name no place for it goes out as it
/// is and fails at its receiver, as it would have done anyway.
fn complete_checksums(pool: &Pool, packets: &mut [Packet]) {
    for packet in packets.iter_mut().take(SEND_BATCH) {
        if packet.record().offload_flags & offload::NEEDS_CHECKSUM != 0 && complete_checksum(pool, packet) {
            packet.edit(|record| record.offload_flags &= !offload::NEEDS_CHECKSUM);
        }
    }
}
