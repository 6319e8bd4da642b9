//! What is known of a flow, in the words of an [`Entry`] of the table that the SDK has.

use nf_sdk::flow_table::{Entry, Value};

pub use nf_sdk::flow_table::FlowTable;

/// What is known of a flow beside its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// When it ends unless another packet comes, in ticks.
    pub expires: u32,
    /// State and which side began it, see `tracker`; never 0.
    pub state: u32,
    /// The sequence number behind the last byte that was sent, from inside and from outside.
    pub ends: [u32; 2],
}

impl Flow {
    /// As an entry has it.
    #[inline(always)]
    pub fn value(&self) -> Value {
        [self.expires, self.state, self.ends[0], self.ends[1]]
    }
}

/// A key's words, then a flow's.
pub trait Slot: Entry {
    /// Reads the flow.
    #[inline(always)]
    fn flow(&self) -> Flow {
        let [expires, state, inside, outside] = self.value();
        Flow { expires, state, ends: [inside, outside] }
    }

    /// Writes the flow.
    #[inline(always)]
    fn set_flow(&mut self, flow: &Flow) {
        *self.value_mut() = flow.value();
    }

    /// Gives the flow more time, and moves the newest byte of one side (0 or 1) on to `end`, unless it is
    /// there.
    #[inline(always)]
    fn refresh(&mut self, expires: u32, side: usize, end: u32) {
        let value = self.value_mut();
        value[0] = expires;
        let newest = &mut value[2 + (side & 1)];
        *newest = if end.wrapping_sub(*newest) as i32 > 0 { end } else { *newest };
    }
}

impl<E: Entry> Slot for E {}
