//! Packets that are not usual: the beginnings and ends of sessions, hairpins, ICMP, fragments, and what is not
//! translated.

use crate::fragments::{Course, Datagram, Held, Later};
use crate::icmp;
use crate::metrics::{Passed, Reason, Tally};
use crate::session::{InsideEnds, OutsideEnds, at, flag};
use crate::translator::Translator;
use crate::unsolicited::unreachable;
use crate::view::{Part, View};
use crate::wire::{TCP, half, host_v4, put_half, put_word, word};
use nf_sdk::headers::{Dissection, Fragment, dissect};
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
}

/// Packets between neighbours, which no router forwards: they pass as they are.
fn is_local(view: &View) -> bool {
    let [source, destination] = [host_v4(view.source), host_v4(view.destination)];
    let is_link_local = |address: u32| address >> 16 == 0xa9fe;
    source == 0
        || destination == u32::MAX
        || destination >> 8 == 0x00e0_0000
        || is_link_local(source)
        || is_link_local(destination)
}

fn mac_at(frame: &[u8], at: usize) -> [u32; 2] {
    [word(frame, at).unwrap_or(0), u32::from(half(frame, at + 4).unwrap_or(0))]
}

/// Sends a frame that goes back to where it came from to this Ethernet address, or to its sender if that is not
/// known.
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
        let judgement = match dissect(packet.bytes()) {
            Ok(dissection) => self.judge(translator, packet, &dissection, tally, host),
            Err(_) => Some(Err(Reason::Malformed)),
        };
        match judgement {
            Some(Ok((passed, verdict))) => {
                tally.passed(passed);
                packet.verdict(verdict);
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
        let Some(network) = dissection.network.as_ref().filter(|network| network.source.is_ipv4()) else {
            return Some(as_is);
        };
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
                return Some(if is_ours && !is_local(&view) { Err(Reason::Protocol) } else { as_is });
            }
            Err(reason) => return Some(Err(reason)),
        };
        if is_local(&view) {
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
        let judgement = self.whole(translator, packet, &mut view, host);
        if let (Some(datagram), Ok((_, verdict))) = (datagram, &judgement) {
            let mut addresses = [0; 8];
            (addresses[0], addresses[4]) = (view.source, view.destination);
            let is_back = from_inside && *verdict == INSIDE;
            let mac = is_back.then(|| mac_at(packet.bytes(), 0));
            let course = Course { addresses, changes_version: false, verdict: *verdict, mac };
            let length = (view.end - view.l4) as u32;
            let now = translator.sessions.now;
            for held in translator.fragments.first(&datagram, course, length, now) {
                follow_held(
                    held,
                    &course,
                    length,
                    judgement.map_or(Passed::AsIs, |(passed, _)| passed),
                    tally,
                    host,
                );
            }
        }
        Some(judgement)
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
        let frame = packet.bytes_mut();
        let mut is_outward = false;
        if from_inside && translator.is_inside(view.source) {
            if let Err(reason) = outward(translator, frame, view, partial) {
                self.refuse(translator, frame, view, reason, host);
                return Err(reason);
            }
            is_outward = true;
        }
        if !translator.is_outside(view.destination) {
            return Ok((Passed::Outward, OUTSIDE));
        }
        let mac = inward(translator, frame, view, partial, from_inside)?;
        if !from_inside {
            return Ok((Passed::Inward, INSIDE));
        }
        turn_back(frame, mac);
        Ok((if is_outward { Passed::Hairpinned } else { Passed::Inward }, INSIDE))
    }

    /// Tells the sender of a packet that no session could be begun for it (RFC 5508 REQ-8).
    fn refuse(
        &mut self,
        translator: &mut Translator,
        frame: &[u8],
        view: &View,
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
            if let Some(answer) = unreachable(frame, view.l3, view.l4, PROHIBITED, Some(source)) {
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
        let now = translator.sessions.now;
        match translator.fragments.later(datagram, offset, packet.len(), now) {
            Later::Follows(course) => {
                follow(packet.bytes_mut(), view, &course);
                let passed = match (course.mac, datagram.ingress & 1) {
                    (Some(_), _) => Passed::Hairpinned,
                    (None, 0) => Passed::Outward,
                    (None, _) => Passed::Inward,
                };
                Some(Ok((passed, course.verdict)))
            }
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

/// Sends a fragment on that waited for its first one: the packet's bytes can be changed no more, hence another
/// packet takes its place.
fn follow_held(
    mut held: Held,
    course: &Course,
    first: u32,
    passed: Passed,
    tally: &mut Tally,
    host: &mut Host,
) {
    let view = dissect(&held.bytes).ok().and_then(|dissection| {
        let network = dissection.network?;
        View::new(&held.bytes, &dissection, &network).ok()
    });
    let sent = match view {
        Some(mut view) if held.offset >= first => {
            follow(&mut held.bytes, &mut view, course);
            let slot = host.packet_new(&held.bytes);
            slot.is_ok_and(|slot| host.emit(slot, course.verdict, held.mark).is_ok())
        }
        _ => false,
    };
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

/// Translates a packet to the pool; the Ethernet address of the host that it goes to, zeros if that is not known.
fn inward(
    translator: &mut Translator,
    frame: &mut [u8],
    view: &mut View,
    partial: bool,
    from_inside: bool,
) -> Result<[u32; 2], Reason> {
    if view.part == Part::Error {
        let target = icmp::inward(translator, frame, view)?;
        return Ok(translator.bindings.mac(target.mapping));
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
            view.set_end(frame, false, target.address[3], target.port, partial);
            Ok(translator.bindings.mac(target.mapping))
        }
        Err(reason) => {
            let is_syn = view.protocol() == TCP && view.flags & (flag::SYN | flag::ACK) == flag::SYN;
            let is_unasked = is_syn && matches!(reason, Reason::NoMapping | Reason::Filtered);
            if is_unasked && !from_inside && translator.settings.answer {
                let now = translator.sessions.now;
                let (l3, l4) = (view.l3, view.l4);
                translator.unsolicited.note(ends, now, || unreachable(frame, l3, l4, PORT, None));
            }
            Err(reason)
        }
    }
}
