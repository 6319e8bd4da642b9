//! Tests of the function.

mod any_input;
mod cases;
mod configuration;
mod frames;
mod link;
mod model;
