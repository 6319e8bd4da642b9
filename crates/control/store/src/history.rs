//! The last changes, for followers of the store.

use std::collections::VecDeque;

use crate::error::Gone;
use crate::object::{Changed, Revision};

/// A bounded queue of changes. What falls out at its end falls out by whole commits.
#[derive(Debug)]
pub(crate) struct History {
    changes: VecDeque<Changed>,
    kept: usize,
    /// Changes after this revision are all here.
    oldest: Revision,
    newest: Revision,
}

impl History {
    /// An empty history that begins after `revision`.
    pub fn new(kept: usize, revision: Revision) -> Self {
        Self { changes: VecDeque::new(), kept, oldest: revision, newest: revision }
    }

    /// Takes up one commit.
    pub fn append(&mut self, revision: Revision, changes: impl IntoIterator<Item = Changed>) {
        self.changes.extend(changes);
        self.newest = revision;
        while self.changes.len() > self.kept {
            let Some(gone) = self.changes.pop_front() else { break };
            self.oldest = gone.revision;
            while self.changes.front().is_some_and(|next| next.revision == gone.revision) {
                self.changes.pop_front();
            }
        }
    }

    /// The changes after `revision`: those of whole commits, at least `limit` if there are so many.
    pub fn after(&self, revision: Revision, limit: usize) -> Result<Vec<Changed>, Gone> {
        if revision < self.oldest || revision > self.newest {
            return Err(Gone { asked: revision, oldest: self.oldest, newest: self.newest });
        }
        let begin = self.changes.partition_point(|change| change.revision <= revision);
        let mut end = self.changes.len().min(begin.saturating_add(limit.max(1)));
        while end < self.changes.len()
            && end > begin
            && self.changes[end].revision == self.changes[end - 1].revision
        {
            end += 1;
        }
        Ok(self.changes.range(begin..end).cloned().collect())
    }

    /// The revision of the last commit.
    pub fn newest(&self) -> Revision {
        self.newest
    }
}
