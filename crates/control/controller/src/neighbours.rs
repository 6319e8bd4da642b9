//! What devices are on their links, and the neighbours that they know, for clients that ask.

use super::controller::Controller;
use api::{
    AddressOrigin, AddressState, DeviceNeighbours, DhcpClient, NeighbourProtocol, NeighbourState, Station,
};
use deployment::{ShownNeighbour, ShownStation, StationFrames};
use neighbours::{Mac, NeighbourState as Known, Origin};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};
use telemetry::clock::Nanos;
use wiring::Endpoint;

impl Controller {
    /// One device, with up to `limit` of its neighbours; to a tenant, without what others' interfaces know.
    pub(super) fn neighbours(
        &self,
        device: &str,
        tenant: Option<&str>,
        after: Option<IpAddr>,
        limit: usize,
    ) -> DeviceNeighbours {
        let told = self.host.neighbours(device, tenant, after, limit);
        let named = |interface: Option<(String, u16)>| {
            let end = interface.map(|(function, number)| Endpoint::Interface(function, number));
            end.map(|end| self.end_in_words(&end))
        };
        let times = Times { at: told.at, now: SystemTime::now() };
        let last = told.neighbours.last().map(|last| last.neighbour.address.to_string());
        DeviceNeighbours {
            stations: told.stations.into_iter().map(|shown| of_station(shown, &named, &times)).collect(),
            items: told.neighbours.into_iter().map(|shown| of_neighbour(shown, &named, &times)).collect(),
            next: last.filter(|_| told.more),
        }
    }
}

/// One moment on two clocks.
struct Times {
    at: Nanos,
    now: SystemTime,
}

impl Times {
    /// A time of the host's clock after RFC 3339, in whole seconds.
    fn shown(&self, time: Nanos) -> String {
        let (since, until) = (self.at.since(time), time.since(self.at));
        let moved = match since > until {
            true => self.now.checked_sub(Duration::from_nanos(since.0)),
            false => self.now.checked_add(Duration::from_nanos(until.0)),
        };
        humantime::format_rfc3339_seconds(moved.unwrap_or(self.now)).to_string()
    }
}

/// An interface by its name, `gate:inside`.
type Named<'a> = dyn Fn(Option<(String, u16)>) -> Option<String> + 'a;

fn of_station(shown: ShownStation, named: &Named<'_>, times: &Times) -> Station {
    let address = |(own, until): (neighbours::Address, Option<Nanos>)| api::StationAddress {
        address: own.prefix.to_string(),
        state: match own.state {
            neighbours::AddressState::Tentative => AddressState::Tentative,
            neighbours::AddressState::Valid => AddressState::Preferred,
            neighbours::AddressState::Deprecated => AddressState::Deprecated,
            neighbours::AddressState::Duplicate => AddressState::Duplicate,
        },
        origin: match own.origin {
            Origin::Static => AddressOrigin::Static,
            Origin::LinkLocal => AddressOrigin::LinkLocal,
            Origin::Router => AddressOrigin::Router,
            Origin::Dhcp => AddressOrigin::Dhcp,
            Origin::Opener => AddressOrigin::Opener,
        },
        until: until.map(|until| times.shown(until)),
    };
    let texts = |addresses: Vec<IpAddr>| addresses.iter().map(IpAddr::to_string).collect();
    Station {
        interface: named(shown.interface),
        mac: mac(shown.mac),
        mtu: shown.mtu,
        ports: shown.ports,
        addresses: shown.addresses.into_iter().map(address).collect(),
        dhcp: shown.dhcp.map(|client| DhcpClient {
            state: client.state.name().to_owned(),
            server: client.lease.map(|(server, _)| server.to_string()),
            until: client.until.filter(|until| *until < Nanos::MAX).map(|until| times.shown(until)),
        }),
        gateways: texts(shown.gateways),
        groups: texts(shown.groups),
        frames: frames(&shown.frames),
    }
}

/// Without what did not occur.
pub(super) fn frames(counted: &StationFrames) -> api::StationFrames {
    let dropped = counted.dropped.iter().filter(|(_, count)| **count > 0);
    api::StationFrames {
        received: counted.received,
        ignored: counted.ignored,
        sent: counted.sent,
        dropped: dropped.map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
    }
}

fn of_neighbour(shown: ShownNeighbour, named: &Named<'_>, times: &Times) -> api::Neighbour {
    let ShownNeighbour { interface: of, neighbour, port } = shown;
    api::Neighbour {
        interface: named(of),
        address: neighbour.address.to_string(),
        mac: neighbour.mac.map(mac),
        state: match neighbour.state {
            Known::Asked => NeighbourState::Incomplete,
            Known::Reachable => NeighbourState::Reachable,
            Known::Stale => NeighbourState::Stale,
            Known::Delay => NeighbourState::Delay,
            Known::Probe => NeighbourState::Probe,
            Known::Unreachable => NeighbourState::Unreachable,
        },
        since: times.shown(neighbour.since),
        port,
        protocol: match neighbour.address {
            IpAddr::V4(_) => NeighbourProtocol::Arp,
            IpAddr::V6(_) => NeighbourProtocol::Nd,
        },
    }
}

fn mac([a, b, c, d, e, f]: Mac) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_now_are_told() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let times = Times { at: Nanos::from_millis(50_000), now };
        assert_eq!(times.shown(Nanos::from_millis(20_000)), "1970-01-12T13:46:10Z");
        assert_eq!(times.shown(Nanos::from_millis(110_000)), "1970-01-12T13:47:40Z");
    }
}
