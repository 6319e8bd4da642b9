// UNSAFETY: bpf(2) has no safe wrapper. The kernel is the other side, so Miri cannot run it; the end-to-end
// tests do.
#![allow(unsafe_code)]
//! The XDP program of a port, the map of its sockets, and the link by which the program hangs on the
//! interface.
//!
//! The program hands each frame to the socket of the queue that it came in by, and to the kernel's stack
//! where there is none. It is five instructions, written here as the machine reads them. The link goes with
//! its descriptor, so that nothing stays attached, however the process ends.

use crate::config::Mode;
use crate::failure::{Failure, Step};
use kernel_interface::socket::checked;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of bpf(2) and numbers that go with them, `linux/bpf.h`.
mod bpf {
    pub const MAP_CREATE: libc::c_int = 0;
    pub const MAP_UPDATE_ELEM: libc::c_int = 2;
    pub const PROG_LOAD: libc::c_int = 5;
    pub const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
    pub const LINK_CREATE: libc::c_int = 28;
    pub const MAP_TYPE_XSKMAP: u32 = 17;
    pub const PROG_TYPE_XDP: u32 = 6;
    pub const ATTACH_XDP: u32 = 37;
    pub const REDIRECT_MAP: u32 = 51;
    pub const XDP_PASS: u32 = 2;
    /// `linux/if_link.h`: flags of an attachment.
    pub const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
    pub const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    /// Offset of `rx_queue_index` in `struct xdp_md`.
    pub const RX_QUEUE_INDEX: u16 = 16;
}

/// `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// `union bpf_attr` for `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` for `BPF_PROG_LOAD`, as far as it is used.
#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

/// `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct InfoByFd {
    fd: u32,
    length: u32,
    info: u64,
}

/// `struct bpf_link_info`, as far as it is used; the interface's number stands in a union aligned to eight
/// bytes.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    interface: u32,
    padding2: u32,
}

/// One instruction: operation, destination and source register, offset, immediate value.
const fn instruction(operation: u8, destination: u8, source: u8, offset: u16, immediate: u32) -> u64 {
    operation as u64
        | (destination as u64) << 8
        | (source as u64) << 12
        | (offset as u64) << 16
        | (immediate as u64) << 32
}

/// `return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)`.
fn redirect_by_queue(map: BorrowedFd<'_>) -> [u64; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_WIDE: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    /// The immediate value of `LOAD_WIDE` is a map's descriptor.
    const MAP_DESCRIPTOR: u8 = 1;
    [
        instruction(LOAD_WORD, 2, 1, bpf::RX_QUEUE_INDEX, 0),
        instruction(LOAD_WIDE, 1, MAP_DESCRIPTOR, 0, map.as_raw_fd() as u32),
        instruction(0, 0, 0, 0, 0),
        // In the low bits of the flags: what to return when the map has nothing at this place.
        instruction(MOVE, 3, 0, 0, bpf::XDP_PASS),
        instruction(CALL, 0, 0, 0, bpf::REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// An attached program with its map.
#[derive(Debug)]
pub(crate) struct Program {
    map: OwnedFd,
    link: OwnedFd,
}

impl Program {
    /// Loads the program for queues below `queues` and attaches it. Until sockets are entered, everything
    /// goes to the kernel's stack.
    ///
    /// # Errors
    /// Which step the kernel refused.
    pub fn attach(index: i32, mode: Mode, queues: u32) -> Result<Program, Failure> {
        let map = MapCreate {
            map_type: bpf::MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queues,
            map_flags: 0,
        };
        // SAFETY: each attribute is laid out as its command takes it, and what it points to outlives the
        // call.
        let map = unsafe { descriptor(bpf::MAP_CREATE, &map) }
            .map_err(Failure::at(Step::Other("making a map of sockets")))?;
        let instructions = redirect_by_queue(map.as_fd());
        let load = ProgramLoad {
            program_type: bpf::PROG_TYPE_XDP,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
        };
        // SAFETY: as above.
        let program = unsafe { descriptor(bpf::PROG_LOAD, &load) }
            .map_err(Failure::at(Step::Other("loading the XDP program")))?;
        let flags = match mode {
            Mode::ZeroCopy | Mode::Native => bpf::XDP_FLAGS_DRV_MODE,
            Mode::Generic => bpf::XDP_FLAGS_SKB_MODE,
        };
        let create = LinkCreate {
            program: program.as_raw_fd() as u32,
            interface: index as u32,
            attach_type: bpf::ATTACH_XDP,
            flags,
        };
        // SAFETY: as above. The link keeps the program, whose descriptor may close.
        let link = unsafe { descriptor(bpf::LINK_CREATE, &create) }.map_err(Failure::at(Step::Attach))?;
        Ok(Program { map, link })
    }

    /// Has the frames of a queue handed to a socket.
    pub fn enter(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Failure> {
        let value = socket.as_raw_fd() as u32;
        let update = MapUpdate {
            map: self.map.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value outlive the call and are of the map's sizes.
        unsafe { call(bpf::MAP_UPDATE_ELEM, &update) }
            .map(|_| ())
            .map_err(Failure::at(Step::Other("entering a socket into the map")))
    }

    /// The number of the interface that the program hangs on; `None` when that is gone.
    pub fn attached_to(&self) -> Option<i32> {
        let mut info = LinkInfo::default();
        let query = InfoByFd {
            fd: self.link.as_raw_fd() as u32,
            length: size_of::<LinkInfo>() as u32,
            info: (&raw mut info) as u64,
        };
        // SAFETY: the kernel writes at most `length` bytes to `info`, which outlives the call.
        unsafe { call(bpf::OBJ_GET_INFO_BY_FD, &query) }.ok()?;
        i32::try_from(info.interface).ok().filter(|&index| index > 0)
    }
}

/// # Safety
/// `T` is what `command` takes, and pointers in it are good for the call.
unsafe fn call<T>(command: c_int, attribute: &T) -> io::Result<c_int> {
    let attribute: *const T = attribute;
    // SAFETY: the kernel reads `size_of::<T>()` bytes at an attribute that is borrowed for the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attribute, size_of::<T>()) };
    checked(result as c_int)
}

/// # Safety
/// As for `call`; the command returns a new descriptor.
unsafe fn descriptor<T>(command: c_int, attribute: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the call, and that its result is a new descriptor, which is owned here
    // alone.
    unsafe { call(command, attribute).map(|fd| OwnedFd::from_raw_fd(fd)) }
}
