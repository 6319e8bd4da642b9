//! Writing packets of a pool as pcapng.

use ::capture::{Blocks, CaptureFile, Direction, Entry, Interface, Target};
use packet_memory::{Packet, Pool};
use std::io;

/// What is collected before it is written, in bytes.
const CHUNK: usize = 256 << 10;

/// A capture being written.
pub(super) struct Writer {
    file: CaptureFile,
    blocks: Blocks,
}

impl Writer {
    /// Writes the headers.
    pub fn new(target: Box<dyn Target>) -> io::Result<Writer> {
        let file = CaptureFile::begin(target, &Interface::default())?;
        Ok(Writer { file, blocks: Blocks::default() })
    }

    /// Writes packets; returns how many are in the file for certain, and why not all are.
    pub fn write(&mut self, pool: &Pool, packets: &[Packet]) -> (usize, Option<io::Error>) {
        let mut done = 0;
        for packet in packets {
            let (record, kept) = (packet.record(), packet.length());
            let entry = Entry {
                timestamp: record.timestamp,
                length: kept.saturating_add(record.snapped().into()),
                kept,
                direction: Direction::Unknown,
                lost: 0,
                comment: "",
            };
            self.blocks.packet(&entry, |room| {
                pool.read(packet, 0, room);
            });
            if self.blocks.bytes().len() >= CHUNK {
                let (written, error) = self.flush();
                done += written;
                if error.is_some() {
                    return (done, error);
                }
            }
        }
        let (written, error) = self.flush();
        (done + written, error)
    }

    /// Makes what was written permanent.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn flush(&mut self) -> (usize, Option<io::Error>) {
        let outcome = self.file.append(&self.blocks);
        self.blocks.clear();
        outcome
    }
}
