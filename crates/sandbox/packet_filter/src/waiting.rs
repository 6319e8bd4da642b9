//! Later fragments that came before the first one of their datagram, which the host holds meanwhile.

use crate::fragments::{follows, same, sender};
use crate::tally::Reason;
use alloc::vec::Vec;
use nf_sdk::{Host, Line, Packet, Slot, Verdict};

/// Fragments that wait at a time.
pub const WAITING: usize = 64;
/// Of these, from one address.
pub const WAITING_OF_ONE: usize = 16;

/// One that waits.
struct Fragment {
    identity: Line,
    offset: u32,
    expires: u32,
    slot: Slot,
    mark: u64,
    /// Whether it follows the first one, once that has come.
    follows: Option<bool>,
}

/// How many have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Sent on.
    pub accepted: u32,
    /// Dropped.
    pub dropped: u32,
}

impl Left {
    fn count(&mut self, accepted: bool) {
        *(if accepted { &mut self.accepted } else { &mut self.dropped }) += 1;
    }
}

/// Those that wait, in the order in which they came.
#[derive(Default)]
pub struct Waiting {
    fragments: Vec<Fragment>,
    /// The first one of some has come.
    any_decided: bool,
}

fn verdict(identity: &Line, accept: bool) -> Verdict {
    let (_, ingress) = sender(identity);
    if accept { Verdict::Interface(1 - ingress) } else { Verdict::Drop(Reason::Fragment as u16) }
}

impl Waiting {
    /// How many wait.
    pub fn count(&self) -> usize {
        self.fragments.len()
    }

    fn has_room(&self, identity: &Line) -> bool {
        let of_one = |waiting: &&Fragment| sender(&waiting.identity) == sender(identity);
        self.fragments.len() < WAITING && self.fragments.iter().filter(of_one).count() < WAITING_OF_ONE
    }

    /// Has the host hold a fragment until `expires`; false without room or slot.
    pub fn hold(
        &mut self,
        (identity, offset): (Line, u32),
        packet: &mut Packet<'_>,
        host: &mut Host,
        expires: u32,
    ) -> bool {
        if !self.has_room(&identity) {
            return false;
        }
        let Some(slot) = host.slot() else { return false };
        packet.hold(&slot);
        let mark = packet.mark();
        self.fragments.push(Fragment { identity, offset, expires, slot, mark, follows: None });
        true
    }

    /// A first fragment has come; `first`: what is remembered of it.
    pub fn decide(&mut self, first: &Line) {
        for waiting in self.fragments.iter_mut().filter(|waiting| same(&waiting.identity, first)) {
            waiting.follows = Some(follows(first, waiting.offset));
            self.any_decided = true;
        }
    }

    /// Gives up those whose first one came in this batch.
    #[inline(always)]
    pub fn give_up_decided(&mut self, host: &mut Host) -> Left {
        if self.any_decided { self.decided(host) } else { Left::default() }
    }

    #[cold]
    fn decided(&mut self, host: &mut Host) -> Left {
        self.any_decided = false;
        let decided = self.fragments.extract_if(.., |waiting| waiting.follows.is_some());
        let mut decided: Vec<Fragment> = decided.collect();
        decided.sort_by_key(|waiting| waiting.offset);
        let mut left = Left::default();
        for Fragment { identity, slot, mark, follows, .. } in decided {
            let accept = follows == Some(true);
            // Where this is refused, the host has taken the packet back and counted it.
            if host.emit(slot, verdict(&identity, accept), mark).is_ok() {
                left.count(accept);
            }
        }
        left
    }

    /// Drops those whose time is over, or all.
    pub fn give_up_expired(&mut self, host: &mut Host, now: u32, all: bool) -> Left {
        let is_over = |waiting: &mut Fragment| all || waiting.expires.wrapping_sub(now) as i32 <= 0;
        let mut left = Left::default();
        for Fragment { identity, slot, mark, .. } in self.fragments.extract_if(.., is_over) {
            if host.emit(slot, verdict(&identity, false), mark).is_ok() {
                left.count(false);
            }
        }
        left
    }
}
