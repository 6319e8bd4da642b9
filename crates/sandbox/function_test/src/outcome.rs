//! What can be seen of a function from outside.

use guest::{Events, LogLine};
use manifest::Manifest;
use nf_abi::Verdict;

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// As the engine reads it, clamped.
    pub(crate) verdict: u32,
    pub(crate) mark: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What a function did in a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The packets that it was shown, in order.
    pub(crate) packets: Vec<Seen>,
    /// Packets that it made or gave up.
    pub(crate) emitted: Vec<Seen>,
    pub(crate) counters: Vec<u64>,
    pub(crate) log: Vec<LogLine>,
    pub(crate) events: Events,
    pub(crate) report: Option<String>,
    pub(crate) state: Option<Vec<u8>>,
    /// The deadline that it set, if any.
    pub(crate) deadline: Option<u64>,
}

/// A verdict in words.
pub(crate) fn words(manifest: &Manifest, verdict: u32) -> String {
    let name = |names: &[String], n: u16| names.get(usize::from(n)).cloned().unwrap_or_else(|| n.to_string());
    match Verdict::decode(verdict) {
        None => "a verdict that it may not give".to_owned(),
        Some(Verdict::None) => "no verdict".to_owned(),
        Some(Verdict::Drop(reason)) => format!("drop: {}", name(&manifest.drop_reasons, reason)),
        Some(Verdict::Interface(k)) => format!("to: {}", name(&manifest.interfaces, k)),
        Some(Verdict::Service(id)) => format!("service: {id}"),
        Some(Verdict::Hold(slot)) => format!("hold: {slot}"),
        Some(Verdict::Consume) => "consume: true".to_owned(),
    }
}
