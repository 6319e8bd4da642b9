//! `run --capture HOP=FILE`: what is seen at a hop, in a pcapng file with the hop and the verdict of each
//! packet.

use capture::{Filter, Recorder, Settings};
use controller::Hop;
use deployment::Catalog;
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

/// Hops, and what is to record their packets.
pub(crate) type Hops = Vec<(Hop, Recorder)>;

/// One capture that is running.
pub(crate) struct Running {
    pub(crate) hop: String,
    pub(crate) capture: capture::Capture,
    pub(crate) told: bool,
}

/// Makes the files. The recorders are to be shown the packets of the hops.
///
/// # Errors
/// All hops that there are not, and files that cannot be written, in words for the operator.
pub(crate) fn begin(
    wanted: &Wanted,
    wiring: &Wiring,
    catalog: &Catalog,
) -> Result<(Hops, Vec<Running>), Vec<String>> {
    let mut faults = Vec::new();
    let mut hops = Vec::new();
    for (n, HopFile { hop, file }) in wanted.hops.iter().enumerate() {
        if wanted.hops[..n].iter().any(|other| other.file == *file) {
            faults.push(format!("{}: two captures into one file", file.display()));
        }
        match Hop::find(hop, wiring, catalog) {
            Ok(found) => hops.push((found, hop, file)),
            Err(fault) => faults.push(format!("--capture {hop}: {fault}")),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let (mut recorded, mut running) = (Hops::new(), Vec::new());
    for (place, hop, file) in hops {
        let settings = Settings {
            place: hop.clone(),
            filter: wanted.filter.clone(),
            snap_length: wanted.snap_length,
            limit: wanted.limit,
            count: 0,
        };
        match capture::begin(file, settings) {
            Ok((recorder, capture)) => {
                recorded.push((place, recorder));
                running.push(Running { hop: hop.clone(), capture, told: false });
            }
            Err(error) => faults.push(format!("{}: {error}", file.display())),
        }
    }
    if faults.is_empty() { Ok((recorded, running)) } else { Err(faults) }
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
