//! A series: a ring of codes for fine steps, and one for coarse steps, in one piece of memory.

use crate::{COARSE, FINE};

/// Bytes of a series: 12 bits for each step.
pub(crate) const BYTES: usize = (FINE + COARSE) as usize * 3 / 2;

/// See the module's documentation. Nothing is taken from the system as long as all codes are 0.
#[derive(Debug, Default)]
pub(crate) struct Ring(Option<Box<[u8; BYTES]>>);

impl Ring {
    fn at(step: u64, coarse: bool) -> usize {
        (if coarse { FINE + step % COARSE } else { step % FINE }) as usize
    }

    /// Sets the code of a step; steps of ten seconds are counted as such.
    pub(crate) fn set(&mut self, step: u64, coarse: bool, code: u16) {
        if code == 0 && self.0.is_none() {
            return;
        }
        let bytes = self.0.get_or_insert_with(|| Box::new([0; BYTES]));
        let place = Ring::at(step, coarse);
        let (pair, second) = (place / 2 * 3, place % 2 == 1);
        if second {
            bytes[pair + 1] = bytes[pair + 1] & 0x0f | ((code & 0x0f) << 4) as u8;
            bytes[pair + 2] = (code >> 4) as u8;
        } else {
            bytes[pair] = code as u8;
            bytes[pair + 1] = bytes[pair + 1] & 0xf0 | (code >> 8) as u8;
        }
    }

    pub(crate) fn get(&self, step: u64, coarse: bool) -> u16 {
        let Some(bytes) = &self.0 else { return 0 };
        let place = Ring::at(step, coarse);
        let (pair, second) = (place / 2 * 3, place % 2 == 1);
        if second {
            u16::from(bytes[pair + 1] >> 4) | u16::from(bytes[pair + 2]) << 4
        } else {
            u16::from(bytes[pair]) | u16::from(bytes[pair + 1] & 0x0f) << 8
        }
    }

    /// Bytes that it has from the system.
    pub(crate) fn bytes(&self) -> usize {
        if self.0.is_some() { BYTES } else { 0 }
    }
}
