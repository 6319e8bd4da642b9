//! What a function is made from: one WebAssembly file, with its manifest inside.
//!
//! 1. A compiler makes a module of a function's sources.
//! 2. [`rewrite`] turns it into one that the engine accepts.

#![forbid(unsafe_code)]

pub mod limits;
mod rewrite;

pub use rewrite::{Lowered, Names, RewriteError, Rewritten, rewrite, rewrite_counted};
