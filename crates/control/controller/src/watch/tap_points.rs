//! Where packets are looked at.

use super::own;
use deployment::{Catalog, HopPackets};
use std::collections::{BTreeSet, HashMap, VecDeque};
use wiring::{Container, Device, DeviceLayout, Edge, Endpoint, Instance, Opening, Wiring, guarded_by};
use yaml_document::spelling;

/// Places that one trace looks at.
pub(super) const MOST: usize = 4096;

/// A port, a function or a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TapPoint {
    Port(String),
    Function(String),
    /// A device that is laid as one, and perhaps the port whose side is meant.
    Device(String, Option<String>),
}

impl TapPoint {
    pub(super) fn name(&self) -> &str {
        match self {
            TapPoint::Port(name) | TapPoint::Function(name) | TapPoint::Device(name, _) => name,
        }
    }
}

/// `port/lan`, `function/fw`, `device/edge`, `device/edge:lan`.
impl std::fmt::Display for TapPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TapPoint::Port(name) => write!(f, "port/{name}"),
            TapPoint::Function(name) => write!(f, "function/{name}"),
            TapPoint::Device(name, None) => write!(f, "device/{name}"),
            TapPoint::Device(name, Some(side)) => write!(f, "device/{name}:{side}"),
        }
    }
}

/// A place, and perhaps one interface of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) place: TapPoint,
    pub(super) interface: Option<u16>,
}

/// What there is to look at, for administrators or for a tenant.
pub(super) struct View<'a> {
    wiring: &'a Wiring,
    catalog: &'a Catalog,
    tenant: Option<&'a str>,
    layout: DeviceLayout,
}

impl<'a> View<'a> {
    pub(super) fn new(wiring: &'a Wiring, catalog: &'a Catalog, tenant: Option<&'a str>) -> View<'a> {
        View { wiring, catalog, tenant, layout: wiring.device_layout() }
    }

    /// Whether there is something of this name, as far as may be told.
    fn shows(&self, name: &str) -> bool {
        self.tenant.is_none_or(|tenant| own::is_of(self.wiring, tenant, name))
    }

    /// Whether a place may be looked at.
    pub(super) fn may_see(&self, place: &TapPoint) -> bool {
        self.tenant.is_none_or(|tenant| own::is_own(self.wiring, &self.layout, tenant, place))
    }

    /// Refuses a place where packets of others pass.
    fn seen(&self, spots: Vec<Spot>, name: &str) -> Result<Vec<Spot>, String> {
        if spots.iter().all(|spot| self.may_see(&spot.place)) {
            return Ok(spots);
        }
        Err(format!(
            "packets of others may pass `{}`; allowed: where every packet is the tenant's, as at its functions, and at its \
             ports and devices that nothing else uses",
            spelling::shown(name)
        ))
    }

    /// The spots that are meant: `lan`, `fw`, `fw:inside`, `fw:0`, `edge`, `edge:lan`; `port/lan`,
    /// `function/fw` and `device/edge` too. A device that is laid as wires is looked at where these end, a
    /// container at each of its interfaces.
    pub(super) fn spots(&self, text: &str) -> Result<Vec<Spot>, String> {
        let kinds = ["port/", "function/", "device/"];
        let text = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
        let wiring = self.wiring;
        let (name, part) = match (self.at_guard(text), text.split_once(':')) {
            (Some(guard), _) => guard,
            (None, Some((name, of))) => (name, Some(of)),
            (None, None) => (text, None),
        };
        let port = |name: &str| Spot { place: TapPoint::Port(name.to_owned()), interface: None };
        // A container's interface.
        if wiring.ports.contains_key(text) && self.shows(text) {
            return self.seen(vec![port(text)], text);
        }
        match part {
            _ if !self.shows(name) => {}
            None if wiring.ports.contains_key(name) => return self.seen(vec![port(name)], name),
            Some(_) if wiring.ports.contains_key(name) => {
                return Err("a port has no interfaces; allowed: its name alone".to_owned());
            }
            _ => {
                if let Some(device) = wiring.devices.get(name) {
                    let whole = Spot { place: TapPoint::Device(name.to_owned(), None), interface: None };
                    self.seen(vec![whole], name)?;
                    return self.at_device(name, device, part);
                }
                if let Some(instance) = wiring.instances.get(name) {
                    if wiring.observations.iter().any(|seen| seen.observer == name) {
                        return Err(format!("`{name}` is an observer; allowed: what it observes"));
                    }
                    let interface = match part {
                        Some(of) => Some(self.interface(name, instance, of)?),
                        None => None,
                    };
                    let place = TapPoint::Function(name.to_owned());
                    return self.seen(vec![Spot { place, interface }], name);
                }
                if let Some(container) = wiring.containers.get(name) {
                    let names = container_ports(name, container, part)?;
                    return self.seen(names.iter().map(|name| port(name)).collect(), name);
                }
            }
        }
        let known = wiring.ports.keys().chain(wiring.devices.keys()).chain(wiring.instances.keys());
        let known = known.chain(wiring.containers.keys());
        let known = known.map(String::as_str).filter(|name| self.shows(name)).take(20);
        let known: Vec<&str> = known.collect();
        let choices = spelling::choices(name, known);
        Err(format!("there is no port, device or function `{}`{choices}", spelling::shown(name)))
    }

    /// A guard, or an interface of one, if it is the name of such. In names of guards stand the signs that
    /// elsewhere divide names, `~` and `:`.
    fn at_guard<'t>(&self, text: &'t str) -> Option<(&'t str, Option<&'t str>)> {
        let is_guard = |name: &str| guarded_by(name).is_some() && self.wiring.instances.contains_key(name);
        if is_guard(text) {
            return Some((text, None));
        }
        text.rsplit_once(':').filter(|(name, _)| is_guard(name)).map(|(name, of)| (name, Some(of)))
    }

    fn interface(&self, name: &str, instance: &Instance, of: &str) -> Result<u16, String> {
        let image = self.catalog.load(&instance.image)?;
        let manifest = image.manifest();
        manifest.interface(of).ok_or_else(|| {
            let known = manifest.interfaces.iter().map(String::as_str);
            let choices = spelling::choices(of, known);
            format!("`{name}` has no interface `{}`{choices}", spelling::shown(of))
        })
    }

    /// Where a device, or one side of it, is looked at.
    fn at_device(&self, name: &str, device: &Device, side: Option<&str>) -> Result<Vec<Spot>, String> {
        if let Some(side) = side.filter(|side| !device.over.contains_key(*side)) {
            let choices = spelling::choices(side, device.over.keys().map(String::as_str));
            return Err(format!("`{name}` has no port `{}`{choices}", spelling::shown(side)));
        }
        let place = TapPoint::Device(name.to_owned(), side.map(str::to_owned));
        Ok(vec![Spot { place, interface: None }])
    }

    /// What is captured where something is named: places, and which of their packets.
    pub(super) fn captured(&self, text: &str) -> Result<Vec<(TapPoint, HopPackets)>, String> {
        let whole = |spot: Spot| (spot.place, spot.interface.map_or(HopPackets::All, HopPackets::Interface));
        let puts_on = |spot: Spot| (spot.place, spot.interface.map_or(HopPackets::Received, HopPackets::Out));
        let Some((a, b)) = text.split_once('~').filter(|_| self.at_guard(text).is_none()) else {
            let spots = self.spots(text)?;
            // What each of two functions puts on the wire between them.
            let is_wire = spots.len() > 1 && spots.iter().all(|spot| spot.interface.is_some());
            return Ok(spots
                .into_iter()
                .map(|spot| if is_wire { puts_on(spot) } else { whole(spot) })
                .collect());
        };
        // What a switch or device puts on a wire is seen where the wire ends.
        let decides = |end: &str| {
            if self.wiring.switches.contains_key(end) && self.tenant.is_none() {
                return Some(Endpoint::Switch(end.to_owned()));
            }
            let (name, side) = end.split_once(':').map_or((end, None), |(name, side)| (name, Some(side)));
            let is_device = self.wiring.devices.contains_key(name) && self.shows(name);
            is_device.then(|| Endpoint::Device(Opening::of(name, side)))
        };
        let end = |text: &str| match decides(text) {
            Some(end) => Ok((end, None)),
            None => {
                let spots = self.spots(text)?;
                let [spot] = spots.as_slice() else {
                    let first = spots.first().map_or(text, |spot| spot.place.name());
                    return Err(is_no_end(text, first));
                };
                Ok((endpoint(spot)?, Some(spot.clone())))
            }
        };
        let ((a, first), (b, second)) = (end(a)?, end(b)?);
        let is_it = |edge: &&Edge| {
            let [one, other] = edge.ends();
            (a.is_at(one) && b.is_at(other)) || (a.is_at(other) && b.is_at(one))
        };
        if !self.wiring.edges.iter().any(|edge| is_it(&edge)) {
            return Err(format!("there is no wire between {a} and {b}"));
        }
        Ok(match (first, second) {
            (Some(first), Some(second)) => vec![puts_on(first), puts_on(second)],
            (first, second) => first.into_iter().chain(second).map(whole).collect(),
        })
    }

    /// All places that packets may come to from some spots, or from any port, the nearest first; and how many
    /// there are that are left out because they are too many. Those that may not be looked at are not there.
    pub(super) fn reached(&self, from: Option<&[Spot]>) -> (Vec<TapPoint>, usize) {
        let wiring = self.wiring;
        let mut beside: HashMap<&str, Vec<&str>> = HashMap::new();
        for edge in &wiring.edges {
            let [a, b] = edge.ends().map(Endpoint::name);
            beside.entry(a).or_default().push(b);
            beside.entry(b).or_default().push(a);
        }
        for (name, device) in &wiring.devices {
            for port in device.over.keys() {
                beside.entry(name).or_default().push(port);
                beside.entry(port).or_default().push(name);
            }
        }
        let mut next: VecDeque<&str> = match from {
            Some(spots) => spots.iter().map(|spot| spot.place.name()).collect(),
            None => wiring.ports.keys().map(String::as_str).collect(),
        };
        // Functions send to services without a wire.
        next.extend(wiring.services.values().map(Endpoint::name));
        let mut seen: BTreeSet<&str> = next.iter().copied().collect();
        let (mut places, mut left_out) = (Vec::new(), 0);
        while let Some(name) = next.pop_front() {
            let place = if wiring.ports.contains_key(name) {
                Some(TapPoint::Port(name.to_owned()))
            } else if wiring.instances.contains_key(name) {
                Some(TapPoint::Function(name.to_owned()))
            } else if self.layout.devices.contains_key(name) {
                // A spot of one side is that side alone.
                let named = from.into_iter().flatten().find(|spot| spot.place.name() == name);
                Some(named.map_or_else(|| TapPoint::Device(name.to_owned(), None), |spot| spot.place.clone()))
            } else {
                None
            };
            // A port under a tenant's device may be looked at for that; it is no hop of the tenant's.
            let is_named = from.into_iter().flatten().any(|spot| spot.place.name() == name);
            match place.filter(|place| self.may_see(place) && (is_named || self.shows(name))) {
                Some(_) if places.len() == MOST => left_out += 1,
                Some(place) => places.push(place),
                None => {}
            }
            let others = beside.get(name).into_iter().flatten().copied();
            next.extend(others.filter(|other| seen.insert(other)));
        }
        (places, left_out)
    }
}

/// Ports of a container: of all interfaces, or of the one of this name or number.
fn container_ports(name: &str, container: &Container, of: Option<&str>) -> Result<Vec<String>, String> {
    let interfaces = container.interfaces.iter().map(|interface| interface.name.as_str());
    let is_meant = |(number, interface): &(usize, &str)| {
        of.is_none_or(|of| of == *interface || of.parse() == Ok(*number))
    };
    let meant = interfaces.clone().enumerate().filter(is_meant);
    let ports: Vec<String> = meant.map(|(_, interface)| format!("{name}:{interface}")).collect();
    match of {
        _ if !ports.is_empty() => Ok(ports),
        None => Err(format!("`{name}` has no interfaces")),
        Some(of) => {
            let choices = spelling::choices(of, interfaces);
            Err(format!("`{name}` has no interface `{}`{choices}", spelling::shown(of)))
        }
    }
}

fn is_no_end(name: &str, such: &str) -> String {
    format!("`{name}` is a function; allowed at the end of a wire: one of its interfaces, such as `{such}`")
}

fn endpoint(spot: &Spot) -> Result<Endpoint, String> {
    match (&spot.place, spot.interface) {
        (TapPoint::Port(name), _) => Ok(Endpoint::Port(name.clone())),
        (TapPoint::Function(name), Some(interface)) => Ok(Endpoint::Interface(name.clone(), interface)),
        (TapPoint::Function(name), None) => Err(is_no_end(name, &format!("{name}:0"))),
        (TapPoint::Device(name, side), _) => Ok(Endpoint::Device(Opening::of(name, side.as_deref()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const FILE: &str = "superfluid: 1
ports:
  lan: {type: 'null'}
  wan: {type: 'null'}
  out: {type: 'null'}
switches:
  hall: {}
functions:
  fw: {image: firewall}
  near: {image: forwarder, attach: {left: hall, right: out}}
  alone: {image: forwarder}
chains:
  edge: [lan, fw, wan]
";

    fn wiring() -> (Wiring, Catalog) {
        wired(FILE)
    }

    fn wired(file: &str) -> (Wiring, Catalog) {
        let catalog = Catalog::new(Path::new("."));
        let read = config::check("file", file, &catalog);
        (read.unwrap_or_else(|faults| panic!("{faults:?}")).wiring, catalog)
    }

    #[test]
    fn spots_and_wires_are_found() {
        let (wiring, catalog) = wiring();
        let view = View::new(&wiring, &catalog, None);
        let place = |text: &str| view.spots(text).map(|mut spots| spots.remove(0));
        let function = |name: &str, interface| Spot { place: TapPoint::Function(name.to_owned()), interface };
        assert_eq!(place("function/fw"), Ok(function("fw", None)));
        assert_eq!(
            (place("fw:outside"), place("fw:1")),
            (Ok(function("fw", Some(1))), Ok(function("fw", Some(1))))
        );
        assert_eq!(place("port/lan").map(|spot| spot.place.to_string()), Ok("port/lan".to_owned()));
        for (wrong, told) in
            [("fv", "did you mean `fw`"), ("fw:up", "no interface `up`"), ("lan:0", "no interfaces")]
        {
            assert!(place(wrong).is_err_and(|message| message.contains(told)), "{wrong}");
        }
        let at = |text: &str| view.captured(text);
        let (fw, lan) = (TapPoint::Function("fw".into()), TapPoint::Port("lan".into()));
        assert_eq!(at("fw"), Ok(vec![(fw.clone(), HopPackets::All)]));
        assert_eq!(at("fw:inside"), Ok(vec![(fw.clone(), HopPackets::Interface(0))]));
        assert_eq!(at("lan~fw:0"), Ok(vec![(lan, HopPackets::Received), (fw, HopPackets::Out(0))]));
        assert_eq!(
            at("near:0~hall"),
            Ok(vec![(TapPoint::Function("near".into()), HopPackets::Interface(0))])
        );
        assert!(at("lan~fw:1").is_err_and(|message| message.contains("no wire")));
        assert!(at("lan~fw").is_err_and(|message| message.contains("such as `fw:0`")));
    }

    #[test]
    fn a_container_is_looked_at_at_its_interfaces() {
        let (wiring, catalog) = wired(
            "superfluid: 1
tenants: {default: {}, red: {}, blue: {}}
ports: {lan: {type: 'null', tenant: red}, wan: {type: 'null', tenant: red}}
functions:
  ids: {guest: container, image: /a, tenant: red, memory: 16MiB, interfaces: {in: {}, out: {}}}
  alone: {guest: container, image: /a, memory: 16MiB}
chains: {c: [lan, ids, wan]}
",
        );
        let port = |name: &str| Spot { place: TapPoint::Port(name.to_owned()), interface: None };
        for tenant in [None, Some("red")] {
            let view = View::new(&wiring, &catalog, tenant);
            assert_eq!(view.spots("ids"), Ok(vec![port("ids:in"), port("ids:out")]));
            assert_eq!(view.spots("function/ids"), view.spots("ids"));
            assert_eq!(
                (view.spots("ids:out"), view.spots("ids:1")),
                (Ok(vec![port("ids:out")]), view.spots("ids:out"))
            );
            assert!(
                view.spots("ids:up").is_err_and(|told| told.contains("no interface `up`; allowed: in, out"))
            );
            let seen = ["ids:in", "ids:out"].map(|name| (port(name).place, HopPackets::All));
            assert_eq!(view.captured("ids"), Ok(seen.to_vec()));
            let wire = ["lan", "ids:in"].map(|name| (port(name).place, HopPackets::Received));
            assert_eq!(view.captured("lan~ids:in"), Ok(wire.to_vec()));
            assert_eq!(view.captured("lan~ids:0"), Ok(wire.to_vec()));
            assert!(view.captured("lan~ids").is_err_and(|told| told.contains("such as `ids:in`")));
        }
        let all = View::new(&wiring, &catalog, None);
        assert_eq!(all.spots("alone"), Err("`alone` has no interfaces".to_owned()));
        assert!(all.spots("idz").is_err_and(|told| told.contains("did you mean `ids`")));
        // What is another tenant's is not there.
        let blue = View::new(&wiring, &catalog, Some("blue"));
        for name in ["ids", "ids:in", "ids:up", "alone"] {
            let told = blue.spots(name).expect_err(name);
            assert!(
                told.starts_with("there is no port, device or function") && !told.contains("ids,"),
                "{told}"
            );
        }
    }

    #[test]
    fn what_can_be_reached_is_looked_at() {
        let (wiring, catalog) = wiring();
        let names = |from: Option<&str>| {
            let view = View::new(&wiring, &catalog, None);
            let from = from.map(|text| view.spots(text).expect("a spot"));
            view.reached(from.as_deref()).0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(Some("lan")), ["port/lan", "function/fw", "port/wan"]);
        assert_eq!(names(Some("near")), ["function/near", "port/out"]);
        assert_eq!(names(None).len(), 5, "all ports, and what is behind them");
    }

    /// Two tenants: red has a device of its own, one that blue may open, and one that only sees; there is a
    /// balance of both, a port of red's at a switch, a port at which a service stands that blue may use, and
    /// one that blue's device is over.
    const TENANTS: &str = "superfluid: 1
tenants: {red: {}, blue: {}}
ports:
  nic: {type: 'null'}
  alone: {type: 'null'}
  mine: {type: 'null', tenant: red}
  out: {type: 'null', tenant: red}
  plugged: {type: 'null', tenant: red}
  served: {type: 'null', tenant: red}
  under: {type: 'null', tenant: red}
  theirs: {type: 'null', tenant: blue}
switches:
  hall: {}
devices:
  own: {mode: direct, tenant: red, over: {nic: {receive: udp}}}
  wired: {mode: direct, tenant: red, over: [alone]}
  shared: {mode: direct, tenant: red, over: {nic: {receive: tcp}}, share: duplicate, open_to: [{tenant: blue}]}
  balance: {mode: direct, tenant: blue, over: {nic: {receive: arp}}, share: balance, open_to: [{tenant: red}]}
  seeing: {mode: direct, tenant: red, over: {nic: {receive: udp, priority: 1}}}
  bridge: {mode: direct, tenant: blue, over: [under]}
functions:
  fw: {image: firewall, tenant: red, attach: {inside: own, outside: mine}}
  last: {image: forwarder, tenant: red, attach: {left: wired, right: out}}
  here: {image: forwarder, tenant: red, attach: {left: shared}}
  there: {image: forwarder, tenant: blue, attach: {left: shared}}
  one: {image: forwarder, tenant: red, attach: {left: balance}}
  two: {image: forwarder, tenant: blue, attach: {left: balance}}
  edge: {image: forwarder, tenant: blue, attach: {left: bridge, right: theirs}}
  spy: {image: monitor, tenant: red}
observers:
  spy: {at: [seeing]}
wires: [[plugged, hall]]
services:
  'red:7': {to: served, for: [blue]}
";

    #[test]
    fn a_tenant_looks_only_where_every_packet_is_its_own() {
        let (wiring, catalog) = wired(TENANTS);
        let red = View::new(&wiring, &catalog, Some("red"));
        for good in ["fw", "fw:inside", "own", "own:nic", "device/wired", "mine", "one", "here:left", "out"] {
            assert!(red.spots(good).is_ok(), "{good}: {:?}", red.spots(good));
        }
        assert_eq!(red.spots("wired").expect("its own")[0].place, TapPoint::Device("wired".into(), None));
        assert!(red.captured("fw:1~mine").is_ok_and(|at| at.len() == 2));
        assert!(red.captured("fw:0~own").is_ok_and(|at| at.len() == 1));
        // What is its own, and where packets of others pass.
        for shared in ["shared", "shared:nic", "seeing", "plugged", "served", "under"] {
            let told = red.spots(shared).expect_err(shared);
            assert!(
                told.starts_with(&format!(
                    "packets of others may pass `{}`",
                    shared.split(':').next().unwrap_or("")
                )),
                "{told}"
            );
        }
        assert!(red.spots("spy").is_err_and(|told| told.contains("is an observer")));
        // What is another's is told of like what is not there, and so is an end of a wire.
        for theirs in ["there", "edge:left", "balance", "bridge", "theirs", "nic", "alone", "none"] {
            let told = red.spots(theirs).expect_err(theirs);
            let name = theirs.split(':').next().unwrap_or("");
            assert!(told.starts_with(&format!("there is no port, device or function `{name}`")), "{told}");
            for name in ["there", "two", "edge", "balance", "bridge", "theirs", "nic"] {
                let offered =
                    told.split_once("; ").is_some_and(|(_, choices)| choices.contains(&format!("`{name}`")));
                assert!(!offered, "{told}");
            }
        }
        for wire in ["one:0~balance", "here:0~two:0", "plugged~hall", "edge:0~bridge"] {
            assert!(red.captured(wire).is_err(), "{wire}");
        }
        // A trace goes through no place of others, from wherever it begins.
        for from in [None, Some("fw"), Some("one"), Some("here"), Some("wired")] {
            let spots = from.map(|from| red.spots(from).expect("its own"));
            for place in red.reached(spots.as_deref()).0 {
                let allowed = ["fw", "last", "here", "one", "own", "wired", "mine", "out", "alone"];
                assert!(allowed.contains(&place.name()), "{from:?}: {place}");
                assert!(place.name() != "alone" || from == Some("wired"), "{from:?}: {place}");
            }
        }
        // For administrators all is there.
        let all = View::new(&wiring, &catalog, None);
        for name in ["shared", "balance", "seeing", "plugged", "nic", "there"] {
            assert!(all.spots(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_guard_hides_no_device_of_its_tenant_and_is_nothing_to_any_tenant() {
        let (wiring, catalog) = wired(
            "superfluid: 1
tenants: {default: {}, red: {}}
ports: {lan: {type: af_packet, interface: lan}}
groups: {base: {}}
devices: {edge: {mode: direct, over: [lan], tenant: red, addresses: [192.0.2.9/24], groups: [base], zone: 1}}
functions: {fw: {image: firewall, tenant: red, attach: {inside: edge}}}
",
        );
        let of = |tenant| View::new(&wiring, &catalog, tenant);
        let guard = TapPoint::Function("groups@edge~fw:0".to_owned());
        assert_eq!(of(None).captured("groups@edge~fw:0"), Ok(vec![(guard, HopPackets::All)]));
        for tenant in ["red", "default"] {
            let told = of(Some(tenant)).spots("groups@edge~fw:0").expect_err(tenant);
            assert!(told.starts_with("there is no port, device or function"), "{tenant}: {told}");
        }
        let edge = TapPoint::Device("edge".into(), None);
        assert!(of(Some("red")).spots("edge").is_ok_and(|spots| spots[0].place == edge));
        let spots = of(Some("red")).spots("fw").expect("its own");
        let names: Vec<String> =
            of(Some("red")).reached(Some(&spots)).0.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["function/fw", "device/edge"]);
        assert_eq!((wiring.shown_to("groups@edge~fw:0"), wiring.shown_to("fw")), (Some("red"), Some("red")));
    }

    #[test]
    fn a_tenant_sees_what_its_container_gets_of_a_device() {
        let file = |groups: &str| {
            format!(
                "superfluid: 1
tenants: {{default: {{}}, red: {{}}, blue: {{}}}}
ports: {{lan: {{type: af_packet, interface: lan}}}}
groups: {{base: {{}}}}
devices: {{edge: {{mode: direct, over: [lan], tenant: red{groups}}}, pair: {{mode: rootless, tenant: red}}}}
functions:
  web:
    {{guest: container, image: /a, tenant: red, memory: 16MiB, interfaces: {{in: {{addresses: [192.0.2.9/24]}}, out: {{}}}},
     attach: {{in: edge, out: pair}}}}
  fw: {{image: firewall, tenant: red, attach: {{inside: pair}}}}
"
            )
        };
        for groups in ["", ", groups: [base], zone: 1"] {
            let (wiring, catalog) = wired(&file(groups));
            let of = |tenant| View::new(&wiring, &catalog, Some(tenant));
            for name in ["web:in", "edge", "pair"] {
                assert!(of("red").spots(name).is_ok(), "{name}{groups}");
                assert!(of("blue").spots(name).is_err(), "{name}{groups}");
            }
            // Of what is no more than a wire each packet is captured once.
            let pair = (TapPoint::Device("pair".to_owned(), None), HopPackets::All);
            assert_eq!(of("red").captured("pair"), Ok(vec![pair]));
        }
    }
}
