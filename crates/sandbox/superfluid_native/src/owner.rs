// UNSAFETY: a robust mutex of the C library lies in the memory of the rings, so that the kernel says there at
// once that the thread which holds it has ended. Miri knows no such mutexes; `port_native` kills processes
// that hold them.
#![allow(unsafe_code)]
//! The sign of an attachment's owner: a robust mutex that the attaching thread holds for as long as it is
//! attached.
//!
//! The kernel writes to it when the thread ends, before it takes the process's memory away, which is what
//! takes long. The engine, which waits at it, lets another process take over then.

use native_abi::words;
use native_ring::SharedMemory;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The mutex, held by the thread that attached.
#[derive(Debug)]
pub(crate) struct Owner {
    rings: Arc<SharedMemory>,
}

// The contract has 64 bytes for it.
const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= 64 && align_of::<libc::pthread_mutex_t>() <= 64);

impl Owner {
    /// Makes the mutex and takes it. `None` where the C library refuses: the engine gets no sign then.
    pub fn take(rings: &Arc<SharedMemory>) -> Option<Owner> {
        let place = mutex(rings);
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: attributes and mutex are made before they are used; the mutex lies in memory that is mapped
        // for writing, aligned, and used for nothing else.
        let taken = unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr()) == 0
                && libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED)
                    == 0
                && libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST) == 0
                && libc::pthread_mutex_init(place, attributes.as_ptr()) == 0
                && libc::pthread_mutex_lock(place) == 0
        };
        taken.then(|| Owner { rings: rings.clone() })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: it was made in `take`. A thread that does not hold it is refused, because it is robust.
        if unsafe { libc::pthread_mutex_unlock(mutex(&self.rings)) } != 0 {
            // Another thread's list of robust mutexes leads there: the memory stays mapped.
            std::mem::forget(self.rings.clone());
        }
    }
}

fn mutex(rings: &SharedMemory) -> *mut libc::pthread_mutex_t {
    rings.base().as_ptr().wrapping_add(words::OWNER).cast()
}
