//! The daemon itself: what its server counts.

use crate::text::{Labels, Text, Value};
use crate::{Family, Notation};
use std::collections::BTreeMap;

/// What the daemon counts of itself.
#[derive(Clone, Copy, Debug)]
pub struct Daemon<'a> {
    /// Requests that were answered, by status.
    pub requests: &'a BTreeMap<u16, u64>,
    /// Requests on the page's address that were refused, by [`PAGE_REFUSALS`](Daemon::PAGE_REFUSALS).
    pub page_refusals: [u64; 3],
    /// Connections that were refused because there were too many.
    pub refused_connections: u64,
    /// Spans that the collector took, that were lost, and that it would not have.
    pub spans: [u64; 3],
    /// Lines of the audit log that could not be written.
    pub lost_audit_lines: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Operations that have not ended.
    pub operations: u64,
    /// Sessions of browsers.
    pub page_sessions: u64,
    /// The last revision of the store.
    pub revision: u64,
}

static REQUESTS: Family =
    Family::counter("superfluid_daemon_requests", "requests", &["status"], "Requests answered, by status.");

static PAGE: Family = Family::counter(
    "superfluid_daemon_page_refused_requests",
    "requests",
    &["reason"],
    "Requests on the page's address that were refused, by reason.",
);

type Number = (Family, fn(&Daemon<'_>) -> u64);

static NUMBERS: [Number; 9] = [
    (
        Family::counter(
            "superfluid_daemon_refused_connections",
            "connections",
            &[],
            "Connections refused because there were too many.",
        ),
        |daemon| daemon.refused_connections,
    ),
    (
        Family::counter(
            "superfluid_daemon_lost_audit_lines",
            "lines",
            &[],
            "Lines of the audit log that could not be written.",
        ),
        |daemon| daemon.lost_audit_lines,
    ),
    (
        Family::counter("superfluid_daemon_sent_spans", "spans", &[], "Spans that the collector took."),
        |daemon| daemon.spans[0],
    ),
    (
        Family::counter(
            "superfluid_daemon_lost_spans",
            "spans",
            &[],
            "Spans for which there was no room, or no collector.",
        ),
        |daemon| daemon.spans[1],
    ),
    (
        Family::counter(
            "superfluid_daemon_refused_spans",
            "spans",
            &[],
            "Spans that the collector would not have.",
        ),
        |daemon| daemon.spans[2],
    ),
    (Family::gauge("superfluid_daemon_connections", "connections", &[], "Open connections."), |daemon| {
        daemon.connections
    }),
    (
        Family::gauge("superfluid_daemon_operations", "operations", &[], "Operations that have not ended."),
        |daemon| daemon.operations,
    ),
    (Family::gauge("superfluid_daemon_page_sessions", "sessions", &[], "Sessions of browsers."), |daemon| {
        daemon.page_sessions
    }),
    (Family::gauge("superfluid_daemon_revision", "", &[], "The last revision of the store."), |daemon| {
        daemon.revision
    }),
];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    [&REQUESTS, &PAGE].into_iter().chain(NUMBERS.iter().map(|(family, _)| family))
}

impl Daemon<'_> {
    /// Why requests on the page's address are refused.
    pub const PAGE_REFUSALS: [&'static str; 3] = ["cross-site", "no-session", "bad-link"];

    /// Appends all families of the daemon.
    pub fn write(&self, notation: Notation, to: &mut String) {
        let text = &mut Text::new(notation, to);
        let statuses: Vec<String> = self.requests.keys().map(u16::to_string).collect();
        let labels = Labels::named("status", statuses.iter().map(String::as_str));
        let mut requests = text.family(&REQUESTS, &labels);
        self.requests.values().enumerate().for_each(|(n, count)| requests.one(n, Value::Count(*count)));
        drop(requests);
        let labels = Labels::named("reason", Daemon::PAGE_REFUSALS.into_iter());
        let mut refusals = text.family(&PAGE, &labels);
        self.page_refusals.iter().enumerate().for_each(|(n, count)| refusals.one(n, Value::Count(*count)));
        drop(refusals);
        for (family, read) in &NUMBERS {
            text.family(family, &Labels::none()).one(0, Value::Count(read(self)));
        }
    }
}
