//! The usual packet: untagged, IPv4 without options, whole, TCP or UDP, of a connection that it changes nothing of but
//! the time, whose server is up and whose next hop is known.

use crate::balancer::{Balancer, flag};
use crate::ends::{V6, Words};
use crate::links::{Links, write};
use crate::metrics::Tally;
use crate::services::Way;
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
const HEADER_CHECKSUM: usize = 24;
const SOURCE: usize = 26;
const DESTINATION: usize = 30;
const PORTS: usize = 34;
const FLAGS: usize = 47;
/// Stands for no server.
const NONE: u16 = u16::MAX;

/// What is known of a packet before its connection is looked at.
#[derive(Default)]
struct Ahead {
    hash: u64,
    client: u32,
    /// As [`crate::connection::Key`] has them.
    ports: u32,
    protocol: u32,
    service: u16,
    /// The server that it is from.
    server: u16,
    ingress: u32,
    /// It is common, of a service, and its TCP flags change nothing.
    is_usual: bool,
}

/// What is kept of the packets of a batch.
pub struct Window {
    /// Each is reached by an address of its own: the fields of one are then at fixed distances from it, which the
    /// sandbox's loads and stores include.
    ahead: [Box<Ahead>; MAX_BATCH],
    /// Connections that the packets probably belong to.
    numbers: [u32; MAX_BATCH],
}

impl Default for Window {
    fn default() -> Window {
        Window { ahead: core::array::from_fn(|_| Box::default()), numbers: [0; MAX_BATCH] }
    }
}

/// Reads a packet; false when it is not common or of no service.
#[inline(always)]
fn read(balancer: &Balancer, packet: &[u8], ahead: &mut Ahead) -> Option<()> {
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
    if total < least || total as usize > packet.len() - 14 || bytes[FLAGS] & changing != 0 {
        return None;
    }
    const { assert!(V6 > 0xff, "the protocol alone is the kind of IPv4") };
    let (source, destination) = (word(bytes, SOURCE)?, word(bytes, DESTINATION)?);
    let ports = word(bytes, PORTS)?;
    ahead.protocol = protocol;
    let of = |address: u32| -> Words { [address, 0, 0, 0] };
    if ahead.ingress == 0 {
        let port = ((ports >> 16) as u16).swap_bytes();
        ahead.service = balancer.services.virtual_ends.find(&of(destination), protocol, port)?;
        (ahead.client, ahead.ports, ahead.server) = (source, ports, NONE);
    } else {
        let port = (ports as u16).swap_bytes();
        ahead.server = balancer.services.server_ends.find(&of(source), protocol, port)?;
        let rewrite = balancer.services.rewrite(ahead.server)?;
        ahead.service = rewrite.service;
        let theirs = if rewrite.server_port == 0 { ports as u16 } else { rewrite.virtual_port };
        (ahead.client, ahead.ports) = (destination, ports >> 16 | u32::from(theirs) << 16);
    }
    ahead.hash = balancer.connections.hash4(ahead.client, ahead.ports, ahead.service);
    Some(())
}

/// Reads all packets, then finds out where their connections probably are and has those fetched into the cache.
#[inline(always)]
pub fn look_up(balancer: &Balancer, batch: &mut Batch<'_>, window: &mut Window) -> u32 {
    let connections = &balancer.connections;
    let count = batch.len();
    let mut touched = 0;
    for (packet, ahead) in batch.packets().zip(&mut window.ahead) {
        let ahead = &mut **ahead;
        ahead.ingress = u32::from(packet.ingress() & 1);
        ahead.is_usual = read(balancer, packet.bytes(), ahead).is_some();
    }
    // Loops of their own, and short: the processor then has all of the batch's reads on their way at a time.
    for ahead in window.ahead.iter().take(count) {
        touched ^= connections.touch_index(ahead.hash);
    }
    for (ahead, number) in window.ahead.iter().zip(&mut window.numbers).take(count) {
        *number = connections.probable(ahead.hash);
    }
    for eight in window.numbers.chunks_exact(8).take(count.div_ceil(8)) {
        touched = eight.iter().fold(touched, |touched, number| touched ^ connections.touch(*number));
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

/// Sends the usual packets of the batch on, and shows every other one to `other`, in order.
#[inline(always)]
pub fn send(
    balancer: &mut Balancer,
    links: &mut Links,
    packets: Packets<'_>,
    window: &Window,
    tally: &mut Tally,
    mut other: impl FnMut(&mut Balancer, &mut Links, &mut Packet<'_>, &mut Tally),
) {
    let mut counts = [0, 0];
    for ((mut packet, ahead), number) in packets.zip(&window.ahead).zip(&window.numbers) {
        let ahead = &**ahead;
        if !ahead.is_usual || usual(balancer, links, &mut packet, ahead, *number).is_none() {
            other(balancer, links, &mut packet, tally);
            continue;
        }
        packet.verdict_encoded(onward(ahead.ingress));
        counts[ahead.ingress as usize & 1] += 1;
    }
    tally.add(counts[0], counts[1]);
}

#[inline(always)]
fn usual(
    balancer: &mut Balancer,
    links: &Links,
    packet: &mut Packet<'_>,
    ahead: &Ahead,
    number: u32,
) -> Option<()> {
    let owner =
        balancer.connections.usual(number, ahead.client, ahead.ports, ahead.service, ahead.ingress)? as u16;
    let rewrite = balancer.services.rewrite(owner)?;
    let partial = is_partial(packet);
    if ahead.ingress == 0 {
        if !rewrite.is_up || rewrite.way == Way::Unknown {
            return None;
        }
        let bytes = packet.bytes_mut().first_chunk_mut::<COMMON>()?;
        write(bytes, &rewrite.way);
        if !rewrite.is_direct {
            let gains = (rewrite.network, rewrite.transport);
            let end = (rewrite.server, rewrite.server_port);
            rewrite_end(bytes, gains, end, (DESTINATION, PORTS + 2), ahead.protocol, partial);
        }
    } else {
        let way = links.back4(ahead.client);
        if owner != ahead.server || *way == Way::Unknown {
            return None;
        }
        let bytes = packet.bytes_mut().first_chunk_mut::<COMMON>()?;
        write(bytes, way);
        let gains = (!rewrite.network, !rewrite.transport);
        let end = (rewrite.virtual_address, rewrite.virtual_port);
        rewrite_end(bytes, gains, end, (SOURCE, PORTS), ahead.protocol, partial);
    }
    Some(())
}

/// The transport checksum is that of the pseudo header alone. With the common packet no other header can be meant.
#[inline(always)]
fn is_partial(packet: &Packet<'_>) -> bool {
    let record = packet.record();
    record.offload_flags & offload::NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) == PORTS
}

#[inline(always)]
fn rewrite_end(
    bytes: &mut [u8; COMMON],
    (network, transport): (u16, u16),
    (address, port): (u32, u16),
    (address_at, port_at): (usize, usize),
    protocol: u32,
    partial: bool,
) {
    put_word(bytes, address_at, address);
    if port != 0 {
        put_half(bytes, port_at, port);
    }
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
