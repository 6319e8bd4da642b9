//! Arbitrary capture files: reading ends, and packets lie inside the file.

use port::pcap::{Capture, Next};
use std::io::Cursor;

pub fn run(file: &[u8]) {
    let Ok(mut capture) = Capture::new(Cursor::new(file)) else { return };
    let mut bytes = 0;
    // Each step takes at least one byte, but for the last.
    for _ in 0..=file.len() {
        match capture.step() {
            Ok(Next::Record(record)) => {
                assert_eq!(capture.bytes().len(), record.length as usize);
                bytes += capture.bytes().len();
                assert!(bytes <= file.len());
            }
            Ok(Next::Passed) => {}
            Ok(Next::End) => return,
            Err(fault) => assert!(fault.offset <= file.len() as u64),
        }
    }
    panic!("more steps than bytes");
}
