//! The files that functions' events are appended to.
//!
//! 1. [`EventLog::open`] opens the file of each function that has one, before anything runs.
//! 2. [`EventLog::take`] hands events over to a thread that writes, and never waits: what finds its queue
//!    full is lost, counted. So is what a file does not take (a full disk): the traffic goes on.
//! 3. [`EventLog::finish`] waits until all is written and says what was lost.

use guest::Events;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Collections of events that may wait to be written; each has at most 4 MiB.
const WAITING: usize = 16;

/// What became of a function's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// Why they were lost, if the file was the reason.
    pub(crate) error: Option<String>,
}

/// One function's file.
struct Sink {
    path: PathBuf,
    file: File,
    written: Written,
}

/// Writes events of functions to files.
pub(crate) struct EventLog {
    sender: Option<SyncSender<(String, Events)>>,
    /// Lost before the thread, by function.
    lost: BTreeMap<String, u64>,
    thread: Option<JoinHandle<BTreeMap<String, Sink>>>,
}

impl EventLog {
    /// Opens the files, by the functions' names.
    ///
    /// # Errors
    /// The function whose file cannot be opened, and why.
    pub(crate) fn open(files: &BTreeMap<String, PathBuf>) -> Result<EventLog, (String, String)> {
        let mut sinks = BTreeMap::new();
        for (name, path) in files {
            let file = File::options()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| (name.clone(), format!("events: {}: {error}", path.display())))?;
            let sink = Sink { path: path.clone(), file, written: Written::default() };
            sinks.insert(name.clone(), sink);
        }
        let (sender, receiver) = sync_channel(WAITING);
        let lost = files.keys().map(|name| (name.clone(), 0)).collect();
        let thread = std::thread::Builder::new()
            .name("events".into())
            .spawn(move || write(sinks, &receiver))
            .map_err(|error| ("events".to_owned(), error.to_string()))?;
        Ok(EventLog { sender: Some(sender), lost, thread: Some(thread) })
    }

    /// Takes events, if they are of a function that has a file; else gives them back.
    pub(crate) fn take(&mut self, function: &str, events: Events) -> Result<(), Events> {
        let (Some(lost), Some(sender)) = (self.lost.get_mut(function), &self.sender) else {
            return Err(events);
        };
        if let Err(TrySendError::Full((_, events)) | TrySendError::Disconnected((_, events))) =
            sender.try_send((function.to_owned(), events))
        {
            *lost += events.lines.len() as u64 + events.lost;
        }
        Ok(())
    }

    /// Writes what is left; says what became of each function's events, and where they are.
    pub(crate) fn finish(mut self) -> Vec<(String, PathBuf, Written)> {
        drop(self.sender.take());
        let sinks = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let lost = std::mem::take(&mut self.lost);
        let ended = |(name, sink): (String, Sink)| {
            let mut written = sink.written;
            written.lost += lost.get(&name).copied().unwrap_or(0);
            (name, sink.path, written)
        };
        sinks.into_iter().map(ended).collect()
    }
}

fn write(mut sinks: BTreeMap<String, Sink>, receiver: &Receiver<(String, Events)>) -> BTreeMap<String, Sink> {
    while let Ok((name, events)) = receiver.recv() {
        if let Some(sink) = sinks.get_mut(&name) {
            sink.append(&events);
        }
    }
    sinks
}

impl Sink {
    /// Appends events, as far as the file takes them: a line is there whole or not at all.
    fn append(&mut self, events: &Events) {
        let text: String = events.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let mut done = 0;
        let ended = loop {
            match self.file.write(&text.as_bytes()[done..]) {
                Ok(0) => break None,
                Ok(written) => done += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        let whole = text[..done].rfind('\n').map_or(0, |end| end + 1);
        if let Some(error) = ended {
            self.written.error = Some(format!("{}: {error}", self.path.display()));
            let length = self.file.metadata().map(|metadata| metadata.len() - (done - whole) as u64);
            // A file that cannot be cut (a pipe) keeps the part of a line.
            let _ = length.and_then(|length| self.file.set_len(length));
        }
        let count = text[..whole].matches('\n').count() as u64;
        self.written.events += count;
        self.written.lost += events.lost + events.lines.len() as u64 - count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(lines: &[&str]) -> Events {
        Events { lines: lines.iter().map(|line| (*line).to_owned()).collect(), lost: 1 }
    }

    #[test]
    fn events_are_appended_and_what_was_lost_is_told() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("alerts.json");
        std::fs::write(&path, "{\"old\":1}\n").expect("written");
        let files = BTreeMap::from([("ids".to_owned(), path.clone())]);
        let mut log = EventLog::open(&files).expect("opened");
        assert_eq!(log.take("ids", events(&["{\"a\":1}", "{\"a\":2}"])), Ok(()));
        assert_eq!(log.take("other", events(&["x"])), Err(events(&["x"])));
        let ended = log.finish();
        assert_eq!(ended, [("ids".into(), path.clone(), Written { events: 2, lost: 1, error: None })]);
        assert_eq!(std::fs::read_to_string(path).expect("read"), "{\"old\":1}\n{\"a\":1}\n{\"a\":2}\n");
    }

    #[test]
    fn a_full_disk_loses_events_and_says_so() {
        let files = BTreeMap::from([("ids".to_owned(), PathBuf::from("/dev/full"))]);
        let mut log = EventLog::open(&files).expect("opened");
        log.take("ids", events(&["{}"; 3])).expect("taken");
        let [(_, _, written)] = log.finish().try_into().expect("one");
        assert_eq!((written.events, written.lost), (0, 4));
        assert!(written.error.expect("a reason").contains("/dev/full: No space left"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_told_before_anything_runs() {
        let files = BTreeMap::from([("ids".to_owned(), PathBuf::from("/no/such/folder/alerts"))]);
        let (name, reason) = EventLog::open(&files).err().expect("refused");
        assert_eq!(name, "ids");
        assert!(reason.contains("/no/such/folder/alerts: No such file"), "{reason}");
    }
}
