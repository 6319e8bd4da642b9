//! Guests that were saved, and guests that are kept without running.

use crate::{Guest, Kept, SlotConfig};
use snapshot::{ContentError, Saved};
use std::sync::Arc;
use telemetry::clock::Nanos;

/// Why a guest was not saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// A call has begun and not ended.
    #[error("a call of it is suspended; it can be saved when the call has ended")]
    Suspended,
    /// It is taking a changed file of its configuration.
    #[error("it is taking a changed file of its configuration; it can be saved when it has")]
    Changing,
    /// Its suspended call was ended, and it with it.
    #[error("its suspended call was ended, and it with it: nothing of it can be saved")]
    Ended,
    /// It gave up packets in its last call.
    #[error(
        "{packets} packets that it gave up have not been carried out yet; it can be saved when they have"
    )]
    Busy {
        /// How many.
        packets: usize,
    },
    /// What it is does not fit into a snapshot.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// Guests of its kind cannot be saved.
    #[error("functions of this kind cannot be saved")]
    Unable,
}

/// A guest that will not run for a while: what it is, and nothing of what running needs.
///
/// Packets in its slots stay in their buffers, so they are in flight like any others, and may expire.
pub trait Frozen: Send {
    /// Makes it run again.
    ///
    /// # Errors
    /// [`NotThawed`]: no room for it now. It is frozen as before.
    fn thaw(self: Box<Self>) -> Result<Box<dyn Guest>, NotThawed>;

    /// What [`Guest::save`] would give for it.
    ///
    /// # Errors
    /// [`SaveError::Content`].
    fn save(&self) -> Result<Saved<'static>, SaveError>;

    /// Bytes of memory that it takes, without the packets in its slots.
    fn footprint(&self) -> usize;

    /// As [`Guest::set_limits`].
    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig);

    /// As [`Guest::kept`]. What is new of its devices is not there: that waits until it is thawed.
    fn kept(&self) -> &Kept;

    /// As [`Guest::kept_mut`].
    fn kept_mut(&mut self) -> &mut Kept;

    /// As [`Guest::set_devices`], once it is thawed.
    fn set_devices(&mut self, entries: Arc<[u8]>);
}

/// A guest that was not frozen.
pub struct NotFrozen {
    /// The guest, as it was.
    pub guest: Box<dyn Guest>,
    /// Why.
    pub error: SaveError,
}

/// A guest that was not thawed.
pub struct NotThawed {
    /// The guest, as it was.
    pub frozen: Box<dyn Frozen>,
    /// Why, in words for the operator.
    pub reason: String,
}

impl std::fmt::Debug for NotFrozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotFrozen").field("error", &self.error).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for NotThawed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotThawed").field("reason", &self.reason).finish_non_exhaustive()
    }
}
