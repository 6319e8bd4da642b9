//! What a switch is made with.

use telemetry::clock::Nanos;

/// Ways of a set, which is the fewest entries of a table too.
pub(crate) const WAYS: usize = 8;

/// Most entries of a table; sixteen bytes each.
pub const MAX_ENTRIES: u32 = 1 << 16;

/// Shortest time after which an address is forgotten.
pub const MIN_AGE: Nanos = Nanos(1_000_000_000);

/// Longest time after which an address is forgotten (IEEE 802.1Q-2018, table 8-6).
pub const MAX_AGE: Nanos = Nanos(1_000_000 * 1_000_000_000);

/// What a switch is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchSettings {
    /// An address is forgotten this long after its last frame, or up to a second, and never more than an
    /// eighth of this, earlier. [`MIN_AGE`] to [`MAX_AGE`].
    pub age: Nanos,
    /// Addresses that the table has room for: a power of two, 8 to [`MAX_ENTRIES`].
    pub entries: u32,
    /// Secret of the table's hash. `None`, which everything but a test wants: drawn by chance.
    pub secret: Option<[u64; 2]>,
}

impl Default for SwitchSettings {
    fn default() -> SwitchSettings {
        SwitchSettings { age: Nanos(300 * 1_000_000_000), entries: 4096, secret: None }
    }
}

/// Settings that no switch can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Not a number of entries that a table can have.
    #[error("entries: found {0}; allowed: a power of two from 8 to 65536")]
    Entries(u32),
    /// Not an age at which addresses can be forgotten.
    #[error("age: found {} ns; allowed: 1 s to 1000000 s", .0.0)]
    Age(Nanos),
}

impl SwitchSettings {
    /// Checks the bounds.
    ///
    /// # Errors
    /// The setting that is out of its bounds.
    pub fn check(&self) -> Result<(), SettingsError> {
        if !self.entries.is_power_of_two() || !(WAYS as u32..=MAX_ENTRIES).contains(&self.entries) {
            return Err(SettingsError::Entries(self.entries));
        }
        if self.age < MIN_AGE || self.age > MAX_AGE {
            return Err(SettingsError::Age(self.age));
        }
        Ok(())
    }
}
