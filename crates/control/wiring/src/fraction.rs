//! A share of something.

use std::fmt;

/// A number above 0 and not above 1, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: u32,
    denominator: u32,
}

impl Fraction {
    /// `None` unless 0 < numerator <= denominator.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Fraction> {
        if numerator > 0 && numerator <= denominator {
            Some(Fraction { numerator, denominator })
        } else {
            None
        }
    }

    /// Reads `1/16`, or `1`.
    pub fn parse(text: &str) -> Option<Fraction> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
            digits.then(|| text.parse().ok())?
        };
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        Fraction::new(number(numerator.trim())?, number(denominator.trim())?)
    }

    /// This share of a whole, rounded down but at least 1.
    pub fn of(self, whole: u32) -> u32 {
        let share = u64::from(whole) * u64::from(self.numerator) / u64::from(self.denominator);
        u32::try_from(share).unwrap_or(whole).max(1)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}
