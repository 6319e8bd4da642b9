//! How much work a packet may cost beyond the search for literals, shared out so that no rule keeps others
//! from being verified.
//!
//! 1. The search for literals always goes to the end, and compares a few at each place without being paid
//!    for. Where more look alike than [`crate::filter::CROWD`], comparing them is paid for from an allowance
//!    of its own.
//! 2. Each rule that it names is begun with [`Budget::begin`], which gives it an equal part of what is left,
//!    or more: what one does not need is there for those that follow.
//! 3. A rule whose part is spent is not verified to the end, and the next one has its own. Which rules these
//!    were is counted by the detector.
//! 4. What a packet leaves over goes into a [`Reserve`], of which each packet may spend half beside what is
//!    its own: few packets need more than most do. Packets that are made to cost much have soon emptied it,
//!    and the others still have their own.

/// What a packet may cost. One is about what comparing a rule's bytes at a place takes, or looking for them
/// in 16: some five nanoseconds. What a sender makes of this at most is searched for by `superfluid
/// bench functions`.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Of the packet.
    left: u32,
    /// Of the rule that is being verified, never more than `left`.
    rule: u32,
    is_spent: bool,
    was_spent: bool,
    /// Literals that look alike, which may still be compared.
    pub literals: u32,
}

/// What packets have left over, for those that need more.
#[derive(Clone, Copy, Debug)]
pub struct Reserve(u32);

impl Reserve {
    /// The most that is kept.
    const MOST: u32 = 40_000;

    /// A full one.
    pub const FULL: Reserve = Reserve(Reserve::MOST);

    /// For a payload of so many bytes: what is its own, and half of what is here.
    pub fn budget(&mut self, bytes: usize) -> Budget {
        let lent = self.0 / 2;
        self.0 -= lent;
        let mut budget = Budget::new(bytes);
        budget.left = budget.left.saturating_add(lent);
        budget
    }

    /// Keeps what is left of it.
    pub fn keep(&mut self, budget: &Budget) {
        self.0 = self.0.saturating_add(budget.left).min(Reserve::MOST);
    }
}

impl Budget {
    /// What every packet may cost, and for each of its bytes.
    const PACKET: u32 = 1000;
    const BYTE: u32 = 2;
    /// Literals that look alike, which may be compared for every packet and for each of its bytes.
    const LITERALS: u32 = 5000;
    const LITERALS_OF_BYTE: u32 = 2;
    /// The least that a rule may spend while there is as much.
    const RULE: u32 = 64;
    /// Coming to a rule, and asking what it asks of headers.
    const VISIT: u32 = 4;

    /// For a payload of so many bytes.
    pub fn new(bytes: usize) -> Budget {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let left = Budget::PACKET.saturating_add(bytes.saturating_mul(Budget::BYTE));
        let literals = Budget::LITERALS.saturating_add(bytes.saturating_mul(Budget::LITERALS_OF_BYTE));
        Budget { left, rule: left, is_spent: false, was_spent: false, literals }
    }

    /// Allows for so many bytes more.
    pub fn extend(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(bytes.saturating_mul(Budget::BYTE));
        self.literals = self.literals.saturating_add(bytes.saturating_mul(Budget::LITERALS_OF_BYTE));
    }

    /// Literals that look alike would have needed more.
    pub fn cut_short(&mut self) {
        self.was_spent = true;
    }

    /// Begins to verify one of `rules` that are still to be verified; false when nothing is left for it.
    #[inline]
    pub fn begin(&mut self, rules: usize) -> bool {
        self.left = self.left.saturating_sub(Budget::VISIT);
        let part = self.left / u32::try_from(rules.max(1)).unwrap_or(u32::MAX);
        self.rule = part.max(Budget::RULE).min(self.left);
        self.is_spent = self.left == 0;
        self.was_spent |= self.is_spent;
        !self.is_spent
    }

    /// Pays for the rule; false when its part is spent.
    #[inline(always)]
    pub fn pay(&mut self, amount: u32) -> bool {
        let paid = amount.min(self.rule);
        self.left -= paid;
        self.rule -= paid;
        if paid < amount {
            (self.is_spent, self.was_spent) = (true, true);
        }
        paid == amount
    }

    /// What is left to be spent.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// The rule that is being verified would have needed more.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Some rule would have needed more.
    pub fn was_spent(&self) -> bool {
        self.was_spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_part_of_its_own() {
        let mut budget = Budget::new(500);
        assert_eq!(budget.left(), 2000);
        // The first of four asks for everything, and has a quarter.
        assert!(budget.begin(4) && !budget.pay(u32::MAX));
        assert!(budget.is_spent() && budget.was_spent());
        assert_eq!(budget.left(), 1996 - 499);
        // The second needs little, and leaves the rest to the others.
        assert!(budget.begin(3) && budget.pay(300) && !budget.is_spent());
        assert!(budget.begin(2) && budget.pay(590));
        assert!(budget.begin(1) && budget.pay(595) && !budget.pay(1));
        assert!(!budget.begin(1) && budget.is_spent());
    }

    #[test]
    fn a_part_is_enough_for_a_comparison_until_nothing_is_left() {
        let mut budget = Budget::new(500);
        let begun = (0..1000).rev().filter(|rest| budget.begin(100_000 + rest) && !budget.pay(65)).count();
        assert_eq!(begun, 2000usize.div_ceil(64 + 4));
        assert_eq!(budget.left(), 0);
    }

    #[test]
    fn what_is_left_over_serves_others_and_no_packet_takes_all_of_it() {
        let mut reserve = Reserve::FULL;
        // A packet that is made to cost much has its own and half of what is kept, one after the other.
        let dear = |reserve: &mut Reserve| {
            let mut budget = reserve.budget(500);
            let had = budget.left();
            assert!(budget.begin(1) && !budget.pay(u32::MAX));
            reserve.keep(&budget);
            had - 2000
        };
        assert_eq!([(); 3].map(|()| dear(&mut reserve)), [20_000, 10_000, 5000]);
        let spent: u32 = (0..40).map(|_| dear(&mut reserve)).sum();
        assert!(spent < 5000 && dear(&mut reserve) == 0, "{spent}");
        // Those that need little fill it again, up to where it was.
        for _ in 0..100 {
            let mut budget = reserve.budget(500);
            assert!(budget.begin(1) && budget.pay(100));
            reserve.keep(&budget);
        }
        assert_eq!(dear(&mut reserve), 20_000);
    }
}
