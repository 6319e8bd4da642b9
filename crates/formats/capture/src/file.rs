//! A file of blocks that ends with a whole packet, whatever happens.

use crate::{Blocks, Interface};
use std::fs::File;
use std::io::{self, ErrorKind, Write};

/// Where the bytes go.
pub trait Target: Write + Send {
    /// Ends the file after so many bytes.
    ///
    /// # Errors
    /// The system's.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Makes what was written permanent.
    ///
    /// # Errors
    /// The system's.
    fn sync(&mut self) -> io::Result<()>;
}

impl Target for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A capture file being written.
pub struct CaptureFile {
    target: Box<dyn Target>,
    /// Bytes of whole blocks in the file.
    length: u64,
}

impl CaptureFile {
    /// Writes the headers.
    ///
    /// # Errors
    /// The target's.
    pub fn begin(target: Box<dyn Target>, interface: &Interface) -> io::Result<CaptureFile> {
        let mut file = CaptureFile { target, length: 0 };
        let headers = Blocks::headers(interface);
        let (written, error) = file.put(headers.bytes());
        match error {
            None => {
                file.length = written as u64;
                Ok(file)
            }
            Some(error) => Err(error),
        }
    }

    /// Bytes of whole blocks in the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends blocks; returns how many packets are in the file for certain, and why not all are. After an
    /// error the file ends with a whole packet, if that can be had.
    pub fn append(&mut self, blocks: &Blocks) -> (usize, Option<io::Error>) {
        let (written, error) = self.put(blocks.bytes());
        let (packets, bytes) = blocks.whole(written);
        self.length += bytes as u64;
        if error.is_some() {
            // The first error is the one to tell.
            let _ = self.target.cut(self.length);
        }
        (packets, error)
    }

    /// Makes what was written permanent.
    ///
    /// # Errors
    /// The target's.
    pub fn sync(&mut self) -> io::Result<()> {
        self.target.flush()?;
        self.target.sync()
    }

    fn put(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while written < bytes.len() {
            match self.target.write(&bytes[written..]) {
                Ok(0) => return (written, Some(ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    }
}
