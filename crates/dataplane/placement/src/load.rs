//! How busy each part is, without the noise.

use crate::settings::FRESH;

/// What each part uses of a core.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    parts: Vec<Load>,
    /// Periods observed.
    periods: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// In the last two periods, the last one first.
    seen: [f64; 2],
    smooth: f64,
}

impl Loads {
    /// So many parts that did nothing so far.
    pub(crate) fn new(parts: usize) -> Loads {
        Loads { parts: vec![Load::default(); parts], periods: 0 }
    }

    /// What each used in a period. What is no number counts as if nothing had changed.
    pub(crate) fn observe(&mut self, busy: &[f64]) {
        self.periods = self.periods.saturating_add(1);
        // At first all periods count the same, but for the one that the first median leaves out.
        let fresh = FRESH.max(1.0 / f64::from(self.periods.saturating_sub(1).max(1)));
        for (load, busy) in self.parts.iter_mut().zip(busy) {
            let [last, before] = load.seen;
            // A part runs on one core: more than one is a fault of measuring, such as a period that was too
            // long.
            let busy = if busy.is_nan() { last } else { busy.clamp(0.0, 1.0) };
            let median = last.min(before).max(last.max(before).min(busy));
            load.smooth += (median - load.smooth) * fresh;
            load.seen = [busy, last];
        }
    }

    /// What it used in the last period alone.
    pub(crate) fn last_of(&self, part: usize) -> f64 {
        self.parts[part].seen[0]
    }

    pub(crate) fn of(&self, part: usize) -> f64 {
        self.parts[part].smooth
    }
}
