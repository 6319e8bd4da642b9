//! Backups: what the store says and what is kept beside it, put aside as it is at one moment, and then
//! written out.
//!
//! Files of images and snapshots are never changed once they have their name, so that links to them are
//! enough; the store makes a copy of itself. While that is put aside nothing is changed; while it is written
//! out anything may be.

use super::controller::Controller;
use super::logs::now;
use api_server::{Outlet, Refusal};
use snapshot_folder::KEY_FILE;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::backup::is_part;
use store::{BackUpError, Store};

/// Where it is put aside, below the state.
const ASIDE: &str = "backup.part";
/// Folders whose files are linked. The images' index comes before what it names, which may leave meanwhile
/// and is not missed then.
const FOLDERS: [&str; 4] = ["images", "images/pins", "images/blobs/sha256", "snapshots"];
/// Bytes that go to the client at a time.
const CHUNK: usize = 128 << 10;

impl Controller {
    /// Puts all aside and begins to write it out; see the module's documentation.
    pub(super) fn back_up(&self, store: &Store, outlet: Outlet) -> Result<(), Refusal> {
        if Arc::strong_count(&self.backing_up) > 1 {
            return Err(Refusal::Busy("a backup is being written; one is at a time".to_owned()));
        }
        let held = self.backing_up.clone();
        let aside = Aside::make(&self.state)?;
        let revision = store.back_up(&aside.0.join("store")).map_err(not_copied)?.0;
        aside.link(&self.state)?;
        let writing = std::thread::Builder::new().name("backup".into()).spawn(move || {
            let mut to = OutletWriter { outlet, bytes: Vec::with_capacity(CHUNK) };
            let who = (env!("CARGO_PKG_VERSION"), now(), revision);
            match store::backup::write(&aside.0, (who.0, &who.1, who.2), &mut to) {
                Ok(_) => {}
                // The client is told by what is missing.
                Err(error) => {
                    console::error().line(&format!("a backup was not written to its end: {error}"));
                }
            }
            drop((aside, held));
        });
        writing.map(drop).map_err(|error| Refusal::Broken(format!("the thread of the backup: {error}")))
    }
}

/// Removes what a backup left behind whose daemon was ended.
///
/// # Errors
/// What the system says.
pub(super) fn clean(state: &Path) -> Result<(), String> {
    let path = state.join(ASIDE);
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

fn not_copied(error: BackUpError) -> Refusal {
    match &error {
        BackUpError::DiskFull { .. } => Refusal::NoRoom(error.to_string()),
        BackUpError::Io { source, .. } if source.kind() == ErrorKind::StorageFull => {
            Refusal::NoRoom(error.to_string())
        }
        _ => Refusal::Broken(error.to_string()),
    }
}

/// The folder in which all is put aside; it goes with this.
struct Aside(PathBuf);

impl Aside {
    fn make(state: &Path) -> Result<Aside, Refusal> {
        clean(state).map_err(Refusal::Broken)?;
        let aside = Aside(state.join(ASIDE));
        private(&aside.0)?;
        Ok(aside)
    }

    /// Links the files of images and snapshots, and copies the keys that seal snapshots.
    fn link(&self, state: &Path) -> Result<(), Refusal> {
        let (keys, copy) = (state.join(KEY_FILE), self.0.join(KEY_FILE));
        if let Err(error) = std::fs::copy(&keys, &copy)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(Refusal::Broken(format!("{}: {error}", keys.display())));
        }
        for folder in FOLDERS {
            let from = state.join(folder);
            let failed = |path: &Path| {
                let path = path.display().to_string();
                move |error: io::Error| match error.kind() {
                    ErrorKind::StorageFull => Refusal::NoRoom(format!("{path}: {error}")),
                    _ => Refusal::Broken(format!("{path}: {error}")),
                }
            };
            let entries = match std::fs::read_dir(&from) {
                Ok(entries) => entries,
                // The daemon runs without a folder of images, if that cannot be opened.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(&from)(error)),
            };
            private(&self.0.join(folder))?;
            for entry in entries {
                let entry = entry.map_err(failed(&from))?;
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                if !is_part(&name) {
                    continue;
                }
                let (from, to) = (entry.path(), self.0.join(&name));
                // File systems without links, and folders that are mounted, have copies.
                match std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(drop)) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&from)(error)),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // What cannot be removed now is before the next backup, or when the daemon starts.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn private(path: &Path) -> Result<(), Refusal> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Refusal::Broken(format!("{}: {error}", path.display())))
}

/// Writes to the client, in chunks of [`CHUNK`] bytes.
struct OutletWriter {
    outlet: Outlet,
    bytes: Vec<u8>,
}

impl Write for OutletWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(CHUNK));
        match bytes.is_empty() || self.outlet.write(bytes) {
            true => Ok(()),
            false => Err(io::Error::new(ErrorKind::BrokenPipe, "the client left, or the daemon ends")),
        }
    }
}
