//! What a function is made from: one WebAssembly file, with its manifest inside.
//!
//! The life of an image:
//! 1. [`build_directory`] reads a function's folder and lets cargo or clang make a module of its sources.
//! 2. [`rewrite`] turns that into a module which the engine accepts, and [`assemble`] puts the manifest into
//!    it.
//! 3. [`build_smallest`] does both and then [cuts](cut) the image, as long as the function's own test passes.
//! 4. The file travels; it may come from anywhere.
//! 5. [`Image::load`] checks every byte of it against [`limits`] and the contract. Only then is it compiled.
//! 6. [`inspect`] tells a person what is in it.
//!
//! An image is always WebAssembly, never machine code. What keeps a running function in its place is the
//! engine; this crate keeps out what the engine could not contain, and `memory.copy` and `memory.fill` above
//! all: their faults lie outside guest code, and no deadline interrupts them.
//!
//! Limits: those in [`limits`]; building needs the compilers installed.

#![forbid(unsafe_code)]

mod assemble;
mod build;
pub mod cut;
mod digest;
mod inspect;
mod layout;
pub mod limits;
mod load;
mod names;
mod rewrite;
mod safepoints;

pub use assemble::{AssembleError, assemble};
pub use build::{
    BuildError, BuildOptions, BuildReport, MANIFEST_FILE, STACK_BYTES, Smallest, build_directory,
    build_smallest, read_manifest,
};
pub use digest::Digest;
pub use inspect::inspect;
pub use load::{Image, ImageError, ModuleFacts};
pub use rewrite::{Lowered, Names, RewriteError, Rewritten, rewrite, rewrite_counted};
pub use safepoints::{SAFEPOINT_VERSION, SafepointError, Safepoints, poll_address, with_safepoints};
