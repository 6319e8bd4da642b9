//! Tests of the function.

mod any_input;
mod cases;
mod claims;
mod configuration;
mod flood;
mod frames;
mod link;
mod model;
