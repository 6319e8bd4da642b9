//! What the daemon's metrics say of one port, read in one piece.

use super::super::Daemon;
use crate::BenchError;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest time that an answer is waited for.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A port's counters at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Halfway between asking and the end of the answer.
    pub(super) at: Instant,
    /// Packets delivered.
    pub(super) delivered: u64,
    /// Upper bounds in seconds, and how many packets took no longer.
    pub(super) latencies: Vec<(f64, u64)>,
}

/// Reads the counters of a port.
pub(super) fn sample(daemon: &Daemon, port: &str) -> Result<Sample, BenchError> {
    let asked = Instant::now();
    let text = text(daemon).map_err(BenchError::setup)?;
    let at = asked + asked.elapsed() / 2;
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
    let delivered = format!("superfluid_port_delivered_packets_total{{port=\"{port}\"}} ");
    let bucket = format!("superfluid_port_latency_seconds_bucket{{port=\"{port}\",le=\"");
    let mut sample = Sample { at, delivered: 0, latencies: Vec::new() };
    let mut found = false;
    for line in text.lines() {
        if line.starts_with(&delivered) {
            sample.delivered = value(line).unwrap_or(0.0) as u64;
            found = true;
        } else if let Some(rest) = line.strip_prefix(&bucket)
            && let Some((bound, _)) = rest.split_once('"')
        {
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap_or(f64::NAN) };
            sample.latencies.push((bound, value(line).unwrap_or(0.0) as u64));
        }
    }
    if found { Ok(sample) } else { Err(BenchError::Setup(format!("the metrics lack the port `{port}`"))) }
}

/// All metrics. HTTP/1.0, so that the answer comes without chunks.
fn text(daemon: &Daemon) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(daemon.socket())?;
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The time in seconds that this part of the packets between two samples did not exceed, interpolated within
/// its bucket.
pub(super) fn quantile(before: &Sample, after: &Sample, part: f64) -> Option<f64> {
    let counts: Vec<(f64, u64)> = after
        .latencies
        .iter()
        .map(|(bound, count)| {
            let earlier = before.latencies.iter().find(|(of, _)| of == bound).map_or(0, |(_, count)| *count);
            (*bound, count.saturating_sub(earlier))
        })
        .collect();
    let all = counts.last().map(|(_, count)| *count).filter(|count| *count > 0)?;
    let rank = (part * all as f64).ceil() as u64;
    let at = counts.iter().position(|(_, count)| *count >= rank)?;
    let (upper, count) = counts[at];
    let (lower, below) = if at == 0 { (0.0, 0) } else { counts[at - 1] };
    if upper.is_infinite() {
        return Some(lower);
    }
    let within = (rank - below) as f64 / (count - below).max(1) as f64;
    Some(lower + (upper - lower) * within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let sample = |counts: [u64; 3]| Sample {
            at: Instant::now(),
            delivered: 0,
            latencies: [1.0, 2.0, f64::INFINITY].into_iter().zip(counts).collect(),
        };
        let (before, after) = (sample([5, 5, 5]), sample([55, 105, 105]));
        assert_eq!(quantile(&before, &after, 0.5), Some(1.0));
        assert_eq!(quantile(&before, &after, 0.75), Some(1.5));
        assert_eq!(quantile(&before, &before, 0.5), None);
        assert_eq!(quantile(&sample([0, 0, 0]), &sample([0, 0, 4]), 0.9), Some(2.0));
    }
}
