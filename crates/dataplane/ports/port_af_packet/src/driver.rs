//! The port itself: receive, transmit, and the life of the socket behind them.

use crate::inquiry::{longest_frame, system};
use crate::intake::{Intake, Target};
use crate::link::{Left, Link, Rings, Sockets};
use crate::{OpenError, Settings};
use kernel_interface::beside::{self, Early, Pending};
use kernel_interface::{Inquiry, OnActive, Presence, assess, is_anothers, is_name};
use packet_memory::{Packet, Pool};
use port::attachment::{Action, Attached, look};
use port::{Condition, Port, PortCounters, PortEvent, PortStatus, Wake};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::split_in_tunnels;

/// How often an idle port asks for errors of its socket. A socket with an error is always readable, so a
/// worker would not sleep until the error has been read.
const ERROR_CHECK: Nanos = Nanos::from_millis(1);

/// What a socket is bound to whose interface is no more.
const GONE: i32 = -1;

/// How long closing waits for the kernel to complete what it was given, and how often it looks.
const LAST_WAIT: u32 = 100;
const LAST_LOOK: Duration = Duration::from_micros(100);

/// A port on an interface of the kernel. See the crate's documentation.
pub struct AfPacketPort {
    settings: Settings,
    inquiry: Arc<Inquiry>,
    link: Option<Link>,
    /// What the next link is made of, begun while its interface is not there yet.
    prepared: Option<(Pending<Result<Rings, OpenError>>, Early)>,
    /// What is to be the link, made beside the worker.
    opening: Option<Pending<Result<Link, OpenError>>>,
    /// Why the last one was not to be had.
    refused: Option<String>,
    /// Whether the port is a worker's, for which it must not wait.
    works: bool,
    intake: Intake,
    /// How many of the intake's troubles were told.
    told: usize,
    state: Condition,
    error_checked: Nanos,
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

impl AfPacketPort {
    /// Opens the interface. One that is there but switched off or without carrier is opened, and the port is
    /// down until that changes.
    ///
    /// # Errors
    /// [`OpenError`], with what the operator can do about it.
    pub fn open(settings: Settings) -> Result<AfPacketPort, OpenError> {
        let mut port = AfPacketPort::new(settings)?;
        let Settings { interface, owner, .. } = &port.settings;
        let link = match is_anothers(&port.inquiry, interface, *owner) {
            Some(_) => None,
            None => Some(port.open_link()?),
        };
        port.begin(link);
        Ok(port)
    }

    /// A port that need not find its interface yet: it is down, with the reason, until [`Port::maintain`] can
    /// take it up.
    ///
    /// # Errors
    /// [`OpenError::BadName`], or the process has no descriptors left.
    pub fn waiting(settings: Settings) -> Result<AfPacketPort, OpenError> {
        let mut port = AfPacketPort::new(settings)?;
        port.begin(None);
        Ok(port)
    }

    fn new(settings: Settings) -> Result<AfPacketPort, OpenError> {
        settings.check()?;
        let interface = settings.interface.clone();
        beside::prepare();
        let inquiry = Inquiry::new().map_err(|source| OpenError::System {
            interface: interface.clone(),
            operation: "opening a socket to ask about it",
            source,
        })?;
        let state = Condition::unseen(&interface);
        let intake = Intake::default();
        Ok(AfPacketPort {
            settings,
            inquiry: Arc::new(inquiry),
            link: None,
            prepared: None,
            opening: None,
            refused: None,
            works: false,
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
        if self.link.is_none() {
            self.prepare();
        }
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
        self.works = true;
    }

    fn open_link(&self) -> Result<Link, OpenError> {
        let sockets = Sockets::open(&self.inquiry, &self.settings)?;
        Link::open(sockets, &self.inquiry, &self.settings)
    }

    /// The link that was made since this was called first.
    ///
    /// # Errors
    /// There is none yet, or it was not to be had: why, which is told until there is one.
    fn opened(&mut self) -> Result<Link, String> {
        let Some(opening) = &self.opening else {
            // What is left there gives its memory back first.
            self.leave_link();
            let (inquiry, settings) = (self.inquiry.clone(), self.settings.clone());
            let opening = match self.prepared.take() {
                Some((prepared, _place)) => Pending::begin(move || {
                    let lost = system(&settings.interface, "waiting for its rings");
                    Link::bind(prepared.wait().map_err(lost)??, &inquiry, &settings)
                }),
                None => {
                    let sockets = Sockets::open(&self.inquiry, &self.settings);
                    let sockets = sockets.map_err(|error| error.to_string())?;
                    Pending::begin(move || Link::open(sockets, &inquiry, &settings))
                }
            };
            self.opening = Some(opening.map_err(|error| error.to_string())?);
            return Err(self.still_opening());
        };
        let opened = opening.take().ok_or_else(|| self.still_opening())?;
        self.opening = None;
        self.refused = opened.as_ref().err().map(OpenError::to_string);
        opened.map_err(|error| error.to_string())
    }

    /// Has rings set up for an interface that is to come, or that of a guest that stands by, if there is a
    /// place for that: when its turn comes, only to be bound to it is left. What cannot be had shows then.
    fn prepare(&mut self) {
        let is_free = self.opening.is_none() && self.prepared.is_none();
        let is_absent =
            || self.inquiry.presence(&self.settings.interface).is_ok_and(|it| it == Presence::Absent);
        let is_awaited = match self.link {
            Some(_) => true,
            None => is_absent(),
        };
        if !(is_free && is_awaited) {
            return;
        }
        let Some(place) = Early::take() else { return };
        let Ok(sockets) = Sockets::early(&self.settings) else { return };
        let settings = self.settings.clone();
        let begun = Pending::begin(move || Rings::new(sockets, &settings));
        self.prepared = begun.ok().map(|prepared| (prepared, place));
    }

    fn still_opening(&self) -> String {
        let being = || format!("interface `{}` is being opened", self.settings.interface);
        self.refused.clone().unwrap_or_else(being)
    }

    fn look(&mut self) {
        self.turn();
        look(self);
        if let Some(link) = &mut self.link {
            link.set_longest(longest_frame(&self.inquiry, &self.settings.interface));
            match self.settings.active.as_ref().is_some_and(OnActive::may_turn) {
                true => self.prepare(),
                false => self.prepared.take().into_iter().for_each(beside::let_go),
            }
        }
    }

    /// Lets go of a guest's interface when another guest has become the active one.
    fn turn(&mut self) {
        let Some(interface) = self.settings.active.as_mut().and_then(OnActive::turn) else { return };
        self.state.down(format!("interface `{interface}`, of the guest that takes over, is being opened"));
        self.leave_link();
        self.opening.take().into_iter().for_each(beside::let_go);
        (self.settings.interface, self.refused) = (interface, None);
    }

    fn leave_link(&mut self) {
        if let Some(mut link) = self.link.take() {
            if self.intake.cutting.give_up(&mut self.intake.counters) {
                link.ring.release();
            }
            link.leave(&mut self.intake.counters);
            beside::let_go(link);
        }
    }

    /// It may have been made since.
    fn let_go_what_is_to_come(&mut self) {
        self.opening.take().into_iter().for_each(beside::let_go);
        self.prepared.take().into_iter().for_each(beside::let_go);
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

impl Attached for AfPacketPort {
    const CUT_OFF: &'static str = "was replaced";

    fn interface(&self) -> &str {
        &self.settings.interface
    }

    fn condition(&mut self) -> &mut Condition {
        &mut self.state
    }

    fn assess(&mut self) -> Action {
        let bound_to = self.link.as_ref().and_then(|link| link.socket.bound_to().ok());
        let action = assess(&self.inquiry, &self.settings.interface, bound_to, self.settings.owner);
        if bound_to == Some(GONE) && matches!(action, Action::Down(_)) {
            // The next one of its name is to be had soon.
            self.leave_link();
            self.prepare();
        }
        action
    }

    fn attach(&mut self) -> Result<(), String> {
        let link = match self.works {
            true => self.opened()?,
            false => self.open_link().map_err(|error| error.to_string())?,
        };
        self.leave_link();
        self.link = Some(link);
        Ok(())
    }
}

impl Port for AfPacketPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let Some(link) = &mut self.link else {
            if self.opening.as_ref().is_some_and(Pending::is_made) && !self.closed {
                self.look();
            }
            return;
        };
        link.complete(&mut self.intake.counters);
        let ready = link.ring.ready(budget);
        if ready == 0 {
            if now.since(self.error_checked) >= ERROR_CHECK {
                self.check_error(now);
            }
            return;
        }
        let most = out.len() + budget;
        let mut target = Target { pool, now, out, most };
        self.intake.reserve(pool, ready);
        for _ in 0..ready {
            let Some(slot) = link.ring.current().filter(|_| target.out.len() < most) else { break };
            if !self.intake.take(slot, self.settings.offload, &mut link.socket, &mut target) {
                break;
            }
            link.ring.release();
        }
        self.intake.give_back(pool);
        // There may be more; it comes while these are worked on.
        if ready == budget {
            link.ring.fetch_ahead(budget);
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.intake.counters.note_split(split_in_tunnels(pool, packets));
        let (mut done, mut left) = (0, None);
        if let Some(link) = self.link.as_mut().filter(|_| self.state.is_up()) {
            (done, left) = link.transmit(pool, packets, &mut self.intake.counters);
        }
        let reason = match left {
            Some(Left::Full) => DropReason::PortFull,
            Some(Left::Down(error)) => {
                self.lost_interface(&error);
                DropReason::PortDown
            }
            None => DropReason::PortDown,
        };
        self.intake.counters.ledger.dropped[reason] += (packets.len() - done) as u64;
        pool.free_batch(packets.drain(..));
    }

    fn wake(&self) -> Wake<'_> {
        let link = self.link.as_ref().map(|link| link.socket.as_fd());
        let opening = self.opening.as_ref().map(Pending::readable);
        Wake { readable: link.or(opening), ..Wake::default() }
    }

    fn status(&self) -> PortStatus {
        self.state.status().clone()
    }

    fn mtu(&self) -> Option<u32> {
        self.link.as_ref().and_then(Link::mtu)
    }

    fn maintain(&mut self, now: Nanos) -> Vec<PortEvent> {
        if let Some(link) = &mut self.link {
            self.intake.counters.kernel_lost += link.socket.lost();
            link.complete(&mut self.intake.counters);
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

    fn details(&self) -> Vec<(&'static str, u64)> {
        self.settings.active.as_ref().map(|active| active.details(self.state.is_up())).unwrap_or_default()
    }

    fn in_flight(&self) -> u64 {
        self.link.as_ref().map_or(0, Link::held)
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        self.closed = true;
        for _ in 0..LAST_WAIT {
            let Some(link) = self.link.as_mut().filter(|link| link.held() > 0) else { break };
            link.complete(&mut self.intake.counters);
            std::thread::sleep(LAST_LOOK);
        }
        self.leave_link();
        self.let_go_what_is_to_come();
        self.state.closed(&self.settings.interface);
        Ok(())
    }
}

/// One that no worker got is closed by none: a change that was refused waits for no rings.
impl Drop for AfPacketPort {
    fn drop(&mut self) {
        self.let_go_what_is_to_come();
    }
}
