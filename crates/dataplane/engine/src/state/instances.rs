//! The instances of a worker: each with its guest, its queue, and what is counted for it.
//!
//! What holds: an instance has one entity of the scheduler, which names it (`Accounting::instance_of`). It
//! waits in the scheduler if and only if it has work, is not running, does not stand still and does not wait
//! for room.

use crate::control::account::InstanceAccount;
use crate::control::board::Board;
use crate::control::fault::{FailPolicy, Life, RestartPolicy};
use crate::control::starts::{StartWork, Started};
use crate::control::tap::Tap;
use crate::ids::{Holder, PoolId, Target};
use crate::path::observers::Observer;
use crate::path::queue::Queue;
use cpu_share::{Claim, EntityId, TenantId};
use guest::{Guest, SlotConfig};
use packet_memory::Packet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use telemetry::clock::{Moment, Nanos};
use telemetry::{Latencies, Ledger};

/// Makes the guest of an instance, at the start and again after a fault.
pub trait GuestFactory: Send {
    /// The work of starting a new guest, which is done beside the workers. It is complete in itself, and
    /// fails in words for the operator.
    fn work(&self) -> StartWork;

    /// A new guest, started and ready.
    ///
    /// # Errors
    /// Why not, in words for the operator.
    fn start(&self) -> Started {
        (self.work())()
    }

    /// Other bounds for guests to come; see [`Guest::set_limits`].
    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig) {
        let _ = (max_call, slots);
    }

    /// Guests to come are switched out when a call with packets has lasted for a slice: one before them held
    /// its worker for long.
    fn set_preemptible(&mut self) {}
}

/// What can be changed about an instance while its guest goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// See [`InstanceSetup::fail`].
    pub fail: FailPolicy,
    /// See [`InstanceSetup::restart`].
    pub restart: RestartPolicy,
    /// Longest time of one call with packets.
    pub max_call: Nanos,
    /// Bounds on packets that it keeps.
    pub slots: SlotConfig,
}

/// What an instance is made of.
pub struct InstanceSetup {
    /// Its name in the wiring.
    pub name: String,
    /// The pool that its packets are in.
    pub pool: PoolId,
    /// Whose it is.
    pub tenant: TenantId,
    /// The name of that tenant, to which work beside the workers is charged.
    pub owner: String,
    /// Its claim on the processor, beside its tenant's other instances.
    pub claim: Claim,
    /// Number of its interfaces.
    pub interfaces: u16,
    /// Whether it reads the flow hash of packets.
    pub flow_hash: bool,
    /// Names of the function's own drop reasons.
    pub drop_reasons: Vec<String>,
    /// Names of the function's counters.
    pub counters: Vec<String>,
    /// Makes its guest.
    pub factory: Box<dyn GuestFactory>,
    /// What happens to packets while it is down.
    pub fail: FailPolicy,
    /// When it is started again.
    pub restart: RestartPolicy,
    /// Most packets that wait for it.
    pub queue: usize,
}

/// Counters of one instance, kept by the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceCounters {
    pub(crate) ledger: Ledger,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    pub(crate) faults: u64,
    pub(crate) restarts: u64,
    /// Calls that took longer than a slice.
    pub(crate) overruns: u64,
    /// Times that a call was switched out.
    pub(crate) suspensions: u64,
    /// Packets that an observer did not get to see.
    pub(crate) missed: u64,
    pub(crate) own_drops: Vec<u64>,
    /// From packets' reception to the end of their verdicts.
    pub(crate) latencies: Latencies,
    /// What the function counted in former lives.
    pub(crate) former: Vec<u64>,
}

impl InstanceCounters {
    /// Counts a call with so many packets.
    #[inline]
    pub(crate) fn count_call(&mut self, packets: usize) {
        self.calls += 1;
        self.packets += packets as u64;
    }
}

pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) pool: PoolId,
    pub(crate) tenant: TenantId,
    /// The tenant's name.
    pub(crate) owner: Arc<str>,
    pub(crate) claim: Claim,
    pub(crate) entity: EntityId,
    pub(crate) flow_hash: bool,
    pub(crate) links: Vec<Option<Target>>,
    pub(crate) observers: Vec<Observer>,
    /// It sees packets that stay their owners', and what it is sent is copies.
    pub(crate) is_observer: bool,
    /// Packets that it did not get to see for want of room on the way from other workers.
    pub(crate) missed_elsewhere: Arc<AtomicU64>,
    pub(crate) queue: Queue,
    /// Most packets of one call: as many as take a slice.
    pub(crate) batch: usize,
    /// It was called since its log was last collected.
    pub(crate) called: bool,
    /// Packets of the last call.
    pub(crate) called_with: usize,
    /// When the first packet of the last call was received; 0 when that is counted, or not known.
    pub(crate) received: u64,
    /// The batch of a call that was switched out.
    pub(crate) suspended: Option<Vec<Packet>>,
    /// Numbers of the ports whose packets come to it.
    pub(crate) feeds: Vec<usize>,
    /// A feed had packets when it was last polled: there may be more.
    pub(crate) more_outside: bool,
    /// Batches since its feeds were last polled.
    pub(crate) unpolled: u32,
    /// The number of the instance that handed it its last batch; none's when a port did.
    pub(crate) handed_by: usize,
    /// The receiver that had much to do already when it was handed packets.
    pub(crate) throttled_by: Option<Holder>,
    /// That is at the end of a way that it picked itself, and no matter of those that hand it packets.
    pub(crate) picked: bool,
    /// The receiver that it waits for, to have room for what it would hand on.
    pub(crate) waits_for: Option<Holder>,
    /// It does not run until it is resumed.
    pub(crate) paused: bool,
    /// A deadline of it has passed: that is seen to when it is its turn.
    pub(crate) due: bool,
    /// Its guest is elsewhere, with so many packets; see [`crate::detach`].
    pub(crate) detached: Option<usize>,
    /// What its guests read of the devices behind its interfaces, once that was said.
    pub(crate) devices: Option<Arc<[u8]>>,
    /// Bounds that were set since it was made, for guests whose start was under way.
    pub(crate) bounds: Option<(Nanos, SlotConfig)>,
    /// When the worker's timers have it due; [`Nanos::MAX`] when they do not.
    pub(crate) timer_at: Nanos,
    pub(crate) life: Life,
    pub(crate) fail: FailPolicy,
    pub(crate) restart: RestartPolicy,
    pub(crate) factory: Box<dyn GuestFactory>,
    pub(crate) drop_reasons: Vec<String>,
    pub(crate) counter_names: Vec<String>,
    pub(crate) counters: InstanceCounters,
    /// Where its account is read by others.
    pub(crate) board: Arc<Board<InstanceAccount>>,
    /// What is shown its packets and decisions.
    pub(crate) taps: Vec<Box<dyn Tap>>,
}

impl Instance {
    pub(crate) fn new(
        setup: InstanceSetup,
        entity: EntityId,
        guest: Box<dyn Guest>,
        batch: usize,
        now: Moment,
    ) -> Instance {
        let counters = InstanceCounters {
            own_drops: vec![0; setup.drop_reasons.len().max(1)],
            former: vec![0; setup.counters.len()],
            ..InstanceCounters::default()
        };
        Instance {
            name: setup.name,
            pool: setup.pool,
            tenant: setup.tenant,
            owner: setup.owner.into(),
            claim: setup.claim,
            entity,
            flow_hash: setup.flow_hash,
            links: vec![None; usize::from(setup.interfaces)],
            observers: Vec::new(),
            is_observer: false,
            missed_elsewhere: Arc::default(),
            queue: Queue::new(setup.queue),
            batch,
            called: false,
            called_with: 0,
            received: 0,
            suspended: None,
            feeds: Vec::new(),
            more_outside: false,
            unpolled: 0,
            handed_by: usize::MAX,
            throttled_by: None,
            picked: false,
            waits_for: None,
            paused: false,
            due: false,
            detached: None,
            devices: None,
            bounds: None,
            timer_at: Nanos::MAX,
            life: Life::Up { guest, since: now.nanos, next_delay: setup.restart.first_delay },
            fail: setup.fail,
            restart: setup.restart,
            factory: setup.factory,
            drop_reasons: setup.drop_reasons,
            counter_names: setup.counters,
            counters,
            board: Arc::default(),
            taps: Vec::new(),
        }
    }

    /// Packets that this instance owns, by walking them.
    pub(crate) fn in_flight(&mut self) -> u64 {
        let kept = match &mut self.life {
            Life::Up { guest, .. } => guest.kept().packets(),
            Life::Down { .. } | Life::Starting { .. } => 0,
        };
        let suspended = self.suspended.as_ref().map_or(0, Vec::len);
        (self.queue.len() + suspended + kept + self.detached.unwrap_or(0)) as u64
    }

    /// Where an interface leads.
    #[inline]
    pub(crate) fn link(&self, interface: u16) -> Option<Target> {
        self.links.get(usize::from(interface)).copied().flatten()
    }

    /// There is nothing to be done with a batch before the call: no port to be polled now and then, and
    /// neither observers nor taps to be shown it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.feeds.is_empty() && self.observers.is_empty() && self.taps.is_empty()
    }

    /// There is something to call it for, or there may be.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.more_outside || self.suspended.is_some() || self.due
    }

    /// It has nothing to do, nothing ahead of it is filling up, and it may be called with so many packets.
    #[inline]
    pub(crate) fn takes_at_once(&self, count: usize) -> bool {
        let is_idle = !self.polls_for_itself() && self.throttled_by.is_none();
        is_idle && (1..=self.batch).contains(&count) && count <= self.queue.room()
    }

    /// Counts how long the packets took that it was called with last. All of a batch count as its first.
    #[inline]
    pub(crate) fn count_latency(&mut self, now: Nanos) {
        if self.received != 0 {
            let took = now.0.saturating_sub(self.received);
            self.counters.latencies.record(took, self.called_with as u64);
            self.received = 0;
        }
    }

    /// Instances that hand packets to it are throttled: it has much to do already, or those that it hands
    /// packets to.
    #[inline]
    pub(crate) fn is_congested(&self) -> bool {
        self.queue.is_congested() || self.throttled_by.is_some() && !self.picked
    }

    /// It does not run at present, however much waits for it.
    #[inline]
    pub(crate) fn stands_still(&self) -> bool {
        self.paused || self.detached.is_some()
    }

    /// The ports that feed it alone are not to be polled on its behalf.
    #[inline]
    pub(crate) fn polls_for_itself(&self) -> bool {
        self.stands_still() || self.has_work()
    }
}
