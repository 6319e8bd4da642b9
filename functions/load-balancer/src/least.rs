//! The server with the fewest connections for its weight, as the winner of a tournament: a change of one
//! server's number is played again against as many others as its number has bits.

use alloc::vec;
use alloc::vec::Vec;

/// Nothing loads a server more: it gets no connections.
pub const NEVER: u64 = u64::MAX;

/// A tournament of servers, by number from 0 on.
#[derive(Clone, Debug)]
pub struct Tournament {
    loads: Vec<u64>,
    /// Winners: 1 is the final's, those of 2n and 2n+1 have played for n.
    winners: Vec<u16>,
}

/// What a server's next connection would make of its load.
pub fn load(connections: u32, weight: u16) -> u64 {
    ((u64::from(connections) + 1) << 16).checked_div(u64::from(weight)).unwrap_or(NEVER)
}

impl Tournament {
    /// Of so many servers, none of which gets connections yet.
    pub fn new(servers: usize) -> Tournament {
        let size = servers.next_power_of_two().max(1);
        let mut winners = vec![0; 2 * size];
        for (number, leaf) in winners.iter_mut().skip(size).enumerate() {
            *leaf = number as u16;
        }
        for number in (1..size).rev() {
            winners[number] = winners[2 * number];
        }
        Tournament { loads: vec![NEVER; size], winners }
    }

    fn load_of(&self, number: u16) -> u64 {
        self.loads.get(usize::from(number)).copied().unwrap_or(NEVER)
    }

    /// Sets a server's load.
    pub fn set(&mut self, number: u16, load: u64) {
        let Some(place) = self.loads.get_mut(usize::from(number)) else { return };
        *place = load;
        let mut match_number = (self.loads.len() + usize::from(number)) / 2;
        while match_number > 0 {
            let pair =
                [2 * match_number, 2 * match_number + 1].map(|n| self.winners.get(n).copied().unwrap_or(0));
            let [left, right] = pair;
            let winner = if self.load_of(right) < self.load_of(left) { right } else { left };
            if let Some(place) = self.winners.get_mut(match_number) {
                *place = winner;
            }
            match_number /= 2;
        }
    }

    /// The least loaded server; `None` when none gets connections.
    pub fn best(&self) -> Option<u16> {
        // The only one of one is a leaf.
        let winner = self.winners.get(1).copied()?;
        (self.load_of(winner) != NEVER).then_some(winner)
    }
}
