//! Tests of the whole function.

mod any_input;
mod connections;
mod fragments;
mod frames;
mod model;
mod secrets;
mod snapped;
mod tunnels;
