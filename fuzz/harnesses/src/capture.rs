//! Arbitrary capture files: they are read as a plain reader reads them, which has the whole file and takes
//! one field after the other off its front; and so they are again from the beginning.

use port::pcap::{Capture, Foreign, Next, Record};
use std::io::Cursor;

/// What a file has: its packets, and the place where it breaks.
type Read = (Vec<(Record, Vec<u8>)>, Option<u64>);

/// Link types of which packets can be given an Ethernet header.
const LINKS: [u64; 10] = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276];
/// Longest packet, and longest block that is looked into.
const LONGEST: u64 = 1 << 18;
const LONGEST_BLOCK: u64 = 1 << 19;

/// What is left, in an order of bytes.
#[derive(Clone, Copy)]
struct Rest<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl<'a> Rest<'a> {
    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, left) = self.bytes.split_at_checked(usize::try_from(count).ok()?)?;
        self.bytes = left;
        Some(taken)
    }

    fn number(&mut self, count: u64) -> Option<u64> {
        let mut bytes = self.take(count)?.to_vec();
        if !self.is_big {
            bytes.reverse();
        }
        Some(bytes.into_iter().fold(0, |number, byte| number << 8 | u64::from(byte)))
    }
}

/// `None`: it is no capture, or one of a link that is not known.
fn pcap(mut rest: Rest<'_>, in_nanoseconds: bool, length: usize) -> Option<Read> {
    let (major, _, _, link_type) =
        (rest.number(2)?, rest.number(2)?, rest.take(12)?, rest.number(4)? % (1 << 16));
    if major != 2 || !LINKS.contains(&link_type) {
        return None;
    }
    let record = |rest: &mut Rest<'_>| {
        let (seconds, fraction) = (rest.number(4)?, rest.number(4)?);
        let (kept, original) = (rest.number(4)?, rest.number(4)?);
        let bytes = rest.take(kept).filter(|_| kept <= LONGEST)?.to_vec();
        let unit = if in_nanoseconds { 1 } else { 1000 };
        let timestamp = Some(seconds * 1_000_000_000 + fraction * unit);
        Some((told(timestamp, kept, original, link_type), bytes))
    };
    let mut all = vec![];
    while !rest.bytes.is_empty() {
        let start = length - rest.bytes.len();
        match record(&mut rest) {
            Some(record) => all.push(record),
            None => return Some((all, Some(start as u64))),
        }
    }
    Some((all, None))
}

fn told(timestamp: Option<u64>, kept: u64, original: u64, link_type: u64) -> Record {
    Record { timestamp, length: kept as u32, original_length: original as u32, link_type: link_type as u16 }
}

/// Link type, most bytes of a packet, the clock's resolution and its seconds.
#[derive(Clone, Copy)]
struct Interface(u64, u64, u8, i64);

/// Units of a clock in nanoseconds.
fn nanoseconds(units: u64, Interface(.., resolution, seconds): Interface) -> u64 {
    let base = if resolution < 128 { 10 } else { 2 };
    let time = (0..resolution % 128).fold(i128::from(units) * 1_000_000_000, |time, _| time / base);
    let time = time + i128::from(seconds) * 1_000_000_000;
    time.clamp(0, u64::MAX.into()) as u64
}

/// A file of sections of blocks. `None`: the first is no section.
fn pcapng(mut rest: Rest<'_>, length: usize) -> Option<Read> {
    let (mut all, mut interfaces, mut is_first) = (vec![], vec![], true);
    while !rest.bytes.is_empty() {
        let start = length - rest.bytes.len();
        let is_capture = !is_first;
        match block(&mut rest, &mut interfaces) {
            Some(packet) => all.extend(packet),
            None if is_capture => return Some((all, Some(start as u64))),
            None => return None,
        }
        is_first = false;
    }
    Some((all, None))
}

/// Takes a block; the packet that is in it.
fn block(rest: &mut Rest<'_>, interfaces: &mut Vec<Interface>) -> Option<Option<(Record, Vec<u8>)>> {
    const SECTION: u64 = 0x0a0d_0d0a;
    let whole = rest.bytes;
    let kind = rest.number(4)?;
    if kind == SECTION {
        rest.is_big = match whole.get(8..12)? {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return None,
        };
    }
    let length = rest.number(4)?;
    let mut body = Rest { bytes: rest.take(length.checked_sub(12)?)?, ..*rest };
    if rest.number(4)? != length || !length.is_multiple_of(4) {
        return None;
    }
    let of = |interfaces: &[Interface], number: u64| interfaces.get(usize::try_from(number).ok()?).copied();
    if [SECTION, 1, 2, 3, 6].contains(&kind) && length > LONGEST_BLOCK {
        return None;
    }
    let packet = match kind {
        SECTION => {
            let (_, major, _) = (body.take(4)?, body.number(2)?, body.take(10)?);
            interfaces.clear();
            (major == 1).then_some(None)?
        }
        1 => {
            let (link_type, _, most) = (body.number(2)?, body.number(2)?, body.number(4)?);
            let mut interface = Interface(link_type, most, 6, 0);
            while body.bytes.len() >= 4 {
                let (code, length) = (body.number(2)?, body.number(2)?);
                let value = Rest { bytes: body.take(length)?, ..body };
                // The last one may lack what fills it up.
                let _ = body.take(length.next_multiple_of(4) - length).is_none().then(|| body.bytes = &[]);
                match code {
                    0 => break,
                    9 if length > 0 => interface.2 = value.bytes[0],
                    14 if length >= 8 => interface.3 = { value }.number(8)? as i64,
                    _ => {}
                }
            }
            interfaces.push(interface);
            None
        }
        2 | 6 => {
            let number = body.number(if kind == 2 { 2 } else { 4 })?;
            body.take(if kind == 2 { 2 } else { 0 })?;
            let interface = of(interfaces, number)?;
            let units = body.number(4)? << 32 | body.number(4)?;
            let (kept, original) = (body.number(4)?, body.number(4)?);
            let bytes = body.take(kept).filter(|_| kept <= LONGEST)?.to_vec();
            Some((told(Some(nanoseconds(units, interface)), kept, original, interface.0), bytes))
        }
        3 => {
            let (interface, original) = (of(interfaces, 0)?, body.number(4)?);
            let kept = original.min(if interface.1 == 0 { LONGEST } else { interface.1 });
            let bytes = body.take(kept).filter(|_| kept <= LONGEST)?.to_vec();
            Some((told(None, kept, original, interface.0), bytes))
        }
        _ => None,
    };
    Some(packet)
}

fn model(file: &[u8]) -> Option<Read> {
    let (magic, bytes) = file.split_first_chunk()?;
    let rest = |is_big| Rest { bytes, is_big };
    match u32::from_be_bytes(*magic) {
        0xa1b2_c3d4 => pcap(rest(true), false, file.len()),
        0xa1b2_3c4d => pcap(rest(true), true, file.len()),
        0xd4c3_b2a1 => pcap(rest(false), false, file.len()),
        0x4d3c_b2a1 => pcap(rest(false), true, file.len()),
        0x0a0d_0d0a => pcapng(Rest { bytes: file, is_big: false }, file.len()),
        _ => None,
    }
}

fn read(capture: &mut Capture<Cursor<&[u8]>>, steps: usize) -> Read {
    let mut all = vec![];
    // Each step takes at least one byte, but for the last.
    for _ in 0..=steps {
        match capture.step() {
            Ok(Next::Record(record)) => {
                all.push((record, capture.bytes().to_vec()));
                assert_eq!(capture.records(), all.len() as u64);
            }
            Ok(Next::Passed) => {}
            Ok(Next::End) => return (all, None),
            Err(fault) => {
                assert_eq!(fault.record, all.len() as u64 + 1);
                assert!(matches!(capture.step(), Ok(Next::End)), "it has ended");
                return (all, Some(fault.offset));
            }
        }
    }
    panic!("more steps than bytes");
}

pub fn run(file: &[u8]) {
    let expected = model(file);
    let mut capture = match Capture::new(Cursor::new(file)) {
        Ok(capture) => capture,
        Err(Foreign::Magic(_) | Foreign::Header(_) | Foreign::LinkType(_)) => {
            assert!(expected.is_none(), "{expected:?}");
            return;
        }
    };
    for _ in 0..2 {
        assert_eq!(Some(read(&mut capture, file.len())), expected);
        capture.rewind().expect("the same file");
    }
}
