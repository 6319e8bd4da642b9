//! The store itself: opening, reading, committing, following.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;

use crate::carry::Carry;
use crate::durability::{Durability, SyncLog};
use crate::error::{CommitError, Gone, NotDurable, OpenError};
use crate::folder::{Folder, io_error, sync_folder};
use crate::history::History;
use crate::index::{Entry, Index, weight};
use crate::mark::{Mark, MarkFile};
use crate::object::{Change, Changed, Happened, Object, Page, Revision, Write};
use crate::room::Room;
use crate::settings::{CHANGES_MAX, KIND_MAX, NAME_MAX, Settings, UNDURABLE_MAX, VALUE_MAX};
use crate::subscription::{Subscribers, Subscription};
use crate::table::{RowWrite, Table, Total, WriteFailure, checksum, log_growth};

/// An open store. All its functions can be called from any thread; see the [crate](crate).
pub struct Store {
    shared: Arc<Shared>,
    durability: Option<JoinHandle<()>>,
    carry: Option<JoinHandle<()>>,
}

pub(crate) struct Shared {
    writer: Mutex<Writer>,
    memory: RwLock<Memory>,
    durability: Durability,
    carry: Carry,
    subscribers: Subscribers,
    settings: Settings,
    room: Room,
    // The last to go: it holds the lock.
    folder: Folder,
}

/// What one commit at a time has.
struct Writer {
    table: Table,
    total: Total,
    /// The last revision that was given out; ahead of the table's after a crash.
    revision: Revision,
    /// The last row that was used.
    slots: i64,
    scratch: Vec<u8>,
}

/// What readers see: always the state after some commit.
struct Memory {
    index: Index,
    history: History,
}

/// How much a store holds, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Objects alive.
    pub objects: u64,
    /// Bytes that they take in memory, about.
    pub bytes: u64,
    /// The last commit.
    pub revision: Revision,
    /// The last commit that is on disk.
    pub durable: Revision,
    /// Bytes of the log that are not yet carried over into the main file, about.
    pub log_bytes: u64,
    /// Why the log could not be carried over when that was last tried; it is tried again.
    pub log_trouble: Option<String>,
    /// Why nothing is accepted any more.
    pub failure: Option<NotDurable>,
    /// That its disk does not answer, or is full or as good as full; commits wait or are refused then.
    pub disk: Option<String>,
    /// Which of its files was removed or replaced; nothing is accepted then.
    pub removed: Option<String>,
}

impl Store {
    /// Opens the store in a folder; makes both if the folder is empty or is not there.
    ///
    /// # Errors
    /// [`OpenError`]. A store that is damaged, or that lost commits which were durable, is never opened.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        Self::open_with(folder, Settings::default())
    }

    /// Opens the store with other settings than the usual.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(folder: &Path, settings: Settings) -> Result<Self, OpenError> {
        Self::open_syncing(folder, settings, |log| Box::new(move || log.sync_data()))
    }

    /// Opens the store with a way of its own to write the log to disk.
    pub(crate) fn open_syncing(
        path: &Path,
        settings: Settings,
        sync: impl FnOnce(File) -> SyncLog,
    ) -> Result<Self, OpenError> {
        let mut folder = Folder::lock(path)?;
        let mark = read_mark(&folder)?;
        make_if_new(&folder, mark)?;
        let mark = read_mark(&folder)?;
        let table = Table::open(&folder.table())?;
        let (index, total, slots) = table.load(settings.max_bytes)?;
        if let Some(mark) = mark.filter(|mark| mark.durable > total.revision) {
            let (durable, found) = (mark.durable, total.revision);
            return Err(OpenError::Lost { folder: folder.path().to_owned(), durable, found });
        }
        // Commits that the disk never saw may have been acknowledged before a crash: their numbers are left
        // out.
        let in_order = mark == Some(Mark { durable: total.revision, closed: true });
        let skipped = if in_order { 0 } else { UNDURABLE_MAX };
        let revision = Revision(total.revision.0 + skipped);
        // After `kill -9` what is read here may still be on its way to the disk.
        let log = local_file::open(&folder.log()).map_err(io_error(&folder.log()))?;
        log.sync_all().map_err(io_error(&folder.log()))?;
        sync_folder(path).map_err(io_error(path))?;
        let (untouched, begun) =
            [in_order, false].map(|closed| Mark { durable: total.revision, closed }).into();
        let mark = MarkFile::open(&folder.mark(), begun).map_err(io_error(&folder.mark()))?;
        sync_folder(path).map_err(io_error(path))?;
        let carrier = Table::open(&folder.table())?;
        folder.note_files()?;

        let shared = Arc::new(Shared {
            writer: Mutex::new(Writer { table, total, revision, slots, scratch: Vec::new() }),
            memory: RwLock::new(Memory { index, history: History::new(settings.changes_kept, revision) }),
            durability: Durability::new(revision),
            carry: Carry::new(),
            subscribers: Subscribers::default(),
            settings,
            room: Room::default(),
            folder,
        });
        let mut store = Self { shared: shared.clone(), durability: None, carry: None };
        let (mut sync, gather) = (sync(log), shared.settings.gather);
        let durability = spawn("store-durable", {
            let shared = shared.clone();
            move || shared.durability.run(gather, &mark, untouched, &mut sync)
        });
        store.durability = Some(durability.map_err(io_error(path))?);
        let carry = spawn("store-carry", move || {
            let alone = |carry: &dyn Fn() -> _| {
                let _nobody_commits = shared.writer();
                carry()
            };
            if let Err(what) = shared.carry.run(&carrier, alone) {
                shared.durability.fail(what);
            }
        });
        store.carry = Some(carry.map_err(io_error(path))?);
        Ok(store)
    }

    /// The object of this kind and name.
    #[must_use]
    pub fn read(&self, kind: &str, name: &str) -> Option<Object> {
        self.shared.memory().index.object(kind, name)
    }

    /// Up to `limit` objects of a kind, from the name `from` on (`""`: from the first), in the order of their
    /// names.
    #[must_use]
    pub fn list(&self, kind: &str, from: &str, limit: usize) -> Page {
        let memory = self.shared.memory();
        let (objects, next) = memory.index.page(kind, from, limit);
        Page { objects, next, revision: memory.history.newest() }
    }

    /// Each kind of which there are objects, with their number.
    #[must_use]
    pub fn kinds(&self) -> Vec<(Arc<str>, usize)> {
        self.shared.memory().index.kinds()
    }

    /// The last commit.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.shared.memory().history.newest()
    }

    /// Carries out all changes, or none. When this returns they survive the end of the process, however it
    /// comes; within 10 ms they are on disk, if the disk takes no longer. Changes that change nothing make no
    /// revision: the present one is returned then.
    ///
    /// # Errors
    /// [`CommitError`]; the store is as it was before.
    pub fn commit(&self, changes: &[Change]) -> Result<Revision, CommitError> {
        let revision = self.shared.commit(changes)?;
        self.shared.subscribers.tell(revision);
        Ok(revision)
    }

    /// Blocks until a revision, and all before it, are on disk.
    ///
    /// # Errors
    /// [`NotDurable`] when they will never be, or when there is no such revision yet.
    pub fn wait_durable(&self, revision: Revision) -> Result<(), NotDurable> {
        self.shared.durability.wait(revision)
    }

    /// Calls `when` once a revision, and all before it, are on disk, or are known never to be: at once, or
    /// later from one of the store's threads. It must not block and must not drop the store.
    pub fn when_durable(
        &self,
        revision: Revision,
        when: impl FnOnce(Result<(), NotDurable>) + Send + 'static,
    ) {
        self.shared.durability.when(revision, Box::new(when));
    }

    /// The last commit that is on disk.
    #[must_use]
    pub fn durable_revision(&self) -> Revision {
        self.shared.durability.durable()
    }

    /// The changes after a revision, in order: those of whole commits, at least `limit` if there are so many.
    /// Empty means that nothing happened since.
    ///
    /// # Errors
    /// [`Gone`] when they are no longer known, as after a restart, or when there is no such revision.
    pub fn changes_after(&self, revision: Revision, limit: usize) -> Result<Vec<Changed>, Gone> {
        self.shared.memory().history.after(revision, limit)
    }

    /// Calls `told` after each commit, on the thread that commits, until the subscription is dropped. It must
    /// not block; calls of several threads may come in any order, so that it is best used to wake a thread
    /// that asks for [`changes_after`](Self::changes_after).
    pub fn subscribe(&self, told: impl Fn(Revision) + Send + Sync + 'static) -> Subscription {
        self.shared.subscribers.add(Box::new(told))
    }

    /// How much the store holds, and how it is.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let (log_bytes, log_trouble) = self.shared.carry.standing();
        let memory = self.shared.memory();
        Standing {
            objects: memory.index.objects(),
            bytes: memory.index.bytes(),
            revision: memory.history.newest(),
            durable: self.shared.durability.durable(),
            log_bytes,
            log_trouble,
            failure: self.shared.durability.failure(),
            disk: self.shared.room.trouble(self.shared.folder.path()),
            removed: self.shared.folder.removed(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.shared.folder.path()
    }

    /// Copies all objects into another file, with the connection that commits: it has the files also when
    /// they were removed. Nothing is committed meanwhile.
    pub(crate) fn copy_with_writer(&self, to: &str) -> Result<(), WriteFailure> {
        self.shared.writer().table.copy_to(to)
    }

    pub(crate) fn removed(&self) -> bool {
        self.shared.folder.removed().is_some()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.carry.stop();
        self.shared.durability.stop();
        for thread in [self.carry.take(), self.durability.take()].into_iter().flatten() {
            // A panic of theirs was told where it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A writer changes its numbers only after the last step that can fail.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> RwLockReadGuard<'_, Memory> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, changes: &[Change]) -> Result<Revision, CommitError> {
        check_sizes(changes)?;
        let mut writer = self.writer();
        self.durability.admit()?;
        let writer = &mut *writer;
        let revision = Revision(writer.revision.0 + 1);
        let mut total = Total { revision, ..writer.total };
        let mut slots = writer.slots;
        // A change with its row and what takes its place in memory.
        let mut rows = Vec::with_capacity(changes.len());
        let mut entries = Vec::with_capacity(changes.len());
        let bytes = {
            // No other thread writes to memory while this thread has the writer.
            let memory = self.memory();
            let mut bytes = memory.index.bytes();
            for change in changes {
                let before = memory.index.get(&change.kind, &change.name);
                let found = before.map(|entry| entry.version);
                if !change.precondition.holds(found) {
                    let (kind, name) = (change.kind.to_string(), change.name.to_string());
                    return Err(CommitError::Conflict { kind, name, expected: change.precondition, found });
                }
                if let Some(before) = before {
                    total.sum = total.sum.wrapping_sub(before.checksum);
                    total.objects -= 1;
                    bytes -= weight(&change.name, &before.value);
                }
                let (kind, name) = (&*change.kind, &*change.name);
                match (&change.write, before) {
                    (Write::Put(value), _) => {
                        let slot = before.map_or_else(
                            || {
                                slots += 1;
                                slots
                            },
                            |entry| entry.slot,
                        );
                        let checksum = checksum(kind, name, revision, value, &mut writer.scratch);
                        total.sum = total.sum.wrapping_add(checksum);
                        total.objects += 1;
                        bytes += weight(name, value);
                        rows.push(RowWrite::Put { slot, kind, name, revision, checksum, value });
                        entries.push((
                            change,
                            Some(Entry { version: revision, value: value.clone(), slot, checksum }),
                        ));
                    }
                    (Write::Delete, Some(entry)) => {
                        rows.push(RowWrite::Delete { slot: entry.slot });
                        entries.push((change, None));
                    }
                    (Write::Delete, None) => {}
                }
            }
            bytes
        };
        if rows.is_empty() {
            return Ok(writer.revision);
        }
        if let Some(removed) = self.folder.removed() {
            return Err(CommitError::Removed(removed));
        }
        let allowed = self.settings.max_bytes;
        if bytes > allowed && bytes > self.memory().index.bytes() {
            return Err(CommitError::TooLarge { found: bytes, allowed });
        }
        let committed = self.room.while_written(|| writer.table.commit(&rows, total));
        committed.map_err(|failure| match failure {
            WriteFailure::DiskFull(what) => {
                self.room.refused(self.folder.path(), &what);
                CommitError::DiskFull(what)
            }
            WriteFailure::Other(what) => CommitError::Write(what),
        })?;
        self.room.taken();
        (writer.total, writer.revision, writer.slots) = (total, revision, slots);
        self.carry.grew(log_growth(&rows));
        self.show(revision, entries);
        self.durability.committed(revision);
        Ok(revision)
    }

    /// Lets readers see a commit.
    fn show(&self, revision: Revision, entries: Vec<(&Change, Option<Entry>)>) {
        let changed = |(change, entry): &(&Change, Option<Entry>)| Changed {
            revision,
            kind: change.kind.clone(),
            name: change.name.clone(),
            happened: if entry.is_some() { Happened::Put } else { Happened::Deleted },
        };
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.history.append(revision, entries.iter().map(changed));
        for (change, entry) in entries {
            match entry {
                Some(entry) => memory.index.put(&change.kind, &change.name, entry),
                None => memory.index.remove(&change.kind, &change.name),
            };
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}

fn read_mark(folder: &Folder) -> Result<Option<Mark>, OpenError> {
    let file = folder.mark();
    match Mark::read(&file).map_err(io_error(&file))? {
        None => Ok(None),
        Some(Ok(mark)) => Ok(Some(mark)),
        Some(Err(what)) => Err(OpenError::Damaged { file, what }),
    }
}

/// Makes a store in a folder that has none. It comes into being with its name, whole; a folder in which there
/// was one is told by what is left of it.
fn make_if_new(folder: &Folder, mark: Option<Mark>) -> Result<(), OpenError> {
    let (table, unfinished, path) = (folder.table(), folder.unfinished(), folder.path());
    if table.try_exists().map_err(io_error(&table))? {
        return Ok(());
    }
    let was_one = mark.is_some_and(|mark| mark.durable > Revision(0));
    if was_one || folder.log().try_exists().map_err(io_error(&table))? {
        return Err(OpenError::Damaged {
            file: table,
            what: "it is missing, and other files of a store are there".into(),
        });
    }
    for end in ["", "-journal", "-wal", "-shm"] {
        let left = unfinished.with_file_name(format!("store.new{end}"));
        match std::fs::remove_file(&left) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io_error(&left)(error)),
            _ => {}
        }
    }
    Table::create(&unfinished)?;
    let mark = Mark { durable: Revision(0), closed: true };
    MarkFile::open(&folder.mark(), mark).map_err(io_error(&folder.mark()))?;
    std::fs::rename(&unfinished, &table).map_err(io_error(&table))?;
    sync_folder(path).map_err(io_error(path))
}

fn check_sizes(changes: &[Change]) -> Result<(), CommitError> {
    let check = |of: &dyn Fn() -> String, what, found: usize, least: usize, most: usize| {
        if (least..=most).contains(&found) {
            Ok(())
        } else {
            Err(CommitError::Size { of: of(), what, found, least, most })
        }
    };
    check(&|| "the commit".into(), "changes in number", changes.len(), 0, CHANGES_MAX)?;
    for Change { kind, name, write, .. } in changes {
        // Enough of it to be found again, and no more.
        let of = || format!("{kind:.64} {name:.64}");
        check(&of, "a kind in bytes", kind.len(), 1, KIND_MAX)?;
        check(&of, "a name in bytes", name.len(), 1, NAME_MAX)?;
        if let Write::Put(value) = write {
            check(&of, "a value in bytes", value.len(), 0, VALUE_MAX)?;
        }
    }
    if changes.len() > 1 {
        let mut seen = BTreeSet::new();
        for Change { kind, name, .. } in changes {
            if !seen.insert((kind, name)) {
                return Err(CommitError::Twice { kind: kind.to_string(), name: name.to_string() });
            }
        }
    }
    Ok(())
}
