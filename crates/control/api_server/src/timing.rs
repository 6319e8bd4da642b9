//! How long the steps of a call take, for the client, in the answer's `Server-Timing` (W3C), and for
//! collectors of spans.

use crate::call::Call;
use crate::identity::Identity;
use crate::state::State;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use telemetry::steps::{self, Step};
use trace_export::{Context, Kind, Span, Value};

/// The preference by which a client asks for it (RFC 7240).
const PREFERENCE: &str = "server-timing";

/// The steps so far; nothing when they are not wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing(Option<Arc<Mutex<Vec<Step>>>>);

impl Timing {
    /// The present time, if the steps are wanted.
    pub fn now(&self) -> Option<Instant> {
        self.0.as_ref().map(|_| Instant::now())
    }

    /// A step that began then has ended.
    pub fn step(&self, name: &'static str, began: Option<Instant>) {
        if let Some(began) = began {
            self.add([Step { name, began, took: began.elapsed() }]);
        }
    }

    /// Does something on this thread, and notes its steps.
    pub fn measure<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.0.is_none() {
            return work();
        }
        let (result, steps) = steps::measure(work);
        self.add(steps);
        result
    }

    fn add(&self, steps: impl IntoIterator<Item = Step>) {
        if let Some(all) = &self.0 {
            all.lock().unwrap_or_else(PoisonError::into_inner).extend(steps);
        }
    }

    fn steps(&self) -> Vec<Step> {
        self.0.as_ref().map_or(Vec::new(), |all| all.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// A call from its beginning to its answer.
pub(crate) struct Timed {
    pub timing: Timing,
    told: bool,
    /// `None`: spans are not collected, or the caller's trace is not kept.
    below: Option<Option<Context>>,
    began: Option<(Instant, SystemTime)>,
}

impl Timed {
    /// A request has come.
    pub fn begin<B>(state: &State, request: &Request<B>) -> Timed {
        let told = is_asked_for(request.headers());
        let below = state.spans.as_ref().map(|_| context(request.headers()));
        let below = below.filter(|below| below.is_none_or(|below| below.sampled));
        let wanted = told || below.is_some();
        let timing = Timing(wanted.then(Arc::default));
        Timed { timing, told, below, began: wanted.then(|| (Instant::now(), SystemTime::now())) }
    }

    /// It has been answered.
    pub fn end<B>(self, state: &State, call: Call, path: &str, who: &Identity, response: &mut Response<B>) {
        let Some((began, time)) = self.began else { return };
        let (took, steps) = (began.elapsed(), self.timing.steps());
        if self.told {
            let mut text = String::new();
            for Step { name, took, .. } in &steps {
                let _ = write!(text, "{name};dur={:.3}, ", took.as_secs_f64() * 1e3);
            }
            let _ = write!(text, "total;dur={:.3}", took.as_secs_f64() * 1e3);
            let headers = response.headers_mut();
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(HeaderName::from_static("server-timing"), value);
                let applied = HeaderName::from_static("preference-applied");
                headers.insert(applied, HeaderValue::from_static(PREFERENCE));
            }
        }
        let (Some(exporter), Some(below)) = (&state.spans, self.below) else { return };
        let name = format!("{} {}", call.method(), call.path());
        let Some(mut span) = Span::new(name, Kind::Server, below, time, took) else { return };
        let status = response.status().as_u16();
        span.attributes = vec![
            ("http.request.method", Value::Text(call.method().to_string())),
            ("http.route", Value::Text(call.path())),
            ("url.path", Value::Text(path.to_owned())),
            ("http.response.status_code", Value::Number(status.into())),
            ("enduser.id", Value::Text(who.to_string())),
        ];
        span.error = (status >= 500).then(|| format!("status {status}"));
        let within = Some(span.context);
        let step = |step: &Step| {
            let time = time + step.began.saturating_duration_since(began);
            Span::new(step.name.to_owned(), Kind::Internal, within, time, step.took)
        };
        let steps: Vec<Span> = steps.iter().filter_map(step).collect();
        exporter.hand_in(std::iter::once(span).chain(steps).collect());
    }
}

/// Whether a client asks for it: `Prefer: server-timing`, alone or among others.
fn is_asked_for(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").into_iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split(','));
    preferences.any(|preference| {
        let name = preference.split([';', '=']).next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case(PREFERENCE)
    })
}

/// The trace that the client has begun, if it has begun one.
fn context(headers: &HeaderMap) -> Option<Context> {
    let mut values = headers.get_all("traceparent").into_iter();
    match (values.next(), values.next()) {
        (Some(only), None) => Context::read(only.to_str().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_found_among_preferences() {
        let asked = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append("prefer", HeaderValue::from_str(value).expect("a header"));
            is_asked_for(&headers)
        };
        assert!(
            asked("server-timing") && asked("wait=5, Server-Timing;x=1") && asked(" server-timing =\"\"")
        );
        assert!(!asked("server") && !asked("") && !asked("x=server-timing"));
    }
}
