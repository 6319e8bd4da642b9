//! What the server counts of itself, for `/metrics`.

use crate::control::Exposition;
use crate::page::REFUSALS;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What the server counts of itself.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub connections: AtomicU64,
    pub refused_connections: AtomicU64,
    /// Requests on the page's address that were refused, by the reasons in [`REFUSALS`].
    pub page_refusals: [AtomicU64; REFUSALS.len()],
    requests: Mutex<BTreeMap<u16, u64>>,
}

impl Counts {
    /// A request was answered with this status.
    pub fn answered(&self, status: u16) {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
    }

    pub fn write(
        &self,
        exposition: Exposition,
        (operations, page_sessions): (usize, usize),
        revision: u64,
        spans: trace_export::Counts,
        unlogged: u64,
        to: &mut String,
    ) {
        let family = |name: &str| match exposition {
            Exposition::Prometheus => format!("{name}_total"),
            Exposition::OpenMetrics => name.to_owned(),
        };
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name = "superfluid_daemon_requests";
        let mut text =
            format!("# TYPE {0} counter\n# HELP {0} Requests answered, by status.\n", family(name));
        for (status, count) in requests {
            let _ = writeln!(text, "{name}_total{{status=\"{status}\"}} {count}");
        }
        let name = "superfluid_daemon_refused_connections";
        let refused = self.refused_connections.load(Relaxed);
        let _ = write!(
            text,
            "# TYPE {0} counter\n# HELP {0} Connections refused because there were too many.\n{name}_total {refused}\n",
            family(name)
        );
        let name = "superfluid_daemon_page_refused_requests";
        let _ = writeln!(
            text,
            "# TYPE {0} counter\n# HELP {0} Requests on the page's address that were refused, by reason.",
            family(name)
        );
        for (why, count) in REFUSALS.iter().zip(&self.page_refusals) {
            let _ = writeln!(text, "{name}_total{{reason=\"{why}\"}} {}", count.load(Relaxed));
        }
        let counters = [
            (
                "superfluid_daemon_lost_audit_lines",
                "Lines of the audit log that could not be written.",
                unlogged,
            ),
            ("superfluid_daemon_sent_spans", "Spans that the collector took.", spans.sent),
            (
                "superfluid_daemon_lost_spans",
                "Spans for which there was no room, or no collector.",
                spans.lost,
            ),
            ("superfluid_daemon_refused_spans", "Spans that the collector would not have.", spans.refused),
        ];
        for (name, help, value) in counters {
            let _ =
                write!(text, "# TYPE {0} counter\n# HELP {0} {help}\n{name}_total {value}\n", family(name));
        }
        let gauges = [
            ("superfluid_daemon_connections", "Open connections.", self.connections.load(Relaxed)),
            ("superfluid_daemon_operations", "Operations that are not ended.", operations as u64),
            ("superfluid_daemon_page_sessions", "Sessions of browsers.", page_sessions as u64),
            ("superfluid_daemon_revision", "The last revision of the store.", revision),
        ];
        for (name, help, value) in gauges {
            let _ = write!(text, "# TYPE {name} gauge\n# HELP {name} {help}\n{name} {value}\n");
        }
        to.push_str(&text);
    }
}
