//! The folder: what is done with snapshots by their names.

use crate::FolderError;
use crate::file::{self, FILE_MAX, Head};
use crate::files::Opened;
use crate::key::{KEY_FILE, Key, Keys};
use crate::seal::Seal;
use crate::sizes::Sizes;
use api::{Name, Snapshot};
use local_file::Place;
use snapshot::Saved;
use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// How the files' names end.
const ENDING: &str = ".snapshot";
/// How they end while they are written.
const PART: &str = ".part";
/// The folder, in that of the state.
const FOLDER: &str = "snapshots";

/// The folder of snapshots, and the keys that seal them. Different snapshots are changed beside each other;
/// the calls that change one snapshot come one after the other. A rotation is alone.
#[derive(Debug)]
pub struct Folder {
    /// The folder of the state, where the keys are.
    state: Opened,
    folder: Opened,
    keys: Mutex<Arc<Keys>>,
    /// Their file, as it was last written.
    key_file: Mutex<Place>,
    sizes: Mutex<Sizes>,
    /// Held shared while a snapshot changes, and alone by a rotation.
    changing: RwLock<()>,
}

/// What a rotation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The number of the new key.
    pub key: String,
    /// Snapshots that it has sealed.
    pub sealed: u64,
    /// Snapshots that are imported, and stay so.
    pub imported: u64,
}

impl Folder {
    /// Opens the folder in that of a daemon's state. What was being written when the daemon ended is removed,
    /// and a rotation that was under way is brought to its end. Also returns lines for the log: what is
    /// imported, and what cannot be read.
    ///
    /// # Errors
    /// What the system says, or keys that are none.
    pub fn open(state: &Path) -> Result<(Folder, Vec<String>), FolderError> {
        let path = state.join(FOLDER);
        let failed = |source| FolderError::Io { file: path.display().to_string(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
        let (state, folder) = (Opened::new(state)?, Opened::new(&path)?);
        let (keys, made) = Keys::open(&state)?;
        let this = Folder {
            key_file: Mutex::new(state.place(KEY_FILE)?),
            state,
            folder,
            keys: Mutex::new(Arc::new(keys)),
            sizes: Mutex::default(),
            changing: RwLock::default(),
        };
        let mut lines = Vec::new();
        for file in this.folder.names()? {
            if file.ends_with(PART) {
                this.folder.remove(&file).map_err(failed)?;
            }
        }
        if !this.keys().former.is_empty() {
            this.seal_all()?;
        }
        let mut imported = Vec::new();
        for file in this.folder.names()? {
            match this.name_of(&file).map(|name| this.head(&name)) {
                None => {}
                Some(Ok(Some((head, _)))) => {
                    if head.told.imported {
                        imported.push(head.told.name.to_string());
                    }
                    this.sizes().note(&head.told);
                }
                Some(Ok(None)) => {}
                Some(Err(error)) => {
                    lines.push(format!("no snapshot that can be read, and left as it is: {error}"))
                }
            }
        }
        if !imported.is_empty() {
            let why = if made {
                "there was no key in the state's folder, and a new one was made"
            } else {
                "this host's key has not sealed them as they are"
            };
            lines.push(format!(
                "{} imported, and shown to administrators alone: {} ({why}; `superfluid snapshot adopt NAME --tenant TENANT` gives one to a tenant)",
                if imported.len() == 1 { "a snapshot is" } else { "snapshots are" },
                imported.join(", ")
            ));
        }
        Ok((this, lines))
    }

    /// That the folder of snapshots is not there any more, or another one is: what is saved is not found by
    /// the next start, and nothing can be saved in one that was removed. The same of the file of the keys:
    /// to the next start this host's snapshots are imported ones.
    pub fn removed(&self) -> Vec<String> {
        // A rotation replaces the file itself.
        let quiet = self.changing.try_read();
        let keys = quiet.is_ok().then(|| lock(&self.key_file).removed()).flatten();
        self.folder.removed().into_iter().chain(keys).collect()
    }

    fn keys(&self) -> Arc<Keys> {
        lock(&self.keys).clone()
    }

    /// Writes keys down, and uses them from then on.
    fn use_keys(&self, keys: Keys) -> Result<(), FolderError> {
        keys.write(&self.state)?;
        *lock(&self.key_file) = self.state.place(KEY_FILE)?;
        *lock(&self.keys) = Arc::new(keys);
        Ok(())
    }

    /// While it is held, no rotation begins.
    fn no_rotation(&self) -> RwLockReadGuard<'_, ()> {
        self.changing.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        lock(&self.sizes)
    }

    /// The snapshot whose file this is, if it is one.
    fn name_of(&self, file: &str) -> Option<Name> {
        Name::new(file.strip_suffix(ENDING)?).ok()
    }

    /// What stands before the function, and the rest of the file; `None` when there is no such snapshot.
    fn head(&self, name: &Name) -> Result<Option<(Head, BufReader<File>)>, FolderError> {
        // Before the file is opened: a rotation seals all with a new key before it forgets the one before.
        let keys = self.keys();
        let file = format!("{name}{ENDING}");
        let Some((opened, bytes)) = self.folder.open(&file, FILE_MAX)? else { return Ok(None) };
        let mut from = BufReader::new(opened);
        let head = file::head(&keys, (name, &self.folder.shown(&file)), bytes, &mut from)?;
        Ok(Some((head, from)))
    }

    /// Bytes of all snapshots of a function.
    #[must_use]
    pub fn bytes_of(&self, function: &str) -> u64 {
        self.sizes().of(function)
    }

    /// The snapshots of a tenant, in the order of their names; no file of another's is looked at.
    #[must_use]
    pub fn list_of(&self, tenant: &str) -> Vec<Snapshot> {
        let names: Vec<Name> =
            self.sizes().of_tenant(tenant).filter_map(|(name, _)| Name::new(name).ok()).collect();
        let read = names.iter().filter_map(|name| self.read(name));
        // The file may be another one by now.
        read.filter(|told| !told.imported && told.tenant.as_deref() == Some(tenant)).collect()
    }

    /// What the images of a tenant's snapshots are called, without a look at a file.
    #[must_use]
    pub fn images_of(&self, tenant: &str) -> Vec<String> {
        self.sizes().of_tenant(tenant).filter_map(|(_, image)| image.map(str::to_owned)).collect()
    }

    /// Writes one of at most so many bytes, and no more than are read; it is on disk when this returns. What
    /// `told` says of bytes does not count. It takes the place of no file that cannot be read.
    ///
    /// # Errors
    /// What the system says, or that it would be too large; no file of that name is changed then.
    pub fn write(&self, told: &Snapshot, saved: &Saved<'_>, most: u64) -> Result<Snapshot, FolderError> {
        let _changing = self.no_rotation();
        if let Err(FolderError::Line { .. } | FolderError::Large { .. }) = self.head(&told.name) {
            return Err(FolderError::Unreadable { name: told.name.to_string() });
        }
        self.write_now(told, saved, most)
    }

    fn write_now(&self, told: &Snapshot, saved: &Saved<'_>, most: u64) -> Result<Snapshot, FolderError> {
        let name = &told.name;
        let bytes = file::encoded(&self.keys().current, told, saved)?;
        let (found, allowed) = (bytes.len() as u64, most.min(FILE_MAX));
        if found > allowed {
            return Err(FolderError::TooMuch { name: name.to_string(), found, allowed });
        }
        let (file, part) = (format!("{name}{ENDING}"), format!("{name}{PART}"));
        self.folder.replace(&file, &part, |to| to.write_all(&bytes))?;
        let told = Snapshot { imported: false, bytes: bytes.len() as u64, ..told.clone() };
        self.sizes().note(&told);
        Ok(told)
    }

    /// Seals one anew. What follows the seal is copied as it is.
    fn seal(&self, told: &Snapshot, seal: &Seal, from: &mut dyn Read) -> Result<(), FolderError> {
        let name = &told.name;
        let (file, part) = (format!("{name}{ENDING}"), format!("{name}{PART}"));
        self.folder.replace(&file, &part, |to| {
            to.write_all(&file::written(&self.keys().current, told, (seal.bytes, seal.sha256))?)?;
            match io::copy(from, to)? == seal.bytes {
                true => Ok(()),
                false => Err(io::Error::other("it became shorter or longer while it was copied")),
            }
        })
    }

    /// What one is.
    #[must_use]
    pub fn read(&self, name: &Name) -> Option<Snapshot> {
        self.head(name).ok().flatten().map(|(head, _)| head.told)
    }

    /// One as a whole.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn load(&self, name: &Name) -> Result<(Snapshot, Saved<'static>), FolderError> {
        let keys = self.keys();
        let file = format!("{name}{ENDING}");
        let shown = self.folder.shown(&file);
        let Some((opened, bytes)) = self.folder.open(&file, FILE_MAX)? else {
            return Err(FolderError::Io { file: shown, source: io::ErrorKind::NotFound.into() });
        };
        file::read(&keys, (name, &shown), bytes, opened)
    }

    /// All of them, in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<Snapshot> {
        let files = self.folder.names().unwrap_or_default();
        let names = files.iter().filter_map(|file| self.name_of(file));
        names.filter_map(|name| self.read(&name)).collect()
    }

    /// Removes one; says whether it was there.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &Name) -> Result<bool, FolderError> {
        let _changing = self.no_rotation();
        let file = format!("{name}{ENDING}");
        let removed = self.folder.remove(&file);
        let removed = removed.map_err(|source| FolderError::Io { file: self.folder.shown(&file), source })?;
        self.sizes().forget(name);
        Ok(removed)
    }

    /// Gives one to a tenant, and seals it. It is read as a whole before.
    ///
    /// # Errors
    /// What is wrong with it, or what the system says; it is as it was then.
    pub fn adopt(&self, name: &Name, tenant: &Name) -> Result<Snapshot, FolderError> {
        let _changing = self.no_rotation();
        let (mut told, saved) = self.load(name)?;
        told.tenant = Some(tenant.clone());
        if let Some(spec) = told.spec.as_object_mut() {
            spec.insert("tenant".to_owned(), tenant.as_str().into());
        }
        self.write_now(&told, &saved, FILE_MAX)
    }

    /// Makes a new key and seals the host's own snapshots with it; then the key before is forgotten.
    ///
    /// # Errors
    /// What the system says. Both keys count then, and the next rotation or start goes on.
    pub fn rotate(&self) -> Result<Rotated, FolderError> {
        let _alone = self.changing.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.keys();
        let former = std::iter::once(&before.current).chain(&before.former).cloned().collect();
        let keys = Keys { current: Key::generate()?, former };
        self.use_keys(keys)?;
        self.seal_all()
    }

    /// Seals the host's own snapshots with the present key, and forgets the others.
    fn seal_all(&self) -> Result<Rotated, FolderError> {
        let keys = self.keys();
        let mut rotated = Rotated { key: keys.current.id().to_owned(), sealed: 0, imported: 0 };
        for file in self.folder.names()? {
            let Some(name) = self.name_of(&file) else { continue };
            // What cannot be read has no tenant, now and after.
            let Ok(Some((Head { told, line, seal }, mut rest))) = self.head(&name) else { continue };
            // One that was cut off keeps its seal, and is refused when it is restored.
            let follows = |seal: &Seal| told.bytes.checked_sub((line.len() + seal.line().len()) as u64);
            let whole = seal.as_ref().is_some_and(|seal| follows(seal) == Some(seal.bytes));
            match seal {
                Some(seal) if whole && !told.imported => {
                    rotated.sealed += 1;
                    if seal.key != keys.current.id() {
                        self.seal(&told, &seal, &mut rest)?;
                    }
                }
                _ => rotated.imported += 1,
            }
        }
        let keys = Keys::of(keys.current.clone());
        self.use_keys(keys)?;
        Ok(rotated)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
