//! What an instance hands over to the next: how many ICMP errors it may not send yet. Tables are made from
//! the configuration.

use crate::Router;
use nf_sdk::{StateReader, StateWriter};

const ICMP: &[u8] = b"icmp";

/// Writes it.
pub(crate) fn export(router: &Router, out: &mut StateWriter<'_>) -> bool {
    out.entry(ICMP, &router.limiter.missing().to_le_bytes())
}

/// Takes it over; false for anything that [`export`] does not write.
pub(crate) fn import(router: &mut Router, entries: &mut StateReader<'_>) -> bool {
    let mut missing = 0;
    while let Some((key, value)) = entries.next() {
        let Ok(value) = <[u8; 8]>::try_from(value) else { return false };
        if key != ICMP {
            return false;
        }
        missing = u64::from_le_bytes(value);
    }
    if entries.is_broken() {
        return false;
    }
    router.limiter.miss(missing);
    true
}
