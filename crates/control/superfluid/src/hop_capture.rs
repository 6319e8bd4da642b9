//! `run --capture HOP=FILE`: what is seen at a hop, in a pcapng file with the hop and the verdict of each
//! packet.

use capture::{Filter, Settings};
use deployment::{Catalog, HopNames, HopPackets, HopTap};
use engine::Tap;
use std::path::PathBuf;
use std::str::FromStr;
use wiring::Wiring;

/// `HOP=FILE`, as on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HopFile {
    pub(crate) hop: String,
    pub(crate) file: PathBuf,
}

impl FromStr for HopFile {
    type Err = String;

    fn from_str(text: &str) -> Result<HopFile, String> {
        match text.split_once('=') {
            Some((hop, file)) if !hop.is_empty() && !file.is_empty() => {
                Ok(HopFile { hop: hop.to_owned(), file: PathBuf::from(file) })
            }
            _ => Err("allowed: HOP=FILE, such as edge_firewall=drops.pcapng".to_owned()),
        }
    }
}

/// How everything is captured that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) hops: Vec<HopFile>,
    pub(crate) filter: Option<Filter>,
    pub(crate) snap_length: u32,
    pub(crate) limit: u64,
}

/// Where a capture looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Port(String),
    Function(String),
}

/// A hop, and the tap that is to see its packets.
pub(crate) type HopTaps = Vec<(Hop, Box<dyn Tap>)>;

/// One capture that is running.
pub(crate) struct Running {
    pub(crate) hop: String,
    pub(crate) capture: capture::Capture,
    pub(crate) told: bool,
}

/// Makes the files. The taps are to be given to the hops.
///
/// # Errors
/// All hops that there are not, and files that cannot be written, in words for the operator.
pub(crate) fn begin(
    wanted: &Wanted,
    wiring: &Wiring,
    catalog: &Catalog,
) -> Result<(HopTaps, Vec<Running>), Vec<String>> {
    let mut faults = Vec::new();
    let mut hops = Vec::new();
    for (n, HopFile { hop, file }) in wanted.hops.iter().enumerate() {
        if wanted.hops[..n].iter().any(|other| other.file == *file) {
            faults.push(format!("{}: two captures into one file", file.display()));
        }
        match find(hop, wiring, catalog) {
            Ok(found) => hops.push((found, hop, file)),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let (mut taps, mut running) = (HopTaps::new(), Vec::new());
    for ((place, names), hop, file) in hops {
        let settings = Settings {
            place: hop.clone(),
            filter: wanted.filter.clone(),
            snap_length: wanted.snap_length,
            limit: wanted.limit,
            count: 0,
        };
        match capture::begin(file, settings) {
            Ok((recorder, capture)) => {
                taps.push((place, Box::new(HopTap::new(names, HopPackets::All, recorder))));
                running.push(Running { hop: hop.clone(), capture, told: false });
            }
            Err(error) => faults.push(format!("{}: {error}", file.display())),
        }
    }
    if faults.is_empty() { Ok((taps, running)) } else { Err(faults) }
}

fn find(name: &str, wiring: &Wiring, catalog: &Catalog) -> Result<(Hop, HopNames), String> {
    if wiring.ports.contains_key(name) {
        return Ok((Hop::Port(name.to_owned()), HopNames::of_port(name)));
    }
    let Some(instance) = wiring.instances.get(name) else {
        let names = wiring.ports.keys().chain(wiring.instances.keys()).map(String::as_str);
        return Err(format!(
            "--capture {name}: there is no such hop{}",
            yaml_document::spelling::choices(name, names)
        ));
    };
    if wiring.observations.iter().any(|observation| observation.observer == name) {
        return Err(format!("--capture {name}: it is an observer; allowed: the function that it observes"));
    }
    let names = HopNames::of_function(name, &instance.image, catalog)?;
    Ok((Hop::Function(name.to_owned()), names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_and_its_file_are_read() {
        let parsed: HopFile = "fw=a=b.pcapng".parse().expect("read");
        assert_eq!(parsed, HopFile { hop: "fw".into(), file: "a=b.pcapng".into() });
        for bad in ["", "fw", "=x", "fw="] {
            assert!(bad.parse::<HopFile>().is_err(), "{bad}");
        }
    }
}
