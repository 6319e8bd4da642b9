//! A device: what is decided at each of its plugs.

use crate::bond::Links;
use crate::bridge::{Bridge, Station};
use crate::counters::{Counters, Counts, DeviceCounters, Entered};
use crate::decisions::{Decisions, Several, Way};
use crate::limits::Limits;
use crate::settings::{Balance, DeviceSettings, Mode, Opener, Share, Tunnels};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use telemetry::clock::Nanos;
use virtual_switch::SwitchPort;

/// No plug is left out.
const NONE: u32 = u32::MAX;

/// What is decided at a plug.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// The same for every packet.
    Fixed(Way),
    /// One of several, by the flow hash.
    Balance(Several),
    /// One of the ports, as the bond says.
    Bond,
    /// The port by which the packet did not come.
    Opposite,
    /// The port behind which the destination is.
    Learned,
}

/// What is known of a plug.
#[derive(Clone, Copy, Debug)]
struct Plug {
    plan: Plan,
    /// One more than the port's index, 0 for an opener.
    port: u16,
}

impl Plug {
    /// One that is none of the device's: nothing goes anywhere from there.
    const NONE: Plug = Plug { plan: Plan::Fixed(Way::Nowhere), port: 0 };
}

/// How everything goes on as it is that comes in by a plug, without headers around it at either and nothing
/// being learned from it. It is the same for as long as the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Straight {
    /// By this plug.
    pub to: SwitchPort,
    /// What records say then of the port by which the packets came, as [`Device::device_port`].
    pub port: Option<u8>,
    /// The plug is a port's, whose link may not take every packet: [`Device::longest`] is to be asked.
    pub is_limited: bool,
}

/// A virtual device. See the crate's documentation.
#[derive(Debug)]
pub struct Device {
    settings: DeviceSettings,
    /// By their numbers.
    plugs: Vec<Plug>,
    /// By the number of the plug of a port: the headers around packets there. Empty where no port has any.
    tunnels: Vec<Option<Arc<Tunnels>>>,
    /// The plugs that [`Several`] are parts of; the ports come first.
    lists: Vec<SwitchPort>,
    pub(crate) links: Links,
    limits: Limits,
    /// Of bridges of more than two ports.
    pub(crate) bridge: Option<Bridge>,
    counters: Arc<Counters>,
}

impl Device {
    /// A device that goes on for the one before, if there is one: with its counters, with what it learned at
    /// the ports that both have, and with the state of their links. The one before may still be in use until
    /// it is replaced.
    pub fn new(settings: DeviceSettings, before: Option<&Device>) -> Device {
        let (ports, mode) = (&settings.ports, settings.mode);
        let with_flowlets = matches!(mode, Mode::Bond(Balance::Flowlet { .. }));
        let links = before.map(|before| (&before.settings.ports[..], &before.links));
        let learns = mode == Mode::Bridge && ports.len() > 2;
        let learned = before.and_then(|before| before.bridge.as_ref());
        let mut device = Device {
            links: Links::new(ports, with_flowlets, links),
            limits: Limits::new(&settings, before.map(|before| &before.limits)),
            bridge: if learns { Bridge::new(ports, learned) } else { None },
            counters: before.map(|before| before.counters.clone()).unwrap_or_default(),
            plugs: Vec::new(),
            tunnels: Vec::new(),
            lists: ports.clone(),
            settings,
        };
        device.plan_ports();
        device.plan_openers();
        device.plan_tunnels();
        device
    }

    /// What it was made with.
    pub fn settings(&self) -> &DeviceSettings {
        &self.settings
    }

    /// Whether it looks at packets' flow hashes where it decides. A hash that is not read is not computed;
    /// what headers are put on gets one then.
    pub fn reads_flow_hash(&self) -> bool {
        let balanced = |plan: &Plan| matches!(plan, Plan::Balance(_));
        let by_flow = matches!(self.mode(), Mode::Bond(Balance::Flow | Balance::Flowlet { .. }));
        by_flow || self.plugs.iter().any(|plug| balanced(&plug.plan))
    }

    /// The headers around packets outside of a port, named by its plug, if they have any.
    #[inline]
    pub fn tunnels(&self, plug: SwitchPort) -> Option<&Tunnels> {
        self.tunnels.get(usize::from(plug.0))?.as_deref()
    }

    /// The one plug by which everything leaves that comes in by a plug, if that is so.
    #[inline]
    pub fn only(&self, from: SwitchPort) -> Option<SwitchPort> {
        match self.at(from) {
            (Plan::Fixed(Way::To(plug)), _) => Some(plug),
            _ => None,
        }
    }

    /// Whether packets leave by a plug as they are, however long they are.
    #[inline]
    pub fn is_plain(&self, plug: SwitchPort) -> bool {
        self.tunnels(plug).is_none() && self.longest(plug) == u32::MAX
    }

    /// How everything goes on as it is that comes in by a plug, if that is so.
    pub fn straight(&self, from: SwitchPort) -> Option<Straight> {
        let Way::To(to) = self.whole(from)? else { return None };
        let is_limited = self.at(to).1 > 0;
        let is_bare = self.tunnels(from).is_none() && self.tunnels(to).is_none();
        is_bare.then(|| Straight { to, port: self.device_port(from), is_limited })
    }

    /// The numbers of its plugs are below this.
    pub fn plugs(&self) -> usize {
        self.plugs.len()
    }

    /// What the records of packets that come in by a plug say from now on about the port by which they came;
    /// `None` when that stays as it is, because they come from an opener.
    #[inline]
    pub fn device_port(&self, from: SwitchPort) -> Option<u8> {
        let (_, port) = self.at(from);
        (port > 0).then(|| u8::try_from(port).unwrap_or(0))
    }

    /// Where all of a batch goes that comes in by a plug, if that does not depend on its packets and nothing
    /// is learned from them.
    #[inline]
    pub fn whole(&self, from: SwitchPort) -> Option<Way> {
        let (Plan::Fixed(way), port) = self.at(from) else { return None };
        (port == 0 || self.bridge.is_none()).then_some(way)
    }

    /// Begins the decisions on a batch of so many packets that comes in by a plug, where they may differ.
    #[inline]
    pub fn decide(&self, from: SwitchPort, count: usize, now: Nanos) -> Decisions<'_> {
        Decisions::new(self, from, count, now)
    }

    /// The plug at a position of several.
    #[inline]
    pub fn plug(&self, several: Several, position: usize) -> Option<SwitchPort> {
        self.lists.get(several.place(position)?).copied()
    }

    /// The link of a port, named by its plug, is up or down. All are up at first.
    pub fn set_up(&self, plug: SwitchPort, up: bool) {
        if let Some(index) = self.settings.ports.iter().position(|port| *port == plug) {
            self.links.set_up(index, up);
        }
    }

    /// The MTU of the link of a port, named by its plug; `None`: it is not known. None is at first.
    pub fn set_mtu(&self, plug: SwitchPort, mtu: Option<u32>) {
        self.limits.set(plug, mtu);
    }

    /// Tells the smallest MTU of its ports' links here from now on; [`u32::MAX`] as long as none is known.
    pub fn tell_least_mtu(&mut self, least: Arc<AtomicU32>) {
        self.limits.tell_least_mtu(least);
    }

    /// Longest frame in bytes that may leave by a plug, with the headers that it has there. VLAN tags of the
    /// packet's own are not counted.
    #[inline]
    pub fn longest(&self, plug: SwitchPort) -> u32 {
        self.limits.longest(plug)
    }

    /// Whether the sender of a packet that is too long may be told; it is counted then.
    pub fn may_answer(&self, now: Nanos) -> bool {
        self.limits.may_answer(now)
    }

    /// In which one more worker counts.
    pub fn counts(&self) -> Counts {
        self.counters.counts(self.plugs.len())
    }

    /// What was counted so far.
    pub fn counters(&self) -> DeviceCounters {
        self.counters.of_device()
    }

    /// What came in by a plug so far, of all ends that it led to.
    pub fn entered(&self, plug: SwitchPort) -> Entered {
        self.counters.entered(plug)
    }

    /// The stations that a bridge of more than two ports knows, in no order.
    pub fn stations(&self, now: Nanos) -> impl Iterator<Item = Station> {
        self.bridge.iter().flat_map(move |bridge| bridge.stations(now))
    }

    /// Takes stations out that were not heard for too long. Goes through the whole table.
    pub fn sweep(&self, now: Nanos) {
        self.bridge.iter().for_each(|bridge| bridge.sweep(now));
    }

    pub(crate) fn mode(&self) -> Mode {
        self.settings.mode
    }

    /// The plug of a port.
    #[inline]
    pub(crate) fn port(&self, index: usize) -> Option<SwitchPort> {
        self.settings.ports.get(index).copied()
    }

    /// What is decided at a plug, and the port there. By one that is none of the device's, nothing goes
    /// anywhere.
    #[inline]
    pub(crate) fn at(&self, plug: SwitchPort) -> (Plan, u16) {
        let Plug { plan, port } = *self.plugs.get(usize::from(plug.0)).unwrap_or(&Plug::NONE);
        (plan, port)
    }

    /// All ports but the one by which a packet came, if it came by one.
    #[inline]
    pub(crate) fn others(&self, came_by: u8) -> Way {
        let ports = self.settings.ports.len() as u32;
        match u32::from(came_by).checked_sub(1).filter(|index| *index < ports) {
            Some(skip) => self.each(Several { start: 0, count: ports - 1, skip }),
            None => self.each(Several { start: 0, count: ports, skip: NONE }),
        }
    }

    /// One of several.
    #[inline]
    pub(crate) fn one_of(&self, several: Several, position: usize) -> Way {
        self.plug(several, position).map_or(Way::Nowhere, Way::To)
    }

    /// Each of several, which may be one or none.
    #[inline]
    fn each(&self, several: Several) -> Way {
        if several.count < 2 { self.one_of(several, 0) } else { Way::Each(several) }
    }

    /// Those of several that get a packet, as the openers share.
    fn shared(&self, several: Several) -> Plan {
        match self.settings.share {
            Share::Balance if several.count > 1 => Plan::Balance(several),
            Share::Duplicate => Plan::Fixed(self.each(several)),
            Share::Balance | Share::Single => Plan::Fixed(self.one_of(several, 0)),
        }
    }

    fn list(&mut self, plugs: impl IntoIterator<Item = SwitchPort>) -> Several {
        let start = self.lists.len();
        self.lists.extend(plugs);
        Several { start: start as u32, count: (self.lists.len() - start) as u32, skip: NONE }
    }

    fn enter(&mut self, plug: SwitchPort, plan: Plan, port: u16) {
        let index = usize::from(plug.0);
        if self.plugs.len() <= index {
            self.plugs.resize(index + 1, Plug::NONE);
        }
        self.plugs[index] = Plug { plan, port };
    }

    /// What comes from a port goes to the openers of the device and to those of its side.
    fn plan_ports(&mut self) {
        let openers = self.settings.openers.clone();
        for (index, plug) in self.settings.ports.clone().into_iter().enumerate() {
            let takes = |opener: &&Opener| opener.receives && opener.side.is_none_or(|side| side == index);
            let several = self.list(openers.iter().filter(takes).map(|opener| opener.plug));
            self.enter(plug, self.shared(several), index as u16 + 1);
        }
    }

    fn plan_tunnels(&mut self) {
        for (index, tunnels) in &self.settings.tunnels {
            let Some(SwitchPort(plug)) = self.settings.ports.get(*index) else { continue };
            let plug = usize::from(*plug);
            if self.tunnels.len() <= plug {
                self.tunnels.resize(plug + 1, None);
            }
            self.tunnels[plug] = Some(tunnels.clone());
        }
    }

    /// What comes from an opener goes out of its side, or as the mode says.
    fn plan_openers(&mut self) {
        let openers = self.settings.openers.clone();
        let ports = self.settings.ports.len();
        let receive = self.list(openers.iter().filter(|opener| opener.receives).map(|opener| opener.plug));
        let mut receivers = 0;
        for opener in openers {
            let mut others = receive;
            if opener.receives {
                (others.skip, others.count) = (receivers, receive.count - 1);
                receivers += 1;
            }
            let first = Plan::Fixed(self.port(opener.side.unwrap_or(0)).map_or(Way::Nowhere, Way::To));
            let plan = match self.mode() {
                Mode::Rootless => self.shared(others),
                _ if opener.side.is_some() || ports < 2 => first,
                Mode::Direct => first,
                Mode::Bond(_) => Plan::Bond,
                Mode::Bridge if ports == 2 => Plan::Opposite,
                Mode::Bridge => Plan::Learned,
            };
            self.enter(opener.plug, plan, 0);
        }
    }

    /// By which port that leaves which came by one, if that is said.
    #[inline]
    pub(crate) fn sent(&self, came_by: u8) -> Option<SwitchPort> {
        let index = usize::from(came_by).checked_sub(1)?;
        self.port(*self.settings.send.get(&index)?)
    }
}
