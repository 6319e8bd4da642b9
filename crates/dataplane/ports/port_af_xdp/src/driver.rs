//! The port itself: receive, transmit, and the life of its hold on the interface.

use crate::link::Link;
use crate::open::{mtu, open};
use crate::outgoing::{Outgoing, Trouble};
use crate::queue::{Losses, Tally};
use crate::{OpenError, Settings, checksum};
use kernel_interface::{Inquiry, OnActive, assess, is_anothers, is_name};
use packet_memory::{Packet, Pool};
use port::attachment::{Action, Attached, look};
use port::{Condition, Port, PortCounters, PortEvent, PortStatus, Wake};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// When packets wait in a transmit ring that the kernel had no room to empty, it is called again after so
/// long.
const RETRY: Nanos = Nanos::from_millis(1);

/// How often, a millisecond apart, an ending port looks whether its last packets were sent.
const LAST_LOOKS: u32 = 20;

/// How long a port that is opened waits for a queue that is in use: a process that ended just now may have
/// had it.
const QUEUE_WAIT: Duration = Duration::from_millis(500);

/// A port on an interface of the kernel. See the crate's documentation.
pub struct AfXdpPort {
    settings: Settings,
    pool: Arc<Pool>,
    inquiry: Inquiry,
    link: Option<Link>,
    counters: PortCounters,
    outgoing: Outgoing,
    /// Kept empty, for its memory.
    staging: Vec<Packet>,
    /// How many of the troubles were told.
    told: usize,
    losses: Losses,
    tally: Tally,
    /// Received packets with an unfinished checksum.
    unfinished: u64,
    state: Condition,
    now: Nanos,
    closed: bool,
}

impl Settings {
    /// What a schema cannot say of them.
    ///
    /// # Errors
    /// [`OpenError::BadName`].
    pub fn check(&self) -> Result<(), OpenError> {
        if is_name(&self.interface) {
            return Ok(());
        }
        Err(OpenError::BadName { interface: self.interface.clone() })
    }
}

impl AfXdpPort {
    /// Opens the interface for packets of `pool`, which becomes the memory that the kernel reads and writes.
    /// An interface that is there but switched off or without carrier is opened, and the port is down until
    /// that changes.
    ///
    /// # Errors
    /// [`OpenError`], with what the operator can do about it.
    pub fn open(settings: Settings, pool: Arc<Pool>) -> Result<AfXdpPort, OpenError> {
        let mut port = AfXdpPort::new(settings, pool)?;
        let Settings { interface, owner, .. } = &port.settings;
        let link = match is_anothers(&port.inquiry, interface, *owner) {
            Some(_) => None,
            None => Some(open(&port.inquiry, &port.settings, &port.pool, QUEUE_WAIT)?),
        };
        port.begin(link);
        Ok(port)
    }

    /// A port that need not find its interface yet: it is down, with the reason, until [`Port::maintain`] can
    /// take it up.
    ///
    /// # Errors
    /// [`OpenError::BadName`], or the process has no descriptors left.
    pub fn waiting(settings: Settings, pool: Arc<Pool>) -> Result<AfXdpPort, OpenError> {
        let mut port = AfXdpPort::new(settings, pool)?;
        port.begin(None);
        Ok(port)
    }

    fn new(settings: Settings, pool: Arc<Pool>) -> Result<AfXdpPort, OpenError> {
        settings.check()?;
        let interface = settings.interface.clone();
        let inquiry = Inquiry::new().map_err(|source| OpenError::System {
            interface: interface.clone(),
            operation: "opening a socket to ask about it",
            source,
        })?;
        let state = Condition::unseen(&interface);
        Ok(AfXdpPort {
            settings,
            pool,
            inquiry,
            link: None,
            counters: PortCounters::default(),
            outgoing: Outgoing::default(),
            staging: Vec::new(),
            told: 0,
            losses: Losses::default(),
            tally: Tally::default(),
            unfinished: 0,
            state,
            now: Nanos(0),
            closed: false,
        })
    }

    fn begin(&mut self, link: Option<Link>) {
        self.link = link;
        look(self);
        // How it is from the beginning is no event.
        self.state.take_events();
        self.greet();
    }

    /// Takes in what there is to say of a link, once it is known whether packets pass.
    fn greet(&mut self) {
        let Some(link) = &mut self.link else { return };
        for notice in std::mem::take(&mut link.notices) {
            self.state.notice(notice);
        }
        link.mtu = mtu(&self.inquiry, &self.settings.interface);
    }

    /// Lets the interface go; what its rings still hold is dropped.
    fn leave_link(&mut self, reason: DropReason) {
        if let Some(link) = self.link.take() {
            let (losses, tally) = link.close(&mut self.counters, reason);
            self.count(losses, tally);
        }
    }

    /// Lets go of a guest's interface when another guest has become the active one.
    fn turn(&mut self) {
        let Some(interface) = self.settings.active.as_mut().and_then(OnActive::turn) else { return };
        self.state.down(format!("interface `{interface}`, of the guest that takes over, is being opened"));
        self.leave_link(DropReason::PortDown);
        self.settings.interface = interface;
    }

    fn count(&mut self, losses: Losses, tally: Tally) {
        self.counters.kernel_lost += losses.frames();
        self.losses.add(&losses);
        self.tally.add(tally);
    }

    /// The sockets are of no use any more: what they hold is lost now and not later.
    fn lost_interface(&mut self, error: &io::Error) {
        self.state.down(format!("interface `{}`: {error}", self.settings.interface));
        self.leave_link(DropReason::PortDown);
    }
}

impl Attached for AfXdpPort {
    const CUT_OFF: &'static str = "was replaced";

    fn interface(&self) -> &str {
        &self.settings.interface
    }

    fn condition(&mut self) -> &mut Condition {
        &mut self.state
    }

    fn assess(&mut self) -> Action {
        let name = &self.settings.interface;
        let bound_to = self.link.as_ref().and_then(Link::bound_to);
        let action = assess(&self.inquiry, name, bound_to, self.settings.owner);
        if self.link.is_some() && bound_to.is_none() {
            // The interface is gone, and nothing more will come or go by these sockets; the pool wants its
            // buffers.
            self.state.down(format!("interface `{name}` is not there; waiting for it"));
            self.leave_link(DropReason::PortDown);
        }
        action
    }

    fn attach(&mut self) -> Result<(), String> {
        self.leave_link(DropReason::PortDown);
        let link = open(&self.inquiry, &self.settings, &self.pool, Duration::ZERO);
        self.link = Some(link.map_err(|error| error.to_string())?);
        Ok(())
    }
}

impl Port for AfXdpPort {
    /// # Panics
    /// When `pool` is another one than the port was opened with.
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        assert!(std::ptr::eq(pool, Arc::as_ptr(&self.pool)), "another pool than the port was opened with");
        let Some(link) = &mut self.link else { return };
        self.now = now;
        let first = out.len();
        let budget = u32::try_from(budget).unwrap_or(u32::MAX);
        let counters = &mut self.counters;
        let taken = if link.umem.is_tenants {
            let taken = link.receive(budget, out);
            // What the kernel named without having been lent it is no packet.
            counters.ledger.dropped[DropReason::Malformed] += u64::from(taken) - (out.len() - first) as u64;
            taken
        } else {
            receive_by_copy(link, pool, budget, &mut self.staging, out, counters)
        };
        counters.ledger.received += u64::from(taken);
        for packet in &mut out[first..] {
            counters.received_bytes += u64::from(packet.length());
            packet.edit(|record| record.timestamp = now.0);
            if link.finds_unfinished && checksum::note_unfinished(pool, packet) {
                self.unfinished += 1;
            }
        }
        if taken == 0 && link.in_flight() > 0 {
            let result = link.tidy(&mut self.counters);
            if let Err(error) = result {
                self.lost_interface(&error);
            }
        }
    }

    /// # Panics
    /// When `pool` is another one than the port was opened with.
    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        assert!(std::ptr::eq(pool, Arc::as_ptr(&self.pool)), "another pool than the port was opened with");
        self.now = now;
        match self.link.as_mut().filter(|_| self.state.is_up()) {
            Some(link) => {
                self.outgoing.hand_over(link, pool, packets, &mut self.counters);
                if let Err(error) = link.send(&mut self.counters) {
                    self.lost_interface(&error);
                }
            }
            None => self.counters.ledger.dropped[DropReason::PortDown] += packets.len() as u64,
        }
        if !packets.is_empty() {
            pool.free_batch(packets.drain(..));
        }
    }

    fn reads_flow_hash(&self) -> bool {
        // How many queues the interface has may change while it is away.
        true
    }

    fn wake(&self) -> Wake<'_> {
        let Some(link) = &self.link else { return Wake::default() };
        let at = link.unsent().then(|| self.now.saturating_add(RETRY));
        Wake { readable: link.readable(), at, ..Wake::default() }
    }

    fn status(&self) -> PortStatus {
        self.state.status().clone()
    }

    fn mtu(&self) -> Option<u32> {
        self.link.as_ref().map(|link| link.mtu)
    }

    fn maintain(&mut self, now: Nanos) -> Vec<PortEvent> {
        self.now = now;
        if let Some(link) = &mut self.link {
            let (losses, tally) = (link.losses(), link.take_tally());
            self.count(losses, tally);
        }
        if !self.closed {
            self.turn();
            look(self);
            self.greet();
            if let Some(Err(error)) = self.link.as_mut().map(|link| link.tidy(&mut self.counters)) {
                self.lost_interface(&error);
            }
        }
        if self.tally.strange > 0 {
            self.outgoing.tell(Trouble::Strange);
        }
        for trouble in &self.outgoing.troubles[self.told..] {
            self.state.notice(trouble.explain(&self.settings.interface));
        }
        self.told = self.outgoing.troubles.len();
        self.state.take_events()
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let own = [
            ("kernel_no_buffer_or_too_long", self.losses.no_buffer_or_too_long),
            ("kernel_ring_full", self.losses.ring_full),
            ("fill_ring_empty", self.losses.fill_ring_empty),
            ("unfinished_checksums", self.unfinished),
            ("kicks", self.tally.kicks),
        ];
        let active = self.settings.active.as_ref().map(|active| active.details(self.state.is_up()));
        own.into_iter().chain(active.into_iter().flatten()).collect()
    }

    fn in_flight(&self) -> u64 {
        self.link.as_ref().map_or(0, Link::in_flight)
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        self.closed = true;
        for _ in 0..LAST_LOOKS {
            let Some(link) = self.link.as_mut().filter(|link| link.in_flight() > 0) else { break };
            if link.tidy(&mut self.counters).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.leave_link(DropReason::HeldAtStop);
        self.state.closed(&self.settings.interface);
        Ok(())
    }
}

impl Drop for AfXdpPort {
    fn drop(&mut self) {
        self.leave_link(DropReason::HeldAtStop);
    }
}

/// Receives into memory of the port's own, and copies from there into the tenant's pool.
fn receive_by_copy(
    link: &mut Link,
    pool: &Pool,
    budget: u32,
    staging: &mut Vec<Packet>,
    out: &mut Vec<Packet>,
    counters: &mut PortCounters,
) -> u32 {
    let taken = link.receive(budget, staging);
    let own = link.umem.pool();
    for packet in &*staging {
        let lost = match pool.copy_from(own, packet) {
            Ok(Some(copy)) => {
                out.push(copy);
                continue;
            }
            Ok(None) => DropReason::NoBuffer,
            Err(_) => DropReason::TooLong,
        };
        counters.received_bytes += u64::from(packet.length());
        counters.ledger.dropped[lost] += 1;
    }
    counters.ledger.dropped[DropReason::Malformed] += u64::from(taken) - staging.len() as u64;
    own.free_batch(staging.drain(..));
    taken
}
