//! What a guest's first root has, before it is an archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Something in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Folder {
        /// Permissions.
        mode: u32,
    },
    /// The bytes of a file of this host.
    File {
        /// Which.
        from: PathBuf,
        /// Permissions.
        mode: u32,
    },
    /// A file that is made here.
    Text {
        /// What it has.
        bytes: Vec<u8>,
        /// Permissions.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        to: String,
    },
}

/// Names, from the root and without its `/`, and what they are. Folders come before what is in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// All of it, in the order of an archive.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// How much there is.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What there is at a path inside.
    pub fn get(&self, inside: &str) -> Option<&Entry> {
        self.entries.get(inside.trim_start_matches('/'))
    }

    /// Adds a file of this host; what was there before goes.
    pub fn file(&mut self, inside: &str, from: &Path, mode: u32) {
        self.put(inside, Entry::File { from: from.to_owned(), mode: mode & 0o777 });
    }

    /// Adds a file with these contents.
    pub fn text(&mut self, inside: &str, contents: impl AsRef<[u8]>, mode: u32) {
        self.put(inside, Entry::Text { bytes: contents.as_ref().to_vec(), mode });
    }

    /// Adds a link.
    pub fn link(&mut self, inside: &str, to: &str) {
        self.put(inside, Entry::Link { to: to.to_owned() });
    }

    /// Adds a folder, unless there is something.
    pub fn folder(&mut self, inside: &str, mode: u32) {
        let name = inside.trim_matches('/');
        if !name.is_empty() && !self.entries.contains_key(name) {
            self.put(name, Entry::Folder { mode: mode & 0o1777 });
        }
    }

    /// Takes something out.
    pub fn remove(&mut self, inside: &str) {
        self.entries.remove(inside.trim_matches('/'));
    }

    fn put(&mut self, inside: &str, entry: Entry) {
        let name = inside.trim_matches('/');
        for (at, _) in name.match_indices('/') {
            let folder = Entry::Folder { mode: 0o755 };
            self.entries.entry(name[..at].to_owned()).or_insert(folder);
        }
        self.entries.insert(name.to_owned(), entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut tree = Tree::default();
        tree.text("/a-b", "", 0o644);
        tree.text("/a/b/c", "", 0o644);
        tree.folder("/a/b", 0o700);
        tree.folder("a/d/", 0o1777);
        let names: Vec<&str> = tree.entries().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "a-b", "a/b", "a/b/c", "a/d"]);
        assert_eq!(tree.get("/a/b"), Some(&Entry::Folder { mode: 0o755 }), "what is there stays");
        assert_eq!(tree.get("a/d"), Some(&Entry::Folder { mode: 0o1777 }));
        assert!(!tree.is_empty() && tree.len() == 5);
    }
}
