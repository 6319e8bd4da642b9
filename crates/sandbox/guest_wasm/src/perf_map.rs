// UNSAFETY: the process's user is asked for, a system call without arguments that cannot fail.
#![allow(unsafe_code)]
//! What perf(1) needs to name the functions of guests: `/tmp/perf-PID.map`, a line for each, written as
//! programs are loaded (tools/perf/Documentation/jit-interface.txt in Linux's sources).
//!
//! The file lies where perf looks for it, in a folder that all users write to. It is always a new one of this
//! process's: a file of the same name that an earlier process of the same user left is removed, one of
//! another user is an error, and a link is never followed.
//!
//! Limits: lines of programs that are unloaded stay; code that comes to lie there later has a line further
//! down, and perf takes the last.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use wasmtime::Module;

/// Longest name of a function in the map, in characters; the rest is cut off.
const LONGEST_NAME: usize = 200;

/// The map of this process.
#[derive(Debug)]
pub(crate) struct PerfMap {
    file: Mutex<File>,
}

impl PerfMap {
    /// Makes the file in the folder that perf reads it from; its name.
    ///
    /// # Errors
    /// It is another user's, or cannot be written.
    pub(crate) fn create(folder: &Path) -> io::Result<(PerfMap, PathBuf)> {
        let path = folder.join(format!("perf-{}.map", std::process::id()));
        let open = || {
            let mut options = OpenOptions::new();
            // A new file: what lies there, be it a link, is not opened.
            options.write(true).create_new(true).mode(0o600).open(&path)
        };
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(&path)?;
                // SAFETY: it has no arguments and cannot fail.
                let user = unsafe { libc::geteuid() };
                if !found.is_file() || found.uid() != user {
                    let what =
                        format!("{} is there and is no file of user {user}: remove it", path.display());
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
                }
                fs::remove_file(&path)?;
                open()?
            }
            other => other?,
        };
        Ok((PerfMap { file: Mutex::new(file) }, path))
    }

    /// Adds the functions of a program, as `PROGRAM::FUNCTION`. A file that cannot be written is for
    /// profiling alone: what is missing there has no effect.
    pub(crate) fn add(&self, program: &str, module: &Module) {
        let text = module.text().as_ptr() as usize;
        let mut lines = String::new();
        for function in module.functions() {
            let name = match &function.name {
                Some(name) => shown(name),
                None => format!("function-{}", function.index.as_u32()),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{:x} {:x} {program}::{name}", text + function.offset, function.len);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = file.write_all(lines.as_bytes());
    }
}

/// A name from an image, in one line of printable text.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(LONGEST_NAME).map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("perf-map-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("a new folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_file_is_always_a_new_one() {
        let folder = Folder::new("new");
        let (_, path) = PerfMap::create(&folder.0).expect("a file");
        fs::write(&path, "left by an earlier process").expect("its own file");
        let before = fs::metadata(&path).expect("a file").ino();
        let keeps_the_number = File::open(&path).expect("a file");
        let (_, again) = PerfMap::create(&folder.0).expect("a file");
        assert_eq!(path, again);
        let found = fs::metadata(&path).expect("a file");
        assert_eq!((found.len(), found.mode() & 0o777), (0, 0o600));
        assert_ne!(found.ino(), before);
        drop(keeps_the_number);
    }

    #[test]
    fn no_link_is_followed_and_nothing_but_a_file_is_removed() {
        let folder = Folder::new("link");
        let victim = folder.0.join("victim");
        fs::write(&victim, "kept").expect("a file");
        let path = folder.0.join(format!("perf-{}.map", std::process::id()));
        std::os::unix::fs::symlink(&victim, &path).expect("a link");
        let refusal = PerfMap::create(&folder.0).expect_err("a link is there");
        assert_eq!(refusal.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "kept");
        assert!(fs::symlink_metadata(&path).expect("the link").is_symlink());
    }

    #[test]
    fn names_are_one_line_of_printable_text() {
        assert_eq!(shown("core::fmt::write\n\u{202e}x y"), "core::fmt::write__x_y");
        assert_eq!(shown(&"n".repeat(1_000)).len(), LONGEST_NAME);
    }
}
