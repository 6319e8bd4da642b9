//! A function without the SDK, so that what compilers emit is tested as it is.
#![no_std]

use core::cell::UnsafeCell;

#[repr(C, align(64))]
struct Batch(UnsafeCell<[[u32; 16]; 64]>);
// SAFETY: a guest has one thread.
unsafe impl Sync for Batch {}

static BATCH: Batch = Batch(UnsafeCell::new([[0; 16]; 64]));
static KEPT: Batch = Batch(UnsafeCell::new([[0; 16]; 64]));
static HANDLERS: [fn(u32) -> u32; 2] = [even, odd];

#[link(wasm_import_module = "superfluid_v1")]
// SAFETY: the host has this function, with these types (docs/nf-abi.md).
unsafe extern "C" {
    fn timer_set(deadline: i64) -> i32;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

fn even(turn: u32) -> u32 {
    turn / 2
}

fn odd(turn: u32) -> u32 {
    turn * 3 + 1
}

#[unsafe(no_mangle)]
extern "C" fn sf_batch() -> i32 {
    BATCH.0.get() as i32
}

#[unsafe(no_mangle)]
extern "C" fn sf_init() -> i32 {
    // SAFETY: it takes a number and gives one.
    unsafe { timer_set(1) }
}

#[unsafe(no_mangle)]
extern "C" fn sf_process(count: u32, now: u64) {
    // SAFETY: one thread, and there are no other references while it is called; the same holds below.
    let batch = unsafe { &mut *BATCH.0.get() };
    // SAFETY: as above; it is another static.
    let kept = unsafe { &mut *KEPT.0.get() };
    let count = count as usize;
    kept[..count].copy_from_slice(&batch[..count]);
    batch.copy_within(..count - 1, 1);
    batch[0] = kept[count - 1];
    kept[count..].fill([0x5a5a5a5a; 16]);
    for record in &mut batch[..count] {
        record[0] = 2;
        record[4] = HANDLERS[(now % 2) as usize](record[4]);
    }
}

#[unsafe(no_mangle)]
extern "C" fn kept() -> i32 {
    KEPT.0.get() as i32
}
