//! Numbers of what a worker has, and what a wire leads to.

use cpu_share::TenantId;
use virtual_switch::SwitchPort;

/// Number of a pool. The same on all workers of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub(crate) u16);

/// Number of a port of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub(crate) u32);

/// Number of an instance of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub(crate) u32);

/// Number of a switch, as the engine calls everything that forwards by a decision: a learning switch, a
/// virtual device, the devices at a port. The same on all workers of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub(crate) u32);

impl PortId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl InstanceId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl SwitchId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A service as the functions of one tenant name it. Two tenants' services of one number are two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId {
    /// The tenant whose functions may send there.
    pub tenant: TenantId,
    /// The number in the verdict.
    pub number: u16,
}

/// A plug of a switch.
pub(crate) type Plug = (SwitchId, SwitchPort);

/// Where a packet can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// To an instance, by this interface of it.
    Instance(InstanceId, u16),
    /// Out by a port.
    Port(PortId),
    /// Into a switch, by this port of it.
    Switch(SwitchId, SwitchPort),
}

/// What has packets, or gets them next, by its number on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// An instance.
    Instance(usize),
    /// A port, with what is behind it where that is a wire to another worker or a process.
    Port(usize),
}

/// Why a wire was not laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The instance has no such interface.
    #[error("the instance has {interfaces} interfaces, there is no interface {interface}")]
    NoInterface {
        /// The number asked for.
        interface: u16,
        /// How many there are.
        interfaces: u16,
    },
    /// Something is wired there already.
    #[error("something is wired there already")]
    Taken,
    /// Two switches, which would have to agree on loops. A device may be wired to the devices at a port.
    #[error("two switches cannot be wired to each other; allowed: a function between them")]
    TwoSwitches,
    /// A switch was to become a device, or the other way round.
    #[error("a switch, a device and the devices at a port stay what they are; allowed: another of its kind")]
    AnotherKind,
    /// There is no such port, instance or switch.
    #[error("there is no such port, instance or switch")]
    Absent,
    /// The worker has no number left for another pool or switch.
    #[error("a worker has at most 65,536 pools and switches")]
    TooMany,
}
