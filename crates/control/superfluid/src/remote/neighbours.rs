//! `superfluid neighbours`: what devices are on their links, and the neighbours that they know there.

use super::columns::cell;
use super::failure::{Done, Failure, print};
use super::get::not_found;
use super::options::NeighboursOptions;
use crate::Outcome;
use crate::output::{Format, Listing, one};
use api::{
    AddressOrigin, AddressState, DeviceNeighbours, Kind, NeighbourProtocol, ProblemType, Station,
    StationFrames,
};
use client::{Client, ClientError};
use serde_json::{Value, json};
use std::time::SystemTime;

/// A device, and what is told of it.
type Told = (String, DeviceNeighbours);

pub(crate) fn neighbours(options: &NeighboursOptions) -> Done {
    let client = options.connection.client()?;
    let format = options.shown.output;
    let told = match &options.device {
        Some(name) => vec![named(&client, name)?],
        None => all(&client)?,
    };
    if let ([one_told], Some(_), Format::Json | Format::Yaml) = (told.as_slice(), &options.device, format) {
        return print(&one(&object(one_told), format));
    }
    print(&shown(&told, SystemTime::now(), format))
}

fn named(client: &Client, name: &str) -> Result<Told, Failure> {
    let name = api::check_name(Kind::Device, name)
        .map_err(|error| Failure::new(format_args!("device: {error}"), Outcome::BadInput))?;
    let told = client.neighbours(&name).map_err(|error| not_found(client, Kind::Device, &name, error))?;
    Ok((name.into_owned(), told))
}

/// All devices that have addresses.
fn all(client: &Client) -> Result<Vec<Told>, Failure> {
    let is_gone = |error: &ClientError| {
        error.problem().and_then(api::Problem::problem_type) == Some(ProblemType::NotFound)
    };
    let mut all = Vec::new();
    for device in client.all(Kind::Device, None)? {
        match client.neighbours(&device.name) {
            Ok(told) if told.stations.is_empty() => {}
            Ok(told) => all.push((device.name.to_string(), told)),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

fn object((device, told): &Told) -> Value {
    json!({"device": device, "stations": told.stations, "items": told.items})
}

/// The devices' own addresses, and below them the neighbours.
fn shown(told: &[Told], now: SystemTime, format: Format) -> String {
    let mut own = Listing::new(&["DEVICE", "OWN", "STATE", "FROM", "UNTIL"], &["MAC", "MTU", "PORTS"]);
    let mut others =
        Listing::new(&["DEVICE", "NEIGHBOUR", "MAC", "STATE", "AGE", "PORT"], &["PROTOCOL", "SINCE"]);
    let mut frames = Listing::new(&["DEVICE", "RECEIVED", "SENT", "IGNORED", "DROPPED"], &[]);
    for (device, told) in told {
        for station in &told.stations {
            let place = place_of(device, station.interface.as_deref());
            let StationFrames { received, ignored, sent, .. } = &station.frames;
            let counts = [received, sent, ignored].map(u64::to_string);
            let cells = [vec![place], counts.into(), vec![dropped(&station.frames)]].concat();
            frames.add(cells, Value::Null);
            for row in rows(station) {
                let place = [cell(&station.mac), station.mtu.to_string(), cell(&station.ports.join(","))];
                let cells = std::iter::once(place_of(device, station.interface.as_deref()))
                    .chain(row)
                    .chain(place)
                    .collect();
                own.add(cells, Value::Null);
            }
        }
        for neighbour in &told.items {
            let protocol = match neighbour.protocol {
                NeighbourProtocol::Arp => "arp",
                NeighbourProtocol::Nd => "nd",
            };
            let cells = vec![
                place_of(device, neighbour.interface.as_deref()),
                cell(&neighbour.address),
                neighbour.mac.as_deref().map_or_else(none, cell),
                neighbour.state.as_str().to_owned(),
                age(&neighbour.since, now),
                neighbour.port.as_deref().map_or_else(none, cell),
                protocol.to_owned(),
                cell(&neighbour.since),
            ];
            others.add(cells, Value::Null);
        }
    }
    match format {
        Format::Table | Format::Wide => {
            let parts = [own, others, frames].map(|listing| listing.shown(format));
            parts.join("\n")
        }
        Format::Json | Format::Yaml => {
            let mut listing = Listing::new(&[], &[]);
            told.iter().for_each(|told| listing.add(Vec::new(), object(told)));
            listing.shown(format)
        }
    }
}

/// A device, and the interface that opens it with addresses of its own.
fn place_of(device: &str, interface: Option<&str>) -> String {
    interface.map_or_else(|| cell(device), |interface| cell(&format!("{device} {interface}")))
}

/// Frames without effect, by reason.
fn dropped(frames: &StationFrames) -> String {
    let reasons: Vec<String> =
        frames.dropped.iter().map(|(reason, count)| format!("{count} {}", cell(reason))).collect();
    if reasons.is_empty() { none() } else { reasons.join(", ") }
}

fn none() -> String {
    "-".to_owned()
}

/// What a device is on its links: cells below `OWN`, `STATE`, `FROM` and `UNTIL`.
fn rows(station: &Station) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for own in &station.addresses {
        let state = match own.state {
            AddressState::Tentative => "tentative",
            AddressState::Preferred => "preferred",
            AddressState::Deprecated => "deprecated",
            AddressState::Duplicate => "duplicate",
        };
        let origin = match own.origin {
            AddressOrigin::Static => "static",
            AddressOrigin::LinkLocal => "link-local",
            AddressOrigin::Router => "router",
            AddressOrigin::Dhcp => "dhcp",
            AddressOrigin::Opener => "opener",
        };
        let until = own.until.as_deref().map_or_else(none, cell);
        rows.push([cell(&own.address), state.to_owned(), origin.to_owned(), until]);
    }
    if let Some(dhcp) = &station.dhcp {
        let server = dhcp.server.as_deref().map_or_else(none, cell);
        let until = dhcp.until.as_deref().map_or_else(none, cell);
        rows.push(["dhcp".to_owned(), cell(&dhcp.state), server, until]);
    }
    let alone = |text: &String, what: &str| [cell(text), what.to_owned(), none(), none()];
    rows.extend(station.gateways.iter().map(|gateway| alone(gateway, "gateway")));
    rows.extend(station.groups.iter().map(|group| alone(group, "joined")));
    rows
}

/// How long ago a time was, in its largest unit.
fn age(since: &str, now: SystemTime) -> String {
    let Ok(since) = humantime::parse_rfc3339(since) else { return none() };
    match now.duration_since(since).unwrap_or_default().as_secs() {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..7_200 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{DhcpClient, Neighbour, NeighbourState, StationAddress};
    use std::time::Duration;

    #[test]
    fn eighty_columns_are_enough() {
        let until = Some("2026-11-23T18:10:17Z".to_owned());
        let address = |address: &str, origin, until: &Option<String>| StationAddress {
            address: address.to_owned(),
            state: AddressState::Preferred,
            origin,
            until: until.clone(),
        };
        let station = Station {
            interface: None,
            mac: "02:00:00:00:00:09".to_owned(),
            mtu: 1500,
            ports: vec!["lan".to_owned()],
            addresses: vec![
                address("198.51.100.107/24", AddressOrigin::Dhcp, &until),
                address("fe80::ff:fe00:9/64", AddressOrigin::LinkLocal, &None),
            ],
            dhcp: Some(DhcpClient {
                state: "bound".to_owned(),
                server: Some("198.51.100.1".to_owned()),
                until: until.clone(),
            }),
            gateways: vec!["198.51.100.1".to_owned()],
            groups: vec!["239.1.1.1".to_owned()],
            frames: StationFrames {
                received: 120,
                ignored: 3,
                sent: 44,
                dropped: [("malformed".to_owned(), 2), ("missed".to_owned(), 1)].into(),
            },
        };
        let items = vec![Neighbour {
            interface: None,
            address: "198.51.100.101".to_owned(),
            mac: Some("02:00:00:00:00:01".to_owned()),
            state: NeighbourState::Unreachable,
            since: "2026-11-23T18:05:00Z".to_owned(),
            port: Some("lan".to_owned()),
            protocol: NeighbourProtocol::Arp,
        }];
        let told = [("bridge0".to_owned(), DeviceNeighbours { stations: vec![station], items, next: None })];
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_457_417);
        let text = shown(&told, now, Format::Table);
        assert_eq!(
            text,
            "\
DEVICE   OWN                 STATE      FROM          UNTIL
bridge0  198.51.100.107/24   preferred  dhcp          2026-11-23T18:10:17Z
bridge0  fe80::ff:fe00:9/64  preferred  link-local    -
bridge0  dhcp                bound      198.51.100.1  2026-11-23T18:10:17Z
bridge0  198.51.100.1        gateway    -             -
bridge0  239.1.1.1           joined     -             -

DEVICE   NEIGHBOUR       MAC                STATE        AGE  PORT
bridge0  198.51.100.101  02:00:00:00:00:01  unreachable  5m   lan

DEVICE   RECEIVED  SENT  IGNORED  DROPPED
bridge0  120       44    3        2 malformed, 1 missed
"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let json: Value = serde_json::from_str(&shown(&told, now, Format::Json)).expect("JSON");
        assert_eq!(json[0]["items"][0]["state"], "unreachable", "{json}");
        assert_eq!(json[0]["device"], "bridge0");
    }

    #[test]
    fn ages_have_one_unit() {
        let age =
            |seconds| age("1970-01-01T00:00:00Z", SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!([age(0), age(119), age(120), age(7_200), age(172_800)], ["0s", "119s", "2m", "2h", "2d"]);
    }
}
