//! What was taken out of the host, until its memory has been given back.
//!
//! To give back a function's memory takes as long as to make a function, and interrupts the program's other
//! threads. A change hands it to a thread of its own, which takes what comes within [`TOGETHER`] at once: in
//! a row of changes hardly one has to wake it, and that is most of what one would wait for here.
//!
//! Limits: memory is kept for as much longer, in which a few functions can be taken out.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

/// For how long it is waited for more. Functions that are made and removed in turns use the memory of some
/// few again, as many as go meanwhile.
const TOGETHER: Duration = Duration::from_millis(2);

/// Where what is taken out is put, and the thread, which ends when there is no such place any more.
///
/// # Errors
/// The system has no thread for it.
pub(super) fn begin<T: Send + 'static>() -> io::Result<(Sender<T>, JoinHandle<()>)> {
    let (attic, removed) = channel();
    let reaper = Builder::new().name("reaper".into());
    Ok((attic, reaper.spawn(move || give_back(&removed, || sleep(TOGETHER)))?))
}

/// Drops what comes; `rest` lets the time pass in which more may come.
fn give_back<T>(removed: &Receiver<T>, rest: impl Fn()) {
    while let Ok(first) = removed.recv() {
        rest();
        drop(first);
        removed.try_iter().for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;

    #[test]
    fn what_comes_meanwhile_is_given_back_with_what_came_first() {
        let (attic, removed) = channel();
        let (kept, rests) = (Arc::new(()), Cell::new(0));
        attic.send(kept.clone()).expect("is taken");
        let attic = Cell::new(Some(attic));
        give_back(&removed, || {
            rests.set(rests.get() + 1);
            assert_eq!(Arc::strong_count(&kept), 2, "nothing is given back before");
            // Dropped with the last one: nothing more can come.
            let attic = attic.take().expect("it is waited for once");
            let later: Vec<Arc<()>> = (0..3).map(|_| kept.clone()).collect();
            later.into_iter().for_each(|one| attic.send(one).expect("is taken"));
        });
        assert_eq!((rests.get(), Arc::strong_count(&kept)), (1, 1));
    }

    #[test]
    fn the_thread_gives_back_what_it_is_handed_and_ends() {
        let kept = Arc::new(());
        let (attic, reaper) = begin().expect("a thread");
        attic.send(kept.clone()).expect("is taken");
        drop(attic);
        reaper.join().expect("no panic");
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
