//! What functions found, why they failed, and what they report of themselves, for clients that ask.

use super::controller::{Controller, lock};
use super::kept::{Entry, What};
use api::{FunctionEvent, FunctionEventKind, FunctionReport};
use api_server::Refusal;
use std::time::{Duration, UNIX_EPOCH};

/// A report that is younger than this is given again instead of calling the function: asking often costs it
/// nothing.
const FRESH: Duration = Duration::from_secs(1);

impl Controller {
    /// Up to `limit` events with larger numbers.
    pub(super) fn function_events(&self, function: &str, after: u64, limit: usize) -> Vec<FunctionEvent> {
        let entries = lock(&self.told.sink.kept).after(function, after, limit);
        entries.into_iter().map(event).collect()
    }

    /// What a function reports of itself now or, where it cannot be asked or has nothing to say, what it
    /// reported last.
    ///
    /// It is a call into the function, on its worker between two batches: bounded by `max_call`, and charged
    /// to the function.
    pub(super) fn report(&self, name: &str) -> Result<FunctionReport, Refusal> {
        let kept = lock(&self.told.sink.kept).report(name);
        let now = super::kept::now();
        if let Some((time, text)) = &kept
            && now.saturating_sub(*time) < FRESH.as_micros() as u64
        {
            return Ok(report(*time, true, text));
        }
        let fleet = self.host.fleet();
        let id = self.host.function(name).ok_or_else(|| self.no_function(name))?;
        let said = fleet
            .change(move |change| change.report(id))
            .map_err(|error| Refusal::Busy(error.to_string()))?;
        if let Some(text) = said {
            lock(&self.told.sink.kept).reported(name, now, &text);
            return Ok(report(now, true, &text));
        }
        match kept {
            Some((time, text)) => Ok(report(time, false, &text)),
            None => Err(Refusal::NotFound(format!("function `{name}` has reported nothing"))),
        }
    }
}

fn report(time: u64, current: bool, text: &str) -> FunctionReport {
    FunctionReport { time: shown(time), current, report: as_json(text) }
}

fn event(entry: Entry) -> FunctionEvent {
    let Entry { number, time, what, text } = entry;
    let mut event = FunctionEvent {
        number,
        time: shown(time),
        what: FunctionEventKind::Alert,
        text: None,
        alert: None,
        lost: None,
    };
    match what {
        What::Alert => event.alert = Some(as_json(&text)),
        What::Fault => (event.what, event.text) = (FunctionEventKind::Fault, Some(text.into())),
        What::Restarted => (event.what, event.text) = (FunctionEventKind::Restarted, Some(text.into())),
        What::Lost => (event.what, event.lost) = (FunctionEventKind::Lost, Some(text.parse().unwrap_or(0))),
    }
    event
}

/// What a function wrote as JSON, if it is; else as text.
fn as_json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// The last microsecond of the year 9999, behind which RFC 3339 has no times. A damaged file may.
const LATEST: u64 = 253_402_300_799_999_999;

fn shown(time: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_micros(time.min(LATEST));
    humantime::format_rfc3339_micros(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_become_events() {
        let entry = |what, text: &str| event(Entry { number: 7, time: 1_000_001, what, text: text.into() });
        let alert = entry(What::Alert, "{\"sid\":1}");
        assert_eq!((alert.number, alert.time.as_str()), (7, "1970-01-01T00:00:01.000001Z"));
        assert_eq!(alert.alert, Some(serde_json::json!({"sid": 1})));
        assert_eq!(entry(What::Alert, "no json").alert, Some("no json".into()));
        assert_eq!(entry(What::Fault, "it trapped").text.as_deref(), Some("it trapped"));
        assert_eq!(entry(What::Lost, "12").lost, Some(12));
        let damaged = event(Entry { number: 1, time: u64::MAX, what: What::Alert, text: "".into() });
        assert_eq!(damaged.time, "9999-12-31T23:59:59.999999Z");
    }
}
