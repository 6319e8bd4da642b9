//! Spans: what was done and how long it took, told to an OpenTelemetry collector (OTLP 1 over HTTP, in JSON).
//!
//! The life of a span:
//! 1. A server that is asked something reads the [`Context`] that came with it (W3C Trace Context), or begins
//!    a trace of its own.
//! 2. When it is done, it makes a [`Span`] of it, with the spans of its steps, and hands them to the
//!    [`Exporter`], which never waits.
//! 3. A thread sends them, many at a time. What the collector does not take is tried again, and lost then;
//!    what finds no room in the queue is lost at once. Both are [counted](Counts).
//! 4. The end of the exporter sends what is left, for [`Settings::grace`] at most.
//!
//! Limits: [`WAITING`] groups of spans wait; all traces are kept whose caller does not say that they are not
//! to be. What a collector answers is read up to [`ANSWER`] bytes, and believed in nothing but how many spans
//! it refused.

#![forbid(unsafe_code)]

mod context;
mod encode;
mod export;
mod settings;
mod span;
#[cfg(test)]
mod tests;

pub use context::Context;
pub use export::{ANSWER, Counts, Exporter, WAITING};
pub use settings::{Settings, SettingsError};
pub use span::{Kind, Span, Value};
