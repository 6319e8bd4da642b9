//! Which captures are compared.

use crate::Error;
use crate::rules::Rules;
use peers::exchanges::Exchanges;
use std::fs;
use std::path::{Path, PathBuf};

/// Flows of the seeded capture.
pub const SEEDED_FLOWS: u32 = 12_000;
/// Longest capture that is compared, in bytes.
const LONGEST: u64 = 512 << 20;
/// Most files that are looked at in a folder and below it.
const MOST_FILES: usize = 200_000;
/// How deep folders are looked into.
const DEEPEST: usize = 12;
/// What captures' names end with.
const ENDINGS: [&str; 3] = ["pcap", "pcapng", "cap"];
/// Where Debian's packages put the captures that they come with.
const PACKAGED: [&str; 2] = ["/usr/share", "/usr/lib"];

/// A capture to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// As differences name it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub bytes: u64,
}

impl Capture {
    /// # Errors
    /// [`Error::File`].
    pub fn new(name: &str, path: &Path) -> Result<Capture, Error> {
        let bytes = fs::metadata(path).map_err(|source| Error::file(path, source))?.len();
        Ok(Capture { name: name.to_owned(), path: path.to_owned(), bytes })
    }
}

/// Captures, and what was left out.
#[derive(Debug, Default)]
pub struct Captures {
    /// In the order of their paths.
    pub captures: Vec<Capture>,
    /// Captures that are too long, or more files than are looked at; a line for each.
    pub left_out: Vec<String>,
}

impl Captures {
    /// Those of a folder and below it. Links are not followed.
    ///
    /// # Errors
    /// [`Error::File`]: the folder itself cannot be read.
    pub fn of_folder(folder: &Path) -> Result<Captures, Error> {
        fs::read_dir(folder).map_err(|source| Error::file(folder, source))?;
        let mut found = Captures::default();
        found.look_into(folder);
        found.captures.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    /// Those that Debian's packages have put on this machine.
    pub fn packaged() -> Captures {
        let mut found = Captures::default();
        for folder in PACKAGED {
            found.look_into(Path::new(folder));
        }
        found.captures.sort_by(|one, other| one.path.cmp(&other.path));
        found
    }

    fn look_into(&mut self, folder: &Path) {
        let (mut folders, mut files) = (vec![(folder.to_owned(), 0)], 0);
        while let Some((folder, depth)) = folders.pop() {
            // What may not be read is none of the captures.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                files += 1;
                if files > MOST_FILES {
                    self.left_out.push(format!("{}: more than {MOST_FILES} files", folder.display()));
                    return;
                }
                let (path, kind) = (entry.path(), entry.file_type());
                match kind {
                    Ok(kind) if kind.is_dir() && depth < DEEPEST => folders.push((path, depth + 1)),
                    Ok(kind) if kind.is_file() && is_capture(&path) => self.take(&path),
                    _ => {}
                }
            }
        }
    }

    fn take(&mut self, path: &Path) {
        let name = path.display().to_string();
        match Capture::new(&name, path) {
            Ok(capture) if capture.bytes > LONGEST => {
                self.left_out.push(format!("{name}: longer than {} MiB", LONGEST >> 20));
            }
            Ok(capture) => self.captures.push(capture),
            Err(error) => self.left_out.push(error.to_string()),
        }
    }
}

fn is_capture(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Writes the seeded capture for the generated rules.
///
/// # Errors
/// [`Error`]: it cannot be written.
pub fn seeded(path: &Path, rules: &Rules, flows: u32) -> Result<Capture, Error> {
    Exchanges::write(path, rules.generated(), flows)?;
    Capture::new("seeded.pcap", path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peers::Folder;

    #[test]
    fn captures_of_a_folder_are_found_by_name_and_those_that_are_too_long_are_told() {
        let folder = Folder::new().expect("a folder");
        fs::create_dir_all(folder.file("below/far")).expect("folders");
        for name in ["b.pcap", "a.pcapng", "below/far/c.CAP", "readme.txt", "pcap"] {
            folder.write(name, "x").expect("a file");
        }
        let long = fs::File::create(folder.file("long.pcap")).expect("a file");
        long.set_len(LONGEST + 1).expect("a length");
        std::os::unix::fs::symlink(folder.path(), folder.file("below/again")).expect("a link");
        let found = Captures::of_folder(folder.path()).expect("captures");
        let names: Vec<_> = found
            .captures
            .iter()
            .map(|capture| capture.path.strip_prefix(folder.path()).expect("inside").display().to_string())
            .collect();
        assert_eq!(names, ["a.pcapng", "b.pcap", "below/far/c.CAP"]);
        assert_eq!(found.left_out.len(), 1);
        assert!(found.left_out[0].ends_with("long.pcap: longer than 512 MiB"), "{:?}", found.left_out);
        assert!(Captures::of_folder(&folder.file("none")).is_err());
    }
}
