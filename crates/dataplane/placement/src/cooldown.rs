//! The cooldown of whatever has moved.

use crate::settings::{COOLDOWN, FORGIVE, LONGEST_COOLDOWN};

/// When a component may move again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cooldown {
    /// When it moved last, and how long it has to stay since.
    last: Option<(u64, u64)>,
}

impl Cooldown {
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.last.is_none_or(|(moved, cooldown)| now >= moved.saturating_add(cooldown))
    }

    /// It moves to help for a moment, which says nothing about whether it is in the right place.
    pub(crate) fn helped(&mut self, now: u64) {
        self.last = Some((now, self.cooldown_at(now).unwrap_or(COOLDOWN)));
    }

    /// Its cooldown since the last move, if that is not long ago.
    fn cooldown_at(&self, now: u64) -> Option<u64> {
        let (moved, cooldown) = self.last?;
        (now < moved.saturating_add(cooldown * FORGIVE)).then_some(cooldown)
    }

    /// It moves. When it has moved not long ago that move did not help, and its cooldown is twice as long.
    pub(crate) fn moved(&mut self, now: u64) {
        let longer = |cooldown: u64| (cooldown * 2).min(LONGEST_COOLDOWN);
        self.last = Some((now, self.cooldown_at(now).map_or(COOLDOWN, longer)));
    }
}
