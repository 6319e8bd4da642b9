// UNSAFETY: the interface for C is made of pointers, whose callers promise what each function's documentation
// says. No other code of the crate is reached but safe code; the C program of `port_native`'s tests runs all
// of it.
#![allow(unsafe_code)]
//! The interface for C: `include/superfluid_native.h`, which documents each function.

use crate::{AttachError, Attachment, Interest, VERSION, Woken, poll};
use native_abi::Descriptor;
use nf_abi::DEVICE_ENTRY;
use std::ffi::{CStr, c_char, c_int};
use std::net::IpAddr;
use std::time::Duration;

/// `struct sfn_packet`, which has the fields of a descriptor in its order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SfnPacket([u64; 4]);

/// What a batch is copied through, so that no caller's memory is read as a slice of other types.
const BATCH: usize = 64;

/// `SFN_` of errors, as negative numbers.
const VERSION_DIFFERS: c_int = -2;
const REFUSED: c_int = -3;
const SYSTEM: c_int = -4;
const ARGUMENT: c_int = -5;
const CLOSED: c_int = -6;
const LIMIT: c_int = -7;

/// `SFN_RECEIVE` and `SFN_SEND`.
const RECEIVE: u32 = 1;
const SEND: u32 = 2;

/// `struct sfn_interest`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SfnInterest {
    attachment: *mut Attachment,
    events: u32,
}

/// `struct sfn_device`, which has the fields of an entry in its order.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
pub struct SfnDevice([u8; DEVICE_ENTRY]);

/// # Safety
/// `path` is a text that ends with a zero, `out` a place for a pointer, and `reason` one for `capacity`
/// bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_attach(
    version: u32,
    path: *const c_char,
    out: *mut *mut Attachment,
    reason: *mut c_char,
    capacity: usize,
) -> c_int {
    if path.is_null() || out.is_null() {
        return ARGUMENT;
    }
    let told = |text: &str| {
        if !reason.is_null() && capacity > 0 {
            let count = text.len().min(capacity - 1);
            // SAFETY: the caller has `capacity` bytes there; `count` and a zero fit.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), reason.cast(), count);
                *reason.add(count) = 0;
            }
        }
    };
    if version != VERSION {
        told(&format!("found: a program for version {version}; allowed: {VERSION}"));
        return VERSION_DIFFERS;
    }
    // SAFETY: a text that ends with a zero, by the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    match Attachment::attach(&path) {
        Ok(attachment) => {
            // SAFETY: a place for a pointer, by the caller's promise.
            unsafe { *out = Box::into_raw(Box::new(attachment)) };
            0
        }
        Err(error) => {
            told(&error.to_string());
            if matches!(error, AttachError::Refused(_)) { REFUSED } else { SYSTEM }
        }
    }
}

/// # Safety
/// `attachment` comes from `sfn_attach` and is used no more; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_detach(attachment: *mut Attachment) {
    if !attachment.is_null() {
        // SAFETY: made by `sfn_attach`, and given up by the caller.
        drop(unsafe { Box::from_raw(attachment) });
    }
}

/// # Safety
/// `attachment` comes from `sfn_attach`, and no other thread uses it; `out` has room for `capacity` packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_receive(attachment: *mut Attachment, out: *mut SfnPacket, capacity: u32) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { fill(attachment, out, capacity, Attachment::receive) }
}

/// # Safety
/// As of `sfn_receive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_allocate(
    attachment: *mut Attachment,
    out: *mut SfnPacket,
    capacity: u32,
) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { fill(attachment, out, capacity, Attachment::allocate) }
}

/// # Safety
/// `attachment` comes from `sfn_attach`, and no other thread uses it; there are `count` packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_send(attachment: *mut Attachment, packets: *const SfnPacket, count: u32) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { pass(attachment, packets, count, Attachment::send) }
}

/// # Safety
/// As of `sfn_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_release(
    attachment: *mut Attachment,
    packets: *const SfnPacket,
    count: u32,
) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { pass(attachment, packets, count, Attachment::release) }
}

/// # Safety
/// As of `sfn_receive`.
#[inline]
unsafe fn fill(
    attachment: *mut Attachment,
    out: *mut SfnPacket,
    capacity: u32,
    take: fn(&mut Attachment, &mut [Descriptor]) -> usize,
) -> u32 {
    // SAFETY: from `sfn_attach`, and used by this thread alone.
    let Some(attachment) = (unsafe { attachment.as_mut() }) else { return 0 };
    if out.is_null() {
        return 0;
    }
    let (mut done, mut batch) = (0, [Descriptor::default(); BATCH]);
    while done < capacity as usize {
        let wanted = BATCH.min(capacity as usize - done);
        let count = take(attachment, &mut batch[..wanted]);
        for packet in &batch[..count] {
            // SAFETY: `done` is less than what the caller has room for.
            unsafe { out.add(done).write(SfnPacket(packet.to_words())) };
            done += 1;
        }
        if count < wanted {
            break;
        }
    }
    done as u32
}

/// # Safety
/// As of `sfn_send`.
#[inline]
unsafe fn pass(
    attachment: *mut Attachment,
    packets: *const SfnPacket,
    count: u32,
    give: fn(&mut Attachment, &[Descriptor]) -> usize,
) -> u32 {
    // SAFETY: from `sfn_attach`, and used by this thread alone.
    let Some(attachment) = (unsafe { attachment.as_mut() }) else { return 0 };
    if packets.is_null() {
        return 0;
    }
    let (mut done, mut batch) = (0, [Descriptor::default(); BATCH]);
    while done < count as usize {
        let wanted = BATCH.min(count as usize - done);
        for (n, place) in batch[..wanted].iter_mut().enumerate() {
            // SAFETY: `done + n` is less than the number of packets that the caller has there.
            *place = Descriptor::from_words(unsafe { packets.add(done + n).read() }.0);
        }
        let given = give(attachment, &batch[..wanted]);
        done += given;
        if given < wanted {
            break;
        }
    }
    done as u32
}

/// # Safety
/// `attachment` comes from `sfn_attach`; `packet` is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_data(attachment: *const Attachment, packet: *const SfnPacket) -> *mut u8 {
    // SAFETY: as the caller promises.
    let (attachment, packet) = unsafe { (attachment.as_ref(), packet.as_ref()) };
    match (attachment, packet) {
        (Some(attachment), Some(packet)) => attachment.data(&Descriptor::from_words(packet.0)),
        _ => std::ptr::null_mut(),
    }
}

/// # Safety
/// There are `count` attachments, each from `sfn_attach`, no two the same, and no other thread uses one of
/// them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_wait(attachments: *const *mut Attachment, count: u32, timeout: i32) -> c_int {
    if attachments.is_null() || count == 0 {
        return ARGUMENT;
    }
    let mut all = Vec::with_capacity(count as usize);
    for n in 0..count as usize {
        // SAFETY: one of `count` pointers, each to an attachment that this thread alone uses.
        let Some(attachment) = (unsafe { attachments.add(n).read().as_mut() }) else { return ARGUMENT };
        all.push(Interest { attachment, receive: true, send: false });
    }
    wait_for(&mut all, timeout)
}

/// # Safety
/// There are `count` interests, in attachments that each come from `sfn_attach`, no two the same, and that no
/// other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_poll(interests: *const SfnInterest, count: u32, timeout: i32) -> c_int {
    if interests.is_null() || count == 0 {
        return ARGUMENT;
    }
    let mut all = Vec::with_capacity(count as usize);
    for n in 0..count as usize {
        // SAFETY: one of `count` interests.
        let SfnInterest { attachment, events } = unsafe { interests.add(n).read() };
        // SAFETY: from `sfn_attach`, and used by this thread alone.
        let Some(attachment) = (unsafe { attachment.as_mut() }) else { return ARGUMENT };
        if events & !(RECEIVE | SEND) != 0 {
            return ARGUMENT;
        }
        all.push(Interest { attachment, receive: events & RECEIVE != 0, send: events & SEND != 0 });
    }
    wait_for(&mut all, timeout)
}

fn wait_for(interests: &mut [Interest<'_>], timeout: i32) -> c_int {
    let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
    match poll(interests, timeout) {
        Woken::Something => 1,
        Woken::Timeout => 0,
        Woken::Closed(_) => CLOSED,
    }
}

/// # Safety
/// `attachment` comes from `sfn_attach`, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_devices_changed(attachment: *mut Attachment) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { attachment.as_mut() }.map_or(0, |attachment| c_int::from(attachment.devices_changed()))
}

/// # Safety
/// `attachment` comes from `sfn_attach`, and no other thread uses it; `out` has room for `capacity` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_devices(
    attachment: *const Attachment,
    out: *mut SfnDevice,
    capacity: u32,
) -> u32 {
    // SAFETY: as the caller promises.
    let Some(attachment) = (unsafe { attachment.as_ref() }) else { return 0 };
    let (entries, _) = attachment.device_bytes().as_chunks::<DEVICE_ENTRY>();
    let room = if out.is_null() { 0 } else { capacity as usize };
    for (n, entry) in entries.iter().take(room).enumerate() {
        // SAFETY: `n` is less than what the caller has room for.
        unsafe { out.add(n).write(SfnDevice(*entry)) };
    }
    entries.len() as u32
}

/// # Safety
/// `attachment` comes from `sfn_attach`, and no other thread uses it; `address` has 4 bytes, or 16 where
/// `family` is 6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_ask(attachment: *const Attachment, family: u8, address: *const u8) -> c_int {
    // SAFETY: as the caller promises.
    let Some(attachment) = (unsafe { attachment.as_ref() }).filter(|_| !address.is_null()) else {
        return ARGUMENT;
    };
    let address = match family {
        // SAFETY: four bytes, by the caller's promise.
        4 => IpAddr::from(unsafe { address.cast::<[u8; 4]>().read() }),
        // SAFETY: sixteen bytes, by the caller's promise.
        6 => IpAddr::from(unsafe { address.cast::<[u8; 16]>().read() }),
        _ => return ARGUMENT,
    };
    if attachment.ask(&[address]) == 1 { 0 } else { LIMIT }
}

/// # Safety
/// `attachment` comes from `sfn_attach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_may_write(attachment: *const Attachment) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { attachment.as_ref() }.map_or(0, |attachment| c_int::from(attachment.told().write))
}

/// # Safety
/// `attachment` comes from `sfn_attach`; `length` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_config(attachment: *const Attachment, length: *mut u32) -> *const u8 {
    // SAFETY: as the caller promises.
    let (attachment, length) = unsafe { (attachment.as_ref(), length.as_mut()) };
    let (Some(attachment), Some(length)) = (attachment, length) else { return std::ptr::null() };
    let config = &attachment.told().config;
    *length = config.len() as u32;
    config.as_ptr()
}

/// # Safety
/// Both come from `sfn_attach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_same_pool(one: *const Attachment, other: *const Attachment) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { (one.as_ref(), other.as_ref()) } {
        (Some(one), Some(other)) => c_int::from(one.shares_pool_with(other)),
        _ => 0,
    }
}

/// # Safety
/// `attachment` comes from `sfn_attach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfn_buffer_size(attachment: *const Attachment) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { attachment.as_ref() }.map_or(0, |attachment| attachment.told().buffer_size)
}
