//! Bytes of a host's own snapshots, by function.

use api::Snapshot;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// By snapshot, the function that it is of, and its bytes.
    snapshots: HashMap<String, (String, u64)>,
    /// By function, the bytes of all of them.
    functions: HashMap<String, u64>,
}

impl Sizes {
    pub(crate) fn of(&self, function: &str) -> u64 {
        self.functions.get(function).copied().unwrap_or(0)
    }

    pub(crate) fn forget(&mut self, name: &str) {
        let Some((function, bytes)) = self.snapshots.remove(name) else { return };
        if let Some(sum) = self.functions.get_mut(&function) {
            *sum = sum.saturating_sub(bytes);
            if *sum == 0 {
                self.functions.remove(&function);
            }
        }
    }

    /// One that is imported is no function's of this host.
    pub(crate) fn note(&mut self, told: &Snapshot) {
        self.forget(&told.name);
        if told.imported {
            return;
        }
        let function = told.function.to_string();
        *self.functions.entry(function.clone()).or_default() += told.bytes;
        self.snapshots.insert(told.name.to_string(), (function, told.bytes));
    }
}
