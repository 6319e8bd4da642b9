//! Whether the packets of each flow come back in the order in which they were sent.

use std::cmp::Ordering;

/// Numbers of packets within their flows. Eight bytes for each flow.
#[derive(Debug)]
pub(super) struct Numbers {
    next: Box<[u32]>,
    expected: Box<[u32]>,
    /// Packets that came back in order.
    pub in_order: u64,
    /// Packets that came back behind a later one of their flow, or twice.
    pub out_of_order: u64,
    /// Packets that came back without a number.
    pub unnumbered: u64,
}

impl Numbers {
    pub fn new(flows: u32) -> Numbers {
        let zeros = || vec![0; flows as usize].into_boxed_slice();
        Numbers { next: zeros(), expected: zeros(), in_order: 0, out_of_order: 0, unnumbered: 0 }
    }

    /// The next number of a flow.
    #[inline]
    pub fn take(&mut self, flow: u32) -> u32 {
        let Some(next) = self.next.get_mut(flow as usize) else { return 0 };
        let number = *next;
        *next = next.wrapping_add(1);
        number
    }

    /// A packet came back.
    #[inline]
    pub fn returned(&mut self, found: Option<[u32; 2]>) {
        let expected = found.and_then(|[flow, number]| Some((self.expected.get_mut(flow as usize)?, number)));
        let Some((expected, number)) = expected else {
            self.unnumbered += 1;
            return;
        };
        // Numbers wrap: what is less than half a turn ahead is later.
        match (number.wrapping_sub(*expected) as i32).cmp(&0) {
            Ordering::Less => self.out_of_order += 1,
            Ordering::Equal | Ordering::Greater => {
                *expected = number.wrapping_add(1);
                self.in_order += 1;
            }
        }
    }
}
