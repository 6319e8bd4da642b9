// UNSAFETY: prefetch instructions, which neither read nor fault; Miri knows none, and is given none.
#![allow(unsafe_code)]
//! Telling the processor which lines of memory will be used soon: those that another one has written to take
//! as long to come as dozens of instructions.

/// Has the processor fetch the line of an address, to be read.
#[inline]
pub fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch neither reads nor faults, wherever the address points.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The same for a line that will be written to: what another processor has of it goes at once, and not at the
/// first write.
#[inline]
pub fn prefetch_to_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above. Processors of this architecture that know no such instruction do nothing there. By
    // name, because the intrinsic for it compiles to a prefetch for reading.
    unsafe {
        std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
