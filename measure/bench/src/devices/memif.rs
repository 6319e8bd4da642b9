//! A hop between two testpmd, a processor each, joined by memif: what a second one adds to the processor time
//! of a packet, over what one more function behind a rootless device adds here.

use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use peers::{Cores, Driver, MemifPair, Testpmd, Window};
use std::time::Duration;
use testbed::Namespace;

/// How long each side is measured in each pair.
const WINDOW: Duration = Duration::from_millis(400);
/// Packets of a burst, and buffers of each testpmd.
const BURST: usize = 32;
const BUFFERS: u32 = 4096;
/// Huge pages that two of them need.
const HUGE_PAGES: u64 = 256;

/// `hop`: nanoseconds of each of our runs for a packet and a hop. What cannot be measured costs its own
/// result.
pub(super) fn run(hop: &[f64], into: &mut Vec<Measurement>, notes: &mut Vec<String>) {
    match measure(notes) {
        Ok(theirs) => {
            let ours = median(hop);
            let ratio: Vec<f64> = theirs.iter().map(|theirs| theirs / ours).collect();
            into.push(Measurement::new("memif-hop-ratio", "x", &ratio));
            into.push(Measurement::new("memif-hop-ns", "ns", &theirs));
        }
        Err(error) => {
            notes.push(format!("memif-hop: {error}"));
            into.push(Measurement::missing("memif-hop-ratio", "x", "not-measured"));
        }
    }
}

fn measure(notes: &mut Vec<String>) -> Result<Vec<f64>, BenchError> {
    peers::missing_of(&[("dpdk-testpmd", "dpdk-dev")]).map_err(BenchError::setup)?;
    let cores = Cores::find().map_err(BenchError::setup)?;
    let free = peers::free_huge_pages();
    if free < HUGE_PAGES {
        return Err(BenchError::setup(peers::PeerError::HugePages { free, needed: HUGE_PAGES }));
    }
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let mut alone = Vec::new();
    {
        let one =
            Testpmd::start(&namespace, Driver::Null, BURST, BUFFERS, cores).map_err(BenchError::setup)?;
        notes.push(format!("memif-hop, one: {}", one.configuration));
        for _ in 0..RUNS {
            alone.push(checked(one.polling.measure(WINDOW).map_err(BenchError::setup)?)?);
        }
    }
    let pair = MemifPair::start(&namespace, BURST, BUFFERS, cores).map_err(BenchError::setup)?;
    notes.extend(pair.configurations.iter().map(|line| format!("memif-hop, of two: {line}")));
    let mut hops = Vec::new();
    for alone in alone {
        hops.push(checked(pair.measure(WINDOW).map_err(BenchError::setup)?)? - alone);
    }
    Ok(hops)
}

/// Nanoseconds for each packet, if packets went through.
fn checked(window: Window) -> Result<f64, BenchError> {
    match window.packets {
        0..1000 => Err(BenchError::Invalid(format!("{} packets went through", window.packets))),
        _ => Ok(window.nanos_per_packet()),
    }
}
