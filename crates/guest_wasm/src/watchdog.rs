// UNSAFETY: a timer and its signal handler are installed here; the handler calls only async-signal-safe functions.
#![allow(unsafe_code)]
//! Bounds the time of a call into a guest.
//!
//! Each worker thread has one timer. It runs only while calls are made:
//! 1. [`begin`] notes when the call began; the first call after a pause also starts the timer.
//! 2. When the timer expires, its handler runs on the worker itself, over whatever runs there. No call: the timer
//!    rests. A call that still has time: the timer is set to the end of that time. A call that has none: the
//!    engine's epoch is advanced, which every guest notices at its next loop or call.
//! 3. The guest's store then asks [`overdue`] and stops it, or lets it go on when the epoch was meant for another
//!    worker.
//!
//! So the cost of a call is two stores, and the cost of a busy worker one signal for each longest call time.

use clock::{Clock, Cycles, Nanos};
use std::cell::{Cell, OnceCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, compiler_fence};
use std::time::Duration;
use wasmtime::Engine;

/// What the handler and the worker's own code share. Both run on one thread, so relaxed atomics and a compiler fence
/// are all the order they need.
struct Watch {
    engine: Engine,
    timer: Cell<libc::timer_t>,
    /// Reading at the call's beginning; 0 when no call is in progress.
    began: AtomicU64,
    /// Cycles that the call may take.
    limit: AtomicU64,
    /// The timer will expire.
    armed: AtomicBool,
}

thread_local! {
    static WATCH: OnceCell<Box<WatchOwner>> = const { OnceCell::new() };
    static CURRENT: Cell<*const Watch> = const { Cell::new(std::ptr::null()) };
}

/// Deletes the timer before the memory that its signal points to.
struct WatchOwner(Watch);

impl Drop for WatchOwner {
    fn drop(&mut self) {
        CURRENT.set(std::ptr::null());
        // SAFETY: the timer made in `install`, deleted once. A signal already pending is delivered no later than on
        // the return from this call, while the memory still stands.
        unsafe { libc::timer_delete(self.0.timer.get()) };
    }
}

/// The process's clock: calibrated once.
pub fn clock() -> &'static Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::calibrate)
}

/// A call in progress; its end is the end of this value.
pub(crate) struct Call(*const Watch);

/// Begins a call that may take `limit` from `at` on.
#[inline]
pub(crate) fn begin(engine: &Engine, at: Cycles, limit: Cycles) -> Call {
    let mut watch = CURRENT.get();
    if watch.is_null() {
        watch = install(engine);
    }
    // SAFETY: `CURRENT` points to this thread's watch, which lives as long as the thread.
    let current = unsafe { &*watch };
    current.limit.store(limit.0, Relaxed);
    current.began.store(at.0, Relaxed);
    if !current.armed.load(Relaxed) {
        current.arm(limit);
    }
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    Call(watch)
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `begin`; a call ends on the thread that it began on.
        unsafe { &*self.0 }.began.store(0, Relaxed);
    }
}

/// Whether the call in progress on this thread has used up its time.
pub(crate) fn overdue() -> bool {
    let watch = CURRENT.get();
    // SAFETY: null or this thread's watch.
    unsafe { watch.as_ref() }.is_some_and(|watch| watch.remaining(Cycles::now()).is_none())
}

impl Watch {
    /// Cycles left to the call in progress; `None` when it has none left. Without a call, all of them.
    fn remaining(&self, now: Cycles) -> Option<Cycles> {
        let (began, limit) = (self.began.load(Relaxed), self.limit.load(Relaxed));
        let used = now.since(Cycles(began)).0;
        if began == 0 {
            Some(Cycles(limit))
        } else {
            limit.checked_sub(used).filter(|left| *left > 0).map(Cycles)
        }
    }

    fn arm(&self, after: Cycles) {
        let span = Duration::from(clock().span(after)).max(Duration::from_nanos(1_000));
        let when = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: span.as_secs() as libc::time_t,
                tv_nsec: span.subsec_nanos() as libc::c_long,
            },
        };
        self.armed.store(true, Relaxed);
        // SAFETY: the timer belongs to this watch; timer_settime is async-signal-safe.
        unsafe { libc::timer_settime(self.timer.get(), 0, &when, std::ptr::null_mut()) };
    }
}

/// How soon to look again after the epoch was advanced: the guest may have been inside a host call.
const LOOK_AGAIN: Nanos = Nanos(50_000);

extern "C" fn expired(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo_t; `si_code` tells a timer's signal, whose value is the watch that
    // the timer was made with, on the thread that owns it. errno is kept for the code that was interrupted.
    unsafe {
        if (*info).si_code != libc::SI_TIMER {
            return;
        }
        let errno = *libc::__errno_location();
        let watch = (*info).si_value().sival_ptr.cast::<Watch>().cast_const();
        if let Some(watch) = watch.as_ref().filter(|_| watch == CURRENT.get()) {
            if watch.began.load(Relaxed) == 0 {
                watch.armed.store(false, Relaxed);
            } else if let Some(left) = watch.remaining(Cycles::now()) {
                watch.arm(left);
            } else {
                watch.engine.increment_epoch();
                watch.arm(clock().cycles(LOOK_AGAIN));
            }
        }
        *libc::__errno_location() = errno;
    }
}

/// Makes this thread's watch.
#[cold]
fn install(engine: &Engine) -> *const Watch {
    static HANDLER: OnceLock<()> = OnceLock::new();
    clock(); // Calibrated before the handler can ask for it.
    HANDLER.get_or_init(|| {
        // SAFETY: a zeroed sigaction is valid; the handler has the signature that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = expired as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(signal(), &action, std::ptr::null_mut());
        }
    });
    WATCH.with(|cell| {
        let owner = cell.get_or_init(|| {
            Box::new(WatchOwner(Watch {
                engine: engine.clone(),
                timer: Cell::new(std::ptr::null_mut()),
                began: AtomicU64::new(0),
                limit: AtomicU64::new(0),
                armed: AtomicBool::new(false),
            }))
        });
        let watch: *const Watch = &owner.0;
        // SAFETY: a zeroed sigevent is valid; the timer's signal goes to this thread alone and carries a pointer to a
        // boxed value, which stays where it is until the timer was deleted.
        let made = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = libc::gettid();
            event.sigev_value.sival_ptr = watch.cast_mut().cast();
            let mut timer = std::ptr::null_mut();
            let result = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
            owner.0.timer.set(timer);
            result
        };
        // Without a timer a guest could run for ever, so nothing may run.
        assert!(made == 0, "no timer for this worker: {}", std::io::Error::last_os_error());
        CURRENT.set(watch);
        watch
    })
}

/// The signal of the watchdog's timers.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}
