//! Recording without waiting: chunks of packets go to a thread that writes them.

use crate::filter::{Filter, Outcome};
use crate::{Blocks, CaptureFile, Direction, Entry, Interface, Statistics, Target};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are gathered before they are handed over.
pub const CHUNK: usize = 256 << 10;

/// Chunks that may wait for the thread.
pub const WAITING: usize = 16;

/// Bytes that a filter gets to see of a packet: two VLAN tags, eight IPv6 extension headers, and ports.
const SEEN: usize = 256;

/// What is captured, and how much of it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the packets are seen, for the file's reader.
    pub place: String,
    /// Which packets; `None`: all.
    pub filter: Option<Filter>,
    /// Most bytes kept of a packet; 0: all.
    pub snap_length: u32,
    /// Where the file ends, in bytes; 0: nowhere.
    pub limit: u64,
    /// How many packets are captured; 0: all.
    pub count: u64,
}

/// A packet that was seen.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Its length in bytes, of what there is of it.
    pub length: u32,
    /// Bytes that it had beyond those: it comes from a capture that has only a part of it.
    pub snapped: u16,
    /// Which way it went.
    pub direction: Direction,
    /// What became of it.
    pub outcome: Outcome,
    /// A comment; none when empty.
    pub comment: &'a str,
}

/// What became of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The file, or what stands for it.
    pub path: PathBuf,
    /// Packets in it.
    pub written: u64,
    /// Packets that the filter let through and that are not in it.
    pub lost: u64,
    /// Why the capture ended before its time.
    pub ended: Option<String>,
}

#[derive(Default)]
struct Shared {
    written: AtomicU64,
    lost: AtomicU64,
    /// Nothing is written any more.
    over: AtomicBool,
    /// No more packets are wanted: the limit is reached, or the output has no reader any more.
    enough: AtomicBool,
    /// Packets that are still wanted.
    left: AtomicU64,
    ended: Mutex<Option<String>>,
}

impl Shared {
    fn end(&self, why: String) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The side that is given the packets.
pub struct Recorder {
    filter: Option<Filter>,
    snap_length: u32,
    blocks: Blocks,
    /// Packets that were lost before those, as these say, and since: the next one says it.
    said: u64,
    unsaid: u64,
    full: Option<SyncSender<Chunk>>,
    empty: Receiver<Blocks>,
    give_back: Sender<Blocks>,
    shared: Arc<Shared>,
}

/// Blocks to be written, and the sender that returns them when they have been.
type Chunk = (Blocks, Sender<Blocks>);

/// The side of the caller that asked for the capture.
pub struct Capture {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Makes the file and starts the thread.
///
/// # Errors
/// The file cannot be made or written, or there is no thread to be had.
pub fn begin(path: &Path, settings: Settings) -> io::Result<(Recorder, Capture)> {
    begin_to(Box::new(local_file::create(path)?), path, settings)
}

/// The same, to somewhere else that is called `path`.
///
/// # Errors
/// It cannot be written to, or there is no thread to be had.
pub fn begin_to(target: Box<dyn Target>, path: &Path, settings: Settings) -> io::Result<(Recorder, Capture)> {
    let interface = Interface {
        name: settings.place,
        filter: settings.filter.as_ref().map(|filter| filter.text().to_owned()).unwrap_or_default(),
        snap_length: settings.snap_length,
    };
    let file = CaptureFile::begin(target, &interface)?;
    let left = if settings.count == 0 { u64::MAX } else { settings.count };
    let shared = Arc::new(Shared { left: AtomicU64::new(left), ..Shared::default() });
    let (full, chunks) = sync_channel(WAITING);
    let (give_back, empty) = channel();
    let (theirs, limit, name) = (shared.clone(), settings.limit, path.to_owned());
    let thread = std::thread::Builder::new()
        .name("capture".into())
        .spawn(move || write(file, &name, limit, &chunks, &theirs))?;
    let recorder = Recorder {
        filter: settings.filter,
        snap_length: settings.snap_length,
        blocks: Blocks::default(),
        said: 0,
        unsaid: 0,
        full: Some(full),
        empty,
        give_back,
        shared: shared.clone(),
    };
    Ok((recorder, Capture { path: path.to_owned(), shared, thread: Some(thread) }))
}

impl Recorder {
    /// A second recorder for the same capture, for packets seen on another thread. Packets of one recorder
    /// stay in order.
    pub fn another(&self) -> Recorder {
        let (give_back, empty) = channel();
        Recorder {
            filter: self.filter.clone(),
            snap_length: self.snap_length,
            blocks: Blocks::default(),
            said: 0,
            unsaid: 0,
            full: self.full.clone(),
            empty,
            give_back,
            shared: self.shared.clone(),
        }
    }

    /// Whether nothing is recorded any more.
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Relaxed) || self.shared.enough.load(Ordering::Relaxed)
    }

    /// Records a packet if the filter lets it through. `read` copies the packet's first bytes and never
    /// waits.
    pub fn record(&mut self, sighting: &Sighting<'_>, read: impl Fn(&mut [u8])) {
        if self.shared.enough.load(Ordering::Relaxed) {
            return;
        }
        let length = sighting.length.saturating_add(sighting.snapped.into());
        if let Some(filter) = &self.filter {
            let mut seen = [0; SEEN];
            let seen = &mut seen[..SEEN.min(sighting.length as usize)];
            read(seen);
            if !filter.matches(seen, length, sighting.outcome) {
                return;
            }
        }
        if self.shared.over.load(Ordering::Relaxed) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let left =
            self.shared.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            return;
        }
        let snap = if self.snap_length == 0 { u32::MAX } else { self.snap_length };
        let entry = Entry {
            timestamp: sighting.timestamp,
            length,
            kept: sighting.length.min(snap),
            direction: sighting.direction,
            lost: std::mem::take(&mut self.unsaid),
            comment: sighting.comment,
        };
        self.said += entry.lost;
        self.blocks.packet(&entry, read);
        if left == Ok(1) {
            self.shared.enough.store(true, Ordering::Relaxed);
            self.hand_over();
        } else if self.blocks.bytes().len() >= CHUNK {
            self.hand_over();
        }
    }

    /// Hands over what was gathered, so that it is in the file soon. To be called now and then.
    pub fn hand_over(&mut self) {
        if self.blocks.packets() == 0 {
            return;
        }
        let blocks = std::mem::replace(&mut self.blocks, self.empty.try_recv().unwrap_or_default());
        let said = std::mem::take(&mut self.said);
        let Some(full) = &self.full else { return };
        if let Err(TrySendError::Full((mut blocks, _)) | TrySendError::Disconnected((mut blocks, _))) =
            full.try_send((blocks, self.give_back.clone()))
        {
            let lost = blocks.packets() as u64;
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            // What these said of others is lost with them.
            self.unsaid += said + lost;
            blocks.clear();
            self.blocks = blocks;
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
        self.full = None;
    }
}

impl Capture {
    /// Whether all packets that were wanted were seen, or nothing can be written any more.
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Relaxed) || self.shared.enough.load(Ordering::Relaxed)
    }

    /// Wants nothing more. What was recorded before is still written.
    pub fn stop(&self) {
        self.shared.enough.store(true, Ordering::Relaxed);
    }

    /// Why the capture has ended before its time, if it has.
    pub fn ended(&self) -> Option<String> {
        self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until all that was recorded is written. To be called when the recorder is gone: before, this
    /// waits for that.
    pub fn finish(mut self) -> Summary {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.shared.end("the thread that writes broke".to_owned());
        }
        Summary {
            path: self.path.clone(),
            written: self.shared.written.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            ended: self.ended(),
        }
    }
}

fn write(mut file: CaptureFile, path: &Path, limit: u64, chunks: &Receiver<Chunk>, shared: &Shared) {
    while let Ok((mut blocks, give_back)) = chunks.recv() {
        let (mut written, mut error) = (0, None);
        let fits = limit == 0 || file.length() + blocks.bytes().len() as u64 <= limit;
        if !shared.over.load(Ordering::Relaxed) {
            if fits {
                (written, error) = file.append(&blocks);
            } else {
                shared.end(format!("{}: the limit of {limit} bytes is reached", path.display()));
            }
        }
        if let Some(error) = error {
            shared.end(format!("{}: {error}", path.display()));
        }
        shared.written.fetch_add(written as u64, Ordering::Relaxed);
        shared.lost.fetch_add((blocks.packets() - written) as u64, Ordering::Relaxed);
        blocks.clear();
        // The recorder may be gone.
        let _ = give_back.send(blocks);
    }
    if !shared.over.load(Ordering::Relaxed) {
        conclude(&mut file, path, limit, shared);
    }
    if let Err(error) = file.sync()
        && !shared.over.load(Ordering::Relaxed)
    {
        shared.end(format!("{}: {error}", path.display()));
    }
}

/// Says at the file's end how the capture went, if there is room for that.
fn conclude(file: &mut CaptureFile, path: &Path, limit: u64, shared: &Shared) {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut blocks = Blocks::default();
    blocks.statistics(&Statistics {
        timestamp: u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX),
        written: shared.written.load(Ordering::Relaxed),
        lost: shared.lost.load(Ordering::Relaxed),
    });
    if limit != 0 && file.length() + blocks.bytes().len() as u64 > limit {
        return;
    }
    if let (_, Some(error)) = file.append(&blocks) {
        shared.end(format!("{}: {error}", path.display()));
    }
}
