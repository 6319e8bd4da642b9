//! Capture files: packets come from one and go to another.
//!
//! 1. [`PcapPort::open`] opens the files and reads the first one's headers. What is in the file to be written
//!    stays there until the port is used for the first time: a change that is tried, or that fails, leaves
//!    it as it was.
//! 2. `receive` gives the capture's packets, at the times that were recorded (or faster or slower), or as
//!    fast as they are taken; once, so many times, or again and again. Then the port is finished.
//! 3. `transmit` writes packets as pcapng, with their time of reception. A write that fails ends the writing:
//!    what the file does not hold is dropped as `port-down`.
//! 4. `maintain` tells where a capture broke, and that a write failed.
//! 5. `close` makes what was written permanent.
//!
//! A capture of both directions enters a chain at both ends: the port that reads it has [`sides`](Sides),
//! another one is the other side of it, and each gives what its side sent. Packets of one side wait until
//! those of the other that came before have left the chain, as far as the pool's free buffers tell, 10 ms at
//! most.
//!
//! Packets of a paced port have the present as their time of reception, others the recorded time. A paced
//! packet that finds no buffer is lost; one that is not paced waits in its file.
//!
//! Both formats are read by own code, about 300 lines. The crate `pcap-parser` is well kept, and in the tests
//! all that is written here is read by it; but it keeps whole blocks in memory whatever their kind, so that a
//! block's length decides how much, it allocates a list of options for each packet, and it leaves interfaces,
//! clocks and the place of a fault to its user, which is most of the code here.
//!
//! Packets of Linux cooked captures, of raw IP and of loopback interfaces are given an Ethernet header, which
//! is told once.
//!
//! Limits: in pcapng, packets of an interface of yet another link type are dropped as `malformed`. Frame
//! check sequences are not removed. Regular files only. Reading and writing a file can wait for the disk.

mod capture;
mod classic;
mod config;
mod error;
mod input;
mod link;
#[cfg(test)]
mod link_tests;
mod pair;
mod section;
#[cfg(test)]
mod side_tests;
mod sides;
mod source;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timeline;
mod unbegun;
mod writer;

pub use self::capture::{Capture, LINK_TYPE_ETHERNET, MAX_PACKET, Next, Record};
pub use config::{Config, Pace, SCHEMA};
pub use error::{Cause, Fault, Foreign, OpenError};
pub use link::{Link, Replaced};
pub use pair::Meetings;
pub use sides::{Side, SideFinder, Sides};

use crate::{Port, PortCounters, PortEvent, PortStatus, Wake};
use packet_memory::{Packet, Pool};
use pair::Reader;
use source::{Reading, Source};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use telemetry::DropReason;
use telemetry::clock::Nanos;
use unbegun::Unbegun;
use writer::Writer;

/// A port between capture files. See the module's documentation.
pub struct PcapPort {
    reader: Option<Reader>,
    output: Output,
    written: u64,
    events: Vec<PortEvent>,
    counters: PortCounters,
}

enum Output {
    /// Nothing is to be written.
    Discard,
    /// Nothing was written yet.
    Unbegun(Unbegun),
    Writing(PathBuf, Writer),
    /// Nothing more can be written; why.
    Ended(String),
}

impl PcapPort {
    /// Opens the files.
    ///
    /// # Errors
    /// [`OpenError`]. A capture that breaks behind its headers is no error, but told by `maintain`.
    pub fn open(config: Config) -> Result<PcapPort, OpenError> {
        PcapPort::open_among("", config, &Meetings::default())
    }

    /// Opens the files of a port of a name, which shares its capture with a port that meets it there.
    ///
    /// # Errors
    /// As [`PcapPort::open`].
    pub fn open_among(name: &str, config: Config, meetings: &Meetings) -> Result<PcapPort, OpenError> {
        let mut read_from = None;
        let mut source = None;
        if let Some(path) = config.read {
            let (file, metadata) = open_file(&path, OpenOptions::new().read(true))?;
            read_from = Some((metadata.dev(), metadata.ino()));
            let reading = Reading { pace: config.pace, passes: config.passes, sides: config.sides };
            source = Some(Source::open(path, file, reading)?);
        }
        let output = match config.write {
            None if source.is_none() && config.side_of.is_none() => return Err(OpenError::NoPath),
            None => Output::Discard,
            Some(path) => {
                let (unbegun, metadata) = Unbegun::open(path)?;
                if read_from == Some((metadata.dev(), metadata.ino())) {
                    return Err(OpenError::SameFile { path: unbegun.path().to_owned() });
                }
                Output::Unbegun(unbegun)
            }
        };
        // Last: what cannot be opened takes nothing of a capture that is being read.
        let reader = match (source, &config.side_of) {
            (Some(source), _) if config.sides.is_some() => Some(meetings.offer(name, source)),
            (Some(source), _) => Some(Reader::alone(source)),
            (None, Some(other)) => Some(meetings.ask(other)),
            (None, None) => None,
        };
        Ok(PcapPort { reader, output, written: 0, events: Vec::new(), counters: PortCounters::default() })
    }

    /// Looks at the files as [`PcapPort::open`] does, and makes and changes none.
    ///
    /// # Errors
    /// [`OpenError`]. There are others when a file is made.
    pub fn look(config: &Config) -> Result<(), OpenError> {
        let mut read_from = None;
        if let Some(path) = &config.read {
            let (file, metadata) = open_file(path, OpenOptions::new().read(true))?;
            read_from = Some((metadata.dev(), metadata.ino()));
            let reading = Reading { pace: config.pace, passes: config.passes, sides: config.sides };
            Source::open(path.clone(), file, reading)?;
        }
        let Some(path) = &config.write else { return Ok(()) };
        match open_file(path, OpenOptions::new().write(true)) {
            Ok((_, metadata)) if read_from == Some((metadata.dev(), metadata.ino())) => {
                Err(OpenError::SameFile { path: path.clone() })
            }
            Err(OpenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                // It is made, if there is a folder for it.
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                match std::fs::metadata(folder.unwrap_or(Path::new("."))) {
                    Ok(_) => Ok(()),
                    Err(source) => Err(OpenError::File { path: path.clone(), source }),
                }
            }
            looked => looked.map(drop),
        }
    }

    /// Begins to write, when the port is used for the first time.
    fn begin_writing(&mut self) {
        self.output = match std::mem::replace(&mut self.output, Output::Discard) {
            Output::Unbegun(unbegun) => {
                let path = unbegun.path().to_owned();
                match unbegun.begin() {
                    Ok(writer) => Output::Writing(path, writer),
                    Err(error) => return self.end_writing(&path, &error),
                }
            }
            begun => begun,
        };
    }

    fn end_writing(&mut self, path: &Path, error: &io::Error) {
        let why = format!("writing to {} ended after {} packets: {error}", path.display(), self.written);
        self.events.push(match self.reader {
            Some(_) => PortEvent::Notice(why.clone()),
            None => PortEvent::WentDown(why.clone()),
        });
        self.output = Output::Ended(why);
    }
}

impl Port for PcapPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if matches!(self.output, Output::Unbegun(_)) {
            self.begin_writing();
        }
        if let Some(reader) = &mut self.reader {
            reader.begin();
            reader.with(|source, side| source.receive(side, &mut self.counters, pool, now, budget, out));
        }
    }

    fn transmit(&mut self, pool: &Pool, _: Nanos, packets: &mut Vec<Packet>) {
        if matches!(self.output, Output::Unbegun(_)) {
            self.begin_writing();
        }
        let written = match &mut self.output {
            Output::Discard => packets.len(),
            Output::Unbegun(_) | Output::Ended(_) => 0,
            Output::Writing(path, writer) => {
                let (written, error) = writer.write(pool, packets);
                self.written += written as u64;
                if let Some(error) = error {
                    let path = std::mem::take(path);
                    self.end_writing(&path, &error);
                }
                written
            }
        };
        self.counters.ledger.dropped[DropReason::PortDown] += (packets.len() - written) as u64;
        pool.free_batch(packets.drain(written..));
        self.counters.deliver(pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        self.reader.as_ref().map_or(Wake::default(), Reader::wake)
    }

    fn status(&self) -> PortStatus {
        let finished = |reader: &Reader| reader.with(|source, _| source.is_finished()).unwrap_or(false);
        match (&self.reader, &self.output) {
            (Some(reader), _) if finished(reader) => PortStatus::Finished,
            (None, Output::Ended(why)) => PortStatus::Down(why.clone()),
            _ => PortStatus::Up,
        }
    }

    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        let mut events = match &self.reader {
            Some(reader) if reader.side() == Side::Inside => {
                reader.with(|source, _| source.take_events()).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        events.append(&mut self.events);
        events
    }

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let mut details = Vec::new();
        if let Some(reader) = self.reader.as_ref().filter(|reader| reader.side() == Side::Inside) {
            reader.with(|source, _| {
                details.extend([("passes", source.passes), ("cut_short", source.cut_short)]);
                details.extend([("empty", source.empty), ("other_side", source.other_side)]);
            });
        }
        if !matches!(self.output, Output::Discard) {
            details.push(("written", self.written));
        }
        details
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        match std::mem::replace(&mut self.output, Output::Ended("the port is closed".to_owned())) {
            Output::Writing(path, mut writer) => {
                writer.sync().map_err(|error| format!("{}: {error}", path.display()))
            }
            Output::Discard | Output::Unbegun(_) | Output::Ended(_) => Ok(()),
        }
    }
}

/// Opens a file that is a regular one: anything else could block for ever.
fn open_file(path: &Path, options: &OpenOptions) -> Result<(File, Metadata), OpenError> {
    let failed = |source| OpenError::File { path: path.to_owned(), source };
    let irregular = || OpenError::NotRegular { path: path.to_owned() };
    // Before as well, since opening a pipe waits for its other end.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(irregular());
    }
    let file = options.open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(irregular()) }
}
