//! Packets and the memory they live in: pools of buffers, one pool for a tenant.
//!
//! The life of a packet:
//! 1. [`Pool::allocate`] takes the most recently freed buffer and makes a [`Packet`] of it.
//! 2. Bytes are written with [`Pool::write`]; a port may let the kernel write at [`Pool::data`].
//! 3. The packet moves from owner to owner by value: there is no `Clone`, so one owner is a matter of type.
//! 4. Observers borrow it: they are shown `&Packet`.
//! 5. Between tenants [`Pool::copy_from`] makes a second packet in the receiver's pool.
//! 6. [`Pool::free`] takes it back.
//!
//! Headers of tunnels that are taken off a packet are kept beside its buffer, out of guests' reach
//! ([`Pool::keep`]).
//!
//! A device that reads and writes the pool by itself has buffers without packets in its rings: [`Buffer`] is
//! the right to one of these.
//!
//! A pool is a sealed memory file, allocated in full before use, so that a page can never be missing later.
//! Guests have it mapped at one address, hence a packet's record names its buffer by that address.
//!
//! Limits: buffers of 2 KiB to 64 KiB, a power of two; a pool of at most 1 GiB. Packet bytes may change at
//! any time under the host's feet (a guest on another worker may be writing), so this crate copies them
//! through raw pointers and never forms a reference to them.

mod buffer;
mod free_list;
mod kept;
mod likeness;
mod memory_file;
mod packet;
mod pool;
mod pool_id;
mod prefetch;

pub use buffer::Buffer;
pub use kept::Kept;
pub use likeness::Likeness;
pub use memory_file::{MemoryFile, PageKind};
pub use packet::Packet;
pub use pool::{BufferSize, Pool, PoolConfig, PoolError, TooLong};
pub use prefetch::{prefetch, prefetch_to_write};
