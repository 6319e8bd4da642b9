//! What functions ask for, from their workers to the thread that asks the links.
//!
//! Limits: [`MAX_ASKS`] of each function wait; functions ask again for what is lost.

use guest::Ask;
use nf_abi::MAX_ASKS;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError, TryLockError};

/// How often a worker looks whether another one has done with the list, which takes it less than a
/// microsecond.
const LOOKS: usize = 1_000;

/// What a function asked for: its name, and which addresses.
pub(super) type Asked = (String, Vec<Ask>);

/// Asks that wait, by function: none of them takes the room of another's.
#[derive(Debug, Default)]
pub(super) struct Asks {
    waiting: Mutex<HashMap<String, Vec<Ask>>>,
}

impl Asks {
    /// A function asked. Called by workers: it waits for no thread that has stopped within the list.
    pub(super) fn put(&self, function: String, asks: Vec<Ask>) {
        let mut waiting = None;
        for _ in 0..LOOKS {
            match self.waiting.try_lock() {
                Ok(list) => waiting = Some(list),
                Err(TryLockError::Poisoned(list)) => waiting = Some(list.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    std::hint::spin_loop();
                    continue;
                }
            }
            break;
        }
        if let Some(mut waiting) = waiting {
            let of = waiting.entry(function).or_default();
            of.extend(asks.into_iter().take(MAX_ASKS.saturating_sub(of.len())));
        }
    }

    /// What waits, one entry for each function.
    pub(super) fn take(&self) -> VecDeque<Asked> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::take(&mut *waiting);
        drop(waiting);
        taken.into_iter().collect()
    }
}
