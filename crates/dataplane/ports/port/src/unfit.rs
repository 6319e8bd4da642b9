//! Sources whose packets are longer than the pool's buffers: told once, not with each packet.

use crate::PortEvent;
use packet_memory::Pool;

/// Whether it was told already.
#[derive(Debug, Default)]
pub(crate) struct Unfit {
    told: bool,
    event: Option<PortEvent>,
}

impl Unfit {
    /// Whether packets of `length` bytes do not fit into the pool's buffers; remembers to tell it.
    #[inline]
    pub fn applies(&mut self, pool: &Pool, length: u32) -> bool {
        let unfit = length > pool.room();
        if unfit && !self.told {
            self.told = true;
            self.event = Some(PortEvent::Notice(format!(
                "packets of {length} bytes do not fit into the {} bytes that a buffer of the pool {} has for them, and are \
                 dropped as too-long",
                pool.room(),
                pool.name()
            )));
        }
        unfit
    }

    /// What is to be told.
    pub fn take(&mut self) -> Option<PortEvent> {
        self.event.take()
    }
}
