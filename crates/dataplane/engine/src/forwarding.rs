//! What decides in a switch, as the engine calls everything that forwards by a decision.

use std::sync::Arc;
use telemetry::clock::Nanos;
use virtual_device::{Counts, Device, PortDevices};
use virtual_switch::Switch;

/// What decides where packets go that come into a switch. All workers share it.
#[derive(Clone, Debug)]
pub enum Forwarding {
    /// The addresses in the packets: a learning switch.
    Learning(Arc<Switch>),
    /// A virtual device.
    Device(Arc<Device>),
    /// The devices at one port. A wire between these and a device is followed on the worker of the sender.
    Ports(Arc<PortDevices>),
}

impl Forwarding {
    /// Whether it looks at packets' flow hashes.
    pub(crate) fn reads_flow_hash(&self) -> bool {
        matches!(self, Forwarding::Device(device) if device.reads_flow_hash())
    }

    /// The device, if it is one.
    #[inline]
    pub(crate) fn device(&self) -> Option<&Device> {
        if let Forwarding::Device(device) = self { Some(device) } else { None }
    }

    /// In which one more worker counts; a learning switch counts by itself.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Forwarding::Learning(_) => Counts::default(),
            Forwarding::Device(device) => device.counts(),
            Forwarding::Ports(devices) => devices.counts(),
        }
    }

    /// Whether the two are of one kind.
    pub(crate) fn is_like(&self, other: &Forwarding) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether a wire may lead from one to the other: of a device and the devices at a port.
    pub(crate) fn joins(&self, other: &Forwarding) -> bool {
        use Forwarding::{Device, Ports};
        matches!((self, other), (Device(_), Ports(_)) | (Ports(_), Device(_)))
    }

    /// Takes stations out that were not heard of for too long.
    pub(crate) fn sweep(&self, now: Nanos) {
        match self {
            Forwarding::Learning(switch) => switch.sweep(now),
            Forwarding::Device(device) => device.sweep(now),
            Forwarding::Ports(_) => {}
        }
    }
}

impl From<Arc<Switch>> for Forwarding {
    fn from(switch: Arc<Switch>) -> Forwarding {
        Forwarding::Learning(switch)
    }
}

impl From<Arc<Device>> for Forwarding {
    fn from(device: Arc<Device>) -> Forwarding {
        Forwarding::Device(device)
    }
}

impl From<Arc<PortDevices>> for Forwarding {
    fn from(devices: Arc<PortDevices>) -> Forwarding {
        Forwarding::Ports(devices)
    }
}
