//! The sender's side: numbers.

use crate::header::{Header, Session};

/// Numbers the packets of a bond.
#[derive(Debug)]
pub struct Sender {
    session: Session,
    next: u32,
}

impl Sender {
    /// One that begins with number 0. The session is to differ from that of every sender before it: a random
    /// one does.
    pub fn new(session: Session) -> Sender {
        Sender { session, next: 0 }
    }

    /// The header of the next packet.
    #[inline]
    pub fn header(&self) -> Header {
        Header { session: self.session, number: self.next }
    }

    /// That packet goes: the next one has another number.
    #[inline]
    pub fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
    }
}
