//! An instance as the worker keeps it: the guest, its queue, and what is counted for it.

use crate::fault::{FailPolicy, Life, RestartPolicy};
use crate::queue::Queue;
use crate::tap::Tap;
use crate::worker::{InstanceId, PoolId, Target};
use clock::Moment;
use cpu_share::EntityId;
use guest::Guest;
use packet_memory::Packet;
use telemetry::Ledger;

/// Makes the guest of an instance, at the start and again after a fault.
pub trait GuestFactory: Send {
    /// A new guest, started and ready.
    ///
    /// # Errors
    /// Why not, in words for the operator.
    fn start(&mut self) -> Result<Box<dyn Guest>, String>;
}

/// What an instance is made of.
pub struct InstanceSetup {
    /// Its name in the wiring.
    pub name: String,
    /// The pool that its packets are in.
    pub pool: PoolId,
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

/// Who else sees the packets of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observer {
    pub(crate) instance: InstanceId,
    /// Only those that come in by this interface.
    pub(crate) interface: Option<u16>,
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
    /// Packets that an observer did not get to see.
    pub(crate) missed: u64,
    pub(crate) own_drops: Vec<u64>,
    /// What the function counted in former lives.
    pub(crate) former: Vec<u64>,
}

impl InstanceCounters {
    /// Adds the lengths of packets that the instance was shown.
    #[inline]
    pub(crate) fn count_bytes(&mut self, packets: &[Packet]) {
        self.bytes += packets.iter().map(|packet| u64::from(packet.length())).sum::<u64>();
    }
}

pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) pool: PoolId,
    pub(crate) entity: EntityId,
    pub(crate) links: Vec<Option<Target>>,
    pub(crate) observers: Vec<Observer>,
    /// It sees packets that stay their owners', and what it is sent is copies.
    pub(crate) is_observer: bool,
    pub(crate) queue: Queue,
    pub(crate) life: Life,
    pub(crate) fail: FailPolicy,
    pub(crate) restart: RestartPolicy,
    pub(crate) factory: Box<dyn GuestFactory>,
    pub(crate) drop_reasons: Vec<String>,
    pub(crate) counter_names: Vec<String>,
    pub(crate) counters: InstanceCounters,
    /// Who looks at its packets and decisions.
    pub(crate) taps: Vec<Box<dyn Tap>>,
}

impl Instance {
    pub(crate) fn new(
        setup: InstanceSetup,
        entity: EntityId,
        guest: Box<dyn Guest>,
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
            entity,
            links: vec![None; usize::from(setup.interfaces)],
            observers: Vec::new(),
            is_observer: false,
            queue: Queue::new(setup.queue),
            life: Life::up(guest, setup.restart.first_delay, now.nanos),
            fail: setup.fail,
            restart: setup.restart,
            factory: setup.factory,
            drop_reasons: setup.drop_reasons,
            counter_names: setup.counters,
            counters,
            taps: Vec::new(),
        }
    }

    /// Packets that this instance owns, by walking them.
    pub(crate) fn in_flight(&mut self) -> u64 {
        let kept = match &mut self.life {
            Life::Up { guest, .. } => guest.slots().len() + guest.take_emitted().len(),
            Life::Down { .. } => 0,
        };
        (self.queue.len() + kept) as u64
    }
}
