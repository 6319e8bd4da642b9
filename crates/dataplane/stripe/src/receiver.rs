//! The receiver's side: packets in the order of their numbers.

use crate::header::{Header, Session};
use std::collections::VecDeque;
use telemetry::clock::Nanos;

/// Most packets that wait for those that are missing.
pub const WINDOW: usize = 256;
/// Longest time that a packet waits.
pub const WAIT: Nanos = Nanos::from_millis(5);
/// A session that took nothing for so long goes on with whatever number comes next.
pub const SILENCE: Nanos = Nanos::from_millis(100);

/// What is that far ahead is behind: less than half of all numbers (RFC 1982, section 3.2), and more than a
/// link that works can lose within [`SILENCE`], so that one forged number is not followed to where all others
/// are behind.
pub const AHEAD: u32 = 1 << 20;

/// A packet whose number was given on or given up already, or that is waiting, for the caller to drop.
#[derive(Debug, PartialEq, Eq)]
pub struct Late<P>(pub P);

/// A packet that came before its turn.
#[derive(Debug)]
struct Waiting<P> {
    number: u32,
    since: Nanos,
    packet: P,
}

/// Gives packets on in order. See the crate's documentation.
#[derive(Debug)]
pub struct Receiver<P> {
    session: Option<Session>,
    /// The session before, and until when its packets are given on as they come.
    former: Option<(Session, Nanos)>,
    /// The number whose turn it is.
    next: u32,
    /// In the order of their numbers. All are ahead of `next`.
    waiting: VecDeque<Waiting<P>>,
    /// No packet has waited for [`WAIT`] before this time.
    due: Nanos,
    /// When a number of the session was last taken.
    taken: Nanos,
    waited: u64,
    given_up: u64,
}

impl<P> Default for Receiver<P> {
    fn default() -> Receiver<P> {
        Receiver {
            session: None,
            former: None,
            next: 0,
            waiting: VecDeque::new(),
            due: Nanos::MAX,
            taken: Nanos(0),
            waited: 0,
            given_up: 0,
        }
    }
}

impl<P> Receiver<P> {
    /// Takes a packet that came with a header, and appends to `out` those whose turn it is.
    ///
    /// # Errors
    /// [`Late`], with the packet.
    pub fn accept(&mut self, header: Header, packet: P, now: Nanos, out: &mut Vec<P>) -> Result<(), Late<P>> {
        let Header { session, number } = header;
        if self.session != Some(session) {
            if self.former.is_some_and(|(former, until)| former == session && now < until) {
                out.push(packet);
                return Ok(());
            }
            self.follow(session, number, now, out);
        } else if number.wrapping_sub(self.next) >= AHEAD && now.since(self.taken) > SILENCE {
            self.begin_at(number, out);
        }
        let ahead = number.wrapping_sub(self.next);
        if ahead >= AHEAD {
            return Err(Late(packet));
        }
        if ahead == 0 {
            out.push(packet);
            self.next = number.wrapping_add(1);
            self.give_on_next(out);
        } else {
            let before = |other: &Waiting<P>| other.number.wrapping_sub(self.next) < ahead;
            let place = self.waiting.partition_point(before);
            if self.waiting.get(place).is_some_and(|other| other.number == number) {
                return Err(Late(packet));
            }
            self.waiting.insert(place, Waiting { number, since: now, packet });
            self.waited += 1;
            self.due = self.due.min(now.saturating_add(WAIT));
            if self.waiting.len() > WINDOW {
                self.give_on(1, out);
            }
        }
        self.taken = now;
        Ok(())
    }

    /// Gives up what is missing in front of packets that have waited for [`WAIT`], and appends these to
    /// `out`.
    pub fn expire(&mut self, now: Nanos, out: &mut Vec<P>) {
        if self.due > now {
            return;
        }
        let is_over = |waiting: &Waiting<P>| waiting.since.saturating_add(WAIT) <= now;
        if let Some(last) = self.waiting.iter().rposition(is_over) {
            self.give_on(last + 1, out);
        }
        let first = self.waiting.iter().map(|waiting| waiting.since).min();
        self.due = first.map_or(Nanos::MAX, |since| since.saturating_add(WAIT));
    }

    /// When waiting is over; `None` when nothing waits. It may be earlier, and is never later.
    pub fn deadline(&self) -> Option<Nanos> {
        (!self.waiting.is_empty()).then_some(self.due)
    }

    /// Packets that wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Packets that came before their turn, so far.
    pub fn waited(&self) -> u64 {
        self.waited
    }

    /// How often something missing was given up, so far.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Takes out all that waits, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = P> + '_ {
        self.waiting.drain(..).map(|waiting| waiting.packet)
    }

    /// Goes on with another session: a new sender's numbers begin at 0. Those of one that was there before
    /// this receiver are somewhere.
    fn follow(&mut self, session: Session, number: u32, now: Nanos, out: &mut Vec<P>) {
        let former = self.session.replace(session);
        self.former = former.map(|former| (former, now.saturating_add(WAIT)));
        let is_new = (number as usize) < WINDOW;
        self.begin_at(if is_new { 0 } else { number }, out);
    }

    /// Waits for a number, and for nothing before it.
    fn begin_at(&mut self, number: u32, out: &mut Vec<P>) {
        out.extend(self.waiting.drain(..).map(|waiting| waiting.packet));
        self.next = number;
    }

    /// Gives on the first so many that wait, and those that follow them at once: what is missing between them
    /// is given up.
    fn give_on(&mut self, count: usize, out: &mut Vec<P>) {
        self.given_up += 1;
        for Waiting { number, packet, .. } in self.waiting.drain(..count) {
            self.next = number.wrapping_add(1);
            out.push(packet);
        }
        self.give_on_next(out);
    }

    /// Gives on those that wait and whose turn it is.
    fn give_on_next(&mut self, out: &mut Vec<P>) {
        while let Some(first) = self.waiting.pop_front_if(|first| first.number == self.next) {
            self.next = self.next.wrapping_add(1);
            out.push(first.packet);
        }
    }
}
