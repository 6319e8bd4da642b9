//! What a device has done: packets and bytes at each of its ports and of each of its openers.
//!
//! A device counts what comes in by each of its plugs. What leaves by a port is known where the port is the
//! device's alone, or where all that openers send goes there; what an opener gets, where all that comes goes
//! to it. Where neither is so there is no number: none is guessed.

use crate::Host;
use crate::deployed::Deployed;
use crate::stations::StationReading;
use crate::tight_links::{self, TightLink};
use engine::{Account, PortAccount, SwitchId};
use std::collections::{BTreeMap, HashMap};
use telemetry::DropReason;
use virtual_device::{Entered, Mode, Share, SwitchPort};
use wiring::{Device, Endpoint, Opener, Opening, Port, Shadowed};

/// A device at a moment. Counters are since it is there.
#[derive(Clone, Debug)]
pub struct DeviceReading {
    /// What it is.
    pub device: Device,
    /// Its ports, in their order.
    pub sides: Vec<SideReading>,
    /// Its openers, in their order.
    pub openers: Vec<OpenerReading>,
    /// Copies that were asked for: one less than the ends to which a packet went.
    pub copied: u64,
    /// Packets that were lost in it, by reason.
    pub drops: Vec<(DropReason, u64)>,
    /// What it is on its link, if it has addresses.
    pub station: Option<StationReading>,
    /// Policies of it that lose packets to others', or take them.
    pub shadowed: Vec<Shadowed>,
    /// Its links that take less than functions are told.
    pub tight: Vec<TightLink>,
}

/// Where a device is tapped.
#[derive(Clone, Debug)]
pub struct DevicePlace {
    /// What the engine calls it.
    pub id: SwitchId,
    /// The plug of the side that is meant; `None`: all.
    pub plug: Option<SwitchPort>,
    /// What each plug leads to.
    pub plugs: BTreeMap<u16, Plugged>,
}

/// What a plug of a device leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plugged {
    /// A port.
    Port(String),
    /// What opens it.
    Opener(Opener),
}

/// One port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideReading {
    /// The port.
    pub port: String,
    /// What came from it to the device.
    pub received: Option<Entered>,
    /// What left by it.
    pub sent: Option<Entered>,
}

/// One opener of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenerReading {
    /// Which.
    pub opener: Opener,
    /// How it opens the device.
    pub opening: Opening,
    /// What is wired to it, if it is the device's guard.
    pub guarded: Option<Endpoint>,
    /// Whose it is; of a guard, whose that is.
    pub tenant: String,
    /// It observes: it sends, and gets nothing but what it is shown.
    pub observes: bool,
    /// What it sent into the device.
    pub sent: Option<Entered>,
    /// What went from the device to it.
    pub received: Option<Entered>,
}

impl Host {
    /// What a device has done; no worker is stopped for it, see [`Host::account_of_port`].
    pub fn device(&self, name: &str) -> Option<DeviceReading> {
        let (mut reading, alone) = DeviceReading::of(&self.deployed(), name)?;
        reading.complete(&alone, |port| self.account_of_port(port));
        reading.station = self.stations.reading(name);
        Some(reading)
    }

    /// Where a device is tapped, or one side of it; `None`: it is not there.
    pub fn device_place(&self, name: &str, side: Option<&str>) -> Option<DevicePlace> {
        let deployed = self.deployed();
        let id = deployed.devices.id_of(name)?;
        let plug = match side {
            Some(port) => Some(deployed.devices.plug_of_port(name, port)?),
            None => None,
        };
        Some(DevicePlace { id, plug, plugs: deployed.devices.plugs_of(name) })
    }

    /// What all devices have done up to an account, in the order of their names.
    pub fn devices(&self, account: &Account) -> BTreeMap<String, DeviceReading> {
        let ports = by_name(account);
        let mut readings: Vec<(String, (DeviceReading, Alone))> = {
            let deployed = self.deployed();
            let names = deployed.wiring.devices.keys();
            names.filter_map(|name| Some((name.clone(), DeviceReading::of(&deployed, name)?))).collect()
        };
        for (name, (reading, alone)) in &mut readings {
            reading.complete(alone, |port| ports.get(port).map(|account| (*account).clone()));
            reading.station = self.stations.reading(name);
        }
        readings.into_iter().map(|(name, (reading, _))| (name, reading)).collect()
    }
}

/// Of a device's ports, those that are its alone.
type Alone = Vec<Option<Port>>;

fn by_name(account: &Account) -> HashMap<&str, &PortAccount> {
    account.ports.iter().map(|port| (port.name.as_str(), port)).collect()
}

/// What came in by a port for functions, and what left by it, with what the platform says there itself.
pub fn passed(port: &Port, account: &PortAccount) -> (Entered, Entered) {
    let counters = &account.counters;
    let ledger = &counters.ledger;
    // Elsewhere the platform's own frames are what is generated, and what is consumed is for the platform.
    let came = match port.driver.as_str() {
        "generator" => ledger.generated,
        _ => ledger.received.saturating_sub(ledger.consumed),
    };
    let left = Entered { packets: ledger.delivered, bytes: counters.delivered_bytes };
    (Entered { packets: came, bytes: counters.received_bytes }, left)
}

impl DeviceReading {
    /// What the device itself knows, and which of its ports are its alone.
    fn of(deployed: &Deployed, name: &str) -> Option<(DeviceReading, Alone)> {
        let device = deployed.wiring.devices.get(name)?.clone();
        let laid = &deployed.devices;
        let side = |port: &String| {
            let plug = laid.plug_of_port(name, port);
            let received = plug.and_then(|plug| laid.entered(name, plug));
            SideReading { port: port.clone(), received, sent: None }
        };
        let opener = |(opener, opening): &(Opener, Opening)| {
            let (plug, guarded, tenant, observes) = match opener {
                Opener::Interface(end) => {
                    let guarded = deployed.behind_guard(end);
                    let whose = guarded.as_ref().unwrap_or(end);
                    let tenant = deployed.wiring.tenant_of_opener(whose).map(str::to_owned);
                    let plug = laid.plug_of_opener(name, end);
                    (plug, guarded, tenant.unwrap_or_default(), deployed.observes(end))
                }
                Opener::Service(service) => {
                    (laid.plug_of_service(name, service), None, service.tenant.clone(), false)
                }
            };
            let sent = plug.and_then(|plug| laid.entered(name, plug));
            let (opener, opening) = (opener.clone(), opening.clone());
            OpenerReading { opener, opening, guarded, tenant, observes, sent, received: None }
        };
        let lost = laid.counters(name).unwrap_or_default();
        let port = |port: &String| deployed.wiring.ports.get(port).filter(|_| laid.is_alone(name, port));
        let alone = device.over.keys().map(|name| port(name).cloned()).collect();
        let reading = DeviceReading {
            sides: device.over.keys().map(side).collect(),
            openers: laid.openers_of(name).iter().map(opener).collect(),
            copied: lost.copied,
            drops: vec![(DropReason::NoDevice, lost.unreceived), (DropReason::SwitchFiltered, lost.filtered)],
            station: None,
            shadowed: laid.shadowed(name).to_vec(),
            tight: tight_links::of_device(deployed, name),
            device,
        };
        Some((reading, alone))
    }

    /// Adds what ports that are its alone have counted, and what follows from what is known.
    fn complete(&mut self, alone: &Alone, account_of: impl Fn(&str) -> Option<PortAccount>) {
        for (side, port) in self.sides.iter_mut().zip(alone) {
            let Some((port, account)) = port.as_ref().zip(account_of(&side.port)) else { continue };
            side.sent = Some(passed(port, &account).1);
            let bad = account.counters.ledger.dropped[DropReason::BadTunnel];
            self.drops.push((DropReason::BadTunnel, bad));
        }
        if let ([side], Mode::Direct) = (self.sides.as_mut_slice(), self.device.mode)
            && side.sent.is_none()
        {
            side.sent = sum(self.openers.iter().map(|opener| opener.sent));
        }
        let receives =
            |opener: &OpenerReading| !opener.observes && matches!(opener.opener, Opener::Interface(_));
        let got: Vec<Option<Entered>> = (0..self.openers.len())
            .map(|index| {
                let opener = &self.openers[index];
                if !receives(opener) {
                    return None;
                }
                let is_shared = |side: Option<&String>| {
                    let takes = |other: &OpenerReading| {
                        receives(other)
                            && (side.is_none()
                                || other.opening.port.is_none()
                                || other.opening.port.as_ref() == side)
                    };
                    self.device.share == Share::Balance
                        && self.openers.iter().filter(|other| takes(other)).count() > 1
                };
                if self.device.mode == Mode::Rootless {
                    // What the others send: to the only one that receives, from one of two to the other, or
                    // to all.
                    let alone = self.openers.iter().filter(|opener| receives(opener)).count() == 1;
                    if !alone && self.openers.len() > 2 && self.device.share != Share::Duplicate {
                        return None;
                    }
                    let others = self.openers.iter().enumerate().filter(|(other, _)| *other != index);
                    return sum(others.map(|(_, other)| other.sent));
                }
                let side = opener.opening.port.as_ref();
                if is_shared(side) {
                    return None;
                }
                sum(self
                    .sides
                    .iter()
                    .filter(|at| side.is_none_or(|side| *side == at.port))
                    .map(|at| at.received))
            })
            .collect();
        for (opener, got) in self.openers.iter_mut().zip(got) {
            opener.received = got;
        }
    }
}

/// All of them together; nothing where one is not known.
fn sum(mut all: impl Iterator<Item = Option<Entered>>) -> Option<Entered> {
    all.try_fold(Entered::default(), |sum, one| {
        let one = one?;
        Some(Entered { packets: sum.packets + one.packets, bytes: sum.bytes + one.bytes })
    })
}
