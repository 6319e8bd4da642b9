//! A snapshot ready to be written, without a copy of its memory.

use std::io::{self, IoSlice, Write};

/// The bytes of a snapshot, in two pieces: what was made for it, and the memory where it lies.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    pub(crate) head: Vec<u8>,
    pub(crate) memory: &'a [u8],
}

impl Parts<'_> {
    /// Bytes of the whole.
    pub fn len(&self) -> usize {
        self.head.len() + self.memory.len()
    }

    /// Never: a snapshot has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> [&[u8]; 2] {
        [&self.head, self.memory]
    }

    /// Writes all of it, in one call when the writer takes that much.
    ///
    /// # Errors
    /// The writer's.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut slices = self.pieces().map(IoSlice::new);
        let mut left = &mut slices[..];
        // An empty piece is no reason to call a writer that then could only answer 0.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match out.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// All of it in one piece.
    pub fn into_vec(self) -> Vec<u8> {
        let mut bytes = self.head;
        bytes.extend_from_slice(self.memory);
        bytes
    }
}
