//! Packets that take the long way: everything but the common packet of the stateless mode and the usual
//! packet of a tracked flow.

use crate::fragments::Fragments;
use crate::header::{Class, Header, KEY6, Least, parse, parse_embedded};
use crate::rule::Action;
use crate::rule_set::Rules;
use crate::tally::Reason;
use crate::tracker::{Ahead, COMMON, Tracked, Tracker, is_related, track, usual};
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::{Nanos, Secret};

/// What happens to packets that no rule is about, and what is looked into.
#[derive(Clone, Debug)]
pub struct Handling {
    /// Frames that are not IP.
    pub non_ip: Action,
    /// IP that cannot be read.
    pub unreadable: Action,
    /// IPv6 discovery passes without a rule.
    pub discovery: bool,
    /// Tunnels whose innermost packet is judged.
    pub tunnels: Tunnels,
    /// How long later fragments may follow the first.
    pub fragments: Nanos,
}

/// Rules, fragments, and what passes without either.
pub struct Judge<R> {
    /// The rules.
    pub rules: R,
    /// What became of first fragments, and later ones that wait for them.
    pub fragments: Fragments,
    /// Now, in ticks.
    pub now: u32,
    non_ip: Action,
    unreadable: Action,
    discovery: bool,
    /// Tunnels whose innermost packet is judged.
    pub tunnels: Tunnels,
    /// Which packets are common.
    pub least: Least,
    /// Packets that were read although a capture left out what is behind their headers.
    pub snapped: u64,
    /// Packets of IPv4 with a length of 0, which is the frame's.
    pub unsegmented: u64,
    /// A packet's header while it is looked at alone.
    header: Header,
}

fn accepted_or(accept: bool, reason: Reason) -> Result<(), Reason> {
    if accept { Ok(()) } else { Err(reason) }
}

impl<R: Rules> Judge<R> {
    /// Judges by these rules. `secret` keys the table of fragments.
    pub fn new(rules: R, handling: Handling, secret: &Secret) -> Judge<R> {
        Judge {
            rules,
            fragments: Fragments::new(handling.fragments, secret.seed("fragments")),
            now: 0,
            non_ip: handling.non_ip,
            unreadable: handling.unreadable,
            least: Least::new(&handling.tunnels),
            tunnels: handling.tunnels,
            discovery: handling.discovery,
            snapped: 0,
            unsegmented: 0,
            header: Header::default(),
        }
    }

    /// Counts what is not as it was on the wire.
    #[inline(always)]
    pub fn note(&mut self, header: &Header) {
        self.snapped += u64::from(header.is_snapped);
        self.unsegmented += u64::from(header.is_unsegmented);
    }

    /// Any packet, without connection tracking; `snapped` as for [`parse`].
    #[inline(never)]
    pub fn any(&mut self, packet: &[u8], snapped: u16, ingress: u32) -> Result<(), Reason> {
        let mut header = self.header;
        parse(packet, snapped, ingress, &self.tunnels, &mut header);
        self.note(&header);
        self.by_rules_alone(&header)
    }

    /// A packet that was read, without connection tracking.
    pub fn by_rules_alone(&mut self, header: &Header) -> Result<(), Reason> {
        let judgement = self.by_rules(header);
        self.remember(header, judgement)
    }

    /// By rules where there are any for this class of packet.
    fn by_rules(&mut self, header: &Header) -> Result<(), Reason> {
        match header.class {
            Class::NonIp => accepted_or(self.non_ip == Action::Accept, Reason::NonIp),
            Class::Malformed => Err(Reason::Malformed),
            Class::Unreadable => self.unreadable(),
            Class::ShortFragment => Err(Reason::Fragment),
            Class::LaterFragment => accepted_or(self.fragments.follows(header, self.now), Reason::Fragment),
            Class::Discovery if self.discovery => Ok(()),
            Class::Flow4 | Class::Single4 | Class::Error4 => {
                accepted_or(self.rules.decide4(&header.view4()), Reason::Denied)
            }
            Class::Flow6 | Class::Single6 | Class::Error6 | Class::Discovery => {
                accepted_or(self.rules.decide6(&header.view6()), Reason::Denied)
            }
        }
    }

    fn unreadable(&self) -> Result<(), Reason> {
        accepted_or(self.unreadable == Action::Accept, Reason::Unreadable)
    }

    /// Remembers what became of a packet, if it is a first fragment.
    fn remember(&mut self, header: &Header, judgement: Result<(), Reason>) -> Result<(), Reason> {
        self.fragments.judged(header, judgement.is_ok(), self.now);
        judgement
    }
}

/// A packet that was read, with connection tracking.
#[inline(never)]
pub fn judge_tracked<R: Rules>(
    judge: &mut Judge<R>,
    tracker: &mut Tracker,
    header: &Header,
    packet: &[u8],
) -> Result<(), Reason> {
    let Tracker { v4, v6, terms, .. } = tracker;
    let judgement = match header.class {
        Class::Flow4 if header.path != 0 => {
            let decide = || judge.rules.decide4(&header.view4());
            let key = header.mapped_key();
            reason(track(v6, terms, header, v6.hash(&key), &key, decide))
        }
        Class::Flow4 => {
            let decide = || judge.rules.decide4(&header.view4());
            let key = header.key4();
            reason(track(v4, terms, header, v4.hash(&key), &key, decide))
        }
        Class::Flow6 if usual(v6, terms, &ahead6(header), header.slot6) => Ok(()),
        Class::Flow6 => {
            let decide = || judge.rules.decide6(&header.view6());
            reason(track(v6, terms, header, header.hash6, &header.key, decide))
        }
        Class::Error4 | Class::Error6 => {
            let mut carried = judge.header;
            let is_related = match parse_embedded(packet, header, &mut carried) {
                // What it is about may be in what the capture left out.
                None if header.is_snapped => return judge.unreadable(),
                Some(Class::Flow4) if carried.path != 0 => {
                    is_related(v6, terms, &carried, &carried.mapped_key())
                }
                Some(Class::Flow4) => is_related(v4, terms, &carried, &carried.key4()),
                Some(Class::Flow6) => is_related(v6, terms, &carried, &carried.key),
                _ => false,
            };
            accepted_or(is_related, Reason::NoFlow)
        }
        _ => judge.by_rules(header),
    };
    judge.remember(header, judgement)
}

fn ahead6(header: &Header) -> Ahead<[u32; KEY6]> {
    Ahead {
        key: header.key,
        hash: header.hash6,
        flags: u32::from(header.flags) | COMMON,
        end: header.end,
        ack: header.ack,
        ingress: header.ingress(),
        header: Header::default(),
    }
}

fn reason(tracked: Tracked) -> Result<(), Reason> {
    match tracked {
        Tracked::Pass => Ok(()),
        Tracked::Denied => Err(Reason::Denied),
        Tracked::NoFlow => Err(Reason::NoFlow),
        Tracked::BadState => Err(Reason::BadState),
        Tracked::TableFull => Err(Reason::TableFull),
    }
}
