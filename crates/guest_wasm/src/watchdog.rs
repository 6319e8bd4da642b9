// UNSAFETY: a timer and its signal handler are installed here; the handler calls only async-signal-safe functions.
// Miri and Kani know no signals; `tests/sandbox/deadlines.rs` runs it.
#![allow(unsafe_code)]
//! Bounds the time of a call into a guest.
//!
//! Each worker thread has one timer. It runs only while calls are made:
//! 1. [`begin`] notes when the call began; the first call after a pause, and one that must end before the timer would
//!    expire, also starts the timer.
//! 2. When the timer expires, its handler runs on the worker itself, over whatever runs there. No call: the timer
//!    rests. A call that still has time: the timer is set to the end of that time. A call that has none: it is marked
//!    as overdue and the engine's epoch is advanced, which every guest notices at its next loop or call.
//! 3. The guest's store then asks [`overdue`] and stops it, or lets it go on when the epoch was meant for another
//!    worker. Host calls that may take long ask as well: code without loops and calls looks at no epoch.
//!
//! A call that can be switched out runs in stretches, begun by [`begin_stretch`]. A stretch has two ends: when its slice
//! is over ([`slice_over`]) the guest is switched out, when the call's whole time is used up it is overdue like any
//! other. Both advance the epoch; the store tells them apart.
//!
//! So the cost of a call is a few stores, and the cost of a busy worker one signal for each longest call time.
//!
//! Limits: time is the processor's counter, less what the thread demonstrably did not have the processor for, so that a
//! function does not pay for a host that is short of processors.

use clock::{Clock, Cycles, Nanos};
use std::cell::{Cell, OnceCell};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence,
};
use std::time::Duration;
use wasmtime::Engine;

/// What the handler and the worker's own code share. Both run on one thread, so relaxed atomics and compiler fences
/// are all the order they need.
struct Watch {
    timer: Cell<libc::timer_t>,
    /// The engine of the call in progress.
    engine: AtomicPtr<Engine>,
    /// Reading at the call's beginning; 0 when no call is in progress.
    began: AtomicU64,
    /// Cycles that the call may take.
    limit: AtomicU64,
    /// The call in progress is to end.
    overdue: AtomicBool,
    /// Cycles after which the stretch in progress is to be switched out; [`NEVER`] for a call that is not a stretch.
    slice: AtomicU64,
    /// The stretch in progress is to be switched out.
    slice_over: AtomicBool,
    /// About when the timer will expire; [`NEVER`] when it rests.
    due: AtomicU64,
    /// When the timer was last set, and the processor time that the thread had had by then, in nanoseconds.
    armed: AtomicU64,
    had: AtomicU64,
}

/// The timer rests, or nothing is switched out.
const NEVER: u64 = u64::MAX;

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

/// Begins a call that may take `limit` from `at` on. The engine must live until the call's end.
#[inline]
pub(crate) fn begin(engine: &Engine, at: Cycles, limit: Cycles) -> Call {
    enter(engine, at, limit, limit)
}

/// Notes a call that may take `limit`, and sees to it that the timer expires after `first`.
#[inline(always)]
fn enter(engine: &Engine, at: Cycles, limit: Cycles, first: Cycles) -> Call {
    let watch = watch();
    // SAFETY: `CURRENT` points to this thread's watch, which lives as long as the thread.
    let current = unsafe { &*watch };
    current.engine.store(std::ptr::from_ref(engine).cast_mut(), Relaxed);
    current.limit.store(limit.0, Relaxed);
    current.overdue.store(false, Relaxed);
    compiler_fence(SeqCst);
    current.began.store(at.0.max(1), Relaxed);
    // The handler lets the timer rest when it finds no call: it must find this one before `due` is looked at.
    compiler_fence(SeqCst);
    let end = at.0.saturating_add(first.0).min(NEVER - 1);
    if end < current.due.load(Relaxed) {
        current.arm(first);
        current.due.store(end, Relaxed);
    }
    compiler_fence(SeqCst);
    Call(watch)
}

#[inline(always)]
fn watch() -> *const Watch {
    let watch = CURRENT.get();
    if watch.is_null() { install() } else { watch }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        // SAFETY: as in `enter`; a call ends on the thread that it began on.
        unsafe { &*self.0 }.began.store(0, Relaxed);
    }
}

/// A stretch of a call in progress.
pub(crate) struct Stretch(Call);

/// Begins a stretch that is to be switched out when it has lasted for `slice`, of a call that has `left` of its time.
/// The engine must live until the stretch's end.
pub(crate) fn begin_stretch(engine: &Engine, at: Cycles, slice: Cycles, left: Cycles) -> Stretch {
    // SAFETY: as in `enter`. The handler looks at the slice only when it finds a call.
    unsafe { &*watch() }.slice.store(slice.0, Relaxed);
    compiler_fence(SeqCst);
    Stretch(enter(engine, at, left, slice.min(left)))
}

impl Stretch {
    /// Ends the stretch; what it has had of the call's time.
    pub(crate) fn end(self) -> Cycles {
        // SAFETY: as in `enter`; a stretch ends on the thread that it began on.
        Cycles::now().since(Cycles(unsafe { &*self.0.0 }.began.load(Relaxed)))
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        // SAFETY: as in `enter`.
        let current = unsafe { &*self.0.0 };
        current.slice.store(NEVER, Relaxed);
        compiler_fence(SeqCst);
        current.slice_over.store(false, Relaxed);
    }
}

/// Whether the stretch in progress on this thread is to be switched out.
pub(crate) fn slice_over() -> bool {
    // SAFETY: null or this thread's watch.
    unsafe { CURRENT.get().as_ref() }.is_some_and(|watch| watch.slice_over.load(Relaxed))
}

/// Whether the call in progress on this thread has used up its time.
#[inline]
pub(crate) fn overdue() -> bool {
    // SAFETY: null or this thread's watch.
    unsafe { CURRENT.get().as_ref() }.is_some_and(|watch| watch.overdue.load(Relaxed))
}

impl Watch {
    /// What the handler does: see the module's second step.
    fn look(&self) {
        let (began, now) = (self.began.load(Relaxed), Cycles::now());
        if began == 0 {
            self.due.store(NEVER, Relaxed);
            return;
        }
        if began > now.0 {
            // The caller's clock is ahead: the call has its time from here on, not from some day on.
            self.began.store(now.0, Relaxed);
        }
        let (limit, slice) = (self.limit.load(Relaxed), self.slice.load(Relaxed));
        let mut used = now.since(Cycles(began)).0;
        let withheld = self.withheld(now).0.min(used);
        if withheld > 0 && !self.overdue.load(Relaxed) {
            self.began.store(began + withheld, Relaxed);
            used -= withheld;
        }
        if used < limit.min(slice) {
            self.arm(Cycles(limit.min(slice) - used));
            return;
        }
        let end = if used < limit { &self.slice_over } else { &self.overdue };
        end.store(true, Relaxed);
        // SAFETY: a call is in progress, and its engine lives until its end.
        unsafe { &*self.engine.load(Relaxed) }.increment_epoch();
        self.arm(clock().cycles(LOOK_AGAIN));
    }

    /// The time since the timer was set that the thread did not have the processor for.
    fn withheld(&self, now: Cycles) -> Cycles {
        let had = processor_time().saturating_sub(self.had.load(Relaxed));
        now.since(Cycles(self.armed.load(Relaxed))) - clock().cycles(Nanos(had))
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
        // Both were read before either is written, and in this order: the handler may run in between for an earlier
        // setting of the timer, and must not take another's processor time for this call's.
        let (had, now) = (processor_time(), Cycles::now());
        self.had.store(had, Relaxed);
        compiler_fence(SeqCst);
        self.armed.store(now.0, Relaxed);
        self.due.store(now.0.saturating_add(after.0).min(NEVER - 1), Relaxed);
        // SAFETY: the timer belongs to this watch; timer_settime is async-signal-safe.
        unsafe { libc::timer_settime(self.timer.get(), 0, &when, std::ptr::null_mut()) };
    }
}

/// Nanoseconds that this thread has had a processor for.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes the value it is given and is async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// How soon to look again after the epoch was advanced: the guest may have been inside a host call.
const LOOK_AGAIN: Nanos = Nanos(50_000);

extern "C" fn expired(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo_t. The value of a timer's signal is the watch that the timer was made
    // with; it is compared with this thread's own and never followed, so that neither a forged signal nor one that
    // outlived its timer does harm. errno is kept for the code that was interrupted.
    unsafe {
        let watch = CURRENT.get();
        if (*info).si_code != libc::SI_TIMER || !std::ptr::eq((*info).si_value().sival_ptr.cast(), watch) {
            return;
        }
        let errno = *libc::__errno_location();
        if let Some(watch) = watch.as_ref() {
            watch.look();
        }
        *libc::__errno_location() = errno;
    }
}

/// Makes this thread's watch.
#[cold]
fn install() -> *const Watch {
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
    // SAFETY: a zeroed set is valid. A process may be started with the signal blocked; its guests could not be stopped.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    WATCH.with(|cell| {
        let owner = cell.get_or_init(|| {
            Box::new(WatchOwner(Watch {
                timer: Cell::new(std::ptr::null_mut()),
                engine: AtomicPtr::new(std::ptr::null_mut()),
                began: AtomicU64::new(0),
                limit: AtomicU64::new(0),
                overdue: AtomicBool::new(false),
                slice: AtomicU64::new(NEVER),
                slice_over: AtomicBool::new(false),
                due: AtomicU64::new(NEVER),
                armed: AtomicU64::new(0),
                had: AtomicU64::new(0),
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
