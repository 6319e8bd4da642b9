//! Where packets are looked at.

use deployment::Catalog;
use deployment::{HopNames, HopPackets};
use std::collections::{BTreeSet, HashMap, VecDeque};
use wiring::{Edge, Endpoint, Wiring};
use yaml_document::spelling;

/// Places that one trace looks at.
pub(super) const MOST: usize = 4096;

/// A port or a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TapPoint {
    Port(String),
    Function(String),
}

impl TapPoint {
    pub(super) fn name(&self) -> &str {
        match self {
            TapPoint::Port(name) | TapPoint::Function(name) => name,
        }
    }

    /// The names behind its numbers.
    pub(super) fn names(&self, wiring: &Wiring, catalog: &Catalog) -> Result<HopNames, String> {
        match self {
            TapPoint::Port(name) => Ok(HopNames::of_port(name)),
            TapPoint::Function(name) => match wiring.instances.get(name) {
                Some(instance) => HopNames::of_function(name, &instance.image, catalog),
                None => Err(format!("there is no function `{name}`")),
            },
        }
    }
}

/// `port/lan`, `function/fw`.
impl std::fmt::Display for TapPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TapPoint::Port(name) => write!(f, "port/{name}"),
            TapPoint::Function(name) => write!(f, "function/{name}"),
        }
    }
}

/// A place, and perhaps one interface of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) place: TapPoint,
    pub(super) interface: Option<u16>,
}

/// The spot that is meant: `lan`, `fw`, `fw:inside`, `fw:0`; `port/lan` and `function/fw` too.
pub(super) fn spot(text: &str, wiring: &Wiring, catalog: &Catalog) -> Result<Spot, String> {
    let text = text.strip_prefix("port/").or_else(|| text.strip_prefix("function/")).unwrap_or(text);
    let (name, interface) = text.split_once(':').map_or((text, None), |(name, of)| (name, Some(of)));
    if wiring.ports.contains_key(name) && interface.is_none() {
        return Ok(Spot { place: TapPoint::Port(name.to_owned()), interface: None });
    }
    let Some(instance) = wiring.instances.get(name) else {
        let known = wiring.ports.keys().chain(wiring.instances.keys()).map(String::as_str).take(20);
        let known: Vec<&str> = known.collect();
        let what = match wiring.ports.contains_key(name) {
            true => "a port has no interfaces; allowed: its name alone".to_owned(),
            false => format!(
                "there is no port or function `{}`{}",
                spelling::shown(name),
                spelling::choices(name, known)
            ),
        };
        return Err(what);
    };
    if wiring.observations.iter().any(|seen| seen.observer == name) {
        return Err(format!("`{name}` is an observer; allowed: the function that it observes"));
    }
    let interface = match interface {
        None => None,
        Some(of) => {
            let image = catalog.load(&instance.image)?;
            let manifest = image.manifest();
            let number = manifest.interface(of).ok_or_else(|| {
                let known = manifest.interfaces.iter().map(String::as_str);
                let choices = spelling::choices(of, known);
                format!("`{name}` has no interface `{}`{choices}", spelling::shown(of))
            })?;
            Some(number)
        }
    };
    Ok(Spot { place: TapPoint::Function(name.to_owned()), interface })
}

/// What is captured where something is named: places, and which of their packets.
pub(super) fn captured(
    text: &str,
    wiring: &Wiring,
    catalog: &Catalog,
) -> Result<Vec<(TapPoint, HopPackets)>, String> {
    let whole = |spot: Spot| (spot.place, spot.interface.map_or(HopPackets::All, HopPackets::Interface));
    let Some((a, b)) = text.split_once('~') else {
        return Ok(vec![whole(spot(text, wiring, catalog)?)]);
    };
    // What a switch puts on a wire is seen where the wire ends.
    let switch = |end: &str| wiring.switches.contains_key(end).then(|| Endpoint::Switch(end.to_owned()));
    let end = |text: &str| match switch(text) {
        Some(end) => Ok((end, None)),
        None => spot(text, wiring, catalog).and_then(|spot| Ok((endpoint(&spot)?, Some(spot)))),
    };
    let ((a, first), (b, second)) = (end(a)?, end(b)?);
    if !wiring.edges.contains(&Edge::new(a.clone(), b.clone())) {
        return Err(format!("there is no wire between {a} and {b}"));
    }
    let puts_on = |spot: Spot| (spot.place, spot.interface.map_or(HopPackets::Received, HopPackets::Out));
    Ok(match (first, second) {
        (Some(first), Some(second)) => vec![puts_on(first), puts_on(second)],
        (first, second) => first.into_iter().chain(second).map(whole).collect(),
    })
}

fn endpoint(spot: &Spot) -> Result<Endpoint, String> {
    match (&spot.place, spot.interface) {
        (TapPoint::Port(name), _) => Ok(Endpoint::Port(name.clone())),
        (TapPoint::Function(name), Some(interface)) => Ok(Endpoint::Interface(name.clone(), interface)),
        (TapPoint::Function(name), None) => Err(format!(
            "`{name}` is a function; allowed at the end of a wire: one of its interfaces, such as `{name}:0`"
        )),
    }
}

/// All ports and functions that packets may come to from a spot, or from any port, the nearest first; and how
/// many there are that are left out because they are too many.
pub(super) fn reached(from: Option<&Spot>, wiring: &Wiring) -> (Vec<TapPoint>, usize) {
    let mut beside: HashMap<&str, Vec<&str>> = HashMap::new();
    for edge in &wiring.edges {
        let [a, b] = edge.ends().map(Endpoint::name);
        beside.entry(a).or_default().push(b);
        beside.entry(b).or_default().push(a);
    }
    let mut next: VecDeque<&str> = match from {
        Some(spot) => VecDeque::from([spot.place.name()]),
        None => wiring.ports.keys().map(String::as_str).collect(),
    };
    // Functions send to services without a wire.
    next.extend(wiring.services.values().map(Endpoint::name));
    let mut seen: BTreeSet<&str> = next.iter().copied().collect();
    let (mut places, mut left_out) = (Vec::new(), 0);
    while let Some(name) = next.pop_front() {
        let place = match (wiring.ports.contains_key(name), wiring.instances.contains_key(name)) {
            (true, _) => Some(TapPoint::Port(name.to_owned())),
            (_, true) => Some(TapPoint::Function(name.to_owned())),
            _ => None,
        };
        match place {
            Some(_) if places.len() == MOST => left_out += 1,
            Some(place) => places.push(place),
            None => {}
        }
        let others = beside.get(name).into_iter().flatten().copied();
        next.extend(others.filter(|other| seen.insert(other)));
    }
    (places, left_out)
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
        let catalog = Catalog::new(Path::new("."));
        let read = config::check("file", FILE, &catalog);
        (read.unwrap_or_else(|faults| panic!("{faults:?}")).wiring, catalog)
    }

    #[test]
    fn spots_and_wires_are_found() {
        let (wiring, catalog) = wiring();
        let place = |text: &str| spot(text, &wiring, &catalog);
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
        let at = |text: &str| captured(text, &wiring, &catalog);
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
    fn what_can_be_reached_is_looked_at() {
        let (wiring, catalog) = wiring();
        let names = |from: Option<&str>| {
            let from = from.map(|text| spot(text, &wiring, &catalog).expect("a spot"));
            reached(from.as_ref(), &wiring).0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(Some("lan")), ["port/lan", "function/fw", "port/wan"]);
        assert_eq!(names(Some("near")), ["function/near", "port/out"]);
        assert_eq!(names(None).len(), 5, "all ports, and what is behind them");
    }
}
