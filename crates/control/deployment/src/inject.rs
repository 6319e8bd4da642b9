//! Packets that an operator puts before a function, to see what becomes of them.

use crate::Host;
use crate::deployed::pool_of;
use engine::Stopped;
use packet_memory::{Packet, Pool};
use telemetry::clock::Nanos;

/// Why a packet was not put there.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// There is no such function.
    #[error("there is no function `{0}`")]
    Absent(String),
    /// It does not fit a buffer.
    #[error("found {found} bytes; allowed: at most {allowed}, which is what a buffer has room for")]
    TooLong {
        /// Bytes of the packet.
        found: usize,
        /// Bytes that a buffer has room for.
        allowed: u32,
    },
    /// There is no free buffer.
    #[error("no free buffer in the pool of `{0}`")]
    NoBuffer(String),
    /// The function's queue is full.
    #[error("the queue of `{0}` is full")]
    QueueFull(String),
    /// The host has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Host {
    /// Puts a packet into a function's queue as if it had just come by an interface. `seen` is shown it
    /// before the function is; it is counted as generated there, and goes wherever the function sends it.
    ///
    /// # Errors
    /// [`InjectError`].
    pub fn inject(
        &self,
        name: &str,
        interface: u16,
        bytes: &[u8],
        now: Nanos,
        seen: impl FnOnce(&Pool, &Packet) + Send + 'static,
    ) -> Result<(), InjectError> {
        let absent = || InjectError::Absent(name.to_owned());
        let id = self.function(name).ok_or_else(absent)?;
        let deployed = self.deployed();
        let instance = deployed.wiring.instances.get(name).ok_or_else(absent)?;
        let pool = deployed.pools.get(&pool_of(name, instance));
        let (pool, _) = pool.cloned().ok_or_else(absent)?;
        drop(deployed);
        let mut packet = pool.allocate().ok_or_else(|| InjectError::NoBuffer(name.to_owned()))?;
        if pool.write(&mut packet, bytes).is_err() {
            pool.free(packet);
            return Err(InjectError::TooLong { found: bytes.len(), allowed: pool.room() });
        }
        packet.edit(|record| (record.ingress, record.timestamp) = (interface, now.0));
        engine::classify(&pool, std::slice::from_mut(&mut packet), true);
        let left = self.fleet().change(move |change| {
            seen(&pool, &packet);
            let left = change.put_into_queue(id, vec![packet]);
            let refused = !left.is_empty();
            left.into_iter().for_each(|packet| pool.free(packet));
            refused
        });
        if left? { Err(InjectError::QueueFull(name.to_owned())) } else { Ok(()) }
    }
}
