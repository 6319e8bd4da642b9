//! Whether Suricata finds by memif what it finds in a file: alerts by rule and number, of the seeded capture
//! and of those that Debian's packages have put on this machine.

use super::delivery::check;
use super::feeder::Feeder;
use super::{Frames, RING, RULES, Stage, rules};
use crate::{BenchError, Measurement};
use compare::captures::Captures;
use peers::exchanges::Exchanges;
use peers::public_rules;
use peers::{Alerts, CaptureWriter, Folder, Inspector, Parsers, Suricata, Taking};
use port::pcap::{Capture, LINK_TYPE_ETHERNET, Next};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use testbed::Namespace;

/// Flows of the seeded capture.
const FLOWS: u32 = 12_000;
/// Fewer alerts than these are no measurement.
const LEAST: u64 = 1000;
/// Longest frame that Suricata's port takes: its MTU and the Ethernet header.
const LONGEST: usize = 1514;
/// Most bytes of a capture: its frames are in memory.
const MOST: u64 = 512 << 20;

pub(super) fn run(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.0, "alerts");
    let folder = Folder::new().map_err(BenchError::setup)?;
    let (rules, seeded) = (rules(), folder.file("seeded.pcap"));
    Exchanges::write(&seeded, &public_rules::rules(RULES), FLOWS).map_err(BenchError::setup)?;
    let packaged = Captures::packaged();
    let mut captures = vec![("the seeded capture".to_owned(), seeded)];
    captures.extend(packaged.captures.into_iter().map(|capture| (capture.name, capture.path)));
    let (mut missing, mut more, mut found, mut count) = (0, 0, 0, 0);
    let mut words = packaged.left_out;
    for (n, (name, path)) in captures.iter().enumerate() {
        (stage.progress)(0.1 * n as f64 / captures.len() as f64, &format!("alerts, {name}"));
        let frames = match frames(path) {
            Ok(frames) => frames,
            Err(why) => {
                words.push(format!("{name}: left out: {why}"));
                continue;
            }
        };
        let copy = folder.file("copy.pcap");
        write(&copy, &frames)?;
        let peer = Suricata::new(&rules, Parsers::Messages, stage.cores).map_err(BenchError::setup)?;
        let alone = peer.read(&copy).map_err(BenchError::setup)?.alerts;
        let behind = by_memif(stage, frames, &rules, n == 0)?;
        let [less, beyond] = difference(&alone, &behind);
        if less + beyond > 0 {
            words.push(format!("{name}: {less} alerts missing, {beyond} more than alone"));
        }
        (missing, more) = (missing + less, more + beyond);
        found += alone.values().sum::<u64>();
        count += 1;
    }
    stage.notes.push(format!(
        "alerts: {RULES} rules, {count} captures, {found} alerts of Suricata alone{}",
        words.iter().map(|word| format!("\n{word}")).collect::<String>()
    ));
    if found < LEAST {
        return Err(BenchError::Invalid(format!("{found} alerts are fewer than {LEAST}")));
    }
    let alerts = |name, value| Measurement::new(name, "alerts", &[value as f64]);
    stage.results.push(alerts("alerts-missing", missing));
    stage.results.push(alerts("alerts-more", more));
    stage.results.push(alerts("alerts-alone", found));
    Ok(())
}

/// What Suricata finds in the same frames by memif, none of which is lost.
fn by_memif(stage: &mut Stage<'_>, frames: Frames, rules: &str, first: bool) -> Result<Alerts, BenchError> {
    let folder = Folder::new().map_err(BenchError::setup)?;
    let socket = folder.file("ids.sock");
    let (namespace, count) = (Namespace::new().map_err(BenchError::setup)?, frames.len());
    let mut feeder = Feeder::memif(frames, &[&socket], RING, stage.cores)?;
    let peer =
        Inspector::start(&namespace, rules, Parsers::Messages, Taking::Memif(&socket, RING), stage.cores)
            .map_err(BenchError::setup)?;
    if first {
        stage.note("alerts, memif", &peer.configuration);
    }
    feeder.connect()?;
    feeder.send(count)?;
    feeder.drain()?;
    check(feeder.finish()?, peer.finish()).map(|taken| taken.alerts)
}

/// Alerts that one has and the other has not, rule by rule; and the other way round.
fn difference(alone: &Alerts, behind: &Alerts) -> [u64; 2] {
    let less = |one: &Alerts, other: &Alerts| -> u64 {
        one.iter().map(|(sid, count)| count.saturating_sub(other.get(sid).copied().unwrap_or(0))).sum()
    };
    [less(alone, behind), less(behind, alone)]
}

/// The frames of a capture, or why they cannot be sent.
fn frames(path: &Path) -> Result<Frames, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|file| file.len() > MOST) {
        return Err(format!("it is longer than {} MiB", MOST >> 20));
    }
    let mut capture = Capture::new(file).map_err(|error| error.to_string())?;
    let mut frames = Vec::new();
    loop {
        match capture.step().map_err(|error| error.to_string())? {
            Next::Record(record) if record.link_type != LINK_TYPE_ETHERNET => {
                return Err("its link is not Ethernet".to_owned());
            }
            Next::Record(record) if record.length as usize > LONGEST || record.length < 14 => {
                return Err(format!("it has a frame of {} bytes; allowed: 14 to {LONGEST}", record.length));
            }
            Next::Record(_) => frames.push(capture.bytes().to_vec()),
            Next::Passed => {}
            Next::End if frames.is_empty() => return Err("it has no frame".to_owned()),
            Next::End => return Ok(Arc::new(frames)),
        }
    }
}

/// Writes frames as packets that come have them: at times that go on, and cut nowhere.
fn write(path: &Path, frames: &Frames) -> Result<(), BenchError> {
    let mut writer = CaptureWriter::create(path).map_err(BenchError::setup)?;
    for (frame, micros) in frames.iter().zip((1..).step_by(10)) {
        writer.frame(micros, frame).map_err(BenchError::setup)?;
    }
    writer.finish().map(drop).map_err(BenchError::setup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_compared_rule_by_rule() {
        let of = |alerts: &[(u32, u64)]| Alerts::from_iter(alerts.iter().copied());
        assert_eq!(difference(&of(&[(1, 5), (2, 3)]), &of(&[(1, 4), (3, 2)])), [4, 2]);
        assert_eq!(difference(&of(&[(1, 5)]), &of(&[(1, 5)])), [0, 0]);
    }

    #[test]
    fn frames_that_cannot_be_sent_leave_a_capture_out() {
        let folder = Folder::new().expect("a folder");
        let path = folder.file("x.pcap");
        let write = |frames: &[&[u8]]| {
            let mut writer = CaptureWriter::create(&path).expect("a capture");
            frames.iter().for_each(|frame| writer.frame(1, frame).expect("written"));
            writer.finish().expect("ended");
        };
        write(&[&[1; 60], &[2; 1514]]);
        assert_eq!(frames(&path).expect("frames").len(), 2);
        write(&[&[1; 60], &[2; 1515]]);
        assert_eq!(frames(&path).unwrap_err(), "it has a frame of 1515 bytes; allowed: 14 to 1514");
        write(&[]);
        assert_eq!(frames(&path).unwrap_err(), "it has no frame");
        std::fs::write(&path, "no capture").expect("written");
        assert!(frames(&path).is_err() && frames(&folder.file("none")).is_err());
    }
}
