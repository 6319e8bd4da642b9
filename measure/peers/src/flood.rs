// UNSAFETY: loading a BPF program and running it are system calls without a safe wrapper. The kernel checks
// the program and copies what it is given; Miri runs neither, the test in testbed/tests/peers.rs does.
#![allow(unsafe_code)]
//! A sender inside the kernel: a program of eleven instructions that writes new ports into a frame and sends
//! it out by an interface, run by the kernel in a loop (`BPF_PROG_TEST_RUN` with live frames, Linux 5.18).

use crate::error::kernel;
use crate::veth::SENDER_END;
use crate::{Cores, PeerError, VethLine};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Frames that the kernel makes ready at a time.
const BATCH: u32 = 64;

/// Frames in a run of the program: a twentieth of a second or so.
const RUN: u32 = 1 << 18;

/// A UDP frame; its ports, from byte 34 on, are drawn anew each time.
static FRAME: [u8; 64] = {
    let mut frame = [0; 64];
    let header = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0x26, 0xb9,
        10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 30,
    ];
    let mut n = 0;
    while n < header.len() {
        frame[n] = header[n];
        n += 1;
    }
    frame
};

/// `linux/bpf.h`
mod abi {
    pub const PROG_LOAD: u32 = 5;
    pub const PROG_TEST_RUN: u32 = 10;
    pub const PROG_TYPE_XDP: u32 = 6;
    pub const TEST_XDP_LIVE_FRAMES: u32 = 2;

    #[repr(C)]
    #[derive(Default)]
    pub struct Load {
        pub prog_type: u32,
        pub insn_cnt: u32,
        pub insns: u64,
        pub license: u64,
        pub log_level: u32,
        pub log_size: u32,
        pub log_buf: u64,
        pub kern_version: u32,
        pub prog_flags: u32,
    }

    #[repr(C)]
    #[derive(Default)]
    pub struct TestRun {
        pub prog_fd: u32,
        pub retval: u32,
        pub data_size_in: u32,
        pub data_size_out: u32,
        pub data_in: u64,
        pub data_out: u64,
        pub repeat: u32,
        pub duration: u32,
        pub ctx_size_in: u32,
        pub ctx_size_out: u32,
        pub ctx_in: u64,
        pub ctx_out: u64,
        pub flags: u32,
        pub cpu: u32,
        pub batch_size: u32,
        pub padding: u32,
    }

    /// One instruction: operation, registers, jump or field offset, constant.
    pub const fn instruction(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
        (constant as u32 as u64) << 32
            | (offset as u16 as u64) << 16
            | ((from << 4 | to) as u64) << 8
            | code as u64
    }
}

/// The program that sends every frame out by an interface.
fn program(interface: u32) -> [u64; 12] {
    use abi::instruction as op;
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const CALL: u8 = 0x85;
    const LOAD: u8 = 0x61;
    const STORE: u8 = 0x63;
    const JUMP_IF_GREATER: u8 = 0x2d;
    const EXIT: u8 = 0x95;
    const RANDOM: i32 = 7;
    const REDIRECT: i32 = 23;
    [
        op(MOVE, 6, 1, 0, 0),
        op(CALL, 0, 0, 0, RANDOM),
        // Where the frame begins and ends: the first two fields of `struct xdp_md`.
        op(LOAD, 2, 6, 0, 0),
        op(LOAD, 3, 6, 4, 0),
        op(MOVE, 4, 2, 0, 0),
        op(ADD, 4, 0, 0, 38),
        op(JUMP_IF_GREATER, 4, 3, 1, 0),
        op(STORE, 2, 0, 34, 0),
        op(SET, 1, 0, 0, interface as i32),
        op(SET, 2, 0, 0, 0),
        op(CALL, 0, 0, 0, REDIRECT),
        op(EXIT, 0, 0, 0, 0),
    ]
}

/// What the senders did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flood {
    /// Frames that they sent.
    pub frames: u64,
    /// How long that took.
    pub took: Duration,
}

impl Flood {
    /// Sends frames of 64 bytes into the line as fast as the sender's processor can, as long as `body` runs
    /// and a little longer.
    ///
    /// # Errors
    /// [`PeerError::Kernel`]: an old kernel, or not root.
    pub fn during<R>(
        line: &VethLine,
        cores: Cores,
        body: impl FnOnce() -> R,
    ) -> Result<(Flood, R), PeerError> {
        let stop = AtomicBool::new(false);
        let send = || {
            line.sender.enter(|| {
                let _pinned = Cores::claim(cores.sender)?;
                send_until(&stop)
            })
        };
        let began = Instant::now();
        std::thread::scope(|scope| {
            // The kernel waits for some milliseconds at both ends of a run; meanwhile the other one sends.
            let senders = [scope.spawn(send), scope.spawn(send)];
            let value = body();
            stop.store(true, Ordering::Relaxed);
            let mut frames = 0;
            for sender in senders {
                frames += sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok((Flood { frames, took: began.elapsed() }, value))
        })
    }

    /// Frames in a second.
    pub fn rate(&self) -> f64 {
        self.frames as f64 / self.took.as_secs_f64()
    }
}

/// Sends by [`SENDER_END`] of the calling thread's namespace, at least once; how many frames.
fn send_until(stop: &AtomicBool) -> Result<u64, PeerError> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(kernel("opening a socket"))?;
    let interface = name_to_index(&any, SENDER_END).map_err(kernel("looking for the sender's interface"))?;
    let program = load(&program(interface))
        .map_err(kernel("loading the sender's BPF program (CAP_BPF, Linux 5.18)"))?;
    let mut sent = 0;
    loop {
        let mut request = abi::TestRun {
            prog_fd: program.as_raw_fd() as u32,
            data_size_in: FRAME.len() as u32,
            data_in: FRAME.as_ptr().expose_provenance() as u64,
            repeat: RUN,
            flags: abi::TEST_XDP_LIVE_FRAMES,
            batch_size: BATCH,
            ..abi::TestRun::default()
        };
        // SAFETY: the request is of the size given, and the frame that it points at is static and only read.
        unsafe { bpf(abi::PROG_TEST_RUN, &mut request) }
            .map_err(kernel("running the sender's BPF program (Linux 5.18)"))?;
        sent += u64::from(RUN);
        if stop.load(Ordering::Relaxed) {
            return Ok(sent);
        }
    }
}

fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut request = abi::Load {
        prog_type: abi::PROG_TYPE_XDP,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr().expose_provenance() as u64,
        license: c"GPL".as_ptr().expose_provenance() as u64,
        ..abi::Load::default()
    };
    // SAFETY: the request is of the size given; instructions and license outlive the call, which only reads
    // them. What comes back is a new descriptor, which is owned here alone.
    unsafe { bpf(abi::PROG_LOAD, &mut request).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// # Safety
/// `request` must be what the command expects, pointers included.
unsafe fn bpf<T>(command: u32, request: &mut T) -> io::Result<i32> {
    // SAFETY: as the caller promises; the size is that of the request.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *request, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_laid_out_as_the_kernel_reads_them() {
        // r4 > r3: over one instruction.
        assert_eq!(program(7)[6].to_le_bytes(), [0x2d, 0x34, 1, 0, 0, 0, 0, 0]);
        assert_eq!(program(7)[8].to_le_bytes(), [0xb7, 0x01, 0, 0, 7, 0, 0, 0]);
        assert_eq!((size_of::<abi::Load>(), size_of::<abi::TestRun>()), (48, 80));
    }

    #[test]
    fn the_frame_has_a_right_header() {
        let sum: u32 = FRAME[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
