//! What a path led to, and whether it still does.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file or folder that is in use under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    what: &'static str,
    /// Device and inode.
    id: (u64, u64),
}

impl Place {
    /// What a path leads to now.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path) -> std::io::Result<Place> {
        let found = std::fs::metadata(path)?;
        let what = if found.is_dir() { "folder" } else { "file" };
        Ok(Place { path: path.to_owned(), what, id: id(&found) })
    }

    /// That it is not there any more, or another one is: a line for the operator.
    #[must_use]
    pub fn removed(&self) -> Option<String> {
        let happened = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => "removed",
            Ok(now) if id(&now) != self.id => "replaced",
            // What cannot be looked at now may be there all the same.
            _ => return None,
        };
        Some(format!("{}: the {} was {happened} while it is in use", self.path.display(), self.what))
    }
}

fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_or_replaced_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, below) = (folder.path().join("file"), folder.path().join("below"));
        std::fs::write(&file, "1").expect("written");
        std::fs::create_dir(&below).expect("made");
        let (of_file, of_folder) = (Place::of(&file).expect("there"), Place::of(&below).expect("there"));
        std::fs::write(&file, "another content").expect("written");
        std::fs::write(below.join("more"), "").expect("written");
        assert_eq!((of_file.removed(), of_folder.removed()), (None, None));
        std::fs::rename(&file, folder.path().join("kept")).expect("moved");
        std::fs::remove_dir_all(&below).expect("removed");
        let told = |place: &Place| place.removed().expect("told");
        assert!(told(&of_file).ends_with("/file: the file was removed while it is in use"));
        assert!(told(&of_folder).ends_with("/below: the folder was removed while it is in use"));
        std::fs::write(&file, "1").expect("written");
        assert!(told(&of_file).ends_with("/file: the file was replaced while it is in use"));
        Place::of(&below).expect_err("it is not there");
    }
}
