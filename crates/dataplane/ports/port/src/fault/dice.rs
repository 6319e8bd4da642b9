//! What happens to a packet, decided by its number alone.

use super::config::{Direction, MOST_OVERTAKING};
use crate::random::{Random, below};
use schema::WHOLE;
use telemetry::clock::Nanos;

/// What happens to one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    pub lost: bool,
    pub duplicated: bool,
    /// It is cut; the number says where.
    pub cut: Option<u32>,
    /// A bit is flipped; the number says which.
    pub flip: Option<u64>,
    /// How many packets overtake it.
    pub overtaken_by: u32,
    /// What its delay is longer by.
    pub jitter: Nanos,
}

/// A source of decisions. Each packet takes the same number of draws, whatever the settings and whatever
/// became of others: another share of one fault changes no decision about another fault.
#[derive(Clone, Debug)]
pub(super) struct Dice(Random);

impl Dice {
    /// The two directions of a port have dice of their own.
    pub fn new(seed: u64, direction: u64) -> Dice {
        // Seeds that people choose are near to each other; the first draw takes them apart.
        Dice(Random::new(Random::new(seed.wrapping_mul(2).wrapping_add(direction)).next()))
    }

    /// Decides about the next packet.
    pub fn decide(&mut self, config: &Direction) -> Decision {
        let draws: [u64; 9] = std::array::from_fn(|_| self.0.next());
        let [lost, duplicated, cut, place, flip, bit, reordered, by, jitter] = draws;
        let by = below((by >> 32) as u32, config.reorder_by.clamp(1, MOST_OVERTAKING)) + 1;
        let longer = (u128::from(jitter) * (u128::from(config.jitter.0) + 1)) >> 64;
        Decision {
            lost: happens(lost, config.loss),
            duplicated: happens(duplicated, config.duplicate),
            cut: happens(cut, config.truncate).then_some((place >> 32) as u32),
            flip: happens(flip, config.bit_flip).then_some(bit),
            overtaken_by: if happens(reordered, config.reorder) { by } else { 0 },
            jitter: Nanos(longer as u64),
        }
    }
}

/// Whether a draw falls into a share.
fn happens(draw: u64, share: u64) -> bool {
    (u128::from(draw) * u128::from(WHOLE)) >> 64 < u128::from(share)
}
