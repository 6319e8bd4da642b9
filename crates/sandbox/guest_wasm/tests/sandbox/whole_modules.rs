//! Whole random modules, as they come and after the rewriting pass.

use crate::support::{in_time, sandbox, smith, trial};
use arbitrary::Unstructured;
use guest_wasm::Access;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

static FAULTED: AtomicUsize = AtomicUsize::new(0);
static FINISHED: AtomicUsize = AtomicUsize::new(0);

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, max_shrink_iters: 200, ..ProptestConfig::default() })]

    fn random_modules(bytes in proptest::collection::vec(any::<u8>(), 500..12_000), write: bool, bulk: bool) {
        let access = if write { Access::Write } else { Access::Read };
        let Some(module) = smith::module(&mut Unstructured::new(&bytes), bulk) else { return Ok(()) };
        let mut reached = vec![trial::trial(sandbox(), &module, access, &bytes)];
        if let Ok(rewritten) = image::rewrite(&module) {
            reached.push(trial::trial(sandbox(), &rewritten, access, &bytes));
        }
        for reached in reached {
            match reached {
                trial::Reached::Refused => continue,
                trial::Reached::Faulted => &FAULTED,
                trial::Reached::Finished => &FINISHED,
            }
            .fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn random_modules_leave_the_host_as_it_was() {
    in_time(random_modules);
    // Modules that never run, or only trap, would show nothing.
    let (faulted, finished) = (FAULTED.load(Ordering::Relaxed), FINISHED.load(Ordering::Relaxed));
    assert!(faulted > 20 && finished > 20, "{faulted} faulted in every call, {finished} did not");
    let compared = trial::COMPARED.load(Ordering::Relaxed);
    assert!(compared > 20, "{compared} ran as both kinds of instances");
}
