//! Any text as the file of an experiment: what is read is written as it was read, and can be shown.

use plots::{Page, read, text};
use std::time::Duration;

pub fn run(data: &[u8]) {
    let Ok(file) = std::str::from_utf8(data) else { return };
    let Ok(experiment) = read(file) else { return };
    let written = text(&experiment);
    let again = read(&written).expect("what was written can be read");
    // A mark that is not a number equals nothing, so the lines are compared.
    assert_eq!(text(&again), written);
    let page = Page {
        title: String::new(),
        machine: Vec::new(),
        command: String::new(),
        took: Duration::ZERO,
        experiments: vec![experiment],
    };
    assert!(!page.html().contains("<script"));
}
