//! Tests of the parts against plainer ones.

mod matching;
mod packets;
