//! Packets that are not usual: the beginnings and ends of sessions, hairpins, ICMP, fragments, and what is
//! not translated.

use crate::course::Course;
use crate::icmp;
use crate::metrics::{Passed, Reason, Tally};
use crate::nat64::{self, View6};
use crate::segments::has_counterpart;
use crate::session::{InsideEnds, OutsideEnds, at, flag};
use crate::translator::Translator;
use crate::unsolicited::unreachable;
use crate::view::{Part, View};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::headers::{Dissection, Fragment, Network, dissect};
use nf_sdk::later_fragments::{Datagram, Held, Later};
use nf_sdk::wire::{Address, TCP, half, host_v4, put_half, put_word, wire_v4, word};
use nf_sdk::{Host, Packet, Verdict, offload};

/// ICMP errors about what could not be translated, at most, in [`ANSWERS_IN`] ticks: 64 in 1.07 s.
const ANSWERS: u32 = 64;
const ANSWERS_IN: u32 = 16;
/// Code of an unreachable message: communication administratively prohibited (RFC 1812).
const PROHIBITED: u8 = 13;
/// Code of an unreachable message: no such port.
const PORT: u8 = 3;

const INSIDE: Verdict = Verdict::Interface(0);
const OUTSIDE: Verdict = Verdict::Interface(1);

/// What a packet's way ended in.
type Judgement = Result<(Passed, Verdict), Reason>;

/// What is kept beside the translator.
#[derive(Default)]
pub struct Slow {
    /// When answers were counted last, and how many they were since then.
    answers: (u32, u32),
    /// Source and destination of the packet, if it has become one of IPv6.
    became: Option<[u32; 8]>,
    /// The packet has become one of the other version of IP.
    is_translated: bool,
}

/// Packets between neighbours, which no router forwards: they pass as they are.
pub fn is_local(source: Address, destination: Address) -> bool {
    let [source, destination] = [host_v4(source), host_v4(destination)];
    let is_link_local = |address: u32| address >> 16 == 0xa9fe;
    source == 0
        || destination == u32::MAX
        || destination >> 8 == 0x00e0_0000
        || is_link_local(source)
        || is_link_local(destination)
}

/// An Ethernet address in two words.
#[inline(always)]
pub fn mac_at(frame: &[u8], at: usize) -> [u32; 2] {
    [word(frame, at).unwrap_or(0), u32::from(half(frame, at + 4).unwrap_or(0))]
}

/// Sends a frame that goes back to where it came from to this Ethernet address, or to its sender if that is
/// not known.
fn turn_back(frame: &mut [u8], mac: [u32; 2]) -> [u32; 2] {
    let (receiver, sender) = (mac_at(frame, 0), mac_at(frame, 6));
    let to = if mac == [0, 0] { sender } else { mac };
    put_word(frame, 0, to[0]);
    put_half(frame, 4, to[1] as u16);
    put_word(frame, 6, receiver[0]);
    put_half(frame, 10, receiver[1] as u16);
    to
}

impl Slow {
    /// Any packet: its verdict, counted.
    #[inline(never)]
    pub fn packet(
        &mut self,
        translator: &mut Translator,
        packet: &mut Packet<'_>,
        tally: &mut Tally,
        host: &mut Host,
    ) {
        self.is_translated = false;
        let judgement = match dissect(packet.bytes()) {
            Ok(dissection) => self.judge(translator, packet, &dissection, tally, host),
            Err(_) => Some(Err(Reason::Malformed)),
        };
        match judgement {
            Some(Ok((passed, verdict))) => {
                tally.passed(passed);
                match self.is_translated {
                    true => packet.verdict_in_other_version(verdict),
                    false => packet.verdict(verdict),
                }
            }
            Some(Err(reason)) => {
                tally.dropped(reason);
                packet.verdict(reason.verdict());
            }
            // It is held.
            None => {}
        }
    }

    fn judge(
        &mut self,
        translator: &mut Translator,
        packet: &mut Packet<'_>,
        dissection: &Dissection,
        tally: &mut Tally,
        host: &mut Host,
    ) -> Option<Judgement> {
        let from_inside = packet.ingress() & 1 == 0;
        let as_is = Ok((Passed::AsIs, if from_inside { OUTSIDE } else { INSIDE }));
        let Some(network) = dissection.network.as_ref() else { return Some(as_is) };
        if !network.source.is_ipv4() {
            return match self.prefixed(translator, network).filter(|_| from_inside) {
                Some(remote) => self.judge6(translator, packet, dissection, network, remote, tally, host),
                None => Some(as_is),
            };
        }
        let mut view = match View::new(packet.bytes(), dissection, network) {
            Ok(view) => view,
            // What is not translated may be of any protocol.
            Err(Reason::Protocol) => {
                let view = View::addresses(dissection, network);
                let is_ours = if from_inside {
                    translator.is_inside(view.source) || translator.is_outside(view.destination)
                } else {
                    translator.is_outside(view.destination) || translator.is_inside(view.destination)
                };
                return Some(if is_ours && !is_local(view.source, view.destination) {
                    Err(Reason::Protocol)
                } else {
                    as_is
                });
            }
            Err(reason) => return Some(Err(reason)),
        };
        if is_local(view.source, view.destination) {
            return Some(as_is);
        }
        let is_to_pool = translator.is_outside(view.destination);
        if from_inside && !is_to_pool && !translator.is_inside(view.source) {
            return Some(as_is);
        }
        if !from_inside && !is_to_pool {
            return Some(if translator.is_inside(view.destination) { Err(Reason::NoMapping) } else { as_is });
        }
        let datagram = datagram(&view, packet.ingress());
        if let (Fragment::Later { offset, .. }, Some(datagram)) = (view.fragment, datagram) {
            return self.later(translator, packet, &mut view, &datagram, u32::from(offset), host);
        }
        self.became = None;
        let judgement = self.whole(translator, packet, &mut view, host);
        if let (Some(datagram), Ok((_, verdict))) = (datagram, &judgement) {
            let mut addresses = [0; 8];
            (addresses[0], addresses[4]) = (view.source, view.destination);
            let addresses = self.became.unwrap_or(addresses);
            let is_back = from_inside && *verdict == INSIDE;
            let mac = is_back.then(|| mac_at(packet.bytes(), 0));
            let course = Course {
                addresses,
                protocol: view.protocol(),
                changes_version: self.became.is_some(),
                verdict: *verdict,
                mac,
            };
            let length = (view.end - view.l4) as u32;
            let (now, mtu) = (translator.sessions.now, translator.settings.nat64_mtu);
            let passed = judgement.map_or(Passed::AsIs, |(passed, _)| passed);
            for held in translator.fragments.first(&datagram, course, length, now) {
                follow_held(held, &course, (length, mtu), passed, tally, host);
            }
        }
        Some(judgement)
    }

    /// The IPv4 address that an IPv6 packet is for.
    fn prefixed(&self, translator: &Translator, network: &Network) -> Option<u32> {
        let IpAddr::V6(destination) = network.destination else { return None };
        translator.settings.nat64?.extract(nat64::words(&destination.octets()))
    }

    /// An IPv6 packet from inside for a remote end of IPv4.
    #[allow(clippy::too_many_arguments)]
    fn judge6(
        &mut self,
        translator: &mut Translator,
        packet: &mut Packet<'_>,
        dissection: &Dissection,
        network: &Network,
        remote: u32,
        tally: &mut Tally,
        host: &mut Host,
    ) -> Option<Judgement> {
        let view = match View6::new(packet.bytes(), dissection, network) {
            Ok(view) => view,
            Err(reason) => return Some(Err(reason)),
        };
        let prefix = translator.settings.nat64?;
        // Neither an address of the prefix nor what could be taken for one of IPv4 has sent this.
        if prefix.extract(view.source).is_some() || view.source[..3] == [0; 3] {
            return Some(Err(Reason::Malformed));
        }
        if !prefix.stands_for(remote) {
            return Some(Err(Reason::Untranslatable));
        }
        let datagram = view.datagram();
        if let (Fragment::Later { offset, .. }, Some(datagram)) = (view.fragment, datagram) {
            let offset = u32::from(offset);
            return match self.early(translator, packet, &datagram, offset, host)? {
                Ok(course) => Some(follow6(packet, &view, &course)),
                Err(reason) => Some(Err(reason)),
            };
        }
        let judgement = self.whole6(translator, packet, &view, remote);
        if let (Some(datagram), Ok((passed, verdict))) = (datagram, &judgement) {
            // What comes behind a hairpin would have to be translated twice.
            let Some(outside) = dissect(packet.bytes()).ok().and_then(|found| found.network) else {
                return Some(judgement);
            };
            let mut addresses = [0; 8];
            if let (IpAddr::V4(source), IpAddr::V4(destination)) = (outside.source, outside.destination) {
                (addresses[0], addresses[4]) = (wire_v4(source.to_bits()), wire_v4(destination.to_bits()));
                let course = Course {
                    addresses,
                    protocol: outside.protocol,
                    changes_version: true,
                    verdict: *verdict,
                    mac: None,
                };
                let length = (view.end - view.l4) as u32;
                let (now, mtu) = (translator.sessions.now, translator.settings.nat64_mtu);
                for held in translator.fragments.first(&datagram, course, length, now) {
                    follow_held(held, &course, (length, mtu), *passed, tally, host);
                }
            }
        }
        Some(judgement)
    }

    fn whole6(
        &mut self,
        translator: &mut Translator,
        packet: &mut Packet<'_>,
        view: &View6,
        remote: u32,
    ) -> Judgement {
        let record = packet.record();
        let partial =
            record.offload_flags & offload::NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) == view.l4;
        if !has_counterpart(record) {
            return Err(Reason::Untranslatable);
        }
        let mac = mac_at(packet.bytes(), 6);
        nat64::outward(translator, packet, view, remote, partial, mac)?;
        self.is_translated = true;
        if !translator.is_outside(remote) {
            return Ok((Passed::Outward, OUTSIDE));
        }
        let found = dissect(packet.bytes()).map_err(|_| Reason::Malformed)?;
        let network = found.network.as_ref().ok_or(Reason::Malformed)?;
        let mut view = View::new(packet.bytes(), &found, network)?;
        let (target, addresses) = inward(translator, packet, &mut view, partial, true)?;
        // It is what it was when its other end is of IPv6 too.
        self.is_translated = addresses.is_none();
        turn_back(packet.bytes_mut(), target);
        Ok((Passed::Hairpinned, INSIDE))
    }

    /// A packet with its transport header.
    fn whole(
        &mut self,
        translator: &mut Translator,
        packet: &mut Packet<'_>,
        view: &mut View,
        host: &mut Host,
    ) -> Judgement {
        let record = packet.record();
        let partial =
            record.offload_flags & offload::NEEDS_CHECKSUM != 0 && usize::from(record.csum_start) == view.l4;
        let from_inside = record.ingress & 1 == 0;
        let mut is_outward = false;
        if from_inside && translator.is_inside(view.source) {
            let frame = packet.bytes_mut();
            if let Err(reason) = outward(translator, frame, view, partial) {
                self.refuse(translator, frame, (view.l3, view.l4), reason, host);
                return Err(reason);
            }
            is_outward = true;
        }
        if !translator.is_outside(view.destination) {
            return Ok((Passed::Outward, OUTSIDE));
        }
        let identification = nat64::fragmentable(packet.bytes(), view.l3);
        let (mac, addresses) = inward(translator, packet, view, partial, from_inside)?;
        self.became = addresses;
        self.is_translated = addresses.is_some();
        if self.is_translated && !has_counterpart(packet.record()) {
            return Err(Reason::Untranslatable);
        }
        if from_inside {
            turn_back(packet.bytes_mut(), mac);
        }
        if self.is_translated {
            cut(translator, packet, view.l3, identification, INSIDE, host)?;
        }
        Ok((if is_outward { Passed::Hairpinned } else { Passed::Inward }, INSIDE))
    }

    /// Tells the sender of a packet that no session could be begun for it (RFC 5508 REQ-8).
    pub fn refuse(
        &mut self,
        translator: &mut Translator,
        frame: &[u8],
        (l3, l4): (usize, usize),
        reason: Reason,
        host: &mut Host,
    ) {
        if !matches!(reason, Reason::TableFull | Reason::HostLimit | Reason::NoPort) {
            return;
        }
        let (since, count) = &mut self.answers;
        if translator.sessions.now.wrapping_sub(*since) >= ANSWERS_IN {
            (*since, *count) = (translator.sessions.now, 0);
        }
        if *count < ANSWERS {
            *count += 1;
            let source = translator.bindings.ports.address(0);
            if let Some(answer) = unreachable(frame, l3, l4, PROHIBITED, Some(source)) {
                emit(translator, &answer, INSIDE, host);
            }
        }
    }

    /// A later fragment; `None` when it is held.
    fn later(
        &mut self,
        translator: &mut Translator,
        packet: &mut Packet<'_>,
        view: &mut View,
        datagram: &Datagram,
        offset: u32,
        host: &mut Host,
    ) -> Option<Judgement> {
        let course = match self.early(translator, packet, datagram, offset, host)? {
            Ok(course) => course,
            Err(reason) => return Some(Err(reason)),
        };
        if course.changes_version {
            let identification = nat64::fragmentable(packet.bytes(), view.l3);
            let followed = follow4(packet, view, &course)
                .and_then(|()| cut(translator, packet, view.l3, identification, course.verdict, host));
            if let Err(reason) = followed {
                return Some(Err(reason));
            }
        } else {
            follow(packet.bytes_mut(), view, &course);
        }
        let passed = match (course.mac, datagram.ingress & 1) {
            (Some(_), _) => Passed::Hairpinned,
            (None, 0) => Passed::Outward,
            (None, _) => Passed::Inward,
        };
        Some(Ok((passed, course.verdict)))
    }

    /// How the first fragment of a later one was translated; `None` when the later one is held.
    fn early(
        &mut self,
        translator: &mut Translator,
        packet: &mut Packet<'_>,
        datagram: &Datagram,
        offset: u32,
        host: &mut Host,
    ) -> Option<Result<Course, Reason>> {
        let now = translator.sessions.now;
        match translator.fragments.later(datagram, offset, packet.len(), now) {
            Later::Follows(course) => Some(Ok(course)),
            Later::Early => match host.slot() {
                Some(slot) => {
                    packet.hold(&slot);
                    let kept = (slot, packet.bytes().to_vec(), packet.mark());
                    translator.fragments.hold(datagram, offset, kept, now);
                    None
                }
                None => Some(Err(Reason::Fragment)),
            },
            Later::Refused => Some(Err(Reason::Fragment)),
        }
    }

    /// What is due: fragments that waited for too long, and answers to SYNs that nothing asked for.
    pub fn timer(&mut self, translator: &mut Translator, tally: &mut Tally, host: &mut Host) {
        let now = translator.sessions.now;
        let over = translator.fragments.expired(now, false);
        drop_held(over, tally, host);
        while let Some((ends, answer)) = translator.unsolicited.due(now) {
            // A SYN of the inside end came in between: a simultaneous open (RFC 5382 REQ-4).
            if translator.known_outside(&ends).is_none() {
                emit(translator, &answer, OUTSIDE, host);
            }
        }
    }

    /// The program stops: what is held is dropped.
    pub fn give_up(&mut self, translator: &mut Translator, tally: &mut Tally, host: &mut Host) {
        let all = translator.fragments.expired(0, true);
        drop_held(all, tally, host);
    }
}

/// Sends a packet of the function's own.
fn emit(translator: &mut Translator, bytes: &[u8], verdict: Verdict, host: &mut Host) {
    if let Ok(slot) = host.packet_new(bytes)
        && host.emit(slot, verdict, 0).is_ok()
    {
        translator.turnover[3] += 1;
    }
}

fn drop_held(held: impl IntoIterator<Item = Held>, tally: &mut Tally, host: &mut Host) {
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
    let mut addresses = [0; 8];
    (addresses[0], addresses[4]) = (view.source, view.destination);
    Some(Datagram { addresses, identification, kind: view.kind, ingress: ingress & 1 })
}

/// Gives a later fragment the addresses that the first one got.
fn follow(frame: &mut [u8], view: &mut View, course: &Course) {
    view.set_address(frame, true, course.addresses[0]);
    view.set_address(frame, false, course.addresses[4]);
    if let Some(mac) = course.mac {
        turn_back(frame, mac);
    }
}

/// A later fragment of IPv4 becomes one of IPv6.
fn follow4(packet: &mut Packet<'_>, view: &View, course: &Course) -> Result<(), Reason> {
    let header = nat64::header_v6(packet.bytes(), view, course.ends_v6())?;
    nat64::replace(packet, view.l3, view.l4, view.end, &header)?;
    if let Some(mac) = course.mac {
        turn_back(packet.bytes_mut(), mac);
    }
    Ok(())
}

/// Cuts a packet that has become one of IPv6, is longer than its way may take, and had this identification as
/// an IPv4 packet that may be fragmented. What the host is still to segment or to sum is left to it.
fn cut(
    translator: &Translator,
    packet: &mut Packet<'_>,
    l3: usize,
    identification: Option<u32>,
    verdict: Verdict,
    host: &mut Host,
) -> Result<(), Reason> {
    let record = packet.record();
    let is_done = record.offload_flags & offload::NEEDS_CHECKSUM == 0 && record.gso_type == offload::GSO_NONE;
    let Some(identification) = identification.filter(|_| is_done) else { return Ok(()) };
    let mtu = translator.settings.nat64_mtu;
    let mut parts = nat64::cut(packet.bytes(), l3, mtu, identification).into_iter();
    let Some(first) = parts.next().filter(|first| packet.trim(first.len())) else { return Ok(()) };
    packet.bytes_mut().copy_from_slice(&first);
    if send_all(parts, verdict, packet.mark(), host) { Ok(()) } else { Err(Reason::Fragment) }
}

/// Sends packets of all of these frames, or of none: parts of a datagram without the others would be waited
/// for.
fn send_all(frames: impl IntoIterator<Item = Vec<u8>>, verdict: Verdict, mark: u64, host: &mut Host) -> bool {
    let (mut slots, mut is_complete) = (Vec::new(), true);
    for frame in frames {
        match host.packet_new(&frame) {
            Ok(slot) => slots.push(slot),
            Err(_) => {
                is_complete = false;
                break;
            }
        }
    }
    let verdict = if is_complete { verdict } else { Verdict::Consume };
    for slot in slots {
        is_complete &= host.emit(slot, verdict, mark).is_ok();
    }
    is_complete
}

/// A later fragment of IPv6 becomes one of IPv4.
fn follow6(packet: &mut Packet<'_>, view: &View6, course: &Course) -> Judgement {
    let header = nat64::header_v4(packet.bytes(), view, course.protocol, course.ends_v4())?;
    nat64::replace(packet, view.l3, view.l4, view.end, &header)?;
    Ok((Passed::Outward, course.verdict))
}

/// The frames of a later fragment that follows its first one: several if it is longer than its way may take.
fn followed(held: &mut Held, course: &Course, mtu: usize) -> Option<Vec<Vec<u8>>> {
    let found = dissect(&held.bytes).ok()?;
    let network = found.network.as_ref()?;
    if network.source.is_ipv6() {
        let view = View6::new(&held.bytes, &found, network).ok()?;
        let header = nat64::header_v4(&held.bytes, &view, course.protocol, course.ends_v4()).ok()?;
        return nat64::replaced(&held.bytes, view.l3, view.l4, view.end, &header).map(|one| vec![one]);
    }
    let mut view = View::new(&held.bytes, &found, network).ok()?;
    if course.changes_version {
        let header = nat64::header_v6(&held.bytes, &view, course.ends_v6()).ok()?;
        let mut whole = nat64::replaced(&held.bytes, view.l3, view.l4, view.end, &header)?;
        if let Some(mac) = course.mac {
            turn_back(&mut whole, mac);
        }
        let identification = nat64::fragmentable(&held.bytes, view.l3);
        let parts = identification.map(|number| nat64::cut(&whole, view.l3, mtu, number));
        return Some(parts.filter(|parts| !parts.is_empty()).unwrap_or_else(|| vec![whole]));
    }
    follow(&mut held.bytes, &mut view, course);
    Some(vec![core::mem::take(&mut held.bytes)])
}

/// Sends a fragment on that waited for its first one: the packet's bytes can be changed no more, hence
/// another packet takes its place. `first` is the length of the first one.
fn follow_held(
    mut held: Held,
    course: &Course,
    (first, mtu): (u32, usize),
    passed: Passed,
    tally: &mut Tally,
    host: &mut Host,
) {
    let frames = if held.offset >= first { followed(&mut held, course, mtu) } else { None };
    let sent = frames.is_some_and(|frames| send_all(frames, course.verdict, held.mark, host));
    if !sent {
        return drop_held([held], tally, host);
    }
    tally.passed(passed);
    // What it was is done with.
    let _ = host.emit(held.slot, Verdict::Consume, held.mark);
}

/// Translates a packet from inside.
fn outward(
    translator: &mut Translator,
    frame: &mut [u8],
    view: &mut View,
    partial: bool,
) -> Result<(), Reason> {
    if view.part == Part::Error {
        return icmp::outward(translator, frame, view);
    }
    let ends = InsideEnds {
        inside: view.source,
        remote: view.destination,
        ports: view.ports_of(true),
        kind: view.kind,
        ..InsideEnds::default()
    };
    let number = translator.outward(&ends, view.flags, view.part == Part::Request, mac_at(frame, 6))?;
    let words = &translator.sessions.get(number).0;
    let (address, port) = (words[at::OUTSIDE], words[at::OUTSIDE_PORTS] as u16);
    view.set_end(frame, true, address, port, partial);
    Ok(())
}

/// Translates a packet to the pool; the Ethernet address of the host that it goes to, zeros if that is not
/// known, and its addresses if it has become a packet of IPv6.
#[allow(clippy::type_complexity)]
fn inward(
    translator: &mut Translator,
    packet: &mut Packet<'_>,
    view: &mut View,
    partial: bool,
    from_inside: bool,
) -> Result<([u32; 2], Option<[u32; 8]>), Reason> {
    if view.part == Part::Error {
        let target = icmp::inward(translator, packet.bytes_mut(), view)?;
        let mac = translator.bindings.mac(target.mapping);
        if target.is_v6 {
            nat64::inward(translator, packet, view, &target, false)?;
        }
        return Ok((mac, None));
    }
    let ends = OutsideEnds {
        outside: view.destination,
        remote: view.source,
        ports: view.ports_of(false),
        kind: view.kind,
    };
    let is_reply = view.part == Part::Reply;
    match translator.inward(&ends, view.flags, is_reply) {
        Ok(target) => {
            let mac = translator.bindings.mac(target.mapping);
            if target.is_v6 {
                let addresses = nat64::inward(translator, packet, view, &target, partial)?;
                return Ok((mac, Some(addresses)));
            }
            view.set_end(packet.bytes_mut(), false, target.address[3], target.port, partial);
            Ok((mac, None))
        }
        Err(reason) => {
            let is_syn = view.protocol() == TCP && view.flags & (flag::SYN | flag::ACK) == flag::SYN;
            let is_unasked = is_syn && matches!(reason, Reason::NoMapping | Reason::Filtered);
            if is_unasked && !from_inside && translator.settings.answer {
                let now = translator.sessions.now;
                let (l3, l4) = (view.l3, view.l4);
                translator.unsolicited.note(ends, now, || unreachable(packet.bytes(), l3, l4, PORT, None));
            }
            Err(reason)
        }
    }
}
