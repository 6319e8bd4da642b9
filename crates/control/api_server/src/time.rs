//! Times as they are told: RFC 3339, in UTC, to the microsecond.

use std::time::SystemTime;

/// The present one.
pub(crate) fn now() -> String {
    told(SystemTime::now())
}

/// Any.
pub(crate) fn told(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time).to_string()
}
