//! A limit on what a function sends of its own accord, such as ICMP errors (RFC 1812 section 4.3.2.8, RFC
//! 4443 section 2.4(f)).

use crate::Nanos;

/// So many in a second: a token bucket.
#[derive(Debug)]
pub struct Limiter {
    rate: u64,
    /// Most that is in it, in billionths of a message.
    most: u64,
    level: u64,
    at: Option<Nanos>,
}

/// Billionths of a message.
const MESSAGE: u64 = 1_000_000_000;

impl Limiter {
    /// A full bucket: `rate` messages a second, at most `burst` at once.
    pub fn new(rate: u64, burst: u64) -> Limiter {
        let most = burst.saturating_mul(MESSAGE);
        Limiter { rate, most, level: most, at: None }
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, now: Nanos) -> bool {
        let since = now.since(self.at.unwrap_or(now)).0;
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        self.level = self.level.saturating_add(since.saturating_mul(self.rate)).min(self.most);
        let taken = self.level >= MESSAGE;
        if taken {
            self.level -= MESSAGE;
        }
        taken
    }

    /// What is missing in it, for another instance.
    pub fn missing(&self) -> u64 {
        self.most - self.level
    }

    /// Takes out what was missing in another one.
    pub fn miss(&mut self, missing: u64) {
        self.level = self.most.saturating_sub(missing);
    }
}
