//! Pages and files as a whole.

#[path = "../examples/sample_page.rs"]
#[allow(dead_code, reason = "its main is for people")]
mod sample_page;

mod pages;
mod round_trip;
