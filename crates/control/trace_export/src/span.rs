//! A span.

use crate::Context;
use crate::context::unique;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call that was answered.
    Server,
    /// A part of it.
    Internal,
}

/// An attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
}

/// What was done, and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its trace and its own number.
    pub context: Context,
    /// The span that it is part of.
    pub parent: Option<[u8; 8]>,
    /// What was done: `PUT /v1/functions/{name}`.
    pub name: String,
    /// What it is about.
    pub kind: Kind,
    /// Nanoseconds since the Unix epoch.
    pub began: u64,
    /// The same, of its end.
    pub ended: u64,
    /// What else there is to say, by OpenTelemetry's names.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if the server was at fault.
    pub error: Option<String>,
}

impl Span {
    /// One that begins below a caller's, or a trace of its own. `None` when its caller does not keep the
    /// trace.
    pub fn new(
        name: String,
        kind: Kind,
        below: Option<Context>,
        began: SystemTime,
        took: Duration,
    ) -> Option<Span> {
        let trace = match below {
            Some(below) if !below.sampled => return None,
            Some(below) => below.trace,
            None => unique(),
        };
        let context = Context { trace, span: unique(), sampled: true };
        let began = nanos(began);
        let ended = began.saturating_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let parent = below.map(|below| below.span);
        Some(Span { context, parent, name, kind, began, ended, attributes: Vec::new(), error: None })
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
