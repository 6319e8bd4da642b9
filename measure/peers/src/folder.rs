//! A folder of a peer's own, removed with this value.

use crate::PeerError;
use crate::error::file;
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "superfluid-peers-";

/// A folder that no other user may look into.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one among the temporary files, and removes those of processes that are no more.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn new() -> Result<Folder, PeerError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Folder::sweep();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(file(&path))?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it, whether it is there or not.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn write(&self, name: &str, contents: &str) -> Result<PathBuf, PeerError> {
        let path = self.file(name);
        fs::write(&path, contents).map_err(file(&path))?;
        Ok(path)
    }

    fn sweep() {
        let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
            let Some(pid) = owner.and_then(|(pid, _)| pid.parse().ok()).and_then(Pid::from_raw) else {
                continue;
            };
            if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
                // Another user's stays, as it must.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value_and_one_of_the_dead_with_the_next() {
        // No process has the highest number that there can be.
        let left_behind = std::env::temp_dir().join(format!("{PREFIX}{}-7", 1 << 22));
        fs::create_dir_all(left_behind.join("inside")).expect("a folder");
        let folder = Folder::new().expect("a folder");
        let path = folder.path().to_owned();
        folder.write("file", "contents").expect("a file");
        assert!(!left_behind.exists());
        assert_eq!(fs::read_to_string(path.join("file")).expect("the file"), "contents");
        drop(folder);
        assert!(!path.exists());
    }
}
