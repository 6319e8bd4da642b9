//! How long whatever has moved is left where it is.

use crate::settings::{FORGIVE, LONGEST_PATIENCE, PATIENCE};

/// When a component may move again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// When it moved last, and how long it has to stay since.
    last: Option<(u64, u64)>,
}

impl Rest {
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.last.is_none_or(|(moved, patience)| now >= moved.saturating_add(patience))
    }

    /// It moves. When it has moved not long ago that move did not help, and it waits twice as long before the next.
    pub(crate) fn moved(&mut self, now: u64) {
        let patience = match self.last {
            Some((moved, patience)) if now < moved.saturating_add(patience * FORGIVE) => {
                (patience * 2).min(LONGEST_PATIENCE)
            }
            _ => PATIENCE,
        };
        self.last = Some((now, patience));
    }
}
