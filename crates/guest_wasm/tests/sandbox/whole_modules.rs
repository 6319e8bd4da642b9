//! Whole random modules, as they come and after the rewriting pass.

use crate::support::{in_time, sandbox, smith, trial};
use arbitrary::Unstructured;
use guest_wasm::Access;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

static RAN: AtomicUsize = AtomicUsize::new(0);

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, ..ProptestConfig::default() })]

    fn random_modules(bytes in proptest::collection::vec(any::<u8>(), 500..12_000), write: bool, bulk: bool) {
        let access = if write { Access::Write } else { Access::Read };
        let Some(module) = smith::module(&mut Unstructured::new(&bytes), bulk) else { return Ok(()) };
        let mut reached = vec![trial::trial(sandbox(), &module, access, &bytes)];
        if let Ok(rewritten) = image::rewrite(&module) {
            reached.push(trial::trial(sandbox(), &rewritten, access, &bytes));
        }
        RAN.fetch_add(reached.iter().filter(|r| **r != trial::Reached::Refused).count(), Ordering::Relaxed);
    }
}

#[test]
fn random_modules_leave_the_host_as_it_was() {
    in_time(random_modules);
    assert!(RAN.load(Ordering::Relaxed) > 20, "most of them must have run: {RAN:?}");
}
