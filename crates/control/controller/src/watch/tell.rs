//! What a trace tells of a packet, in the words of the interface.

use super::tap_points::TapPoint;
use super::way::{Ended, Step, What};
use ::capture::words;
use api::{TraceHop, TraceLine, TracedPacket};
use api_server::Outlet;
use deployment::HopNames;
use engine::{Onward, Passage};
use nf_abi::Verdict;
use std::time::{Duration, UNIX_EPOCH};
use telemetry::clock::Nanos;

/// Writes lines to the reader of a trace.
pub(super) struct Teller {
    outlet: Outlet,
    read: bool,
    packets: u64,
    places: Vec<(String, HopNames)>,
    /// Bytes that are told of packets.
    heads: usize,
}

impl Teller {
    pub(super) fn new(outlet: Outlet, places: &[TapPoint], names: Vec<HopNames>, heads: usize) -> Teller {
        let places = places.iter().map(ToString::to_string).zip(names).collect();
        Teller { outlet, read: true, packets: 0, places, heads }
    }

    /// Whether the client still reads.
    pub(super) fn is_read(&self) -> bool {
        self.read && self.outlet.is_open()
    }

    /// How many packets were told of.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn line(&mut self, line: &TraceLine) {
        // Text and numbers can always be written.
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        self.read &= self.outlet.write(text);
    }

    pub(super) fn packet(&mut self, Ended { way, end }: Ended) {
        self.packets += 1;
        let first = way.steps.first().map_or(Nanos(0), |step| step.at);
        let last = way.steps.last().map_or(first, |step| step.at);
        let hops = way.steps.iter().filter_map(|step| self.hop(step, first)).collect();
        let time = UNIX_EPOCH + Duration::from_nanos(first.0);
        self.line(&TraceLine::Packet(TracedPacket {
            packet: way.number,
            copy_of: way.copy_of,
            time: humantime::format_rfc3339_nanos(time).to_string(),
            length: way.length,
            what: words(&way.head, way.length),
            head: (self.heads > 0).then(|| hexadecimal(&way.head[..self.heads.min(way.head.len())])),
            hops,
            end,
            took_ns: last.since(first).0,
        }));
    }

    fn hop(&self, step: &Step, first: Nanos) -> Option<TraceHop> {
        let (at, names) = self.places.get(step.place)?;
        Some(hop(step, first, at, names))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Text can always be written.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What happened at a place.
fn hop(step: &Step, first: Nanos, at: &str, names: &HopNames) -> TraceHop {
    let mut hop = TraceHop {
        at: at.to_owned(),
        after_ns: step.at.since(first).0,
        waited_ns: step.waited.map(|waited| waited.0),
        cycles: step.cycles,
        batch: (step.batch > 0).then_some(step.batch),
        head: step.head.as_deref().map(hexadecimal),
        ..TraceHop::default()
    };
    let ingress = || Some(names.interface(step.ingress));
    hop.what = match step.what {
        What::Injected => {
            hop.ingress = ingress();
            "injected"
        }
        What::Passage(Passage::Received) => "received",
        What::Passage(Passage::Transmitted) => "transmitted",
        What::Passage(Passage::Arrived | Passage::Decided) => {
            hop.ingress = ingress();
            "called"
        }
        What::Passage(Passage::Emitted) => "gave up",
        What::Passage(Passage::Trapped) => {
            hop.ingress = ingress();
            hop.reason = Some("function-trapped".to_owned());
            "trapped"
        }
        What::Passage(Passage::Down) => {
            hop.ingress = ingress();
            "down"
        }
        What::Passage(Passage::Passing(from, onward)) => {
            hop.ingress = Some(names.interface(from));
            match onward {
                Onward::By(plug) => hop.egress = Some(names.interface(plug)),
                Onward::Nowhere(reason) => hop.reason = Some(reason.to_string()),
                Onward::Several | Onward::Elsewhere => {}
            }
            "passed"
        }
        What::Passage(Passage::Lost(reason)) => {
            hop.reason = Some(reason.to_string());
            "lost"
        }
    }
    .to_owned();
    if matches!(step.what, What::Passage(Passage::Decided | Passage::Emitted)) {
        decided(&mut hop, step.verdict, names);
    }
    hop
}

/// What the function decided.
fn decided(hop: &mut TraceHop, verdict: u32, names: &HopNames) {
    let (verdict, egress, reason) = match Verdict::decode(verdict) {
        Some(Verdict::Interface(number)) => ("interface", Some(names.interface(number)), None),
        Some(Verdict::Service(id)) => ("service", Some(id.to_string()), None),
        Some(Verdict::Hold(slot)) => ("hold", Some(slot.to_string()), None),
        Some(Verdict::Consume) => ("consume", None, None),
        Some(Verdict::Drop(number)) => {
            let name = names.drop_reasons.get(usize::from(number));
            ("drop", None, Some(name.cloned().unwrap_or_else(|| number.to_string())))
        }
        Some(Verdict::None) => ("none", None, Some("no-verdict".to_owned())),
        None => ("bad", None, Some("bad-verdict".to_owned())),
    };
    hop.verdict = Some(verdict.to_owned());
    (hop.egress, hop.reason) = (egress, reason);
}
