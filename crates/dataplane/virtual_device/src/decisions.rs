//! Decisions: where the packets of a batch go that comes in by one plug of a device.

use crate::bond::scale;
use crate::device::{Device, Plan};
use crate::settings::{Balance, Mode};
use telemetry::clock::Nanos;
use virtual_switch::{HEAD, Route, SwitchPort};

/// Where a packet goes. The order says nothing; packets are sorted by it that go one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Out by one plug.
    To(SwitchPort),
    /// Itself by the first of several plugs, and a copy by each further one. There are two or more.
    Each(Several),
    /// By each end of a learning switch but the one that it came from.
    Flood,
    /// Nowhere: its destination is where it came from, or no bridge forwards it.
    Filter,
    /// Nowhere: devices at a port have seen it that take nothing.
    Seen,
    /// Nowhere: nothing receives it.
    Nowhere,
}

impl From<Route> for Way {
    fn from(route: Route) -> Way {
        match route {
            Route::To(port) => Way::To(port),
            Route::Flood => Way::Flood,
            Route::Filter => Way::Filter,
        }
    }
}

/// Several plugs of a device in their order, one of them left out or not. [`Device::plug`] names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Several {
    pub(crate) start: u32,
    pub(crate) count: u32,
    /// Which of them is left out, which `count` does not count.
    pub(crate) skip: u32,
}

impl Several {
    /// How many there are.
    #[inline]
    pub fn count(self) -> usize {
        self.count as usize
    }

    /// The place in the device's list of the one at a position.
    #[inline]
    pub(crate) fn place(self, position: usize) -> Option<usize> {
        let beyond = position >= self.skip as usize;
        (position < self.count()).then_some(self.start as usize + position + usize::from(beyond))
    }
}

/// The decisions on one batch.
#[derive(Debug)]
pub struct Decisions<'a> {
    device: &'a Device,
    plan: Plan,
    /// One more than the index of the port that the batch comes from; 0: it comes from an opener.
    port: u16,
    turn: u64,
    now: Nanos,
    /// What a bridge has found out for the last packet is not found out again for the next one: its head, the
    /// port by which it came before, and where it went.
    last: Option<([u8; HEAD], u8, Way)>,
}

impl<'a> Decisions<'a> {
    #[inline]
    pub(crate) fn new(device: &'a Device, from: SwitchPort, count: usize, now: Nanos) -> Decisions<'a> {
        let (plan, port) = device.at(from);
        let takes_turns = matches!((plan, device.mode()), (Plan::Bond, Mode::Bond(Balance::RoundRobin)));
        let turn = if takes_turns { device.links.take_turns(count) } else { 0 };
        Decisions { device, plan, port, turn, now, last: None }
    }

    /// Where the next packet goes. `came_by` is `device_port` of the packet's record, and `head` gives its
    /// beginning, see [`virtual_switch::head`].
    #[inline]
    pub fn next(&mut self, flow_hash: u32, came_by: u8, head: impl Fn() -> [u8; HEAD]) -> Way {
        let device = self.device;
        if self.port > 0
            && let Some(bridge) = &device.bridge
        {
            let head = head();
            if self.last.replace((head, 0, Way::Nowhere)).is_none_or(|(last, ..)| last != head) {
                bridge.hear(usize::from(self.port) - 1, &head, self.now);
            }
        }
        match (self.plan, device.sent(came_by)) {
            (Plan::Fixed(way), _) => way,
            (Plan::Balance(several), _) => device.one_of(several, scale(flow_hash, several.count())),
            (_, Some(port)) => Way::To(port),
            (Plan::Bond, None) => {
                let Mode::Bond(balance) = device.mode() else { return Way::Nowhere };
                let index = device.links.choose(balance, flow_hash, self.turn, self.now);
                self.turn = self.turn.wrapping_add(1);
                device.port(index).map_or(Way::Nowhere, Way::To)
            }
            (Plan::Opposite, None) => device.others(came_by),
            (Plan::Learned, None) => {
                let head = head();
                let way = match self.last {
                    Some((last, by, way)) if last == head && by == came_by => way,
                    _ => self.learned(came_by, &head),
                };
                self.last = Some((head, came_by, way));
                way
            }
        }
    }

    /// Where a frame goes from an opener of a bridge of more than two ports.
    fn learned(&self, came_by: u8, head: &[u8; HEAD]) -> Way {
        let index = usize::from(came_by).checked_sub(1).filter(|index| self.device.port(*index).is_some());
        let found = self.device.bridge.as_ref().and_then(|bridge| bridge.find(index, head, self.now));
        found.unwrap_or_else(|| self.device.others(came_by))
    }
}
