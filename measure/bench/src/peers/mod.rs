//! Superfluid beside the programs that people use for the same work, in turns in one run.
//!
//! Each pair of measurements has the peer working while Superfluid stands, then Superfluid working while the
//! peer is stopped: there are two processors, and each side gets the same one for itself. What is compared is
//! processor time, which does not count what other programs took meanwhile. `docs/peers.md` says what each
//! ratio means.

pub(crate) mod conntrack;
mod device;
pub(crate) mod l3fwd;
mod macswap;
pub(crate) mod memif;
mod suricata;
mod veth;
pub(crate) mod vhost;

use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use guest_wasm::Sandbox;
use peers::{Cores, PeerError, Polling, Window};
use std::time::Duration;

/// How long each side is measured in each pair.
const WINDOW: Duration = Duration::from_millis(400);
/// How long it works before.
const WARM_UP: Duration = Duration::from_millis(100);
/// Huge pages that Open vSwitch, and the pools beside it, need.
const HUGE_PAGES: u64 = 800;

/// What all comparisons share.
struct Stage<'a> {
    cores: Cores,
    sandbox: Sandbox,
    progress: &'a mut dyn FnMut(f64, &str),
    /// How both sides were configured.
    notes: Vec<String>,
    results: Vec<Measurement>,
}

impl<'a> Stage<'a> {
    /// If all peers are installed, and huge pages are free.
    fn open(progress: &'a mut dyn FnMut(f64, &str)) -> Result<Stage<'a>, BenchError> {
        peers::missing().map_err(BenchError::setup)?;
        Stage::prepared(progress)
    }

    /// The same whichever peers are installed.
    fn prepared(progress: &'a mut dyn FnMut(f64, &str)) -> Result<Stage<'a>, BenchError> {
        let cores = Cores::find().map_err(BenchError::setup)?;
        let free = peers::free_huge_pages();
        if free < HUGE_PAGES {
            return Err(BenchError::setup(PeerError::HugePages { free, needed: HUGE_PAGES }));
        }
        let sandbox = Sandbox::new().map_err(BenchError::setup)?;
        let notes = vec![format!(
            "the program that is measured polls on processor {}, everything else runs on processor {}",
            cores.device, cores.sender
        )];
        Ok(Stage { cores, sandbox, progress, notes, results: Vec::new() })
    }

    /// A comparison that fails costs its own result; the others are made nevertheless.
    fn note_failure(&mut self, name: &str, done: Result<(), BenchError>) {
        if let Err(error) = done {
            self.notes.push(format!("{name}: {error}"));
            let ratio = format!("{name}-ratio");
            self.results.push(Measurement::missing(&ratio, "x", "not-measured"));
        }
    }
}

/// One side of a comparison at saturation: works by itself or when it is let.
trait Side {
    /// Its processor time until now.
    fn time(&mut self) -> Result<Duration, BenchError>;
    /// Lets so much time pass in which it works.
    fn pass(&mut self, time: Duration) -> Result<(), BenchError>;
}

impl Side for Polling {
    fn time(&mut self) -> Result<Duration, BenchError> {
        Polling::time(self).map_err(BenchError::setup)
    }

    fn pass(&mut self, time: Duration) -> Result<(), BenchError> {
        std::thread::sleep(time);
        Ok(())
    }
}

/// Nanoseconds for each packet of both sides, and how much longer the peer takes.
#[derive(Default)]
struct Pairs {
    ours: Vec<f64>,
    theirs: Vec<f64>,
    ratio: Vec<f64>,
}

impl Pairs {
    fn push(&mut self, ours: f64, theirs: f64) {
        self.ours.push(ours);
        self.theirs.push(theirs);
        self.ratio.push(theirs / ours);
    }

    /// Both sides in turns; the first pair warms up.
    fn measure(
        peer: &Polling,
        mut ours: impl FnMut() -> Result<Window, BenchError>,
        check: impl Fn(&Window, &Window) -> Result<(), BenchError>,
    ) -> Result<Pairs, BenchError> {
        let mut pairs = Pairs::default();
        for run in 0..=RUNS {
            let theirs = peer.measure(WINDOW).map_err(BenchError::setup)?;
            peer.pause().map_err(BenchError::setup)?;
            let ours = ours()?;
            peer.resume().map_err(BenchError::setup)?;
            check(&ours, &theirs)?;
            if run > 0 {
                pairs.push(ours.nanos_per_packet(), theirs.nanos_per_packet());
            }
        }
        Ok(pairs)
    }

    fn report(&self, name: &str, into: &mut Vec<Measurement>) {
        let ratio = format!("{name}-ratio");
        into.push(Measurement::new(&ratio, "x", &self.ratio));
        into.push(Measurement::new(&format!("{name}-ns"), "ns", &self.ours));
        into.push(Measurement::new(&format!("{name}-peer-ns"), "ns", &self.theirs));
    }

    /// Packets in a second of processor time, of the faster side.
    fn fastest(&self) -> f64 {
        1e9 / median(&self.ours).min(median(&self.theirs))
    }
}

/// Runs all comparisons; the figures, and how both sides were configured.
pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let mut stage = Stage::open(progress)?;
    macswap::run(&mut stage);
    conntrack::run(&mut stage);
    veth::run(&mut stage);
    suricata::run(&mut stage);
    Ok((stage.results, stage.notes))
}
