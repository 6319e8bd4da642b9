//! The cooldown of whatever has moved.

use crate::settings::{FORGIVE, LONGEST_PATIENCE, PATIENCE};

/// When a component may move again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cooldown {
    /// When it moved last, and how long it has to stay since.
    last: Option<(u64, u64)>,
}

impl Cooldown {
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.last.is_none_or(|(moved, patience)| now >= moved.saturating_add(patience))
    }

    /// It moves to help for a moment, which says nothing about whether it is in the right place.
    pub(crate) fn helped(&mut self, now: u64) {
        self.last = Some((now, self.patience_at(now).unwrap_or(PATIENCE)));
    }

    /// Its cooldown since the last move, if that is not long ago.
    fn patience_at(&self, now: u64) -> Option<u64> {
        let (moved, patience) = self.last?;
        (now < moved.saturating_add(patience * FORGIVE)).then_some(patience)
    }

    /// It moves. When it has moved not long ago that move did not help, and its cooldown is twice as long.
    pub(crate) fn moved(&mut self, now: u64) {
        let longer = |patience: u64| (patience * 2).min(LONGEST_PATIENCE);
        self.last = Some((now, self.patience_at(now).map_or(PATIENCE, longer)));
    }
}
