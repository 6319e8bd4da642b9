//! What an image may hold at most. Everything here is checked before anything is compiled, so that a hostile
//! image costs its reader no more than reading it.

use wasmparser::WasmFeatures;

/// Largest image, in bytes, custom sections included.
pub const IMAGE_BYTES: usize = 32 << 20;

/// Most function types.
pub const TYPES: u32 = 4_096;

/// Most parameters or results of one function type.
pub const TYPE_VALUES: usize = 64;

/// Most functions, imports included.
pub const FUNCTIONS: u32 = 65_536;

/// Largest body of one function, in bytes.
pub const BODY_BYTES: usize = 1 << 20;

/// Most locals of one function, parameters included.
pub const LOCALS: u32 = 10_000;

/// Deepest nesting of blocks, loops and ifs in one function.
pub const NESTING: u32 = 4_096;

/// Most globals.
pub const GLOBALS: u32 = 1_024;

/// Most exports.
pub const EXPORTS: u32 = 4_096;

/// Most elements of the table that indirect calls go through.
pub const TABLE_ELEMENTS: u64 = 65_536;

/// Most element segments.
pub const ELEMENT_SEGMENTS: u32 = 1_024;

/// Most data segments.
pub const DATA_SEGMENTS: u32 = 65_536;

/// Bytes of one page of linear memory (WebAssembly core specification, section 4.2.8).
pub const PAGE_BYTES: u64 = 65_536;

/// The proposals that an image may use, and the engine is configured for: what compilers need for fast scalar
/// and vector code. Bulk memory is missing on purpose: a fault inside `memory.copy` or `memory.fill` lies
/// outside guest code and no deadline interrupts them, so that the rewriting pass replaces both.
pub const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::FLOATS);

/// What the rewriting pass reads: [`FEATURES`] and the two proposals whose traces it removes.
pub(crate) const TOOLCHAIN_FEATURES: WasmFeatures =
    FEATURES.union(WasmFeatures::BULK_MEMORY).union(WasmFeatures::REFERENCE_TYPES);
