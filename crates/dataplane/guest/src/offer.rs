//! A changed file of a function's configuration, which the function takes while it runs.
//!
//! 1. The control plane makes an [`Offer`] of a changed configuration and gives it to the guest.
//! 2. The guest's worker has the function take it, part by part, and notes the answer. The guest's
//!    configuration and the new one change places then.
//! 3. Without an answer, and with no other owner than the one who asks ([`Offer::is_alone`]), the guest is
//!    gone.
//!
//! Limits: the worker waits for no lock: the configuration is looked at by one side at a time.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

const TAKEN: u8 = 1;
const REFUSED: u8 = 2;

/// See the module's documentation.
#[derive(Debug)]
pub struct Offer {
    /// What the function reads: see `nf_abi::stream::CHANGE`.
    lines: Vec<u8>,
    /// The whole configuration as it is to be; the one before when it was taken.
    config: Mutex<Vec<u8>>,
    answer: AtomicU8,
}

impl Offer {
    /// Of what has changed, and the whole configuration.
    pub fn new(lines: Vec<u8>, config: Vec<u8>) -> Offer {
        Offer { lines, config: Mutex::new(config), answer: AtomicU8::new(0) }
    }

    /// What the function reads.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Whether it was taken; `None`: not yet.
    pub fn answer(&self) -> Option<bool> {
        match self.answer.load(Ordering::Acquire) {
            TAKEN => Some(true),
            REFUSED => Some(false),
            _ => None,
        }
    }

    /// Whether the guest that it was made to is gone.
    pub fn is_alone(self: &Arc<Offer>) -> bool {
        Arc::strong_count(self) == 1
    }

    /// The function has taken it: `config` is the guest's, and becomes the new one.
    pub fn take(&self, config: &mut Vec<u8>) {
        if let Ok(mut new) = self.config.try_lock() {
            std::mem::swap(&mut *new, config);
        }
        self.answer.store(TAKEN, Ordering::Release);
    }

    /// The function has not taken it, and is as it was.
    pub fn refuse(&self) {
        self.answer.store(REFUSED, Ordering::Release);
    }
}
