//! Observers: instances and ports that are shown packets on their way and decide nothing.
//!
//! An observer borrows a packet where it is on the same worker, its packets are in the same pool and it may
//! run at once: it is called in its own account before the packet goes on. Otherwise it is sent a copy, which
//! ends with its call. A port that observes transmits copies, in the account of the packets' present owner.
//! What an observer has no time or room for, it misses, and nothing else waits for it.

use crate::control::fault::Life;
use crate::control::tap::Passage;
use crate::ids::{PoolId, PortId, SwitchId, Target};
use crate::path::switching::SwitchNode;
use crate::state::instances::Instance;
use crate::state::ports::PortNode;
use crate::state::sparse::Sparse;
use crate::worker::Worker;
use capture::{Filter, Outcome};
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use virtual_device::{HEAD, Way};
use virtual_switch::SwitchPort;

/// So many packets are chosen from at once: a bit for each.
const CHOSEN_AT_ONCE: usize = u64::BITS as usize;

/// What an observer is shown of the packets that pass a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Those that it matches, of which [`HEAD`] bytes are looked at; `None`: all. What became of a packet is
    /// not known: `dropped` matches nothing.
    pub filter: Option<Arc<Filter>>,
    /// One of so many of those on average, at random; 0 and 1: each.
    pub one_of: u32,
}

/// An observer of what passes an instance, a port or a switch of a worker.
#[derive(Debug)]
pub(crate) struct Observer {
    /// The instance or the port, or a relay to its worker.
    pub(crate) target: Target,
    /// Only packets that come in by this interface of an instance.
    pub(crate) interface: Option<u16>,
    /// Only packets that come in or go out by this plug of a switch.
    pub(crate) plug: Option<SwitchPort>,
    view: View,
    /// Packets that are not shown before the next one that is.
    skip: u32,
    /// The state of the random sequence that spaces samples; never 0.
    random: u32,
    /// What it missed for want of room on the way to its worker, or, being a port, of buffers.
    missed: Arc<AtomicU64>,
}

impl Observer {
    pub(crate) fn new(target: Target, view: View, missed: Arc<AtomicU64>) -> Observer {
        let mut observer =
            Observer { target, interface: None, plug: None, view, skip: 0, random: 0x9e37_79b9, missed };
        observer.skip = observer.space();
        observer
    }

    /// It is shown only what comes in by this interface of the instance.
    pub(crate) fn at_interface(self, interface: Option<u16>) -> Observer {
        Observer { interface, ..self }
    }

    /// It is shown only what comes in or goes out by this plug of the switch.
    pub(crate) fn at_plug(self, plug: Option<SwitchPort>) -> Observer {
        Observer { plug, ..self }
    }

    /// It is shown whatever passes.
    fn sees_all(&self) -> bool {
        self.interface.is_none() && self.view.filter.is_none() && self.view.one_of < 2
    }

    /// Which of these packets, at most [`CHOSEN_AT_ONCE`], it is shown.
    fn choose(&mut self, pool: &Pool, packets: &[Packet]) -> u64 {
        let mut chosen = 0;
        for (n, packet) in packets.iter().enumerate() {
            let here = self.interface.is_none_or(|interface| packet.record().ingress == interface);
            let wanted = here
                && self.view.filter.as_ref().is_none_or(|filter| {
                    let (head, length) = pool.head::<HEAD>(packet);
                    filter.matches(&head[..length], packet.length(), Outcome::Passed)
                });
            chosen |= u64::from(wanted && self.is_sampled()) << n;
        }
        chosen
    }

    /// Whether the next packet is one of the sample.
    pub(crate) fn is_sampled(&mut self) -> bool {
        let sampled = self.skip == 0;
        self.skip = if sampled { self.space() } else { self.skip - 1 };
        sampled
    }

    /// How many packets to leave out, evenly distributed so that one of [`View::one_of`] is taken on average:
    /// a fixed number would always take the same one of flows that come in turn.
    fn space(&mut self) -> u32 {
        if self.view.one_of < 2 {
            return 0;
        }
        // Marsaglia's xorshift (2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let spaces = 2 * u64::from(self.view.one_of) - 1;
        ((u64::from(self.random) * spaces) >> 32) as u32
    }
}

/// Where observers are, in a worker's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Instance(usize),
    Port(usize),
    Switch(usize),
}

/// Whether packets that come in by one plug and go on as was decided come in or leave by a plug.
pub(crate) fn passes(node: &SwitchNode, from: SwitchPort, way: Option<Way>, plug: SwitchPort) -> bool {
    let leaves = |way| match way {
        Way::To(to) => to == plug,
        _ => node.each(from, way).contains(&plug),
    };
    plug == from || way.is_some_and(leaves)
}

fn observers<'a>(
    (instances, ports, switches): (&'a mut Sparse<Instance>, &'a mut Sparse<PortNode>, &'a mut [SwitchNode]),
    at: Seen,
) -> &'a mut Vec<Observer> {
    match at {
        Seen::Instance(index) => &mut instances[index].observers,
        Seen::Port(index) => &mut ports[index].observers,
        Seen::Switch(index) => &mut switches[index].observers,
    }
}

impl Worker {
    /// The observers at a place.
    pub(crate) fn observers_at(&mut self, at: Seen) -> &mut Vec<Observer> {
        observers((&mut self.instances, &mut self.ports, &mut self.switches), at)
    }

    /// Shows packets, which stay their owner's, to the observers at a place; of a switch, to those for which
    /// they pass a plug of theirs.
    pub(crate) fn show_at(
        &mut self,
        at: Seen,
        packets: &[Packet],
        owner: PoolId,
        passes: impl Fn(&SwitchNode, SwitchPort) -> bool,
    ) {
        for n in 0..self.observers_at(at).len() {
            if let (Seen::Switch(index), Some(plug)) = (at, self.observers_at(at)[n].plug)
                && !passes(&self.switches[index], plug)
            {
                continue;
            }
            let observer = &self.observers_at(at)[n];
            if observer.sees_all() {
                self.show_to(at, n, packets, owner);
                continue;
            }
            for part in packets.chunks(CHOSEN_AT_ONCE) {
                let places = (&mut self.instances, &mut self.ports, &mut self.switches[..]);
                let mut chosen = observers(places, at)[n].choose(&self.pools[usize::from(owner.0)], part);
                while chosen != 0 {
                    let first = chosen.trailing_zeros();
                    let count = (chosen >> first).trailing_ones();
                    let run = first as usize..(first + count) as usize;
                    self.show_to(at, n, &part[run], owner);
                    chosen = chosen.checked_shr(first + count).map_or(0, |rest| rest << (first + count));
                }
            }
        }
    }

    /// Shows what passes a device or switch that comes in by one plug and leaves as was decided, if there are
    /// observers.
    pub(crate) fn show_passing(
        &mut self,
        id: SwitchId,
        from: SwitchPort,
        way: Option<Way>,
        packets: &[Packet],
        owner: PoolId,
    ) {
        if !self.switches[id.index()].taps.is_empty() {
            self.show_taps(id, from, way, packets, owner);
        }
        if self.switches[id.index()].observers.is_empty() {
            return;
        }
        let at = Seen::Switch(id.index());
        self.show_at(at, packets, owner, |node, plug| passes(node, from, way, plug));
    }

    /// Shows packets of a port to the observers of devices there that take none of them: by their positions,
    /// with the plug behind which each device is. They are shown in runs, as they lie.
    pub(crate) fn show_seen(
        &mut self,
        id: SwitchId,
        seen: &mut Vec<(usize, SwitchPort)>,
        packets: &[Packet],
        owner: PoolId,
    ) {
        seen.sort_unstable_by_key(|(n, plug)| (*plug, *n));
        for run in seen.chunk_by(|(n, plug), (next, same)| plug == same && n + 1 == *next) {
            if let [(first, plug), ..] = *run
                && let Some(Target::Switch(device, from)) = self.switches[id.index()].end(plug)
            {
                self.show_passing(device, from, None, &packets[first..first + run.len()], owner);
            }
        }
        seen.clear();
    }

    fn show_to(&mut self, at: Seen, n: usize, packets: &[Packet], owner: PoolId) {
        match self.observers_at(at)[n].target {
            Target::Instance(observer, _) => self.show(observer.index(), packets, owner),
            Target::Port(port) => {
                let missed = self.send_to_observer(port, packets, owner);
                if missed > 0 {
                    self.observers_at(at)[n].missed.fetch_add(missed, Relaxed);
                }
            }
            Target::Switch(..) => {}
        }
    }

    fn show(&mut self, index: usize, packets: &[Packet], owner: PoolId) {
        let instance = &mut self.instances[index];
        if !matches!(instance.life, Life::Up { .. }) || instance.suspended.is_some() {
            instance.counters.missed += packets.len() as u64;
            return;
        }
        let (entity, at_once) = (instance.entity, instance.pool == owner && !instance.stands_still());
        // What it was sent before comes first. What an observer sends while it is shown packets, observers
        // are not called with within that call: they may be the same.
        let at_once = at_once && instance.queue.is_empty() && !self.batches.showing;
        let owner_account = self.time.switch(entity);
        if at_once && self.time.scheduler.hand_off(entity, self.time.now.cycles) {
            let instance = &mut self.instances[index];
            instance.counters.count_call(packets.len());
            self.upkeep.note_call(index, &mut instance.called);
            self.batches.showing = true;
            self.call_observer(index, packets);
            self.batches.showing = false;
        } else {
            self.copy_to_observer(index, packets, owner);
        }
        self.time.switch(owner_account);
    }

    /// Makes copies for an observer that may not run now, or lives in another pool; what finds no room, it
    /// misses.
    fn copy_to_observer(&mut self, index: usize, packets: &[Packet], owner: PoolId) {
        let observer = &mut self.instances[index];
        let (here, there) = (&self.pools[owner.0 as usize], &self.pools[observer.pool.0 as usize]);
        let mut copies = self.batches.spare();
        there.copy_batch(here, packets, observer.queue.room(), &mut copies);
        observer.counters.ledger.copied += copies.len() as u64;
        observer.counters.missed += (packets.len() - copies.len()) as u64;
        if copies.is_empty() {
            return self.batches.recycle(copies);
        }
        observer.queue.push_batch(copies, &mut self.batches.spare);
        self.wake_instance(index);
    }

    /// Sends copies to a port that observes, or to an observer on another worker, as many as the port or the
    /// way has room for; returns how many it misses. No sender is throttled for that.
    fn send_to_observer(&mut self, port: PortId, packets: &[Packet], owner: PoolId) -> u64 {
        let Some(node) = self.ports.get_mut(port.index()) else { return packets.len() as u64 };
        let room = node.port.room();
        if room == 0 {
            // A slow one has none for most batches.
            return packets.len() as u64;
        }
        let (here, there) = (&self.pools[usize::from(owner.0)], &self.pools[usize::from(node.pool.0)]);
        let mut copies = self.batches.spare();
        there.copy_batch(here, packets, room, &mut copies);
        let sent = copies.len() as u64;
        node.ledger.copied += sent;
        if sent > 0 {
            // Its taps see what it is given. Its observers, which no configuration gives it, do not: two
            // ports that observe each other would have no end.
            for tap in &mut node.taps {
                tap.see(there, &copies, Passage::Transmitted);
            }
            node.count_latency(&self.time.clock, &copies);
            node.port.transmit(there, self.time.now.nanos, &mut copies);
            if node.internal {
                self.note_passage(port.index());
            }
        }
        self.batches.recycle(copies);
        packets.len() as u64 - sent
    }
}
