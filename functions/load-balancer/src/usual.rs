//! The usual packet: untagged, IPv4 without options, whole, TCP or UDP, of a connection that it changes
//! nothing of but the time, whose server is up and whose next hop is known.

use crate::balancer::{Balancer, flag};
use crate::ends::{V6, Words};
use crate::links::{Links, write};
use crate::metrics::Tally;
use crate::services::Way;
use alloc::boxed::Box;
use nf_sdk::usual::{self, End, LENGTH, Replacement, at, ends, is_partial, onward, rewrite};
use nf_sdk::wire::{TCP, UDP};
use nf_sdk::{Batch, MAX_BATCH, Packet, Packets};

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
    /// Each is reached by an address of its own: the fields of one are then at fixed distances from it, which
    /// the sandbox's loads and stores include.
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
    let (bytes, is_tcp) = usual::read(packet)?;
    let changing = if is_tcp { flag::SYN | flag::FIN | flag::RST } else { 0 };
    if bytes[at::FLAGS] & changing != 0 {
        return None;
    }
    const { assert!(V6 > 0xff, "the protocol alone is the kind of IPv4") };
    let (source, destination, ports) = ends(bytes)?;
    let protocol = u32::from(if is_tcp { TCP } else { UDP });
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

/// Reads all packets, then finds out where their connections probably are and has those fetched into the
/// cache.
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
        if !ahead.is_usual || send_usual(balancer, links, &mut packet, ahead, *number).is_none() {
            other(balancer, links, &mut packet, tally);
            continue;
        }
        packet.verdict_encoded(onward(ahead.ingress));
        counts[ahead.ingress as usize & 1] += 1;
    }
    tally.add(counts[0], counts[1]);
}

#[inline(always)]
fn send_usual(
    balancer: &mut Balancer,
    links: &Links,
    packet: &mut Packet<'_>,
    ahead: &Ahead,
    number: u32,
) -> Option<()> {
    let owner =
        balancer.connections.usual(number, ahead.client, ahead.ports, ahead.service, ahead.ingress)? as u16;
    let known = balancer.services.rewrite(owner)?;
    let (is_tcp, partial) = (ahead.protocol == u32::from(TCP), is_partial(packet));
    if ahead.ingress == 0 {
        if !known.is_up || known.way == Way::Unknown {
            return None;
        }
        let bytes = packet.bytes_mut().first_chunk_mut::<LENGTH>()?;
        write(bytes, &known.way);
        if !known.is_direct {
            let port = Some(known.server_port).filter(|port| *port != 0);
            let (address, network, transport) = (known.server, known.network, known.transport);
            let new = Replacement { address, port, network, transport };
            rewrite(bytes, End::Destination, new, is_tcp, partial);
        }
    } else {
        let way = links.back4(ahead.client);
        if owner != ahead.server || *way == Way::Unknown {
            return None;
        }
        let bytes = packet.bytes_mut().first_chunk_mut::<LENGTH>()?;
        write(bytes, way);
        let port = Some(known.virtual_port).filter(|port| *port != 0);
        let (address, network, transport) = (known.virtual_address, !known.network, !known.transport);
        let new = Replacement { address, port, network, transport };
        rewrite(bytes, End::Source, new, is_tcp, partial);
    }
    Some(())
}
