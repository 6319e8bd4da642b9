//! Packets that are not usual: the beginnings and ends of connections, IPv6, ICMP, fragments, answers to
//! checks, next hops that have to be asked for, and what is for no service.

use crate::balancer::{Balancer, Refused, flag};
use crate::checks::Checks;
use crate::connection::Key;
use crate::ends;
use crate::icmp;
use crate::links::{CLIENTS, Links, SERVERS, write};
use crate::metrics::{Passed, Reason, Tally};
use crate::probe;
use crate::services::{Services, Way};
use crate::view::{NewEnd, Part, View};
use nf_sdk::devices::Sent;
use nf_sdk::headers::{Fragment, dissect};
use nf_sdk::later_fragments::{Datagram, Fragments, Held, Later};
use nf_sdk::wire::{TCP, UDP};
use nf_sdk::{Host, Nanos, Packet, Verdict, offload};

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// To a server.
    ToServer(u16),
    /// From a server to a client.
    ToClient(u16),
    /// To the other interface as it is.
    AsIs,
}

/// What becomes of a packet: where it goes, that it answered a check, that it waits for its first fragment,
/// or why it is dropped.
enum Judgement {
    Goes(Course),
    Check,
    Waits,
    Drop(Reason),
}

/// The address of a server, and its port where clients send to another.
pub fn server_end(services: &Services, server: u16) -> NewEnd {
    let known = services.servers.get(usize::from(server));
    known.map_or_else(NewEnd::default, |known| (ends::words(known.address), known.port.map(u16::swap_bytes)))
}

/// The virtual address of a server's service, and the port where the server has another.
pub fn virtual_end(services: &Services, server: u16) -> Option<NewEnd> {
    let service = services.get(services.rewrite(server)?.service)?;
    let has_port = services.servers.get(usize::from(server))?.port.is_some();
    Some((service.words, has_port.then(|| service.settings.ports.0.swap_bytes())))
}

/// What the slow way works with beside the balancer.
pub struct Around<'a> {
    /// Next hops.
    pub links: &'a mut Links,
    /// Health checks.
    pub checks: &'a mut Checks,
    /// Fragments.
    pub fragments: &'a mut Fragments<Course>,
    /// Counts.
    pub tally: &'a mut Tally,
    /// The host.
    pub host: &'a mut Host,
    /// What is for no service passes.
    pub passes: bool,
    /// The time.
    pub now: Nanos,
}

impl Around<'_> {
    /// Any packet: its verdict, counted.
    #[inline(never)]
    pub fn packet(&mut self, balancer: &mut Balancer, packet: &mut Packet<'_>) {
        let judgement = match dissect(packet.bytes()) {
            Ok(found) => match found.network.as_ref().filter(|_| found.tags.as_slice().is_empty()) {
                Some(network) => match View::new(packet.bytes(), &found, network) {
                    Ok(view) => self.judge(balancer, packet, view),
                    Err(reason) => Judgement::Drop(reason),
                },
                None => self.unmatched(),
            },
            Err(_) => Judgement::Drop(Reason::Malformed),
        };
        match judgement {
            Judgement::Goes(course) => self.send(&balancer.services, packet, course),
            Judgement::Check => {
                self.tally.passed(Passed::Check);
                packet.verdict(Verdict::Consume);
            }
            Judgement::Waits => {}
            Judgement::Drop(reason) => {
                self.tally.dropped(reason);
                packet.verdict(reason.verdict());
            }
        }
    }

    fn unmatched(&self) -> Judgement {
        if self.passes { Judgement::Goes(Course::AsIs) } else { Judgement::Drop(Reason::Other) }
    }

    fn judge(&mut self, balancer: &mut Balancer, packet: &mut Packet<'_>, mut view: View) -> Judgement {
        let from_clients = packet.ingress() & 1 == CLIENTS;
        let services = &balancer.services;
        // Whether any packet of these addresses may be of a connection, whatever its protocol.
        let (own, known) = match from_clients {
            true => (&view.destination, &services.virtual_ends),
            false => (&view.source, &services.server_ends),
        };
        let is_of_address =
            [TCP, UDP].into_iter().any(|protocol| known.has(own, ends::kind(protocol, view.is_v6)));
        if !from_clients {
            let answers =
                self.checks.answer(&mut balancer.services, self.links, self.host, packet.bytes(), &view);
            if answers {
                return Judgement::Check;
            }
            if view.part == Part::Error {
                return match icmp::from_server(balancer, packet.bytes_mut(), &mut view) {
                    Some(Ok(server)) => Judgement::Goes(Course::ToClient(server)),
                    Some(Err(reason)) => Judgement::Drop(reason),
                    None => self.unmatched(),
                };
            }
        }
        if !is_of_address {
            return self.unmatched();
        }
        let datagram = datagram(&view, packet.ingress());
        if let (Fragment::Later { offset, .. }, Some(datagram)) = (view.fragment, datagram) {
            return self.later(balancer, packet, view, &datagram, u32::from(offset));
        }
        let judgement = match from_clients {
            true => self.client_packet(balancer, packet, &mut view),
            false => self.server_packet(balancer, packet, &mut view),
        };
        if let (Some(datagram), Judgement::Goes(course)) = (datagram, &judgement) {
            let length = (view.end - view.l4) as u32;
            let now = balancer.connections.now;
            for held in self.fragments.first(&datagram, *course, length, now) {
                self.follow_held(&balancer.services, held, *course, length, packet.ingress());
            }
        }
        judgement
    }

    fn client_packet(
        &mut self,
        balancer: &mut Balancer,
        packet: &mut Packet<'_>,
        view: &mut View,
    ) -> Judgement {
        if view.part == Part::Error {
            return match icmp::from_client(balancer, packet.bytes_mut(), view) {
                Ok(server) => Judgement::Goes(Course::ToServer(server)),
                Err(reason) => Judgement::Drop(reason),
            };
        }
        let port = view.destination_port().swap_bytes();
        let service = balancer.services.virtual_ends.find(&view.destination, view.kind(), port);
        let Some(service) = service.filter(|_| view.part == Part::Ports) else {
            return Judgement::Drop(Reason::NoService);
        };
        let key = Key { client: view.source, ports: view.ports, service, is_v6: view.is_v6 };
        let server = match balancer.client_packet(&key, view.tcp()) {
            Ok(server) => server,
            Err(Refused::Drop(reason)) => return Judgement::Drop(reason),
            Err(Refused::Reset) => {
                self.reset(packet.bytes(), view);
                return Judgement::Drop(Reason::ServerDown);
            }
        };
        if balancer.services.rewrite(server).is_some_and(|server| !server.is_direct) {
            let end = server_end(&balancer.services, server);
            let partial = is_partial(packet, view);
            view.set_end(packet.bytes_mut(), false, end, partial);
        }
        Judgement::Goes(Course::ToServer(server))
    }

    fn server_packet(
        &mut self,
        balancer: &mut Balancer,
        packet: &mut Packet<'_>,
        view: &mut View,
    ) -> Judgement {
        let port = view.source_port().swap_bytes();
        let server = balancer.services.server_ends.find(&view.source, view.kind(), port);
        let Some(server) = server.filter(|_| view.part == Part::Ports) else { return self.unmatched() };
        let Some(end) = virtual_end(&balancer.services, server) else { return self.unmatched() };
        let service = balancer.services.rewrite(server).map_or(0, |server| server.service);
        let theirs = end.1.unwrap_or(view.source_port());
        let ports = u32::from(view.destination_port()) | u32::from(theirs) << 16;
        let key = Key { client: view.destination, ports, service, is_v6: view.is_v6 };
        balancer.server_packet(&key, server, view.tcp());
        let partial = is_partial(packet, view);
        view.set_end(packet.bytes_mut(), true, end, partial);
        Judgement::Goes(Course::ToClient(server))
    }

    /// Writes the Ethernet addresses of a packet, gives its verdict and counts it.
    fn send(&mut self, services: &Services, packet: &mut Packet<'_>, course: Course) {
        let (passed, interface) = match course {
            Course::ToServer(_) => (Passed::Forwarded, SERVERS),
            Course::ToClient(_) => (Passed::Returned, CLIENTS),
            Course::AsIs => (Passed::AsIs, 1 - (packet.ingress() & 1)),
        };
        let way = self.way(services, packet.bytes(), course);
        if write(packet.bytes_mut(), &way) {
            packet.verdict(Verdict::Interface(interface));
            self.tally.passed(passed);
            return;
        }
        let address = match course {
            Course::ToServer(server) => {
                services.servers.get(usize::from(server)).map(|server| server.address)
            }
            _ => destination(packet.bytes()),
        };
        let sent = address.map(|address| self.links.send(self.host, packet, interface, address, self.now));
        match sent {
            Some(Sent::Sent) => self.tally.passed(passed),
            Some(Sent::Held) => self.tally.passed(Passed::Held),
            Some(Sent::Dropped) => self.tally.dropped(Reason::NoNeighbour),
            None => {
                packet.verdict(Reason::NoNeighbour.verdict());
                self.tally.dropped(Reason::NoNeighbour);
            }
        }
    }

    fn way(&self, services: &Services, frame: &[u8], course: Course) -> Way {
        match course {
            Course::ToServer(server) => services.rewrite(server).map_or(Way::Unknown, |server| server.way),
            Course::ToClient(_) => {
                destination(frame).and_then(|client| self.links.way(CLIENTS, client)).unwrap_or(Way::Unknown)
            }
            Course::AsIs => Way::AsIs,
        }
    }

    /// Tells a client that its connection is reset.
    fn reset(&mut self, frame: &[u8], view: &View) {
        if view.protocol != TCP || view.segment.flags & flag::RST != 0 {
            return;
        }
        let header = frame.get(view.l4 + 12).map_or(20, |byte| usize::from(byte >> 4) * 4);
        let length = (view.end - view.l4).saturating_sub(header) as u32;
        let end = |words, port: u16| (ends::address(words, view.is_v6), port.swap_bytes());
        let from = end(view.destination, view.destination_port());
        let to = end(view.source, view.source_port());
        let Some(mut answer) = probe::reset(from, to, view.segment, length) else { return };
        if let (Some(answer), Some(frame)) = (answer.get_mut(..12), frame.get(..12)) {
            answer[..6].copy_from_slice(&frame[6..]);
            answer[6..].copy_from_slice(&frame[..6]);
        }
        if let Ok(slot) = self.host.packet_new(&answer)
            && self.host.emit(slot, Verdict::Interface(CLIENTS), 0).is_ok()
        {
            self.tally.resets += 1;
        }
    }

    /// A later fragment.
    fn later(
        &mut self,
        balancer: &Balancer,
        packet: &mut Packet<'_>,
        view: View,
        datagram: &Datagram,
        offset: u32,
    ) -> Judgement {
        let now = balancer.connections.now;
        match self.fragments.later(datagram, offset, packet.len(), now) {
            Later::Follows(course) => {
                follow(&balancer.services, packet.bytes_mut(), view, course);
                Judgement::Goes(course)
            }
            Later::Early => match self.host.slot() {
                Some(slot) => {
                    packet.hold(&slot);
                    let kept = (slot, packet.bytes().to_vec(), packet.mark());
                    self.fragments.hold(datagram, offset, kept, now);
                    Judgement::Waits
                }
                None => Judgement::Drop(Reason::Fragment),
            },
            Later::Refused => Judgement::Drop(Reason::Fragment),
        }
    }

    /// Sends a fragment on that waited for its first one: the packet's bytes can be changed no more, hence
    /// another packet takes its place. One whose next hop is not known is dropped.
    fn follow_held(&mut self, services: &Services, mut held: Held, course: Course, first: u32, ingress: u16) {
        let (passed, interface) = match course {
            Course::ToServer(_) => (Passed::Forwarded, SERVERS),
            Course::ToClient(_) => (Passed::Returned, CLIENTS),
            Course::AsIs => (Passed::AsIs, 1 - (ingress & 1)),
        };
        let mut bytes = core::mem::take(&mut held.bytes);
        let is_written = held.offset >= first && followed(services, &mut bytes, course).is_some() && {
            let way = self.way(services, &bytes, course);
            write(&mut bytes, &way)
        };
        let sent = is_written && {
            let slot = self.host.packet_new(&bytes);
            slot.is_ok_and(|slot| self.host.emit(slot, Verdict::Interface(interface), held.mark).is_ok())
        };
        if !sent {
            return drop_held([held], self.tally, self.host);
        }
        self.tally.passed(passed);
        // What it was is done with.
        let _ = self.host.emit(held.slot, Verdict::Consume, held.mark);
    }
}

/// Drops fragments that waited for their first one.
pub fn drop_held(held: impl IntoIterator<Item = Held>, tally: &mut Tally, host: &mut Host) {
    for held in held {
        // The host has taken it back where this is refused, and counted it.
        if host.emit(held.slot, Reason::Fragment.verdict(), held.mark).is_ok() {
            tally.dropped(Reason::Fragment);
        }
    }
}

/// What all fragments of the packet's datagram have in common, if it is one.
fn datagram(view: &View, ingress: u16) -> Option<Datagram> {
    let (Fragment::First { identification } | Fragment::Later { identification, .. }) = view.fragment else {
        return None;
    };
    let [a, b, c, d] = view.source;
    let [e, f, g, h] = view.destination;
    // The protocol of a later fragment of IPv6 may be an extension header's.
    let kind = if view.is_v6 { ends::V6 } else { view.kind() };
    Some(Datagram { addresses: [a, b, c, d, e, f, g, h], identification, kind, ingress: ingress & 1 })
}

/// Gives a later fragment the address that the first one got.
fn follow(services: &Services, frame: &mut [u8], mut view: View, course: Course) {
    match course {
        Course::ToServer(server) if services.rewrite(server).is_some_and(|server| !server.is_direct) => {
            view.set_address(frame, false, server_end(services, server).0);
        }
        Course::ToClient(server) => {
            if let Some((address, _)) = virtual_end(services, server) {
                view.set_address(frame, true, address);
            }
        }
        Course::ToServer(_) | Course::AsIs => {}
    }
}

/// The same for one that waited.
fn followed(services: &Services, frame: &mut [u8], course: Course) -> Option<()> {
    let found = dissect(frame).ok()?;
    let view = View::new(frame, &found, found.network.as_ref()?).ok()?;
    follow(services, frame, view, course);
    Some(())
}

fn destination(frame: &[u8]) -> Option<core::net::IpAddr> {
    Some(dissect(frame).ok()?.network?.destination)
}

/// The transport checksum is that of the pseudo header alone.
fn is_partial(packet: &Packet<'_>, view: &View) -> bool {
    let record = packet.record();
    record.offload_flags & offload::NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) == view.l4
}
