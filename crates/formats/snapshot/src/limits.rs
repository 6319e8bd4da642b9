//! What a snapshot may hold at most. Checked when one is written and when one is read, before memory is taken
//! for it.

/// Bytes of private memory: all that lies below the window.
pub const MEMORY_BYTES: u64 = nf_abi::PRIVATE_MAX;

/// Bytes by which WebAssembly memory grows (WebAssembly core specification, section 4.2.8).
pub const MEMORY_UNIT: u64 = 65_536;

/// Sections, known and unknown.
pub const SECTIONS: usize = 64;

/// Bytes of an image's or a tally's name.
pub const NAME_BYTES: usize = 256;

/// Bytes of the configuration as the instance was told it.
pub const CONFIG_BYTES: usize = 256 << 20;

/// Mutable globals, as many as an image may have.
pub const GLOBALS: usize = 1_024;

/// Bytes of the name by which a global is exported.
pub const GLOBAL_NAME_BYTES: usize = 4_096;

/// Counters, as many as a manifest can name.
pub const COUNTERS: usize = u16::MAX as usize;

/// Log lines, and events, that have not been collected yet.
pub const LINES: usize = 65_536;

/// Bytes of one of them.
pub const LINE_BYTES: usize = 65_536;

/// Packets, waiting and held together.
pub const PACKETS: usize = 1 << 20;

/// Bytes of one of them: what the largest buffer holds.
pub const PACKET_BYTES: usize = 65_536;

/// Tallies of the engine.
pub const TALLIES: usize = 65_536;
