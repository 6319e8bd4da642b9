//! Links of devices that take shorter packets than functions are told that they may send.
//!
//! What a port is given is compared when a configuration is read; the MTU of an interface that the kernel has
//! changes while the host runs, so that it is compared whenever it is asked for. No worker is stopped for it.

use crate::Host;
use crate::deployed::Deployed;
use crate::devices::LaidDevices;
use engine::Forwarding;
use std::collections::BTreeMap;
use virtual_device::SwitchPort;
use wiring::{Device, Joint, Opener};

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;
/// What each station of IPv4 takes (RFC 791, section 3.1).
const LEAST: u32 = 576;

/// A link that has too little room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TightLink {
    /// The port.
    pub port: String,
    /// Bytes of the longest IP packet that fits, with the headers that are put on.
    pub room: u32,
    /// Headers are put on.
    pub has_headers: bool,
    /// What functions are told; `None`: nothing.
    pub told: Option<Told>,
}

/// The longest packet that functions are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// In bytes.
    pub mtu: u16,
    /// By the device; else by what one interface that opens it has.
    pub is_devices: bool,
}

impl Host {
    /// Those of the devices that are shown, by device.
    pub fn tight_links(&self, shown: impl Fn(&str) -> bool) -> Vec<(String, TightLink)> {
        let deployed = self.deployed();
        let names = deployed.wiring.devices.keys().filter(|name| shown(name));
        let all =
            names.flat_map(|name| of_device(&deployed, name).into_iter().map(|link| (name.clone(), link)));
        all.collect()
    }
}

/// Those of one device.
pub(crate) fn of_device(deployed: &Deployed, name: &str) -> Vec<TightLink> {
    let laid = &deployed.devices;
    let interfaces = interfaces(deployed, name);
    let device = deployed.wiring.devices.get(name);
    let ports = device.into_iter().flat_map(|device| device.over.keys().map(move |port| (device, port)));
    let links = ports.filter_map(|(device, port)| {
        let room = room(laid, name, device, (port, laid.plug_of_port(name, port)?))?;
        let of_device = device.station.as_ref().filter(|_| device.has_station_inside());
        let of_device = of_device.map(|station| Told { mtu: station.mtu, is_devices: true });
        let of = |port: Option<&str>| interfaces.get(&port).copied();
        let of_interfaces = [of(None), of(Some(port))].into_iter().flatten();
        let all = of_interfaces.map(|mtu| Told { mtu, is_devices: false }).chain(of_device);
        judged(TightLink {
            port: port.clone(),
            room,
            has_headers: device.over.get(port)?.encapsulate.is_some(),
            told: all.max(),
        })
    });
    links.collect()
}

/// By port, `None` standing for all of them: the longest that interfaces with addresses of their own are told
/// that open a device.
fn interfaces<'a>(deployed: &'a Deployed, device: &str) -> BTreeMap<Option<&'a str>, u16> {
    let mut all = BTreeMap::new();
    for (opener, opening) in deployed.devices.openers_of(device) {
        let Opener::Interface(end) = opener else { continue };
        let guarded = deployed.behind_guard(end);
        let station = deployed.wiring.station_of(guarded.as_ref().unwrap_or(end));
        // What answers for itself has its MTU from its own kernel.
        if let Some(station) = station.filter(|station| !station.answers_itself) {
            let most = all.entry(opening.port.as_deref()).or_default();
            *most = station.settings.mtu.max(*most);
        }
    }
    all
}

/// One that has too little.
fn judged(link: TightLink) -> Option<TightLink> {
    let is_tight = match link.told {
        Some(told) => link.room < u32::from(told.mtu),
        None => link.has_headers && link.room < LEAST,
    };
    is_tight.then_some(link)
}

/// Bytes of the longest IP packet that fits a port's link, with what is put on; `None` where the link's MTU
/// is not known.
fn room(laid: &LaidDevices, name: &str, device: &Device, (port, plug): (&str, SwitchPort)) -> Option<u32> {
    let Some(Forwarding::Device(there)) = laid.forwarding(&Joint::Device(name.to_owned())) else {
        return None;
    };
    let longest = there.longest(plug);
    let encapsulate = device.over.get(port)?.encapsulate.as_ref();
    let headers = encapsulate.map_or(0, |headers| headers.overhead());
    let sequence = if device.stripe.is_some() { stripe::HEADER } else { 0 };
    let taken = u32::try_from(headers + sequence).ok()?.saturating_add(ETHERNET);
    (longest < u32::MAX).then_some(longest.saturating_sub(taken))
}

impl TightLink {
    /// It in words.
    pub fn in_words(&self) -> String {
        let TightLink { port, room, has_headers, told } = self;
        let with = if *has_headers { " with the headers that are put on" } else { "" };
        let has = format!("the link of `{port}` has room for packets of {room} bytes{with}");
        match told {
            None => format!("{has}, which is less than {LEAST}"),
            Some(Told { mtu, is_devices }) => {
                let of = if *is_devices { "the device" } else { "the interfaces that open it" };
                format!(
                    "{has}, and functions are told {mtu}: longer ones are fragmented or dropped; `mtu: {room}` of {of} says so"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_less_room_than_is_told_is_tight() {
        let link = |room, has_headers, told: Option<(u16, bool)>| {
            let told = told.map(|(mtu, is_devices)| Told { mtu, is_devices });
            judged(TightLink { port: "nic".to_owned(), room, has_headers, told })
        };
        for fits in [
            link(1450, true, Some((1450, true))),
            link(1500, false, Some((1500, false))),
            link(576, true, None),
            link(68, false, None),
        ] {
            assert_eq!(fits, None);
        }
        let told = |link: Option<TightLink>| link.expect("it is tight").in_words();
        assert_eq!(
            told(link(1450, true, Some((1500, true)))),
            "the link of `nic` has room for packets of 1450 bytes with the headers that are put on, and functions are told 1500: \
             longer ones are fragmented or dropped; `mtu: 1450` of the device says so"
        );
        assert_eq!(
            told(link(1500, false, Some((9000, false)))),
            "the link of `nic` has room for packets of 1500 bytes, and functions are told 9000: longer ones are fragmented or \
             dropped; `mtu: 1500` of the interfaces that open it says so"
        );
        assert!(told(link(575, true, None)).ends_with("which is less than 576"));
    }
}
