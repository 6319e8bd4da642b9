//! What the tests of captures share: captures built byte by byte, and folders for them.

use super::{Capture, Fault, LINK_TYPE_ETHERNET, Next, Record};
use packet_memory::{Packet, Pool};
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away with the test.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("superfluid-pcap-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    Little,
    Big,
}

/// Builds captures of both formats in both byte orders.
pub(super) struct Builder {
    order: Order,
    pub(super) bytes: Vec<u8>,
}

impl Builder {
    pub(super) fn u16(&mut self, value: u16) {
        match self.order {
            Order::Little => self.bytes.extend(value.to_le_bytes()),
            Order::Big => self.bytes.extend(value.to_be_bytes()),
        }
    }

    pub(super) fn u32(&mut self, value: u32) {
        match self.order {
            Order::Little => self.bytes.extend(value.to_le_bytes()),
            Order::Big => self.bytes.extend(value.to_be_bytes()),
        }
    }

    pub(super) fn classic(order: Order, nanoseconds: bool, link_type: u32) -> Builder {
        let mut builder = Builder { order, bytes: Vec::new() };
        builder.u32(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
        builder.u16(2);
        builder.u16(4);
        for word in [0, 0, 65_535, link_type] {
            builder.u32(word);
        }
        builder
    }

    pub(super) fn classic_packet(&mut self, seconds: u32, fraction: u32, bytes: &[u8], original: usize) {
        for word in [seconds, fraction, bytes.len() as u32, original as u32] {
            self.u32(word);
        }
        self.bytes.extend(bytes);
    }

    pub(super) fn sections(order: Order) -> Builder {
        let mut builder = Builder { order, bytes: Vec::new() };
        builder.section(order);
        builder
    }

    pub(super) fn section(&mut self, order: Order) {
        self.order = order;
        let mut body = Builder { order, bytes: Vec::new() };
        body.u32(0x1a2b_3c4d);
        body.u16(1);
        body.u16(0);
        body.bytes.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body.bytes);
    }

    pub(super) fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        self.u32(kind);
        self.u32(padded as u32 + 12);
        self.bytes.extend(body);
        self.bytes.extend(vec![0; padded - body.len()]);
        self.u32(padded as u32 + 12);
    }

    pub(super) fn interface(&mut self, link_type: u16, snap_length: u32, resolution: Option<u8>) {
        let mut body = Builder { order: self.order, bytes: Vec::new() };
        body.u16(link_type);
        body.u16(0);
        body.u32(snap_length);
        // An unknown option of odd length first: options are padded.
        body.u16(2);
        body.u16(3);
        body.bytes.extend(b"eth\0");
        if let Some(resolution) = resolution {
            body.u16(9);
            body.u16(1);
            body.bytes.extend([resolution, 0, 0, 0]);
        }
        body.u32(0);
        self.block(1, &body.bytes);
    }

    pub(super) fn enhanced(&mut self, interface: u32, units: u64, bytes: &[u8], original: usize) {
        let mut body = Builder { order: self.order, bytes: Vec::new() };
        for word in [interface, (units >> 32) as u32, units as u32, bytes.len() as u32, original as u32] {
            body.u32(word);
        }
        body.bytes.extend(bytes);
        body.bytes.resize(body.bytes.len().next_multiple_of(4), 0);
        // An option behind the packet: flags.
        body.u16(2);
        body.u16(4);
        body.u32(1);
        body.u32(0);
        self.block(6, &body.bytes);
    }

    pub(super) fn simple(&mut self, bytes: &[u8], original: usize) {
        let mut body = Builder { order: self.order, bytes: Vec::new() };
        body.u32(original as u32);
        body.bytes.extend(bytes);
        self.block(3, &body.bytes);
    }
}

pub(super) fn frame(n: u8) -> Vec<u8> {
    vec![n; 60 + usize::from(n)]
}

/// All that a capture gives, and where it breaks.
pub(super) fn read(bytes: &[u8]) -> (Vec<(Record, Vec<u8>)>, Option<Fault>) {
    let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
    let mut all = Vec::new();
    loop {
        match capture.step() {
            Ok(Next::Record(record)) => all.push((record, capture.bytes().to_vec())),
            Ok(Next::Passed) => {}
            Ok(Next::End) => return (all, None),
            Err(fault) => return (all, Some(fault)),
        }
    }
}

pub(super) fn ethernet(timestamp: Option<u64>, length: usize) -> Record {
    let length = length as u32;
    Record { timestamp, length, original_length: length, link_type: LINK_TYPE_ETHERNET }
}

/// Three packets, 1 ms and 2 ms apart.
pub(super) fn three(format: usize) -> Vec<u8> {
    let order = if format.is_multiple_of(2) { Order::Little } else { Order::Big };
    match format / 2 {
        0 | 1 => {
            let unit = if format / 2 == 0 { 1000 } else { 1 };
            let mut builder = Builder::classic(order, unit == 1, 1);
            for (n, at) in [(1u8, 5_000_000), (2, 6_000_000), (3, 8_000_000)] {
                builder.classic_packet(1_000, at / unit, &frame(n), frame(n).len());
            }
            builder.bytes
        }
        _ => {
            let mut builder = Builder::sections(order);
            builder.interface(1, 0, Some(9));
            for (n, at) in [(1u8, 5_000_000), (2, 6_000_000), (3, 8_000_000)] {
                builder.block(0xbad, &[0; 9]);
                builder.enhanced(0, 1_000_000_000_000 + at, &frame(n), frame(n).len());
            }
            builder.bytes
        }
    }
}

pub(super) const FORMATS: std::ops::Range<usize> = 0..6;

pub(super) fn contents(pool: &Pool, packets: &[Packet]) -> Vec<Vec<u8>> {
    packets.iter().map(|packet| pool.to_vec(packet)).collect()
}
