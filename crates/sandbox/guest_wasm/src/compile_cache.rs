//! Compiled code kept from one start to the next, in a directory that only this user can write to.

use crate::sandbox::{Artifact, Sandbox};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Largest artifact that is read back.
const LARGEST: u64 = 512 << 20;
/// Most bytes of entries that stay when another one is written; those that were not used for longest leave
/// first.
pub const CACHE_MAX: u64 = 512 << 20;
/// After this time a file that a writer left unfinished is removed: that writer is gone.
const UNFINISHED: Duration = Duration::from_secs(3600);

/// Why a directory cannot be the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be made or looked at.
    #[error("compile cache {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Others could put code there.
    #[error(
        "compile cache {path}: owned by user {owner} with mode {mode:o}; allowed: owned by user {user}, mode 700"
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// This process's user.
        user: u32,
    },
}

/// A private directory of compiled code.
///
/// An entry is named by the module's digest and by a digest of everything that the code depends on: the
/// compiler's version and settings and the processor's features. It begins with the digest of its name and of
/// the rest, so that an entry is good under no other name, and is written by rename, so that half an entry is
/// never seen.
#[derive(Clone, Debug)]
pub struct CompileCache {
    directory: PathBuf,
    user: u32,
    max: u64,
}

impl CompileCache {
    /// Opens the directory, making it (0700) when it is not there.
    ///
    /// # Errors
    /// [`CacheError`]; a directory that others may write to is refused.
    pub fn open(directory: &Path) -> Result<CompileCache, CacheError> {
        let failed = |source| CacheError::Directory { path: directory.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let found = fs::symlink_metadata(directory).map_err(failed)?;
        let user = effective_user().map_err(failed)?;
        if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
            return Err(CacheError::NotPrivate {
                path: directory.to_owned(),
                owner: found.uid(),
                mode: found.mode() & 0o7777,
                user,
            });
        }
        Ok(CompileCache { directory: directory.to_owned(), user, max: CACHE_MAX })
    }

    /// The same with another bound on its bytes than [`CACHE_MAX`].
    pub fn with_max(self, max: u64) -> CompileCache {
        CompileCache { max, ..self }
    }

    /// The entry of a module, when there is one and it is unharmed.
    pub(crate) fn load(&self, sandbox: &Sandbox, wasm: &[u8]) -> Option<Artifact> {
        let path = self.path(sandbox, wasm);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .ok()?;
        let found = file.metadata().ok()?;
        let private = found.is_file() && found.uid() == self.user && found.mode() & 0o077 == 0;
        if !private || found.len() > LARGEST {
            return None;
        }
        // The time of its last use; where it cannot be set, the entry leaves earlier.
        let _ = file.set_modified(SystemTime::now());
        let mut bytes = Vec::with_capacity(usize::try_from(found.len()).ok()?);
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let (digest, code) = bytes.split_at_checked(32)?;
        (seal(&path, code).as_slice() == digest).then(|| Artifact(code.to_vec()))
    }

    /// Keeps an entry.
    pub(crate) fn store(&self, sandbox: &Sandbox, wasm: &[u8], artifact: &Artifact) -> io::Result<()> {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let path = self.path(sandbox, wasm);
        let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}-{writer}.tmp", std::process::id()));
        let digest = seal(&path, &artifact.0);
        let written =
            self.write(&unfinished, &digest, &artifact.0).and_then(|()| fs::rename(&unfinished, &path));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        self.evict(&path);
        written
    }

    /// Removes entries until the rest is within the bound, the longest unused first, and never `kept`. What
    /// another process has removed already is gone as well, and what cannot be removed stays for the next
    /// time.
    fn evict(&self, kept: &Path) {
        let now = SystemTime::now();
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let (path, Ok(found)) = (entry.path(), entry.metadata()) else { continue };
            let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("code") if found.is_file() => entries.push((used, found.len(), path)),
                Some("tmp") if now.duration_since(used).is_ok_and(|age| age > UNFINISHED) => {
                    let _ = fs::remove_file(&path);
                }
                _ => {}
            }
        }
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        entries.sort();
        for (_, bytes, path) in entries {
            if total <= self.max {
                break;
            }
            if path != kept && fs::remove_file(&path).is_ok() {
                total -= bytes;
            }
        }
    }

    fn write(&self, path: &Path, digest: &[u8], code: &[u8]) -> io::Result<()> {
        let _ = fs::remove_file(path);
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(digest)?;
        file.write_all(code)?;
        file.sync_all()
    }

    fn path(&self, sandbox: &Sandbox, wasm: &[u8]) -> PathBuf {
        let mut surroundings = DefaultHasher::new();
        sandbox.plain.engine.precompile_compatibility_hash().hash(&mut surroundings);
        sandbox.preemptible.engine.precompile_compatibility_hash().hash(&mut surroundings);
        image::SAFEPOINT_VERSION.hash(&mut surroundings);
        let module: String = Sha256::digest(wasm).iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(format!("{module}-{:016x}.code", surroundings.finish()))
    }
}

/// Digest of an entry's name and code.
fn seal(path: &Path, code: &[u8]) -> [u8; 32] {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    Sha256::new().chain_update(name).chain_update(code).finalize().into()
}

fn effective_user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}
