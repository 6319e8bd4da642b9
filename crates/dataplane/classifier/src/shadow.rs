//! Which rules lose packets to others.

use crate::{Classifier, Ranked};

/// Pairs that [`Classifier::shadowed`] answers of rules that lose some packets: all of 256 rules.
pub const MAX_PAIRS: usize = 1 << 15;

/// Rules by index: the earlier, and the later, which loses packets to it.
type Pairs = Vec<(usize, usize)>;

/// How much of what a rule wants another takes.
enum Loss {
    All,
    Some,
    None,
}

impl Classifier {
    /// Pairs of rules, by index, of which the later loses packets to the earlier: first those of which it
    /// loses all, so that it never takes one, each with the first that takes them, then those of which it
    /// loses some, at most [`MAX_PAIRS`]. A rule with itself is one whose filter matches nothing. Observers
    /// neither take nor lose packets.
    ///
    /// A rule is reported that is certain to lose packets, as far as headers can be what its filter says;
    /// what filters say beyond single fields (`not`, `less`) counts where two are the same.
    pub fn shadowed(&self) -> Vec<(usize, usize)> {
        let (mut never, others) = self.losses();
        never.extend(others);
        never
    }

    /// The first of these: rules that never take a packet, each with the one that takes it instead.
    pub fn never_taken(&self) -> Vec<(usize, usize)> {
        self.losses().0
    }

    fn losses(&self) -> (Pairs, Pairs) {
        let takers: Vec<&Ranked> = self.rules.iter().filter(|ranked| !ranked.rule.observes).collect();
        let (mut never, mut others) = (Vec::new(), Vec::new());
        for (place, later) in takers.iter().enumerate() {
            let mut gets_none = later.terms.is_empty();
            if gets_none {
                never.push((later.index, later.index));
            }
            for earlier in takers.iter().take(place) {
                let pair = (earlier.index, later.index);
                match loss(earlier, later) {
                    Loss::All if !gets_none => {
                        gets_none = true;
                        never.push(pair);
                    }
                    Loss::Some if others.len() < MAX_PAIRS => others.push(pair),
                    Loss::All | Loss::Some | Loss::None => {}
                }
            }
        }
        (never, others)
    }
}

fn loss(earlier: &Ranked, later: &Ranked) -> Loss {
    if later.terms.is_empty() {
        return Loss::None;
    }
    let takes = || earlier.terms.iter().filter(|term| term.is_exact);
    let covered = later.terms.iter().all(|term| takes().any(|taken| taken.covers(term)));
    if covered || earlier.rule.filter == later.rule.filter {
        return Loss::All;
    }
    // A term that is not exact may mean no packet at all.
    let wants = later.terms.iter().filter(|term| term.is_exact);
    let overlap = wants.into_iter().any(|term| takes().any(|taken| taken.overlaps(term)));
    if overlap { Loss::Some } else { Loss::None }
}
