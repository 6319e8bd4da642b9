//! `superfluid capture`: packets as pcapng, while they pass.

use super::columns::cell;
use super::events::streamed;
use super::failure::{Done, Failure, print};
use super::options::CaptureOptions;
use crate::Outcome;
use crate::output::Format;
use ::capture::{Block, Direction, Splitter, Statistics, words};
use client::harmless;
use serde_json::json;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// Where packets go.
enum Sink {
    /// Lines for people or programs.
    Lines(Format),
    File(Written),
    Standard,
}

/// A file with packets, and how many bytes of whole ones are in it.
struct Written {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Written {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Leaves what is whole, and no file without anything in it. What cannot be cut off stays.
    fn cut(&self) {
        if !self.file.metadata().is_ok_and(|found| found.is_file()) {
            return;
        }
        let _ = match self.bytes {
            0 => std::fs::remove_file(&self.path),
            bytes => self.file.set_len(bytes),
        };
    }
}

/// Packets that have come, and those that were lost before one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    written: u64,
    lost: u64,
}

impl Counted {
    fn add(&mut self, block: &Block) {
        if let Some(seen) = block.packet() {
            self.written += 1;
            self.lost = self.lost.saturating_add(seen.lost);
        }
    }

    fn told(self) -> String {
        let Counted { written, lost } = self;
        let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
        format!("{written} packets captured{lost}")
    }
}

pub(crate) fn capture(options: &CaptureOptions) -> Done {
    let filter = options.filter.join(" ");
    let wanted = api::Capture {
        at: options.at.clone(),
        filter: (!filter.is_empty()).then_some(filter),
        count: options.count,
        snap: options.snap,
        time: options.time.map(|time| format!("{}ns", time.as_nanos())),
    };
    let to_standard = options.write.as_deref() == Some(Path::new("-"));
    if to_standard && std::io::stdout().is_terminal() {
        let wrong = "standard output is a terminal, which shows no pcapng; allowed: a file, or a pipe such as `| tcpdump -r -`";
        return Err(Failure::new(wrong, Outcome::BadInput));
    }
    let client = options.connection.client()?;
    let mut packets = client.capture(&wanted)?;
    // Not before: what is in a file of this name stays when the capture is refused.
    let mut sink = match options.write.as_deref() {
        None => Sink::Lines(options.shown.output),
        Some(_) if to_standard => Sink::Standard,
        Some(path) => {
            let failed = |error| Failure::new(format_args!("{}: {error}", path.display()), Outcome::BadInput);
            Sink::File(Written {
                file: local_file::create(path).map_err(failed)?,
                path: path.to_owned(),
                bytes: 0,
            })
        }
    };
    // Held while something is written: Ctrl-C may end it at any time, and what was written is whole packets.
    let counted = Arc::new(Mutex::new(Counted::default()));
    let so_far = counted.clone();
    let handler = ctrlc::set_handler(move || {
        let counted = so_far.lock().unwrap_or_else(PoisonError::into_inner);
        console::error().line(&counted.told());
        console::end();
        std::process::exit(0);
    });
    handler.map_err(|error| Failure::new(error, Outcome::Failed))?;
    let (mut splitter, mut statistics) = (Splitter::default(), None);
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = packets.read(&mut bytes)?;
        if count == 0 {
            break;
        }
        splitter.feed(&bytes[..count]);
        let mut whole = Vec::new();
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *counted;
        while let Some(block) = splitter.next_block().map_err(|error| Failure::new(error, Outcome::Failed))? {
            statistics = block.statistics().or(statistics);
            counted.add(&block);
            match &sink {
                Sink::Lines(format) => {
                    if let Some(line) = line(&block, *format) {
                        print(&line)?;
                    }
                }
                Sink::File(..) | Sink::Standard => whole.extend(block.bytes),
            }
        }
        put(&mut sink, &whole)
            .map_err(|told| Failure::new(format!("{told}; {}", before.told()), Outcome::Failed))?;
    }
    match statistics {
        Some(Statistics { written, lost, .. }) => {
            console::error().line(&Counted { written, lost }.told());
            Ok(Outcome::Done)
        }
        None => Err(Failure::new("the daemon ended the capture", Outcome::Failed)),
    }
}

/// Writes whole packets, or says in words why it cannot.
fn put(sink: &mut Sink, bytes: &[u8]) -> Result<(), String> {
    let (written, name) = match sink {
        Sink::Lines(_) => return Ok(()),
        Sink::File(written) => {
            (written.put(bytes).inspect_err(|_| written.cut()), written.path.display().to_string())
        }
        Sink::Standard => {
            let mut out = std::io::stdout().lock();
            (out.write_all(bytes).and_then(|()| out.flush()), "standard output".to_owned())
        }
    };
    match written {
        Ok(()) => Ok(()),
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// A line for a packet, with its end.
fn line(block: &Block, format: Format) -> Option<String> {
    let seen = block.packet()?;
    let time = UNIX_EPOCH + Duration::from_nanos(seen.timestamp);
    let time = humantime::format_rfc3339_nanos(time).to_string();
    let what = words(seen.bytes, seen.length);
    let (direction, arrow) = match seen.direction {
        Direction::Unknown => (None, ""),
        Direction::Inbound => (Some("in"), "in   "),
        Direction::Outbound => (Some("out"), "out  "),
    };
    if matches!(format, Format::Json | Format::Yaml) {
        let value = json!({
            "time": time, "length": seen.length, "direction": direction, "what": what,
            "comment": harmless(seen.comment, 1000),
        });
        return Some(streamed(value, format));
    }
    Some(format!("{time}  {arrow}{}  {}\n", cell(&what), cell(seen.comment)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::capture::{Blocks, Entry};

    #[test]
    fn packets_are_lines() {
        let mut blocks = Blocks::default();
        let entry = Entry {
            timestamp: 1_760_000_000_000_000_007,
            length: 20,
            kept: 14,
            direction: Direction::Inbound,
            lost: 7,
            comment: "fw: from inside",
        };
        blocks.packet(&entry, |room| room[12..].copy_from_slice(&[8, 6]));
        let mut splitter = Splitter::default();
        splitter.feed(blocks.bytes());
        let block = splitter.next_block().expect("pcapng").expect("a block");
        // When Ctrl-C ends the capture nothing else tells of what was lost.
        let mut counted = Counted::default();
        counted.add(&block);
        assert_eq!(counted.told(), "1 packets captured, 7 lost");
        assert_eq!(Counted { written: 5, lost: 0 }.told(), "5 packets captured");
        let told = "2025-10-09T08:53:20.000000007Z  in   ARP, 20 bytes  fw: from inside\n";
        assert_eq!(line(&block, Format::Table).as_deref(), Some(told));
        let json = line(&block, Format::Json).expect("a line");
        assert!(json.contains("\"direction\":\"in\"") && json.ends_with("}\n"), "{json}");
    }
}
