//! What functions found and what happened to them: kept for clients that ask later, bounded, and over a
//! restart of the daemon.
//!
//! 1. [`Kept::open`] reads what an earlier daemon wrote: a file for each tenant, in the folder `events` of
//!    the state.
//! 2. [`Kept::know`] says which function is whose. Events of a function that is not known are not kept; a
//!    function that changes its tenant begins with nothing.
//! 3. [`Kept::found`] and [`Kept::happened`] put events into the function's ring, in memory. A ring is
//!    bounded, and so are all rings of a tenant together: the largest one is halved.
//! 4. [`Kept::write`] appends what is new to the tenants' files. It runs on a thread of its own, at
//!    intervals: what a flood pushed out of a ring between two of them is never written, so that no function
//!    can keep a disk busy. A disk that is slow or full holds nothing up: what could not be written is tried
//!    again as long as the ring has it.
//! 5. [`Kept::forget`] ends the ring of a function that was deleted; its lines leave the file when that is
//!    written anew.

mod file;
mod ring;
mod writer;

use file::Line;
use local_file::Place;
use ring::Ring;
pub(super) use ring::{Entry, What};
use std::collections::{BTreeSet, HashMap};
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
pub(super) use writer::Writer;

/// Most bytes of all rings of a tenant.
const OF_TENANT: usize = 4 << 20;
/// A file is written anew when it has so many bytes more than twice what the rings hold.
const SLACK: u64 = 1 << 20;
/// Numbers that are reserved at a time: so many may be given between two writes without one being given
/// twice.
const RESERVED: u64 = 1 << 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Kept {
    folder: PathBuf,
    /// What it is, if there is one.
    place: Option<Place>,
    functions: HashMap<String, Function>,
    tenants: HashMap<String, Tenant>,
    /// Functions so far.
    count: u64,
}

#[derive(Debug)]
struct Function {
    tenant: String,
    /// Most functions never have an event.
    ring: Option<Box<Ring>>,
    /// Tells it from an earlier one of its name.
    id: u64,
}

#[derive(Debug, Default)]
struct Tenant {
    bytes: usize,
    functions: BTreeSet<String>,
    /// Functions with something that is not on disk, or that are gone.
    unwritten: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// Bytes of its file.
    file: u64,
}

impl Function {
    fn bytes(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.bytes())
    }
}

/// What is to be appended to, or put in the place of, a tenant's file.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) path: PathBuf,
    pub(super) lines: Vec<u8>,
    pub(super) anew: bool,
    tenant: String,
    upto: Vec<Upto>,
    gone: Vec<String>,
}

/// How far a function's events are in what is to be written.
#[derive(Debug)]
struct Upto {
    function: String,
    id: u64,
    last: u64,
    reserved: u64,
}

/// The folder for this user alone, which is made if it is not there: what functions find is the tenants' and
/// the administrator's. One that is open to others is narrowed.
fn private(folder: &Path) -> io::Result<Place> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = std::fs::metadata(folder)?.permissions();
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o700))?;
    }
    Place::of(folder)
}

/// The present time, in microseconds since the Unix epoch.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl Kept {
    /// Reads what is there; what cannot be read is told, line by line, and left out.
    pub(super) fn open(folder: &Path) -> (Kept, Vec<String>) {
        let mut kept = Kept { folder: folder.to_owned(), ..Kept::default() };
        let mut troubles = Vec::new();
        match private(folder) {
            Ok(place) => kept.place = Some(place),
            Err(error) => troubles.push(format!("{}: events of functions: {error}", folder.display())),
        }
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "new") {
                // Its writing was interrupted; what it was to replace is there.
                let _ = std::fs::remove_file(&path);
            }
            let tenant = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            let (Some(tenant), Some("jsonl")) = (tenant, path.extension().and_then(|end| end.to_str()))
            else {
                continue;
            };
            match kept.read(&tenant, &path) {
                Ok(0) => {}
                Ok(lines) => troubles.push(format!("{}: {lines} lines cannot be read", path.display())),
                Err(error) => troubles.push(format!("{}: {error}", path.display())),
            }
        }
        (kept, troubles)
    }

    /// The folder as it was opened, if there is one.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    fn read(&mut self, tenant: &str, path: &Path) -> io::Result<u64> {
        // What is here is the daemon's own; a link leads elsewhere.
        if !std::fs::symlink_metadata(path)?.is_file() {
            return Err(io::Error::other("this is no file"));
        }
        let mut found: HashMap<String, (Vec<Entry>, u64)> = HashMap::new();
        let mut unreadable = file::read(path, |line| match line {
            Line::Event { function, number, time, what, text } => {
                let (entries, _) = found.entry(function).or_default();
                entries.push(Entry { number, time, what, text: text.into() });
            }
            Line::Reserved { function, reserved } => {
                let (_, before) = found.entry(function).or_default();
                *before = reserved.max(*before);
            }
            Line::Gone { function, .. } => drop(found.remove(&function)),
        })?;
        for (name, (entries, reserved)) in found {
            let count = entries.len();
            let entries = file::rising(entries);
            unreadable += (count - entries.len()) as u64;
            let mut ring = Ring::default();
            ring.reserved = reserved;
            entries.into_iter().for_each(|entry| ring.put(entry));
            ring.last = ring.last.max(ring.reserved);
            ring.written = ring.last;
            self.insert(name, tenant, Some(Box::new(ring)));
        }
        self.tenants.entry(tenant.to_owned()).or_default().file = std::fs::metadata(path)?.len();
        Ok(unreadable)
    }

    fn insert(&mut self, name: String, tenant: &str, ring: Option<Box<Ring>>) {
        self.forget(&name);
        self.count += 1;
        let of = self.tenants.entry(tenant.to_owned()).or_default();
        let function = Function { tenant: tenant.to_owned(), ring, id: self.count };
        of.bytes += function.bytes();
        of.functions.insert(name.clone());
        self.functions.insert(name, function);
        self.bound(tenant);
    }

    /// A function is there, and whose it is.
    pub(super) fn know(&mut self, function: &str, tenant: &str) {
        if self.functions.get(function).is_some_and(|known| known.tenant == tenant) {
            return;
        }
        self.insert(function.to_owned(), tenant, None);
    }

    /// Whose a function is.
    pub(super) fn tenant_of(&self, function: &str) -> Option<&str> {
        self.functions.get(function).map(|known| known.tenant.as_str())
    }

    /// A function is no more.
    pub(super) fn forget(&mut self, function: &str) {
        let Some(known) = self.functions.remove(function) else { return };
        if let Some(tenant) = self.tenants.get_mut(&known.tenant) {
            tenant.bytes -= known.bytes();
            tenant.functions.remove(function);
            tenant.unwritten.remove(function);
            if known.ring.is_some_and(|ring| ring.last > 0) {
                tenant.gone.insert(function.to_owned());
            }
        }
    }

    /// Forgets all functions but these.
    pub(super) fn retain(&mut self, functions: &BTreeSet<&str>) {
        let others: Vec<String> =
            self.functions.keys().filter(|name| !functions.contains(name.as_str())).cloned().collect();
        others.iter().for_each(|name| self.forget(name));
    }

    /// A function told what it found, and so many alerts were lost.
    pub(super) fn found(&mut self, function: &str, alerts: &[String], lost: u64) {
        self.change(function, |ring| ring.found(now(), alerts, lost));
    }

    /// A function failed, or was started again.
    pub(super) fn happened(&mut self, function: &str, what: What, text: &str) {
        self.change(function, |ring| ring.push(now(), what, text));
    }

    fn change(&mut self, function: &str, change: impl FnOnce(&mut Ring)) {
        let Some(known) = self.functions.get_mut(function) else { return };
        let Some(tenant) = self.tenants.get_mut(&known.tenant) else { return };
        tenant.bytes -= known.bytes();
        change(known.ring.get_or_insert_default());
        tenant.bytes += known.bytes();
        if !tenant.unwritten.contains(function) {
            tenant.unwritten.insert(function.to_owned());
        }
        if tenant.bytes > OF_TENANT {
            let tenant = known.tenant.clone();
            self.bound(&tenant);
        }
    }

    /// Halves the largest rings of a tenant until all together are small enough.
    fn bound(&mut self, tenant: &str) {
        let Some(of) = self.tenants.get_mut(tenant) else { return };
        while of.bytes > OF_TENANT {
            let size = |name: &&String| self.functions.get(*name).map_or(0, Function::bytes);
            let Some(largest) = of.functions.iter().max_by_key(size).cloned() else { return };
            let ring = self.functions.get_mut(&largest).and_then(|known| known.ring.as_mut());
            let Some(ring) = ring else { return };
            of.bytes -= ring.bytes();
            ring.halve();
            of.bytes += ring.bytes();
        }
    }

    fn ring(&self, function: &str) -> Option<&Ring> {
        self.functions.get(function)?.ring.as_deref()
    }

    /// Up to `limit` events of a function with larger numbers, in order.
    pub(super) fn after(&self, function: &str, number: u64, limit: usize) -> Vec<Entry> {
        self.ring(function).map_or_else(Vec::new, |ring| ring.after(number, limit))
    }

    /// What a function reported last, and when.
    pub(super) fn report(&self, function: &str) -> Option<(u64, Box<str>)> {
        self.ring(function)?.report()
    }

    /// A function reported something. It is kept in memory alone.
    pub(super) fn reported(&mut self, function: &str, time: u64, text: &str) {
        self.change(function, |ring| ring.reported(time, text));
    }

    /// Events of a function that were kept, and alerts that were lost, since the daemon was started.
    pub(super) fn counts(&self, function: &str) -> (u64, u64) {
        self.ring(function).map_or((0, 0), |ring| (ring.kept, ring.lost))
    }

    /// What there is to write, a file for each tenant of which something is new.
    pub(super) fn to_write(&self) -> Vec<Writing> {
        let changed = self.tenants.iter().filter(|(_, of)| !of.unwritten.is_empty() || !of.gone.is_empty());
        changed.map(|(tenant, of)| self.to_write_of(tenant, of)).collect()
    }

    fn to_write_of(&self, tenant: &str, of: &Tenant) -> Writing {
        let anew = of.file > 2 * of.bytes as u64 + SLACK;
        let (mut lines, mut upto) = (Vec::new(), Vec::new());
        let gone: Vec<String> = of.gone.iter().cloned().collect();
        for function in gone.iter().filter(|_| !anew) {
            Line::Gone { function: function.clone(), gone: true }.write(&mut lines);
        }
        let functions = if anew { &of.functions } else { &of.unwritten };
        for name in functions {
            let Some(Function { ring: Some(ring), id, .. }) = self.functions.get(name) else { continue };
            let mut reserved = ring.reserved;
            if ring.last + RESERVED / 2 > reserved || (anew && reserved > 0) {
                reserved = ring.last + RESERVED;
                Line::Reserved { function: name.clone(), reserved }.write(&mut lines);
            }
            let from = if anew { 0 } else { ring.written };
            ring.after(from, usize::MAX).iter().for_each(|entry| Line::of(name, entry).write(&mut lines));
            upto.push(Upto { function: name.clone(), id: *id, last: ring.last, reserved });
        }
        let path = self.folder.join(format!("{tenant}.jsonl"));
        Writing { path, lines, anew, tenant: tenant.to_owned(), upto, gone }
    }

    /// Something was written; the file has so many bytes now.
    pub(super) fn written(&mut self, writing: &Writing, bytes: u64) {
        let Some(of) = self.tenants.get_mut(&writing.tenant) else { return };
        of.file = bytes;
        for name in &writing.gone {
            of.gone.remove(name);
        }
        for Upto { function, id, last, reserved } in &writing.upto {
            let known = self.functions.get_mut(function).filter(|known| known.id == *id);
            match known.and_then(|known| known.ring.as_mut()) {
                Some(ring) => {
                    ring.written = *last;
                    ring.reserved = *reserved;
                    if ring.last == *last {
                        of.unwritten.remove(function);
                    }
                }
                // It has gone meanwhile, and what was written is of no one that is there.
                None => drop(of.gone.insert(function.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests;
