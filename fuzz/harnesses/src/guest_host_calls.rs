//! Host calls with any arguments, against the model of the tests.

use crate::support;
use arbitrary::Unstructured;

pub fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let Ok((write, buffers, every)) = bytes.arbitrary::<(bool, u8, u8)>() else { return };
    let Ok(calls) = support::calls::of_bytes(&mut bytes) else { return };
    support::calls::check(&calls, write, 1 + u32::from(buffers % 8), 1 + usize::from(every % 20));
}
