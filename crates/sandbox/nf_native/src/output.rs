//! What the process writes: a line for each log line and event, and no more of them than its reader takes.

use nf_abi::stream;
use nf_sdk::Nanos;
use nf_sdk::native::Told;
use std::io::Write;

/// Bytes that are written in a second, log lines and events together: half of what the launcher reads of a
/// guest, which waits at a full pipe and would count as hung.
const RATE: usize = 128 << 10;
const SECOND: Nanos = Nanos::from_secs(1);

/// Log lines on standard error, events on standard output.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// When the present second began, and what was written in it.
    began: Nanos,
    written: usize,
    /// Lines that were not written.
    pub lost: u64,
}

impl Output {
    /// Writes what there is room for.
    pub fn write(&mut self, told: &Told, now: Nanos) {
        for (number, line) in &told.log {
            if self.has_room(line.len(), now) {
                let severity = match *number {
                    stream::LOG_ERROR => "error: ",
                    stream::LOG_WARNING => "warning: ",
                    _ => "",
                };
                let _ = writeln!(std::io::stderr(), "{severity}{line}");
            }
        }
        for event in &told.events {
            if self.has_room(event.len(), now) {
                let _ = writeln!(std::io::stdout(), "{event}");
            }
        }
    }

    fn has_room(&mut self, length: usize, now: Nanos) -> bool {
        if now.since(self.began) >= SECOND || now < self.began {
            (self.began, self.written) = (now, 0);
        }
        self.written = self.written.saturating_add(length + 1);
        let has_room = self.written <= RATE;
        self.lost += u64::from(!has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_is_written_in_a_second() {
        let mut output = Output::default();
        let count = |output: &mut Output, at: u64| {
            (0..1_000).filter(|_| output.has_room(1_023, Nanos::from_millis(at))).count()
        };
        let begin = 1_700_000_000_000;
        assert_eq!((count(&mut output, begin), output.lost), (128, 872));
        assert_eq!(count(&mut output, begin + 999), 0);
        assert_eq!(count(&mut output, begin + 1_000), 128);
        assert_eq!(count(&mut output, begin - 5_000), 128, "a clock may be set back");
    }
}
