//! Seeing packets at a hop, and recording them with what became of each.

use crate::Catalog;
use capture::{Direction, Outcome, Recorder, Sighting};
use engine::{Onward, Passage, Tap};
use nf_abi::Verdict;
use packet_memory::{Packet, Pool};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use telemetry::DropReason;

/// Comments that are kept to be used again.
const MOST_COMMENTS: usize = 4096;

/// The names behind a hop's numbers.
#[derive(Clone, Debug, Default)]
pub struct HopNames {
    /// The port or function.
    pub hop: String,
    /// Of a function, by number; of a device, its ports and openers by their plugs.
    pub interfaces: Vec<String>,
    /// Reasons that the function gives itself, by number.
    pub drop_reasons: Vec<String>,
    /// Of a device: plugs that are those of ports.
    pub ports: BTreeSet<u16>,
}

/// HopPackets packets of a hop are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopPackets {
    /// Those of a port in both directions, those of a function with what it decided, or those that pass a
    /// device.
    All,
    /// Those that come in and go out by an interface of a function, as they do.
    Interface(u16),
    /// Those that go out by it.
    Out(u16),
    /// Those that a port receives.
    Received,
}

/// What a comment is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Said {
    passage: Passage,
    ingress: u16,
    verdict: u32,
}

/// Records what is seen at a hop.
pub struct HopTap {
    names: HopNames,
    which: HopPackets,
    recorder: Recorder,
    comments: HashMap<Said, String>,
    /// It goes when the capture is over; else it stays, and what it sees then is counted as lost.
    leaves: bool,
}

impl HopTap {
    /// The same, but gone when the capture is over.
    pub fn leaving(self) -> HopTap {
        HopTap { leaves: true, ..self }
    }

    /// A tap that records the packets `which` of a hop.
    pub fn new(names: HopNames, which: HopPackets, recorder: Recorder) -> HopTap {
        HopTap { names, which, recorder, comments: HashMap::new(), leaves: false }
    }
}

impl HopPackets {
    /// Which way a packet goes that is meant; `None`: it is not. Into a device is from one of these ports.
    fn direction(
        self,
        passage: Passage,
        ingress: u16,
        verdict: u32,
        ports: &BTreeSet<u16>,
    ) -> Option<Direction> {
        let goes_out = |interface| {
            matches!(passage, Passage::Decided | Passage::Emitted)
                && Verdict::decode(verdict) == Some(Verdict::Interface(interface))
        };
        match (self, passage) {
            (HopPackets::All | HopPackets::Received, Passage::Received) => Some(Direction::Inbound),
            (HopPackets::All, Passage::Transmitted) => Some(Direction::Outbound),
            (HopPackets::All, Passage::Passing(from, _)) if ports.contains(&from) => Some(Direction::Inbound),
            (HopPackets::All, Passage::Passing(_, Onward::By(to))) if ports.contains(&to) => {
                Some(Direction::Outbound)
            }
            // What is lost there for other reasons was seen before.
            (HopPackets::All, Passage::Lost(DropReason::QueueFull | DropReason::HopBudget)) => {
                Some(Direction::Unknown)
            }
            (HopPackets::All, Passage::Arrived | Passage::Lost(_)) => None,
            (HopPackets::All, _) => Some(Direction::Unknown),
            (HopPackets::Interface(interface), Passage::Arrived) if ingress == interface => {
                Some(Direction::Inbound)
            }
            (HopPackets::Interface(interface) | HopPackets::Out(interface), _) if goes_out(interface) => {
                Some(Direction::Outbound)
            }
            _ => None,
        }
    }
}

impl Tap for HopTap {
    fn see(&mut self, pool: &Pool, packets: &[Packet], passage: Passage) {
        for packet in packets {
            let record = packet.record();
            let decided = matches!(passage, Passage::Decided | Passage::Emitted);
            let verdict = if decided { record.verdict } else { 0 };
            let Some(direction) = self.which.direction(passage, record.ingress, verdict, &self.names.ports)
            else {
                continue;
            };
            let said = Said { passage, ingress: record.ingress, verdict };
            if self.comments.len() > MOST_COMMENTS {
                self.comments.clear();
            }
            let names = &self.names;
            let comment = self.comments.entry(said).or_insert_with(|| names.comment(passage, said));
            let sighting = Sighting {
                timestamp: record.timestamp,
                length: packet.length(),
                snapped: record.snapped(),
                direction,
                outcome: outcome(passage, verdict),
                comment,
            };
            self.recorder.record(&sighting, |room| {
                pool.read(packet, 0, room);
            });
        }
    }

    fn flush(&mut self) {
        self.recorder.hand_over();
    }

    fn is_over(&self) -> bool {
        self.leaves && self.recorder.is_over()
    }
}

fn outcome(passage: Passage, verdict: u32) -> Outcome {
    match passage {
        Passage::Trapped | Passage::Lost(_) | Passage::Passing(_, Onward::Nowhere(_)) => Outcome::Dropped,
        Passage::Decided | Passage::Emitted => match Verdict::decode(verdict) {
            Some(Verdict::None | Verdict::Drop(_)) | None => Outcome::Dropped,
            Some(_) => Outcome::Passed,
        },
        Passage::Received
        | Passage::Transmitted
        | Passage::Arrived
        | Passage::Down
        | Passage::Passing(..) => Outcome::Passed,
    }
}

impl HopNames {
    /// Of a port.
    pub fn of_port(name: &str) -> HopNames {
        HopNames { hop: name.to_owned(), ..HopNames::default() }
    }

    /// Of a function of an image.
    ///
    /// # Errors
    /// What the catalog has to say of the image.
    pub fn of_function(name: &str, image: &str, catalog: &Catalog) -> Result<HopNames, String> {
        let image = catalog.load(image)?;
        let manifest = image.manifest();
        Ok(HopNames {
            hop: name.to_owned(),
            interfaces: manifest.interfaces.clone(),
            drop_reasons: manifest.drop_reasons.clone(),
            ports: BTreeSet::new(),
        })
    }

    /// An interface's name.
    pub fn interface(&self, number: u16) -> String {
        match self.interfaces.get(usize::from(number)) {
            Some(name) => name.clone(),
            None => number.to_string(),
        }
    }

    /// Where packets go from a device.
    pub fn onward(&self, onward: Onward) -> String {
        match onward {
            Onward::By(plug) => format!("to {}", self.interface(plug)),
            Onward::Several => "to several".to_owned(),
            Onward::Elsewhere => "seen".to_owned(),
            Onward::Nowhere(reason) => format!("drop {reason}"),
        }
    }

    /// `edge_firewall: from inside: drop denied`.
    fn comment(&self, passage: Passage, said: Said) -> String {
        let mut text = self.hop.clone();
        if let Passage::Passing(from, onward) = passage {
            let _ = write!(text, ": from {}: {}", self.interface(from), self.onward(onward));
            return text;
        }
        if !matches!(passage, Passage::Received | Passage::Transmitted | Passage::Emitted | Passage::Lost(_))
        {
            let _ = write!(text, ": from {}", self.interface(said.ingress));
        }
        let verdict = match passage {
            Passage::Received => "received".to_owned(),
            Passage::Transmitted => "transmitted".to_owned(),
            Passage::Arrived | Passage::Passing(..) => return text,
            Passage::Lost(reason) => format!("drop {reason}"),
            Passage::Trapped => "the function trapped".to_owned(),
            Passage::Down => "the function is down".to_owned(),
            Passage::Decided | Passage::Emitted => match Verdict::decode(said.verdict) {
                Some(Verdict::Interface(number)) => format!("to {}", self.interface(number)),
                Some(Verdict::Service(id)) => format!("to service {id}"),
                Some(Verdict::Hold(_)) => "hold".to_owned(),
                Some(Verdict::Consume) => "consume".to_owned(),
                Some(Verdict::Drop(reason)) => match self.drop_reasons.get(usize::from(reason)) {
                    Some(name) => format!("drop {name}"),
                    None => "drop".to_owned(),
                },
                Some(Verdict::None) => "drop no-verdict".to_owned(),
                None => "drop bad-verdict".to_owned(),
            },
        };
        let _ = write!(text, ": {verdict}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_hop_interface_and_verdict() {
        let names = HopNames {
            hop: "fw".into(),
            interfaces: vec!["inside".into(), "outside".into()],
            drop_reasons: vec!["denied".into()],
            ports: BTreeSet::from([1]),
        };
        let said =
            |verdict: Verdict| Said { passage: Passage::Decided, ingress: 1, verdict: verdict.encode() };
        for (passage, verdict, comment, outcome) in [
            (Passage::Decided, Verdict::Drop(0), "fw: from outside: drop denied", Outcome::Dropped),
            (Passage::Decided, Verdict::Interface(0), "fw: from outside: to inside", Outcome::Passed),
            (Passage::Decided, Verdict::None, "fw: from outside: drop no-verdict", Outcome::Dropped),
            (Passage::Decided, Verdict::Drop(9), "fw: from outside: drop", Outcome::Dropped),
            (Passage::Emitted, Verdict::Service(7), "fw: to service 7", Outcome::Passed),
            (Passage::Trapped, Verdict::None, "fw: from outside: the function trapped", Outcome::Dropped),
            (Passage::Received, Verdict::None, "fw: received", Outcome::Passed),
            (Passage::Arrived, Verdict::None, "fw: from outside", Outcome::Passed),
            (
                Passage::Passing(1, Onward::By(0)),
                Verdict::None,
                "fw: from outside: to inside",
                Outcome::Passed,
            ),
            (
                Passage::Passing(0, Onward::Nowhere(DropReason::NoDevice)),
                Verdict::None,
                "fw: from inside: drop no-device",
                Outcome::Dropped,
            ),
            (Passage::Lost(DropReason::QueueFull), Verdict::None, "fw: drop queue-full", Outcome::Dropped),
        ] {
            assert_eq!(names.comment(passage, said(verdict)), comment);
            assert_eq!(super::outcome(passage, verdict.encode()), outcome, "{comment}");
        }
        let bad = Said { passage: Passage::Decided, ingress: 7, verdict: u32::MAX };
        assert_eq!(names.comment(Passage::Decided, bad), "fw: from 7: drop bad-verdict");
    }

    #[test]
    fn interfaces_and_wires_show_what_is_on_them() {
        let to = |interface| Verdict::Interface(interface).encode();
        let (lost, full) = (Passage::Lost(DropReason::NoRoute), Passage::Lost(DropReason::QueueFull));
        for (which, passage, ingress, verdict, direction) in [
            (HopPackets::All, Passage::Decided, 0, to(1), Some(Direction::Unknown)),
            (HopPackets::All, Passage::Arrived, 0, 0, None),
            (HopPackets::All, lost, 0, 0, None),
            (HopPackets::All, full, 0, 0, Some(Direction::Unknown)),
            (HopPackets::Interface(1), Passage::Arrived, 1, 0, Some(Direction::Inbound)),
            (HopPackets::Interface(1), Passage::Arrived, 0, 0, None),
            (HopPackets::Interface(1), Passage::Decided, 0, to(1), Some(Direction::Outbound)),
            (HopPackets::Interface(1), Passage::Decided, 1, to(0), None),
            (HopPackets::Interface(1), Passage::Emitted, 0, to(1), Some(Direction::Outbound)),
            (HopPackets::Out(1), Passage::Arrived, 1, 0, None),
            (HopPackets::Out(1), Passage::Decided, 1, to(1), Some(Direction::Outbound)),
            (HopPackets::Received, Passage::Received, 0, 0, Some(Direction::Inbound)),
            (HopPackets::Received, Passage::Transmitted, 0, 0, None),
            (HopPackets::All, Passage::Passing(7, Onward::By(0)), 0, 0, Some(Direction::Inbound)),
            (HopPackets::All, Passage::Passing(0, Onward::By(7)), 0, 0, Some(Direction::Outbound)),
            (HopPackets::All, Passage::Passing(0, Onward::Several), 0, 0, Some(Direction::Unknown)),
        ] {
            let ports = BTreeSet::from([7]);
            assert_eq!(
                which.direction(passage, ingress, verdict, &ports),
                direction,
                "{which:?} {passage:?}"
            );
        }
    }
}
