//! Connections in a capture: from the first SYN to the last FIN, in full segments, every second of which is
//! acknowledged.

use crate::PeerError;
use crate::capture::CaptureWriter;
use crate::frames::Segment;
use crate::speech::Speeches;
use std::path::Path;

/// Bytes of a full segment.
pub(crate) const SEGMENT: usize = 1460;

pub(crate) const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PUSH: u8 = 0x18;
const FIN: u8 = 0x11;

/// A capture that is being written, a frame every ten microseconds.
pub(crate) struct Output {
    writer: CaptureWriter,
    frame: Vec<u8>,
    micros: u64,
    pub packets: u64,
}

impl Output {
    pub fn create(path: &Path) -> Result<Output, PeerError> {
        Ok(Output { writer: CaptureWriter::create(path)?, frame: Vec::new(), micros: 0, packets: 0 })
    }

    pub fn put(&mut self, segment: &Segment, payload: &[u8]) -> Result<(), PeerError> {
        segment.write(payload, &mut self.frame);
        self.write()
    }

    pub fn datagram(&mut self, segment: &Segment, payload: &[u8]) -> Result<(), PeerError> {
        segment.write_datagram(payload, &mut self.frame);
        self.write()
    }

    fn write(&mut self) -> Result<(), PeerError> {
        self.micros += 10;
        self.packets += 1;
        self.writer.frame(self.micros, &self.frame)
    }

    /// Ends it; bytes of all frames.
    pub fn finish(self) -> Result<u64, PeerError> {
        self.writer.finish()
    }
}

/// A connection on its way: what client and server still have to say.
pub(crate) struct Connection {
    /// As the client sends.
    segment: Segment,
    /// The last one comes first.
    speeches: Speeches,
    at: usize,
}

impl Connection {
    /// Shakes hands. The segment's numbers are those that client and server begin with.
    pub fn open(
        mut segment: Segment,
        mut speeches: Speeches,
        output: &mut Output,
    ) -> Result<Connection, PeerError> {
        let answer = segment.acknowledged;
        output.put(&Segment { flags: SYN, acknowledged: 0, ..segment }, &[])?;
        segment.sequence = segment.sequence.wrapping_add(1);
        output.put(&Segment { flags: SYN | ACK, acknowledged: answer, ..segment }.reverse(), &[])?;
        segment.acknowledged = answer.wrapping_add(1);
        segment.flags = ACK;
        output.put(&segment, &[])?;
        speeches.reverse();
        Ok(Connection { segment, speeches, at: 0 })
    }

    /// Sends the next segment, acknowledges every second one, ends when all is said; whether there is more.
    pub fn go_on(&mut self, output: &mut Output) -> Result<bool, PeerError> {
        let Some((back, speech)) = self.speeches.last() else {
            return self.end(output).map(|()| false);
        };
        let back = *back;
        let payload = &speech[self.at..speech.len().min(self.at + SEGMENT)];
        let sender = Segment { flags: PUSH, ..self.segment };
        output.put(&if back { sender.reverse() } else { sender }, payload)?;
        let length = payload.len() as u32;
        let moved = if back { &mut self.segment.acknowledged } else { &mut self.segment.sequence };
        *moved = moved.wrapping_add(length);
        self.at += payload.len();
        let done = self.at == speech.len();
        if done || (self.at / SEGMENT).is_multiple_of(2) {
            let answer = self.segment;
            output.put(&if back { answer } else { answer.reverse() }, &[])?;
        }
        if done {
            self.speeches.pop();
            self.at = 0;
        }
        Ok(true)
    }

    fn end(&mut self, output: &mut Output) -> Result<(), PeerError> {
        output.put(&Segment { flags: FIN, ..self.segment }, &[])?;
        self.segment.sequence = self.segment.sequence.wrapping_add(1);
        output.put(&Segment { flags: FIN, ..self.segment }.reverse(), &[])?;
        self.segment.acknowledged = self.segment.acknowledged.wrapping_add(1);
        output.put(&self.segment, &[])
    }
}
