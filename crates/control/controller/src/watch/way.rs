//! Packets that are followed, as the taps see them.
//!
//! A packet is known by its buffer: the owner of the buffer has the packet, so that it is found again
//! whatever functions did to its bytes. Where a packet is copied, taps are told, and the copy is followed on.

use ::capture::{Filter, Outcome};
use api::WayEnd;
use engine::{Onward, Passage, Tap};
use nf_abi::Verdict;
use packet_memory::{Packet, Pool};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use telemetry::clock::{Clock, Cycles, Nanos};

/// Packets that are followed at a time.
const MOST_OPEN: usize = 1024;
/// Steps of one packet: more than there can be hops.
const MOST_STEPS: usize = 512;
/// Bytes that are kept of a packet.
const HEAD: usize = 256;
/// Changes of a packet's first bytes that are kept: more than there are functions that change one in a usual
/// chain.
const MOST_HEADS: usize = 64;
/// A packet that was not seen for so long is not waited for any more; one that is held is waited for longer.
const SILENCE_LIMIT: Nanos = Nanos::from_millis(2_000);
const HELD_LIMIT: Nanos = Nanos::from_millis(10_000);

/// Which packets are picked at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// None; those that were picked elsewhere are seen.
    Nothing,
    /// Those that a port receives, that come to a function, or that pass a device.
    All,
    /// Those that come to it by an interface.
    Interface(u16),
}

/// What happened to a packet at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Injected,
    Passage(Passage),
}

/// A packet at a place.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) place: usize,
    pub(super) what: What,
    pub(super) ingress: u16,
    pub(super) verdict: u32,
    pub(super) at: Nanos,
    /// Since the step before.
    pub(super) waited: Option<Nanos>,
    pub(super) cycles: Option<u64>,
    pub(super) batch: u64,
    /// Its first bytes, if they are others than at the step before.
    pub(super) head: Option<Box<[u8]>>,
}

/// A packet and what was seen of it.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) number: u64,
    pub(super) copy_of: Option<u64>,
    pub(super) head: Vec<u8>,
    pub(super) length: u32,
    pub(super) steps: Vec<Step>,
    /// Its first bytes as they were last told, and how many times that was.
    told: (Vec<u8>, usize),
    /// It is meant whatever becomes of it.
    sure: bool,
}

/// A way that has come to its end.
pub(super) struct Ended {
    pub(super) way: Way,
    pub(super) end: WayEnd,
}

/// A pool and a buffer of it.
type Key = (usize, u32);

fn key(pool: &Pool, packet: &Packet) -> Key {
    (std::ptr::from_ref(pool) as usize, packet.buffer())
}

#[derive(Default)]
struct Ways {
    open: HashMap<Key, Way>,
    /// Those that are meant whatever becomes of them, and were told of or will be.
    sure: u64,
    numbers: u64,
}

/// What all taps of a trace share.
pub(super) struct Following {
    /// Held for a few steps by the worker that sees a packet of the trace, and by no other thread while it
    /// goes on.
    ways: Mutex<Ways>,
    told: SyncSender<Ended>,
    filter: Option<Filter>,
    wanted: u64,
    /// Bytes that are told of packets at each step.
    heads: usize,
    clock: Clock,
    /// Packets that are followed.
    open: AtomicUsize,
    picking: AtomicBool,
    over: AtomicBool,
    missed: AtomicU64,
    ended: AtomicU64,
}

impl Following {
    pub(super) fn new(
        told: SyncSender<Ended>,
        filter: Option<Filter>,
        wanted: u64,
        heads: usize,
        clock: Clock,
    ) -> Following {
        Following {
            ways: Mutex::default(),
            told,
            filter,
            wanted,
            heads: heads.min(HEAD),
            clock,
            open: AtomicUsize::new(0),
            picking: AtomicBool::new(true),
            over: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all that were wanted have been followed to their end.
    pub(super) fn is_done(&self) -> bool {
        !self.picking.load(Relaxed) && self.open.load(Relaxed) == 0 && self.ended.load(Relaxed) >= self.wanted
    }

    pub(super) fn pick_no_more(&self) {
        self.picking.store(false, Relaxed);
    }

    /// Taps see nothing from now on.
    pub(super) fn end(&self) {
        self.picking.store(false, Relaxed);
        self.over.store(true, Relaxed);
    }

    /// Tells of those that are still followed.
    pub(super) fn give_up(&self) {
        let mut ways = self.ways();
        let mut left: Vec<Way> = std::mem::take(&mut ways.open).into_values().collect();
        left.sort_by_key(|way| way.number);
        for way in left {
            let end = if way.is_held() { WayEnd::Held } else { WayEnd::Unseen };
            self.finish(&mut ways, way, end);
        }
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Follows a packet that is put before a function.
    pub(super) fn inject(&self, place: usize, pool: &Pool, packet: &Packet) {
        self.picking.store(false, Relaxed);
        let at = self.clock.now();
        let mut ways = self.ways();
        if let Some(way) = self.begin(&mut ways, pool, packet, true) {
            way.push(place, What::Injected, packet, at);
        }
    }

    /// Begins to follow a packet.
    fn begin<'a>(&self, ways: &'a mut Ways, pool: &Pool, packet: &Packet, sure: bool) -> Option<&'a mut Way> {
        if ways.open.len() >= MOST_OPEN {
            self.missed.fetch_add(1, Relaxed);
            return None;
        }
        ways.numbers += 1;
        ways.sure += u64::from(sure);
        if ways.sure >= self.wanted {
            self.picking.store(false, Relaxed);
        }
        let mut head = vec![0; HEAD.min(packet.length() as usize)];
        pool.read(packet, 0, &mut head);
        let (number, length) = (ways.numbers, packet.length());
        let told = (head[..self.heads.min(head.len())].to_vec(), 0);
        let way = Way { number, copy_of: None, head, length, steps: Vec::new(), told, sure };
        self.open.store(ways.open.len() + 1, Relaxed);
        Some(ways.open.entry(key(pool, packet)).insert_entry(way).into_mut())
    }

    /// Whether a packet is meant: whatever becomes of it, or depending on that.
    fn picks(&self, pool: &Pool, packet: &Packet) -> Option<bool> {
        let Some(filter) = &self.filter else { return Some(true) };
        let mut head = [0; HEAD];
        let head = &mut head[..HEAD.min(packet.length() as usize)];
        pool.read(packet, 0, head);
        let matches = |outcome| filter.matches(head, packet.length(), outcome);
        match (matches(Outcome::Passed), matches(Outcome::Dropped)) {
            (true, true) => Some(true),
            (false, false) => None,
            _ => Some(false),
        }
    }

    fn end_of(&self, ways: &mut Ways, key: Key, end: WayEnd) {
        if let Some(way) = ways.open.remove(&key) {
            self.finish(ways, way, end);
        }
    }

    /// Hands a way over that is no more in the table.
    fn finish(&self, ways: &mut Ways, way: Way, end: WayEnd) {
        self.open.store(ways.open.len(), Relaxed);
        if !way.sure {
            let outcome = match end {
                WayEnd::Dropped | WayEnd::Lost => Outcome::Dropped,
                _ => Outcome::Passed,
            };
            let filter = self.filter.as_ref();
            if ways.sure >= self.wanted
                || !filter.is_some_and(|filter| filter.matches(&way.head, way.length, outcome))
            {
                return;
            }
            ways.sure += u64::from(way.copy_of.is_none());
            if ways.sure >= self.wanted {
                self.picking.store(false, Relaxed);
                // Whatever becomes of the others, there are enough.
                ways.open.retain(|_, way| way.sure);
                self.open.store(ways.open.len(), Relaxed);
            }
        }
        let counts = u64::from(way.copy_of.is_none());
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.told.try_send(Ended { way, end })
        {
            self.missed.fetch_add(1, Relaxed);
        }
        self.ended.fetch_add(counts, Relaxed);
    }
}

impl Way {
    fn push(&mut self, place: usize, what: What, packet: &Packet, at: Nanos) {
        if self.steps.len() >= MOST_STEPS {
            return;
        }
        let record = packet.record();
        let (ingress, verdict) = (record.ingress, 0);
        let (waited, cycles, head) = (None, None, None);
        self.steps.push(Step { place, what, ingress, verdict, at, waited, cycles, batch: 0, head });
    }

    /// Keeps a packet's first bytes with its last step, if they have changed.
    fn look_at_head(&mut self, pool: &Pool, packet: &Packet, heads: usize) {
        let mut head = [0; HEAD];
        let head = &mut head[..heads.min(packet.length() as usize)];
        pool.read(packet, 0, head);
        let (told, times) = &mut self.told;
        if *head == **told || *times >= MOST_HEADS {
            return;
        }
        if let Some(step) = self.steps.last_mut() {
            step.head = Some((&*head).into());
            told.clear();
            told.extend_from_slice(head);
            *times += 1;
        }
    }

    fn last_seen(&self) -> Nanos {
        self.steps.last().map_or(Nanos(0), |step| step.at)
    }

    fn is_held(&self) -> bool {
        let last = self.steps.last();
        last.is_some_and(|step| matches!(Verdict::decode(step.verdict), Some(Verdict::Hold(_))))
    }
}

/// Sees the packets of one place for a trace.
pub(super) struct TraceTap {
    place: usize,
    pick: Pick,
    following: std::sync::Arc<Following>,
    /// When the function was last called.
    called: Cycles,
}

impl TraceTap {
    pub(super) fn new(place: usize, pick: Pick, following: std::sync::Arc<Following>) -> TraceTap {
        TraceTap { place, pick, following, called: Cycles(0) }
    }

    fn is_picked(&self, packet: &Packet, passage: Passage) -> bool {
        match (self.pick, passage) {
            (Pick::All, Passage::Received | Passage::Arrived | Passage::Passing(..)) => true,
            (Pick::Interface(interface), Passage::Arrived) => packet.record().ingress == interface,
            _ => false,
        }
    }

    fn look(&self, pool: &Pool, packets: &[Packet], passage: Passage, ended: Cycles) {
        let following = &*self.following;
        let picking = self.pick != Pick::Nothing
            && matches!(passage, Passage::Received | Passage::Arrived | Passage::Passing(..))
            && following.picking.load(Relaxed);
        if !picking && following.open.load(Relaxed) == 0 {
            return;
        }
        let at = following.clock.nanos(ended);
        let cycles = ended.since(self.called).0 / packets.len().max(1) as u64;
        let mut ways = following.ways();
        for packet in packets {
            let key = key(pool, packet);
            if passage == Passage::Received {
                // The buffer has another packet now.
                following.end_of(&mut ways, key, WayEnd::Unseen);
            }
            if picking
                && !ways.open.contains_key(&key)
                && following.picking.load(Relaxed)
                && self.is_picked(packet, passage)
                && let Some(sure) = following.picks(pool, packet)
            {
                following.begin(&mut ways, pool, packet, sure);
            }
            let Some(way) = ways.open.get_mut(&key) else { continue };
            let what = What::Passage(passage);
            let is_answer = way
                .steps
                .last()
                .is_some_and(|step| step.place == self.place && step.what == What::Passage(Passage::Arrived));
            if !is_answer || !matches!(passage, Passage::Decided | Passage::Trapped | Passage::Down) {
                let before = way.last_seen();
                way.push(self.place, what, packet, at);
                if let Some(step) =
                    way.steps.last_mut().filter(|_| passage == Passage::Arrived && before.0 > 0)
                {
                    step.waited = Some(at.since(before));
                }
            } else if let Some(step) = way.steps.last_mut() {
                step.what = what;
                (step.cycles, step.batch) = (Some(cycles), packets.len() as u64);
            }
            if following.heads > 0 {
                way.look_at_head(pool, packet, following.heads);
            }
            let verdict = packet.record().verdict;
            if matches!(passage, Passage::Decided | Passage::Emitted)
                && let Some(step) = way.steps.last_mut()
            {
                step.verdict = verdict;
            }
            if let Some(end) = end_by(passage, verdict) {
                following.end_of(&mut ways, key, end);
            }
        }
    }
}

/// Whether a packet's way ends with what happened.
fn end_by(passage: Passage, verdict: u32) -> Option<WayEnd> {
    match passage {
        Passage::Transmitted => Some(WayEnd::Transmitted),
        Passage::Lost(_) | Passage::Trapped => Some(WayEnd::Lost),
        Passage::Decided | Passage::Emitted => match Verdict::decode(verdict) {
            Some(Verdict::Drop(_)) => Some(WayEnd::Dropped),
            Some(Verdict::Consume) => Some(WayEnd::Consumed),
            Some(Verdict::None) | None => Some(WayEnd::Lost),
            Some(Verdict::Interface(_) | Verdict::Service(_) | Verdict::Hold(_)) => None,
        },
        Passage::Passing(_, Onward::Nowhere(_)) => Some(WayEnd::Lost),
        Passage::Received | Passage::Arrived | Passage::Down | Passage::Passing(..) => None,
    }
}

impl Tap for TraceTap {
    fn see(&mut self, pool: &Pool, packets: &[Packet], passage: Passage) {
        let ended = Cycles::now();
        if !self.following.over.load(Relaxed) {
            self.look(pool, packets, passage, ended);
        }
        if passage == Passage::Arrived {
            // What looking took is not the function's.
            self.called = Cycles::now();
        }
    }

    fn flush(&mut self) {
        let following = &*self.following;
        if following.open.load(Relaxed) == 0 || following.over.load(Relaxed) {
            return;
        }
        let now = following.clock.now();
        let mut ways = following.ways();
        let late = |way: &Way| {
            let limit = if way.is_held() { HELD_LIMIT } else { SILENCE_LIMIT };
            now.since(way.last_seen()) > limit
        };
        let late: Vec<Key> = ways.open.iter().filter(|(_, way)| late(way)).map(|(key, _)| *key).collect();
        for key in late {
            let held = ways.open.get(&key).is_some_and(Way::is_held);
            following.end_of(&mut ways, key, if held { WayEnd::Held } else { WayEnd::Unseen });
        }
    }

    fn copied(&mut self, (here, original): (&Pool, &Packet), (there, copy): (&Pool, &Packet)) {
        let following = &*self.following;
        if following.open.load(Relaxed) == 0 || following.over.load(Relaxed) {
            return;
        }
        let (from, to) = (key(here, original), key(there, copy));
        let mut ways = following.ways();
        if !std::ptr::eq(here, there) {
            // The original ends here: it is the copy that goes on.
            if let Some(way) = ways.open.remove(&from) {
                ways.open.insert(to, way);
            }
            return;
        }
        let Some(way) = ways.open.get(&from).cloned() else { return };
        if ways.open.len() >= MOST_OPEN {
            following.missed.fetch_add(1, Relaxed);
            return;
        }
        ways.numbers += 1;
        let copy = Way { number: ways.numbers, copy_of: Some(way.number), ..way };
        ways.open.insert(to, copy);
        following.open.store(ways.open.len(), Relaxed);
    }

    fn is_over(&self) -> bool {
        self.following.over.load(Relaxed)
    }
}
