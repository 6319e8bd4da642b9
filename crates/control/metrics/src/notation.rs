//! The two notations of metrics.

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notation {
    /// Prometheus' text, version 0.0.4: a counter's family has the sample's name, `_total` included.
    Prometheus,
    /// OpenMetrics 1.0: a counter's family is named without `_total`, units are told, and the text has an
    /// end.
    OpenMetrics,
}

impl Notation {
    /// Both.
    pub const ALL: [Notation; 2] = [Notation::Prometheus, Notation::OpenMetrics];

    /// What HTTP calls it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Notation::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Notation::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What stands behind all families.
    pub const fn end(self) -> &'static str {
        match self {
            Notation::Prometheus => "",
            Notation::OpenMetrics => "# EOF\n",
        }
    }
}
