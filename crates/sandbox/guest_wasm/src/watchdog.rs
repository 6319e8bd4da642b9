// UNSAFETY: a timer and its signal handler are installed here; the handler calls only async-signal-safe
// functions. Miri and Kani know no signals; `tests/sandbox/deadlines.rs` runs it.
#![allow(unsafe_code)]
//! Bounds the time of a call into a guest.
//!
//! Each worker thread has one timer. It runs only while calls are made:
//! 1. [`begin`] notes when the call began, and on which [`Terms`]; the first call after a pause, and one that
//!    must end before the timer would expire, also starts the timer.
//! 2. When the timer expires, its handler runs on the worker itself, over whatever runs there. No call: the
//!    timer rests. A call that still has time: the timer is set to the end of that time. A call that has
//!    none is marked as overdue.
//! 3. The handler makes the guest's memory inaccessible ([`Reach::bar`]): first the page that polls access
//!    ([`image::with_safepoints`]), and all of it when that has not ended the call. The next access traps.
//!    The worker makes it accessible again when the call has ended ([`Call::end`]).
//! 4. Where a host call was interrupted that touches the guest's memory ([`touch`]), the handler looks again
//!    soon. Such calls end what is overdue before they touch anything.
//!
//! A call has two limits. Its own time ends at `max_call`: processor time less what the kernel took, for page
//! faults and for packets of others that interrupts bring, neither of which is a function's fault. The whole
//! of it ends at [`WHOLE_CALL`] or at `max_call`, whichever is longer: a guest can make the kernel work, but
//! not for long.
//!
//! A call that can be switched out runs in stretches, each on terms of its own ([`Terms::stretch`]). A
//! stretch has two ends: when its slice is over ([`SLICE_OVER`]) the guest is switched out, when the call's
//! whole time is used up it is overdue like any other. Code of such instances has no polls: it compares the
//! engine's epoch in their place, which the handler advances at either end. The store then asks [`ending`]
//! whether that was for its own call, and what for. Its memory is made inaccessible only where its own code
//! was interrupted: between two stretches it must not be.
//!
//! So the cost of a call is a few stores, and the cost of a busy worker one signal for each longest call
//! time.
//!
//! Limits: time is the processor's counter, less what the thread demonstrably did not have the processor for,
//! so that a function does not pay for a host that is short of processors. Most kernels count the time that
//! they take of a thread by ticks, of 1 to 10 ms: a call may end later than its own limit by what the kernel
//! took of the same thread since the timer was set, at most as long again. A host that stops a virtual
//! machine in the middle of a call, and does not say so, is noticed only where that keeps the timer waiting.

use crate::shell::{PAGE, RESERVATION};
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
    compiler_fence,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use telemetry::clock::{Clock, Cycles, Nanos};
use wasmtime::{Engine, Trap};

/// What the handler and the worker's own code share. Both run on one thread, so relaxed atomics and compiler
/// fences are all the order they need.
struct Watch {
    timer: Cell<libc::timer_t>,
    /// Of the call in progress.
    terms: AtomicPtr<Terms>,
    /// Reading at the call's beginning; 0 when no call is in progress.
    began: AtomicU64,
    /// Cycles that the kernel took of the call in progress, as far as the handler has looked.
    taken: AtomicU64,
    /// Whether the call in progress is to end: [`GOES_ON`] and what follows it.
    end: AtomicU8,
    /// Whether a host call touches the guest's memory now.
    touching: AtomicBool,
    /// About when the timer will expire; [`NEVER`] when it rests.
    due: AtomicU64,
    /// When the timer was last set, and the processor time that the thread had had by then, in nanoseconds.
    armed: AtomicU64,
    had: AtomicU64,
    /// And that the kernel had had of it.
    kernel: AtomicU64,
}

/// The call has time left.
pub(crate) const GOES_ON: u8 = 0;
/// The stretch is to be switched out.
pub(crate) const SLICE_OVER: u8 = 1;
/// The call is to end: it has used up its own time, or with the kernel's part of it the whole.
const OVERDUE: u8 = 2;
const OVERDUE_AS_A_WHOLE: u8 = 3;

/// Most time of a call on all accounts, unless it may take longer by itself.
pub const WHOLE_CALL: Nanos = Nanos::from_millis(100);

/// What a call runs on, and what memory it may reach: made once for an instance, and looked at only when a
/// call is overdue.
pub(crate) struct Reach {
    engine: Engine,
    /// Addresses of its program's machine code.
    code: Range<usize>,
    /// Host address of guest address zero; 0 as long as that is not known.
    base: AtomicUsize,
    /// The page that its polls read.
    poll_page: usize,
    /// Whether all that touches its memory in the middle of a call, beside its own code, does so in
    /// [`touch`], and the call is not to go on later.
    in_host_calls: AtomicBool,
    /// Whether that page was made inaccessible (1), or all that it may name (2).
    barred: AtomicU8,
}

impl Reach {
    pub(crate) fn new(engine: &Engine, code: Range<usize>, poll_address: usize) -> Reach {
        let (engine, poll_page) = (engine.clone(), poll_address & !(PAGE - 1));
        let (base, in_host_calls) = (AtomicUsize::new(0), AtomicBool::new(false));
        Reach { engine, code, base, poll_page, in_host_calls, barred: AtomicU8::new(0) }
    }

    /// Says where its memory is.
    pub(crate) fn is_at(&self, base: usize) {
        self.base.store(base, Relaxed);
    }

    /// From now on its calls are ended in the middle of host calls, too.
    pub(crate) fn end_in_host_calls(&self) {
        self.in_host_calls.store(true, Relaxed);
    }

    /// Makes the memory inaccessible, if the call is overdue and nothing of the host touches it at `pc`: the
    /// page that polls read, which is soon done, and all of it the next time. Host code never finds it so:
    /// what touches it ends calls that are overdue first.
    fn bar(&self, end: u8, touching: bool, pc: usize) {
        let (base, barred) = (self.base.load(Relaxed), self.barred.load(Relaxed));
        let untouched = self.code.contains(&pc) || self.in_host_calls.load(Relaxed) && !touching;
        if end >= OVERDUE && base != 0 && untouched && barred < 2 {
            let (at, bytes) = if barred == 0 { (base + self.poll_page, PAGE) } else { (base, RESERVATION) };
            // SAFETY: a part of one shell's reservation, which lives as long as the call in progress;
            // mprotect is a plain system call.
            unsafe { libc::mprotect(at as *mut _, bytes, libc::PROT_NONE) };
            // Also when it was refused half way.
            self.barred.store(barred + 1, Relaxed);
        }
    }

    /// Whether the memory was made inaccessible; asked once, by the worker, which then makes it accessible
    /// again.
    pub(crate) fn take_barred(&self) -> bool {
        self.barred.swap(0, Relaxed) > 0
    }
}

/// What holds for calls of one kind into an instance: made once, and looked at when a call may be over.
pub(crate) struct Terms {
    reach: Arc<Reach>,
    /// Cycles that a call may take of its own, and on all accounts.
    own: Cycles,
    whole: Cycles,
    /// Cycles after which it is switched out; [`NEVER`] for a call that is not a stretch.
    slice: Cycles,
    /// The first of them.
    first: Cycles,
}

impl Terms {
    /// For calls that may take `own`, and are not switched out.
    pub(crate) fn new(reach: &Arc<Reach>, own: Cycles) -> Terms {
        Terms { reach: reach.clone(), own, whole: whole(own), slice: Cycles(NEVER), first: own }
    }

    /// For a stretch that is switched out when it has lasted for `slice`, of a call that may take `own` and
    /// has `spent` of it.
    pub(crate) fn stretch(&mut self, slice: Cycles, own: Cycles, spent: Spent) {
        (self.own, self.whole) = (own.since(spent.own()), whole(own).since(spent.whole));
        (self.slice, self.first) = (slice, self.own.min(self.whole).min(slice));
    }

    /// What the calls run on.
    pub(crate) fn reach(&self) -> &Arc<Reach> {
        &self.reach
    }
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
        // SAFETY: the timer made in `install`, deleted once. A signal already pending is delivered no later
        // than on the return from this call, while the memory still stands.
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

/// Begins a call, or a stretch of one, at a reading of the clock, and sees to it that the timer expires in
/// time. The terms must stay where they are, and as they are, until its end.
#[inline(always)]
pub(crate) fn begin(terms: &Terms, at: Cycles) -> Call {
    let (watch, first) = (watch(), terms.first);
    // SAFETY: `CURRENT` points to this thread's watch, which lives as long as the thread.
    let current = unsafe { &*watch };
    current.terms.store(std::ptr::from_ref(terms).cast_mut(), Relaxed);
    current.taken.store(0, Relaxed);
    current.end.store(GOES_ON, Relaxed);
    compiler_fence(SeqCst);
    current.began.store(at.0 | 1, Relaxed); // Never 0, which is no call.
    // The handler lets the timer rest when it finds no call: it must find this one before `due` is looked at.
    compiler_fence(SeqCst);
    if current.due.load(Relaxed).saturating_sub(at.0) > first.0 {
        current.arm(first);
        current.due.store(at.0.saturating_add(first.0).min(NEVER - 1), Relaxed);
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
        // SAFETY: as in `begin`; a call ends on the thread that it began on.
        unsafe { &*self.0 }.began.store(0, Relaxed);
    }
}

impl Call {
    /// Ends the call; whether its time was up.
    #[inline]
    pub(crate) fn end(self) -> bool {
        let watch = self.0;
        // What the handler finds afterwards is no call: its memory stays as it is said to be here.
        drop(self);
        compiler_fence(SeqCst);
        // SAFETY: as in `begin`; a call ends on the thread that it began on.
        unsafe { &*watch }.end.load(Relaxed) >= OVERDUE
    }

    /// The same of a stretch: what it and all before have had of the call's time as well.
    pub(crate) fn end_stretch(self, before: Spent) -> (Spent, bool) {
        // SAFETY: as in `begin`; a stretch ends on the thread that it began on.
        let current = unsafe { &*self.0 };
        let whole = before.whole + Cycles::now().since(Cycles(current.began.load(Relaxed)));
        let kernel = before.kernel + Cycles(current.taken.load(Relaxed));
        (Spent { whole, kernel }, self.end())
    }
}

/// Time that a call has had, in cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// All of it.
    pub(crate) whole: Cycles,
    /// What the kernel took of it, as far as ticks have told: it may be more than the whole.
    pub(crate) kernel: Cycles,
}

impl Spent {
    /// What the call took by itself.
    fn own(self) -> Cycles {
        self.whole.since(self.kernel)
    }
}

/// The most that a call may take on all accounts which may take `limit` of its own.
fn whole(limit: Cycles) -> Cycles {
    limit.max(clock().cycles(WHOLE_CALL))
}

/// Whether the call in progress on this thread, or the last one, is to end: [`GOES_ON`], [`SLICE_OVER`], or
/// that its time is up.
#[inline]
pub(crate) fn ending() -> u8 {
    // SAFETY: null or this thread's watch.
    unsafe { CURRENT.get().as_ref() }.map_or(GOES_ON, |watch| watch.end.load(Relaxed))
}

/// Does what touches the memory of the guest whose call is in progress on this thread, or of one that no call
/// is in progress into.
///
/// # Errors
/// [`Trap::Interrupt`]: the call is overdue, and its memory may be inaccessible.
#[inline]
pub(crate) fn touch<R>(deed: impl FnOnce() -> R) -> wasmtime::Result<R> {
    // SAFETY: as in `begin`.
    let watch = unsafe { &*watch() };
    watch.touching.store(true, Relaxed);
    // The handler leaves the memory as it is from here on: it must be looked at afterwards how it is.
    compiler_fence(SeqCst);
    let accessible = watch.began.load(Relaxed) == 0 || watch.end.load(Relaxed) < OVERDUE;
    let done = accessible.then(deed).ok_or_else(|| Trap::Interrupt.into());
    compiler_fence(SeqCst);
    watch.touching.store(false, Relaxed);
    done
}

/// The limit that a call of this thread ran into which is overdue and may take `limit` of its own.
pub(crate) fn exceeded(limit: Nanos) -> Nanos {
    if ending() == OVERDUE_AS_A_WHOLE { limit.max(WHOLE_CALL) } else { limit }
}

impl Watch {
    /// What the handler does: see the module's second step. `pc` is where the thread was interrupted.
    fn look(&self, pc: usize) {
        let (mut began, now) = (self.began.load(Relaxed), Cycles::now());
        if began == 0 {
            self.due.store(NEVER, Relaxed);
            return;
        }
        // SAFETY: a call is in progress, and its terms stay until its end.
        let Terms { reach, own, whole, slice, .. } = unsafe { &*self.terms.load(Relaxed) };
        if self.end.load(Relaxed) < OVERDUE {
            // The caller's clock may be ahead: the call has its time from here on then, not from some day on.
            began = began.min(now.0);
            let mut used = now.since(Cycles(began)).0;
            let (absent, unseen, taken) = self.since_armed(now);
            let withheld = (absent + unseen).0.min(used);
            (began, used) = (began + withheld, used - withheld);
            let taken = self.taken.load(Relaxed) + taken.0.min(used);
            self.began.store(began, Relaxed);
            self.taken.store(taken, Relaxed);
            let spent = used.saturating_sub(taken);
            // Of what passed before, too, some may have been taken unseen. Once: it is spent the next time.
            let grace = if unseen.0 > 0 && spent < own.0 + own.0 / 8 { own.0 / 4 } else { 0 };
            let of_its_own = own.0.saturating_sub(spent).max(grace);
            let left = of_its_own.min(whole.0.saturating_sub(used));
            if left > 0 && used < slice.0 {
                self.arm(Cycles(left.min(slice.0 - used)));
                return;
            }
            let end = match (left, of_its_own) {
                (1.., _) => SLICE_OVER,
                (0, 0) => OVERDUE,
                (0, _) => OVERDUE_AS_A_WHOLE,
            };
            self.end.store(end, Relaxed);
        }
        reach.bar(self.end.load(Relaxed), self.touching.load(Relaxed), pc);
        reach.engine.increment_epoch();
        self.arm(clock().cycles(LOOK_AGAIN));
    }

    /// Of the time since the timer was set, what the thread did not have the processor for; what nothing had
    /// that this kernel knows of; and what the kernel took of the thread's.
    ///
    /// A host that stops a virtual machine may not tell. But nothing that a guest does keeps the timer's
    /// signal waiting: what that comes late by, and the kernel was not busy with, was not the guest's.
    fn since_armed(&self, now: Cycles) -> (Cycles, Cycles, Cycles) {
        let cycles = |nanos: u64, before: &AtomicU64| {
            clock().cycles(Nanos(nanos.saturating_sub(before.load(Relaxed))))
        };
        let taken = cycles(kernel_time(), &self.kernel);
        let had = cycles(time(libc::CLOCK_THREAD_CPUTIME_ID), &self.had);
        let absent = now.since(Cycles(self.armed.load(Relaxed))).since(had);
        let late = now.since(Cycles(self.due.load(Relaxed))).since(absent).since(taken);
        (absent, if late > clock().cycles(LATE) { late } else { Cycles(0) }, taken)
    }

    fn arm(&self, after: Cycles) {
        let span = Duration::from(clock().span(after)).max(Duration::from_nanos(1_000));
        let (seconds, nanos) = (span.as_secs() as libc::time_t, span.subsec_nanos() as libc::c_long);
        let it_value = libc::timespec { tv_sec: seconds, tv_nsec: nanos };
        let when = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // Both were read before either is written, and in this order: the handler may run in between for an
        // earlier setting of the timer, and must not take another's processor time for this call's.
        let (kernel, had, now) = (kernel_time(), time(libc::CLOCK_THREAD_CPUTIME_ID), Cycles::now());
        self.kernel.store(kernel, Relaxed);
        self.had.store(had, Relaxed);
        compiler_fence(SeqCst);
        self.armed.store(now.0, Relaxed);
        self.due.store(now.0.saturating_add(after.0).min(NEVER - 1), Relaxed);
        // SAFETY: the timer belongs to this watch; timer_settime is async-signal-safe.
        unsafe { libc::timer_settime(self.timer.get(), 0, &when, std::ptr::null_mut()) };
    }
}

/// Nanoseconds of the present thread's that the kernel has taken: for its system calls and page faults, and
/// in interrupts. Each is read from where ticks are counted; together they are counted first, so that a tick
/// in between adds nothing.
fn kernel_time() -> u64 {
    let all = time(THREAD_TIME);
    all.saturating_sub(time(THREAD_USER_TIME))
}

/// Clocks of the present thread that count ticks, as linux/posix-timers_types.h makes their numbers: of no
/// thread by name (all bits set above the third), of a thread (4), all of its time (0) or that outside of the
/// kernel (1).
const THREAD_TIME: libc::clockid_t = !0 << 3 | 4;
const THREAD_USER_TIME: libc::clockid_t = THREAD_TIME | 1;

/// A clock's reading, in nanoseconds; 0 where the kernel does not know the clock.
fn time(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes the value it is given and is async-signal-safe.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// What the timer's signal comes late by says nothing up to here: it is two to four times what it takes to
/// come, on a busy machine.
const LATE: Nanos = Nanos(250_000);

/// How soon to look again after a call's time was up: the guest may have been inside a host call, or in code
/// that comes by no poll for long.
const LOOK_AGAIN: Nanos = Nanos(50_000);

/// The address of the instruction that a signal interrupted.
fn interrupted_at(context: &libc::ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    return context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    return context.uc_mcontext.pc as usize;
}

extern "C" fn expired(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo_t and a valid ucontext_t. The value of a timer's signal is
    // the watch that the timer was made with; it is compared with this thread's own and never followed, so
    // that neither a forged signal nor one that outlived its timer does harm. errno is kept for the code that
    // was interrupted.
    unsafe {
        let watch = CURRENT.get();
        if (*info).si_code != libc::SI_TIMER || !std::ptr::eq((*info).si_value().sival_ptr.cast(), watch) {
            return;
        }
        let errno = *libc::__errno_location();
        if let Some(watch) = watch.as_ref() {
            watch.look(interrupted_at(&*context.cast::<libc::ucontext_t>()));
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
    // SAFETY: a zeroed set is valid. A process may be started with the signal blocked; its guests could not
    // be stopped.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    WATCH.with(|cell| {
        let owner = cell.get_or_init(|| {
            Box::new(WatchOwner(Watch {
                timer: Cell::new(std::ptr::null_mut()),
                terms: AtomicPtr::new(std::ptr::null_mut()),
                began: AtomicU64::new(0),
                taken: AtomicU64::new(0),
                end: AtomicU8::new(GOES_ON),
                touching: AtomicBool::new(false),
                due: AtomicU64::new(NEVER),
                armed: AtomicU64::new(0),
                had: AtomicU64::new(0),
                kernel: AtomicU64::new(0),
            }))
        });
        let watch: *const Watch = &owner.0;
        // SAFETY: a zeroed sigevent is valid; the timer's signal goes to this thread alone and carries a
        // pointer to a boxed value, which stays where it is until the timer was deleted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_host_touches_stays_accessible() {
        let engine = Engine::default();
        // (in host calls, the end, whether the host touches it, where it runs, whether it is barred)
        for (anywhere, end, touching, pc, barred) in [
            (false, OVERDUE, false, 0x1800, true),
            (false, OVERDUE_AS_A_WHOLE, true, 0x1800, true),
            (false, SLICE_OVER, false, 0x1800, false),
            (false, OVERDUE, false, 0x2000, false),
            (true, OVERDUE, false, 0x2000, true),
            (true, OVERDUE, true, 0x2000, false),
            (true, GOES_ON, false, 0x2000, false),
        ] {
            let reach = Reach::new(&engine, 0x1000..0x2000, 0);
            // No page begins there that mprotect could change: what counts is whether one was to be.
            reach.is_at(1);
            if anywhere {
                reach.end_in_host_calls();
            }
            reach.bar(end, touching, pc);
            assert_eq!(reach.take_barred(), barred, "{anywhere} {end} {touching} {pc:#x}");
        }
    }

    /// The call that a thread is in when its timer comes, which was set as the call began.
    fn look_at(own: Nanos, since: Nanos, late: Nanos) -> u8 {
        let reach = Arc::new(Reach::new(&Engine::default(), 0..0, 0));
        let (own, since, late) = (clock().cycles(own), clock().cycles(since), clock().cycles(late));
        let terms = Terms::new(&reach, own);
        // SAFETY: `CURRENT` points to this thread's watch, which lives as long as the thread.
        let watch = unsafe { &*watch() };
        // All of that time is the thread's, as far as the kernel knows.
        let mut now = Cycles::now();
        while time(libc::CLOCK_THREAD_CPUTIME_ID) < clock().span(since).0 {
            now = Cycles::now();
        }
        let call = begin(&terms, Cycles(now.0 - since.0));
        let span = clock().span(since).0;
        watch.had.store(time(libc::CLOCK_THREAD_CPUTIME_ID) - span, Relaxed);
        watch.armed.store(now.0 - since.0, Relaxed);
        watch.due.store(now.0 - late.0, Relaxed);
        watch.look(0);
        // What is looked at soon after is not looked at here.
        let end = watch.end.load(Relaxed);
        drop(call);
        end
    }

    #[test]
    fn a_host_that_stops_the_machine_unseen_ends_no_call() {
        let ms = Nanos::from_millis;
        assert_eq!(look_at(ms(10), ms(10), ms(0)), OVERDUE, "its own time");
        assert_eq!(look_at(ms(10), ms(30), ms(20)), GOES_ON, "the signal came late by what was taken");
        assert_eq!(look_at(ms(10), ms(10), Nanos(100_000)), OVERDUE, "as late as signals are");
        assert_eq!(look_at(ms(10), ms(160), ms(150)), GOES_ON, "nor for what counts as a whole");
        assert_eq!(look_at(ms(10), ms(40), ms(20)), OVERDUE, "what was its own before counts");
    }
}
