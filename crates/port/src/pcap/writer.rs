//! Writing pcapng: one section, one interface with nanoseconds.

use super::section::block;
use clock::Nanos;
use packet_memory::{Packet, Pool};
use std::fs::File;
use std::io::{self, ErrorKind, Write};

/// What is collected before it is written, in bytes.
const CHUNK: usize = 256 << 10;

/// Where the bytes go.
pub(super) trait Target: Write + Send {
    /// Ends the file after so many bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Makes what was written permanent.
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

/// A capture being written.
pub(super) struct Writer {
    target: Box<dyn Target>,
    buffer: Vec<u8>,
    /// Where the packets collected in the buffer end.
    ends: Vec<usize>,
    /// Bytes of whole blocks in the file.
    length: u64,
}

impl Writer {
    /// Writes the headers.
    pub fn new(target: Box<dyn Target>) -> io::Result<Writer> {
        let mut writer = Writer { target, buffer: Vec::new(), ends: Vec::new(), length: 0 };
        // Byte order mark, version 1.0, a section of unknown length, the program's name (shb_userappl).
        let mut section = Vec::new();
        section.extend(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend([1, 0, 0, 0]);
        section.extend([0xff; 8]);
        section.extend([4, 0, 10, 0]);
        section.extend(b"superfluid\0\0");
        section.extend([0; 4]);
        writer.block(block::SECTION, &section);
        // Ethernet, no limit on length, if_tsresol 9.
        writer.block(block::INTERFACE, &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        writer.ends.push(writer.buffer.len());
        match writer.flush() {
            (_, None) => Ok(writer),
            (_, Some(error)) => Err(error),
        }
    }

    /// Writes packets; returns how many are in the file for certain, and why not all are.
    pub fn write(&mut self, pool: &Pool, now: Nanos, packets: &[Packet]) -> (usize, Option<io::Error>) {
        let mut done = 0;
        for packet in packets {
            self.collect(pool, now, packet);
            if self.buffer.len() >= CHUNK {
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
        self.target.flush()?;
        self.target.sync()
    }

    fn collect(&mut self, pool: &Pool, now: Nanos, packet: &Packet) {
        // A packet that a function made has no time of reception.
        let received = packet.record().timestamp;
        let timestamp = if received == 0 { now.0 } else { received };
        let length = packet.length();
        let padded = (length as usize).next_multiple_of(4);
        let total = padded as u32 + 32;
        let begin = self.buffer.len();
        for word in
            [block::ENHANCED_PACKET, total, 0, (timestamp >> 32) as u32, timestamp as u32, length, length]
        {
            self.buffer.extend(word.to_le_bytes());
        }
        self.buffer.resize(begin + 28 + padded, 0);
        pool.read(packet, 0, &mut self.buffer[begin + 28..]);
        self.buffer.extend(total.to_le_bytes());
        self.ends.push(self.buffer.len());
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let total = body.len() as u32 + 12;
        self.buffer.extend(kind.to_le_bytes());
        self.buffer.extend(total.to_le_bytes());
        self.buffer.extend(body);
        self.buffer.extend(total.to_le_bytes());
    }

    /// Writes what was collected; returns how many packets are in the file. After an error the file ends with a whole one,
    /// if that can be had.
    fn flush(&mut self) -> (usize, Option<io::Error>) {
        let mut written = 0;
        let error = loop {
            if written == self.buffer.len() {
                break None;
            }
            match self.target.write(&self.buffer[written..]) {
                Ok(0) => break Some(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        let whole = self.ends.partition_point(|&end| end <= written);
        self.length += self.ends[..whole].last().copied().unwrap_or(0) as u64;
        if error.is_some() {
            // The first error is the one to tell.
            let _ = self.target.cut(self.length);
        }
        self.buffer.clear();
        self.ends.clear();
        (whole, error)
    }
}
