//! What functions have done up to a moment, and what they do between two moments.

use super::super::columns::{dropped, function_status, memory};
use api::{FunctionState, FunctionStatus, Kind};
use client::{Client, ClientError};
use std::collections::HashMap;
use std::time::Instant;

/// All functions at a moment.
pub(crate) struct Sample {
    at: Instant,
    functions: HashMap<String, FunctionStatus>,
}

impl Sample {
    /// Looks at all functions.
    pub(crate) fn take(client: &Client, tenant: Option<&str>) -> Result<Sample, ClientError> {
        let objects = client.all(Kind::Function, tenant)?;
        let status = |object: api::Object| Some((object.name.clone(), function_status(&object)?));
        Ok(Sample { at: Instant::now(), functions: objects.into_iter().filter_map(status).collect() })
    }
}

/// A function between two moments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) state: FunctionState,
    /// Share of a core.
    pub(crate) cpu: f64,
    /// A second.
    pub(crate) packets: f64,
    /// A second.
    pub(crate) bits: f64,
    /// A second.
    pub(crate) drops: f64,
    /// Packets that wait.
    pub(crate) queue: u64,
    /// 99 of a hundred packets did not take longer, in nanoseconds, since it was made.
    pub(crate) latency: Option<u64>,
    /// In bytes.
    pub(crate) memory: u64,
    /// Since it was made.
    pub(crate) all_packets: u64,
    /// Since it was made.
    pub(crate) all_drops: u64,
}

/// What functions do from one sample to the next. One that has begun anew meanwhile has done what it has
/// counted since.
pub(crate) fn rows(before: &Sample, after: &Sample) -> Vec<Row> {
    let seconds = after.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3);
    let row = |(name, now): (&String, &FunctionStatus)| {
        let old = before.functions.get(name);
        let rate = |of: &dyn Fn(&FunctionStatus) -> u64| match old {
            // What it did before it was seen first was not done in this time.
            None => 0.0,
            Some(old) => {
                let (old, now) = (of(old), of(now));
                (if now < old { now } else { now - old }) as f64 / seconds
            }
        };
        Row {
            name: name.clone(),
            state: now.state,
            cpu: now.got_share,
            packets: rate(&|status| status.packets),
            bits: rate(&|status| status.bytes) * 8.0,
            drops: rate(&dropped),
            queue: now.queue,
            latency: now.latency.map(|latency| latency.p99_ns),
            memory: memory(now),
            all_packets: now.packets,
            all_drops: dropped(now),
        }
    };
    after.functions.iter().map(row).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use api::FunctionMemory;
    use std::time::Duration;

    pub(crate) fn status(packets: u64, bytes: u64, drops: u64) -> FunctionStatus {
        FunctionStatus {
            state: FunctionState::Running,
            reason: None,
            since: None,
            worker: None,
            image: String::new(),
            packets,
            bytes,
            calls: 0,
            cycles: 0,
            promised_share: 0.0,
            got_share: 0.25,
            processor: None,
            standby: None,
            queue: 3,
            drops: [("a".to_owned(), drops)].into(),
            latency: None,
            memory: FunctionMemory { private: 4096, ..FunctionMemory::default() },
            faults: 0,
            restarts: 0,
        }
    }

    #[test]
    fn rates_are_between_two_samples() {
        let began = Instant::now();
        let sample = |at, functions: &[(&str, FunctionStatus)]| Sample {
            at,
            functions: functions.iter().map(|(name, status)| ((*name).to_owned(), status.clone())).collect(),
        };
        let before = sample(
            began,
            &[("a", status(100, 6400, 1)), ("b", status(100, 6400, 1)), ("gone", status(1, 1, 1))],
        );
        let after = sample(
            began + Duration::from_secs(2),
            &[("a", status(300, 19_200, 5)), ("b", status(10, 640, 0)), ("new", status(50, 50, 50))],
        );
        let mut rows = rows(&before, &after);
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let rates: Vec<_> =
            rows.iter().map(|row| (row.name.as_str(), row.packets, row.bits, row.drops)).collect();
        // `b` has begun anew; what `new` did before is not known.
        assert_eq!(rates, [("a", 100.0, 51_200.0, 2.0), ("b", 5.0, 2560.0, 0.0), ("new", 0.0, 0.0, 0.0)]);
        assert_eq!(
            (rows[0].queue, rows[0].memory, rows[0].all_packets, rows[0].all_drops),
            (3, 4096, 300, 5)
        );
    }
}
