//! How long the steps of an operation take, measured on request.
//!
//! 1. The caller that asks runs the operation within [`measure`], on its own thread.
//! 2. The operation calls [`done`] at the end of each step. When it is not measured, that is a look at a flag
//!    of the thread.
//! 3. [`measure`] gives the steps, in order.
//!
//! Limits: what other threads do on its behalf is part of the step in which it is waited for.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// A step that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub name: &'static str,
    /// When it began.
    pub began: Instant,
    /// How long it took.
    pub took: Duration,
}

#[derive(Default)]
struct Steps {
    last: Option<Instant>,
    done: Vec<Step>,
}

/// More than anything has; what comes then is part of no step.
const MOST: usize = 256;

thread_local! {
    static WANTED: Cell<bool> = const { Cell::new(false) };
    static STEPS: RefCell<Steps> = const { RefCell::new(Steps { last: None, done: Vec::new() }) };
}

/// Does something, and says how long its steps took. Within another measurement the steps are that one's.
pub fn measure<R>(work: impl FnOnce() -> R) -> (R, Vec<Step>) {
    if WANTED.get() {
        return (work(), Vec::new());
    }
    STEPS.with_borrow_mut(|steps| steps.last = Some(Instant::now()));
    let wanted = Wanted::new();
    let result = work();
    drop(wanted);
    (result, STEPS.take().done)
}

/// Says that what was done since the last step is the step of this name. Steps of one name that follow each
/// other are one.
#[inline]
pub fn done(name: &'static str) {
    if WANTED.get() {
        note(name);
    }
}

#[cold]
fn note(name: &'static str) {
    STEPS.with_borrow_mut(|steps| {
        let now = Instant::now();
        let began = steps.last.replace(now).unwrap_or(now);
        let took = now.duration_since(began);
        let room = steps.done.len() < MOST;
        match steps.done.last_mut() {
            Some(last) if last.name == name => last.took += took,
            _ if room => steps.done.push(Step { name, began, took }),
            _ => {}
        }
    });
}

/// Lets the thread measure until it is dropped, by a panic too.
struct Wanted;

impl Wanted {
    fn new() -> Wanted {
        WANTED.set(true);
        Wanted
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        WANTED.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_on_request() {
        done("not measured");
        let ((), steps) = measure(|| {
            std::thread::sleep(Duration::from_millis(2));
            done("a");
            done("b");
            done("b");
            let ((), none) = measure(|| done("c"));
            assert_eq!(none, []);
        });
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(
            steps[0].took >= Duration::from_millis(2) && steps[1].began >= steps[0].began + steps[0].took
        );
        let broken = std::panic::catch_unwind(|| measure(|| panic!("it breaks")));
        assert!(broken.is_err());
        done("not measured");
        assert_eq!(measure(|| ()).1, []);
    }
}
