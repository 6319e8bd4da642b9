//! Tests of the whole function and of its parts against plainer ones.

mod any_input;
mod connections;
mod frames;
mod matching;
mod model;
mod packets;
mod table;
mod tunnels;
