//! The usual packet: untagged, IPv4 without options, whole, TCP or UDP, of a session that it changes nothing of but
//! the time.

use crate::metrics::Tally;
use crate::session::{InsideEnds, at, flag};
use crate::translator::Translator;
use alloc::boxed::Box;
use nf_sdk::wire::{TCP, UDP, correct, half, put_half, put_word, updated, word};
use nf_sdk::{Batch, MAX_BATCH, Packet, Packets, Verdict, offload};
use wide::bytemuck::cast;
use wide::u8x16;

/// Ethernet, IPv4 without options, and TCP without options or UDP.
const COMMON: usize = 54;
/// What the bytes from the EtherType on have in common: EtherType, version and header length, no fragment.
const COMMON_BITS: u8x16 = u8x16::new([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
/// Which of their bits that concerns.
const COMMON_MASK: u8x16 = u8x16::new([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x3f, 0xff, 0, 0, 0, 0, 0, 0]);
/// Where in them the total length and the protocol are, each as a little-endian word; 255 stands for a zero.
const LENGTH_AND_PROTOCOL: u8x16 =
    u8x16::new([5, 4, 255, 255, 11, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
/// Where the parts of the common packet are.
const SOURCE: usize = 26;
const DESTINATION: usize = 30;
const PORTS: usize = 34;
const HEADER_CHECKSUM: usize = 24;
const FLAGS: usize = 47;

/// What is known of a packet before its session is looked at.
#[derive(Default)]
struct Ahead {
    /// Local address, remote address, ports, kind; a kind of 0 for a packet that is not common.
    key: [u32; 4],
    hash: u64,
    ingress: u32,
    /// Its TCP flags change nothing.
    is_usual: bool,
    /// It probably begins a session from inside.
    is_new: bool,
    /// The place in the pool of the outside address that it then has.
    place: u32,
}

/// What is kept of the packets of a batch.
pub struct Window {
    /// Each is reached by an address of its own: the fields of one are then at fixed distances from it, which the
    /// sandbox's loads and stores include.
    ahead: [Box<Ahead>; MAX_BATCH],
    /// Sessions that the packets probably belong to.
    numbers: [u32; MAX_BATCH],
}

impl Default for Window {
    fn default() -> Window {
        Window { ahead: core::array::from_fn(|_| Box::default()), numbers: [0; MAX_BATCH] }
    }
}

/// The key of a common packet, and whether its TCP flags change nothing.
#[inline(always)]
fn key(packet: &[u8], ingress: u32) -> Option<([u32; 4], bool)> {
    let bytes: &[u8; COMMON] = packet.first_chunk()?;
    let start = u8x16::new(*bytes[12..].first_chunk()?);
    if !(start & COMMON_MASK).simd_eq(COMMON_BITS).all() {
        return None;
    }
    let [total, protocol, ..]: [u32; 4] = cast(start.shuffle_zeroing(LENGTH_AND_PROTOCOL));
    let is_tcp = protocol == u32::from(TCP);
    if !is_tcp && protocol != u32::from(UDP) {
        return None;
    }
    let least = if is_tcp { 40 } else { 28 };
    let changing = if is_tcp { flag::SYN | flag::FIN | flag::RST } else { 0 };
    if total < least || total as usize > packet.len() - 14 {
        return None;
    }
    // Packets from outside have their ends the other way round, and so do halves that are rotated.
    let ends = u64::from(word(bytes, SOURCE)?) | u64::from(word(bytes, DESTINATION)?) << 32;
    let ends = ends.rotate_left(32 * (ingress & 1));
    let ports = word(bytes, PORTS)?.rotate_left(16 * (ingress & 1));
    Some(([ends as u32, (ends >> 32) as u32, ports, protocol], bytes[FLAGS] & changing == 0))
}

/// Reads all packets, then finds out where their sessions probably are and has those fetched into the cache.
#[inline(always)]
pub fn look_up(translator: &Translator, batch: &mut Batch<'_>, window: &mut Window) -> u32 {
    let sessions = &translator.sessions;
    let count = batch.len();
    let mut touched = 0;
    for (packet, ahead) in batch.packets().zip(&mut window.ahead) {
        let ahead = &mut **ahead;
        ahead.ingress = u32::from(packet.ingress() & 1);
        match key(packet.bytes(), ahead.ingress) {
            Some((key, is_usual)) => {
                ahead.is_usual = is_usual;
                let [local, remote, ports, kind] = key;
                ahead.hash = sessions.hash(local, remote, ports, kind);
                ahead.key = key;
            }
            None => (ahead.key[3], ahead.is_usual) = (0, false),
        }
    }
    // Loops of their own, and short: the processor then has all of the batch's reads on their way at a time.
    for ahead in window.ahead.iter().take(count) {
        touched ^= sessions.touch_index(ahead.hash, ahead.ingress);
    }
    for (ahead, number) in window.ahead.iter().zip(&mut window.numbers).take(count) {
        *number = sessions.probable(ahead.hash, ahead.ingress);
    }
    for eight in window.numbers.chunks_exact(8).take(count.div_ceil(8)) {
        touched = eight.iter().fold(touched, |touched, number| touched ^ sessions.touch(*number));
    }
    let mut is_any_new = false;
    for (ahead, number) in window.ahead.iter_mut().zip(&window.numbers).take(count) {
        let [local, _, ports, kind] = ahead.key;
        let words = &sessions.get(*number).0;
        let differs = words[at::INSIDE] ^ local | words[at::INSIDE_PORTS] ^ ports;
        ahead.is_new = ahead.ingress == 0 && kind != 0 && differs != 0;
        is_any_new |= ahead.is_new;
    }
    if is_any_new { touched ^ look_up_new(translator, window, count) } else { touched }
}

/// The same for what a session that begins is noted in: its host, its mapping by both ends, its port, and the session
/// by its outside ends, with the port that the host uses.
#[inline(never)]
fn look_up_new(translator: &Translator, window: &mut Window, count: usize) -> u32 {
    let Translator { sessions, bindings, .. } = translator;
    let ends = |ahead: &Ahead| {
        let [inside, remote, ports, kind] = ahead.key;
        InsideEnds { inside, remote, ports, kind, ..InsideEnds::default() }
    };
    let mut touched = 0;
    for ahead in window.ahead.iter().take(count).filter(|ahead| ahead.is_new) {
        touched ^= bindings.touch_index(&ends(ahead));
    }
    for ahead in window.ahead.iter_mut().take(count).filter(|ahead| ahead.is_new) {
        ahead.place = bindings.probable_place(&ends(ahead));
    }
    for ahead in window.ahead.iter().take(count).filter(|ahead| ahead.is_new) {
        let [_, remote, ports, kind] = ahead.key;
        touched ^= bindings.touch_outside(ahead.place, kind as u8, ports as u16);
        let hash = sessions.hash(bindings.ports.address(ahead.place), remote, ports, kind);
        touched ^= sessions.touch_index(hash, 1);
    }
    touched
}

/// Verdict of a packet that goes on, by the interface (0 or 1) that it came in by.
#[inline(always)]
fn onward(ingress: u32) -> u32 {
    const OUTWARD: u32 = Verdict::Interface(1).encode();
    const CHANGE: u32 = OUTWARD ^ Verdict::Interface(0).encode();
    OUTWARD ^ (ingress * CHANGE)
}

/// Translates the usual packets of the batch, and shows every other one to `other`, in order.
#[inline(always)]
pub fn translate(
    translator: &mut Translator,
    packets: Packets<'_>,
    window: &Window,
    tally: &mut Tally,
    mut other: impl FnMut(&mut Translator, &mut Packet<'_>, &mut Tally),
) {
    let mut counts = [0, 0];
    for ((mut packet, ahead), number) in packets.zip(&window.ahead).zip(&window.numbers) {
        let ahead = &**ahead;
        let line = match ahead.is_usual {
            false => None,
            true => translator.sessions.usual(*number, ahead.key, ahead.ingress),
        };
        let Some(line) = line else {
            other(translator, &mut packet, tally);
            continue;
        };
        let words = &line.0;
        let gain = words[at::GAIN];
        let (gain, address, port, places) = if ahead.ingress == 0 {
            (gain, words[at::OUTSIDE], words[at::OUTSIDE_PORTS] as u16, (SOURCE, PORTS))
        } else {
            (!gain, words[at::INSIDE], words[at::INSIDE_PORTS] as u16, (DESTINATION, PORTS + 2))
        };
        let partial = is_partial(&packet);
        if let Some(bytes) = packet.bytes_mut().first_chunk_mut::<COMMON>() {
            rewrite(bytes, gain, address, port, places, ahead.key[3], partial);
        }
        packet.verdict_encoded(onward(ahead.ingress));
        counts[ahead.ingress as usize & 1] += 1;
    }
    tally.add(counts[0], counts[1]);
}

/// The transport checksum is that of the pseudo header alone. With the common packet no other header can be meant.
#[inline(always)]
fn is_partial(packet: &Packet<'_>) -> bool {
    let record = packet.record();
    record.offload_flags & offload::NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) == PORTS
}

#[inline(always)]
fn rewrite(
    bytes: &mut [u8; COMMON],
    gain: u32,
    address: u32,
    port: u16,
    (address_at, port_at): (usize, usize),
    protocol: u32,
    partial: bool,
) {
    let (network, transport) = (gain as u16, (gain >> 16) as u16);
    put_word(bytes, address_at, address);
    put_half(bytes, port_at, port);
    let header = half(bytes, HEADER_CHECKSUM).unwrap_or(0);
    put_half(bytes, HEADER_CHECKSUM, updated(header, network));
    if protocol == u32::from(TCP) && !partial {
        let checksum = half(bytes, PORTS + 16).unwrap_or(0);
        put_half(bytes, PORTS + 16, updated(checksum, transport));
    } else {
        let at = PORTS + if protocol == u32::from(TCP) { 16 } else { 6 };
        // The addresses' part and the ports' part are one here, but for a partial checksum.
        let (addresses, ports) = if partial { (network, 0) } else { (0, transport) };
        correct(bytes, at, protocol as u8, addresses, ports, partial);
    }
}
