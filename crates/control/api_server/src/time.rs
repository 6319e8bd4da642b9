//! Times as they are told: RFC 3339, in UTC, to the microsecond.

use std::time::SystemTime;

/// The present one.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_micros(SystemTime::now()).to_string()
}
