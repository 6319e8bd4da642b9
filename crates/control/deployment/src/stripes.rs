//! Pairs of ports in striped bonds: made before the workers are stopped, taken in and out with the bonds.

use crate::deployed::Deployed;
use engine::{Change, End};
use port::Port;
use port::station::{StationPort, Stations};
use port::striped::{Outside, pair};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use stripe::{EtherType, Session};
use wiring::{Device, striped};

/// A pair of ports that is to be laid.
pub(crate) struct Striped {
    ether_type: EtherType,
    /// A link of the bond, of whose tenant the ports are, and on whose worker they begin.
    link: Option<String>,
    inside: StationPort,
    outside: Outside,
    mtu: Arc<AtomicU32>,
}

/// A pair of ports that is laid.
pub(crate) struct LaidStripe {
    ether_type: EtherType,
    /// Of whose memory its packets are.
    pub(crate) tenant: String,
    /// The name of the bond of its links.
    pub(crate) links: String,
    /// Where that one tells the smallest MTU of the links.
    mtu: Arc<AtomicU32>,
    /// It has not been told to do so.
    is_new: bool,
}

impl Striped {
    /// For a device, if it is a striped bond, with a session of its own.
    ///
    /// # Errors
    /// The kernel's refusal of a descriptor.
    pub(crate) fn of(name: &str, device: &Device) -> io::Result<Option<Striped>> {
        let Some(ether_type) = device.stripe else { return Ok(None) };
        let mtu = Arc::new(AtomicU32::new(u32::MAX));
        // Another one at each start.
        let session = Session(RandomState::new().hash_one(name) as u32);
        let (inside, outside) = pair(ether_type, session, mtu.clone())?;
        let inside = StationPort::new(Box::new(inside))?;
        let link = device.over.keys().next().cloned();
        Ok(Some(Striped { ether_type, link, inside, outside, mtu }))
    }
}

impl LaidStripe {
    /// Whether it is what a device over ports of a tenant is to have.
    pub(crate) fn is_for(&self, device: &Device, tenant: Option<&str>) -> bool {
        device.stripe == Some(self.ether_type) && tenant == Some(&self.tenant)
    }

    /// Where the bond of its links is to tell their smallest MTU, and whether it was not told so before.
    pub(crate) fn least_mtu(&mut self) -> (Arc<AtomicU32>, bool) {
        (self.mtu.clone(), std::mem::take(&mut self.is_new))
    }
}

impl Deployed {
    /// Takes a pair in, unless the bond has one that stays.
    ///
    /// # Errors
    /// Why it could not be, in one line.
    pub(crate) fn pair(
        &mut self,
        change: &mut Change<'_, '_>,
        name: &str,
        pair: Striped,
    ) -> Result<(), String> {
        if self.devices.stripes.contains_key(name) {
            return Ok(());
        }
        let Striped { ether_type, link, inside, outside, mtu } = pair;
        let port = link.and_then(|link| Some((self.ports.get(&link)?, self.wiring.ports.get(&link)?)));
        let found =
            port.and_then(|(id, port)| Some((*id, port.tenant.clone(), self.pools.get(&port.tenant)?.1)));
        let Some((link, tenant, pool)) = found else {
            return Err(format!("device `{name}`: its first port is not there"));
        };
        let laid = LaidStripe { ether_type, tenant, links: striped::links(name), mtu, is_new: true };
        self.devices.stripes.insert(name.to_owned(), laid);
        let worker = change.worker_of(End::Port(link)).unwrap_or(0);
        let stations: Option<Arc<Stations>> = inside.stations();
        let ports: [(String, Box<dyn Port>); 2] =
            [(striped::inside(name), Box::new(inside)), (striped::outside(name), Box::new(outside))];
        for (port, opened) in ports {
            let id = change.add_port(worker, &port, pool, opened);
            let id = id.map_err(|error| format!("device `{name}`: port `{port}`: {error}"))?;
            self.ports.insert(port, id);
        }
        self.stations.extend(stations.map(|stations| (striped::inside(name), stations)));
        Ok(())
    }

    /// Takes a bond's pair out. Packets that wait in it are dropped, counted.
    pub(crate) fn unpair(&mut self, change: &mut Change<'_, '_>, name: &str) {
        self.devices.stripes.remove(name);
        self.stations.remove(&striped::inside(name));
        for port in [striped::outside(name), striped::inside(name)] {
            if let Some(id) = self.ports.remove(&port) {
                // It is there: nothing else takes it out.
                let _ = change.remove_port(id);
            }
        }
    }
}
