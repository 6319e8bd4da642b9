//! Files that a command writes whole: under another name first, so that what reads one meanwhile has the old
//! content or the new.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Where a file is written: what a link leads to is replaced, and the link stays.
///
/// # Errors
/// There is something else than a file. To replace `/dev/null` would take it from the whole host.
pub(crate) fn place(path: &Path) -> Result<PathBuf> {
    let wrong = |found| Error::new(ErrorKind::InvalidInput, format!("found {found}; allowed: a file's name"));
    match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::canonicalize(path),
        Ok(found) if found.is_dir() => Err(wrong("a folder")),
        Ok(_) => Err(wrong("what is no file")),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Err(_) if path.file_name().is_none() => Err(wrong("no name")),
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(wrong("a link that leads nowhere")),
        Err(_) => Ok(path.to_owned()),
    }
}

/// The name that it has until it is whole.
pub(crate) fn part(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default();
    place.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()))
}

/// Writes a file.
///
/// # Errors
/// It cannot be written, or there is something else than a file; what is there stays as it is.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = place(path)?;
    let part = part(&place);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, &place));
    if written.is_err() {
        // If it cannot be removed, its name says what it is.
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn files_are_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let _socket = UnixListener::bind(at("socket")).expect("a socket");
        symlink("socket", at("to-socket")).expect("a link");
        symlink("nowhere", at("to-nowhere")).expect("a link");
        fs::create_dir(at("folder")).expect("a folder");
        let refused = [
            ("socket", "what is no file"),
            ("to-socket", "what is no file"),
            ("folder", "a folder"),
            ("to-nowhere", "a link that leads nowhere"),
        ];
        for (name, told) in refused {
            let error = write(&at(name), b"new").expect_err("refused");
            assert_eq!(error.to_string(), format!("found {told}; allowed: a file's name"));
        }
        assert!(fs::metadata(at("socket")).expect("still there").file_type().is_socket());
        symlink("file", at("to-file")).expect("a link");
        fs::write(at("file"), "old").expect("written");
        write(&at("to-file"), b"new").expect("written");
        assert_eq!(fs::read(at("file")).expect("a file"), b"new");
        assert!(fs::symlink_metadata(at("to-file")).expect("still there").is_symlink());
        write(&at("another"), b"new").expect("written");
        write(&at("no/such"), b"new").expect_err("no folder");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 7, "nothing is left over");
    }
}
