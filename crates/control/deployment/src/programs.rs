//! What has been loaded under a digest: what is used stays, and of the rest as much as there is room for.

use std::collections::HashMap;
use std::sync::Arc;

/// Most bytes of machine code that stay loaded although nothing uses them.
pub(crate) const UNUSED_MAX: u64 = 64 << 20;

/// Things by digest. One is in use while anything beside this table has it.
pub(crate) struct Programs<T> {
    loaded: HashMap<String, Loaded<T>>,
    max: u64,
    /// Counts looks, so that it is known what was asked for last.
    looks: u64,
}

struct Loaded<T> {
    program: Arc<T>,
    bytes: u64,
    last: u64,
}

impl<T> Programs<T> {
    /// None, and how many bytes may stay unused.
    pub(crate) fn new(max: u64) -> Programs<T> {
        Programs { loaded: HashMap::new(), max, looks: 0 }
    }

    /// Whether it is loaded.
    pub(crate) fn contains(&self, digest: &str) -> bool {
        self.loaded.contains_key(digest)
    }

    /// The one of this digest, if it is loaded.
    pub(crate) fn get(&mut self, digest: &str) -> Option<Arc<T>> {
        self.looks += 1;
        let loaded = self.loaded.get_mut(digest)?;
        loaded.last = self.looks;
        Some(loaded.program.clone())
    }

    /// Adds one that takes so many bytes, and gives those back that leave for it: unused ones, the longest
    /// not asked for first. The caller drops them, where dropping may take its time.
    #[must_use = "what leaves is dropped outside of locks"]
    pub(crate) fn insert(&mut self, digest: String, program: Arc<T>, bytes: u64) -> Vec<Arc<T>> {
        self.looks += 1;
        self.loaded.insert(digest, Loaded { program, bytes, last: self.looks });
        let mut unused: Vec<(u64, u64, String)> = self
            .loaded
            .iter()
            .filter(|(_, loaded)| Arc::strong_count(&loaded.program) == 1)
            .map(|(digest, loaded)| (loaded.last, loaded.bytes, digest.clone()))
            .collect();
        unused.sort();
        let mut total: u64 = unused.iter().map(|(_, bytes, _)| bytes).sum();
        let mut leaving = Vec::new();
        for (_, bytes, digest) in unused {
            if total <= self.max {
                break;
            }
            total -= bytes;
            leaving.extend(self.loaded.remove(&digest).map(|loaded| loaded.program));
        }
        leaving
    }

    /// How many there are, and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.loaded.len(), self.loaded.values().map(|loaded| loaded.bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let mut programs = Programs::new(20);
        let used = Arc::new(0);
        assert!(programs.insert("used".into(), used.clone(), 100).is_empty());
        for n in 1..=2 {
            assert!(programs.insert(n.to_string(), Arc::new(n), 10).is_empty());
        }
        assert!(programs.get("1").is_some_and(|first| *first == 1), "asked for after 2");
        let left = programs.insert("3".into(), Arc::new(3), 10);
        assert_eq!(left.iter().map(|program| **program).collect::<Vec<_>>(), [2]);
        assert!(["used", "1", "3"].iter().all(|digest| programs.contains(digest)) && !programs.contains("2"));
        assert_eq!(programs.size(), (3, 120));
        drop(used);
        let left = programs.insert("4".into(), Arc::new(4), 10);
        let left: Vec<_> = left.iter().map(|program| **program).collect();
        assert_eq!(left, [0, 1], "what is in use no more is the first to leave, and is too large to stay");
        assert!(programs.contains("3") && programs.contains("4"));
    }
}
