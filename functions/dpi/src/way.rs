//! A packet's way: the packets inside of it, its fragments, its place in a stream, and what waited for it.
//!
//! 1. A frame is looked at level by level, as deep as tunnels go that are to be opened.
//! 2. A fragment waits for its datagram, which goes the same way then.
//! 3. A packet's flow says what its payload is to the stream: it is shown to the rules ([`crate::ruling`])
//!    now, or held.
//! 4. What waited for it is shown behind it: held segments, those behind a gap, and what a connection's end
//!    tells.

use crate::budget::Budget;
use crate::checksums::Unfinished;
use crate::detect::{Portion, Shown};
use crate::flow::tcp::Place;
use crate::flow::tracker::Seen;
use crate::flow::{Fate, Stage};
use crate::header::flag::URG;
use crate::header::{self, Frame, View};
use crate::metrics::{Count, Reason};
use crate::rules::Direction;
use crate::ruling::Ruling;
use crate::{Dpi, checksums};
use alloc::vec::Vec;
use nf_sdk::fragments::Outcome;
use nf_sdk::{Host, Nanos};
use packet::tunnel::Level;

/// A packet on its way.
pub(crate) struct Passage<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) time: Nanos,
    pub(crate) ingress: usize,
    /// Number of the interface.
    pub(crate) from: u16,
    pub(crate) flow: Option<Seen>,
    /// Number of a flow that is gone, of which nothing can be dropped any more.
    pub(crate) ended: Option<u64>,
    pub(crate) is_established: bool,
    /// Its receiver ignores it: what it matches says nothing about its flow.
    pub(crate) is_ignored: bool,
    /// It may be anyone's: of its flow only rules that match every packet of it decide.
    pub(crate) is_loose: bool,
}

/// How a frame came.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) time: Nanos,
    pub(crate) ingress: usize,
    /// Number of the interface; of an observer, any.
    pub(crate) from: u16,
    /// Its transport checksum need not be computed, because it was verified or is one of each segment.
    pub(crate) is_vouched_for: bool,
    /// Checksums are those of the segments that it is still to be cut into.
    pub(crate) of_segments: bool,
    /// The checksum that is not finished: of this packet, or of one inside.
    pub(crate) unfinished: Option<Unfinished>,
    /// The end of the frame was left out where it was captured.
    pub(crate) is_snapped: bool,
    /// Tunnels around the datagram that was put together from fragments, and that it is or is in.
    pub(crate) whole: Option<usize>,
}

/// Where in a frame a part of it begins.
fn offset_in(frame: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().wrapping_sub(frame.as_ptr().addr())
}

impl Dpi {
    /// The frame's packet, and those inside of it.
    pub(crate) fn frame(&mut self, frame: &[u8], arrival: Arrival, host: &mut Host) -> Result<(), Reason> {
        if let Some(view) = header::plain(frame, &self.settings.tunnels) {
            self.detector.begin();
            return match self.unfit(frame, &view, &arrival, host) {
                Some(verdict) => verdict,
                None => self.packet(&view, arrival, host),
            };
        }
        match header::outermost(frame) {
            Ok(level) => self.levels(frame, level, arrival, host),
            Err(_) => self.malformed(),
        }
    }

    /// A packet in a frame, and those inside of it.
    fn levels(
        &mut self,
        frame: &[u8],
        outermost: Level,
        mut arrival: Arrival,
        host: &mut Host,
    ) -> Result<(), Reason> {
        let mut level = outermost;
        while self.level(frame, &level, arrival, host)? {
            level = match self.settings.tunnels.inside(frame, &level) {
                Ok(Some(inside)) => inside,
                Ok(None) => break,
                Err(_) => return self.malformed(),
            };
            // A port verifies the outermost checksum alone.
            arrival.is_vouched_for = arrival.of_segments;
        }
        Ok(())
    }

    fn malformed(&mut self) -> Result<(), Reason> {
        self.tally.add(Count::Malformed, 1);
        if self.settings.drops_malformed { Err(Reason::Malformed) } else { Ok(()) }
    }

    /// One packet; whether there may be others inside.
    fn level(
        &mut self,
        frame: &[u8],
        level: &Level,
        arrival: Arrival,
        host: &mut Host,
    ) -> Result<bool, Reason> {
        let view = match header::read(frame, level) {
            Frame::Ip(view) => view,
            Frame::Other => return Ok(true),
            Frame::Malformed => return self.malformed().map(|()| true),
        };
        self.detector.begin();
        if let Some(verdict) = self.unfit(frame, &view, &arrival, host) {
            // What is inside is not taken out.
            return verdict.map(|()| false);
        }
        if view.is_fragment {
            self.fragment(&view, frame, level, arrival, host).map(|()| false)
        } else {
            self.packet(&view, arrival, host).map(|()| true)
        }
    }

    /// The verdict on a packet that no receiver takes, or of which each takes something else; `None` on
    /// another one.
    #[inline]
    fn unfit(
        &mut self,
        frame: &[u8],
        view: &View<'_>,
        arrival: &Arrival,
        host: &mut Host,
    ) -> Option<Result<(), Reason>> {
        let is_right = || match arrival.unfinished {
            Some(one) => checksums::will_be_right(view, offset_in(frame, view.segment), one),
            None => arrival.is_vouched_for || checksums::are_right(view),
        };
        let is_wrong = self.settings.verifies && !is_right();
        let is_short = self.settings.verifies && !arrival.is_snapped && view.is_short();
        // Receivers take the urgent byte for a part of the stream or not: dropped with what they ignore.
        let is_urgent = view.tcp.flags & URG != 0 && self.settings.drops_ignored;
        if !is_wrong && !is_short && !is_urgent && view.ttl >= self.settings.min_ttl {
            return None;
        }
        self.tally.add(if is_wrong { Count::WrongChecksums } else { Count::Ignored }, 1);
        let ruling = self.alone(view, *arrival, host);
        Some(self.judge(ruling, self.settings.drops_ignored.then_some(Reason::Ignored)))
    }

    /// The verdict on a packet that is dropped for some other reason when no rule has decided.
    pub(crate) fn judge(&self, ruling: Ruling, otherwise: Option<Reason>) -> Result<(), Reason> {
        match (ruling, otherwise) {
            (Ruling::Drop, _) => Err(Reason::Rule),
            (Ruling::Go, Some(reason)) => Err(reason),
            (Ruling::Go | Ruling::Pass, _) => Ok(()),
        }
    }

    /// A packet that is part of no flow.
    fn alone(&mut self, view: &View<'_>, arrival: Arrival, host: &mut Host) -> Ruling {
        let Arrival { time, ingress, from, .. } = arrival;
        let passage = Passage {
            view,
            time,
            ingress,
            from,
            flow: None,
            ended: None,
            is_established: false,
            is_ignored: true,
            is_loose: true,
        };
        let mut budget = self.reserve.budget(view.payload.len());
        let shown = Shown { payload: view.payload, portion: Portion::Alone };
        let ruling = self.show(&passage, shown, &mut budget, host);
        self.reserve.keep(&budget);
        ruling
    }

    /// A fragment: rules about addresses see it, and with the last one all rules see the datagram.
    fn fragment(
        &mut self,
        view: &View<'_>,
        frame: &[u8],
        level: &Level,
        arrival: Arrival,
        host: &mut Host,
    ) -> Result<(), Reason> {
        self.tally.add(Count::Fragments, 1);
        if self.settings.drops_fragments {
            return Err(Reason::Fragment);
        }
        let ruling = self.alone(view, arrival, host);
        if ruling == Ruling::Drop {
            return Err(Reason::Rule);
        }
        // A datagram may carry fragments in its tunnels, of which there are few. One that is still a fragment
        // itself is what no host sends.
        let depth = level.path.depth();
        let may_be_part = arrival.whole.is_none_or(|whole| depth > whole);
        let Some((part, dissection)) = self.part(frame, level).filter(|_| may_be_part) else {
            self.tally.add(Count::Ignored, 1);
            return self.judge(ruling, self.settings.drops_ignored.then_some(Reason::Ignored));
        };
        let [first, second] = view.vlans.map(|vlan| u64::from(vlan.unwrap_or(0)));
        let context = view.path.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ first ^ second << 12;
        if self.fragments.is_barred(&dissection, context, self.now) {
            return Err(Reason::Flow);
        }
        match self.fragments.take(&part, &dissection, context, self.now) {
            Outcome::Waiting => Ok(()),
            Outcome::Whole(frame) => {
                self.tally.add(Count::Datagrams, 1);
                let Ok(mut whole) = header::outermost(&frame) else { return self.malformed() };
                (whole.path, whole.dissection.tags) = (level.path, level.dissection.tags);
                let (is_vouched_for, of_segments) = (false, false);
                let arrival =
                    Arrival { whole: Some(depth), is_vouched_for, of_segments, unfinished: None, ..arrival };
                let verdict = self.levels(&frame, whole, arrival, host);
                if verdict.is_err() {
                    // The receiver has the others, and waits for the one that is dropped now.
                    self.fragments.bar(&dissection, context, self.now);
                }
                verdict
            }
            Outcome::Discarded => {
                self.tally.add(Count::Ignored, 1);
                self.judge(ruling, self.settings.drops_ignored.then_some(Reason::Ignored))
            }
            Outcome::Refused => {
                self.tally.add(Count::FragmentsLost, 1);
                self.judge(ruling, self.settings.drops_overload.then_some(Reason::Overload))
            }
        }
    }

    /// A fragment as a frame of its own, without what is around it.
    fn part(&self, frame: &[u8], level: &Level) -> Option<(Vec<u8>, packet::Dissection)> {
        let network = level.dissection.network?;
        let packet = frame.get(level.dissection.l3_offset..network.end)?;
        let ethertype: [u8; 2] = if network.source.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        let part = [&[0; 12], ethertype.as_slice(), packet].concat();
        let dissection = packet::dissect(&part).ok()?;
        Some((part, dissection))
    }

    /// A packet in one piece.
    pub(crate) fn packet(
        &mut self,
        view: &View<'_>,
        arrival: Arrival,
        host: &mut Host,
    ) -> Result<(), Reason> {
        let Arrival { time, ingress, from, .. } = arrival;
        let seen = self.tracker.packet(view, from, self.now);
        if !self.tracker.ended.is_empty() {
            self.look_at_ended(host);
            self.detector.begin();
        }
        let flow = self.tracker.table.get(seen.flow);
        if view.tcp.flags & URG != 0 && seen.place != Place::Ignored && flow.stage >= Stage::SynReceived {
            self.tracker.announce(seen, view.tcp, self.now);
        }
        let flow = self.tracker.table.get(seen.flow);
        // The segment that completes a handshake is not yet part of what was agreed, unless it has data.
        let is_established = seen.was_established || !view.payload.is_empty() && flow.is_established();
        match flow.fate {
            Fate::Open => {}
            // In its name others send, too, who are behind another interface.
            Fate::Dropped if !self.tracker.concerns(seen, from) => {}
            Fate::Dropped => {
                self.is_suspicious = true;
                return Err(Reason::Flow);
            }
            Fate::Passed => return Ok(()),
        }
        self.tally.add(Count::Bytes, view.payload.len() as u64);
        let mut is_ignored = seen.place == Place::Ignored;
        let is_tcp = view.protocol == packet::protocol::TCP;
        let passage = Passage {
            view,
            time,
            ingress,
            from,
            flow: Some(seen),
            ended: None,
            is_established,
            is_ignored,
            is_loose: is_tcp && flow.stage < Stage::SynReceived,
        };
        let mut budget = self.reserve.budget(view.payload.len());
        if !is_tcp {
            // There is no stream, and nothing waits for it.
            let shown = Shown { payload: view.payload, portion: Portion::Alone };
            let ruling = self.show(&passage, shown, &mut budget, host);
            self.reserve.keep(&budget);
            return self.judge_within(ruling, budget.was_spent(), false);
        }
        let (portion, is_unseen) = match seen.place {
            Place::None => (Portion::Alone, false),
            Place::Ignored => {
                // A receiver may take it all the same, if it gets it: then it says so.
                if seen.is_doubtful && !self.settings.drops_ignored {
                    self.tracker.hold(seen, view, self.now);
                }
                (Portion::Alone, false)
            }
            // Whether the receiver takes the first or the second is not known.
            Place::Old if self.tracker.differs(seen, view.payload) => {
                is_ignored = true;
                (Portion::Alone, false)
            }
            Place::Old => (Portion::Elsewhere, false),
            Place::Next { skip }
                if !self.tracker.is_holding(seen.flow, seen.side) && seen.sure == view.payload.len() =>
            {
                is_ignored = skip > 0 && self.tracker.differs(seen, view.payload);
                (Portion::Next { skip }, false)
            }
            Place::Next { .. } | Place::Ahead if self.tracker.hold(seen, view, self.now) => {
                (Portion::Elsewhere, false)
            }
            Place::Next { skip } => (Portion::Next { skip }, seen.sure < view.payload.len()),
            // What cannot be held will never be seen in its stream.
            Place::Ahead => (Portion::Alone, true),
        };
        let payload =
            if let Portion::Next { .. } = portion { &view.payload[..seen.sure] } else { view.payload };
        let mut ruling = self.show(&passage, Shown { payload, portion }, &mut budget, host);
        if let Portion::Next { skip } = portion {
            self.tracker.advance(seen.flow, seen.side, payload.len() - skip);
        }
        let flow = self.tracker.table.get(seen.flow);
        let is_ending = seen.is_end || seen.has_ended;
        if ruling == Ruling::Go
            && (is_ending
                || flow.sides.iter().any(|side| side.held != 0 || side.is_finished)
                || flow.is_behind(1 - seen.side))
        {
            ruling = self.look_behind(&passage, seen, is_ignored, &mut budget, host);
        }
        self.reserve.keep(&budget);
        let verdict = self.judge_within(ruling, budget.was_spent() || is_unseen, is_ignored);
        self.lose(view, seen, ruling, verdict)
    }

    /// A segment that is dropped comes again, when its bytes are no news to the stream any more, and may have
    /// others behind them or say something else: it does not pass then either.
    fn lose(
        &mut self,
        view: &View<'_>,
        seen: Seen,
        ruling: Ruling,
        verdict: Result<(), Reason>,
    ) -> Result<(), Reason> {
        let flow = self.tracker.table.get_mut(seen.flow);
        let (length, first) = (view.payload.len(), view.tcp.seq.wrapping_add(seen.skip as u32));
        match verdict {
            Err(Reason::Rule | Reason::Overload) if seen.skip < length => {
                let taken = flow.sides[seen.side].next.wrapping_sub(first) as i32;
                if let Ok(taken @ 1..) = usize::try_from(taken) {
                    flow.lose(seen.side, first, taken.min(length - seen.skip));
                }
                verdict
            }
            Ok(()) if ruling == Ruling::Go && flow.is_lost(seen.side, view.tcp.seq, length) => {
                Err(Reason::Flow)
            }
            _ => verdict,
        }
    }

    /// The verdict on a packet that may have asked for more work than there is for it, or that its receiver
    /// ignores.
    fn judge_within(&mut self, ruling: Ruling, is_overloaded: bool, is_ignored: bool) -> Result<(), Reason> {
        self.tally.add(Count::Overloads, u64::from(is_overloaded));
        let otherwise = match () {
            () if is_overloaded && self.settings.drops_overload => Some(Reason::Overload),
            () if is_ignored && self.settings.drops_ignored => Some(Reason::Ignored),
            () => None,
        };
        self.judge(ruling, otherwise)
    }

    /// What waited for a segment: others that are held, behind it or behind a gap, and what a connection's
    /// end tells.
    #[inline(never)]
    pub(crate) fn look_behind(
        &mut self,
        passage: &Passage<'_>,
        seen: Seen,
        is_ignored: bool,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        let mut ruling = Ruling::Go;
        if !is_ignored {
            ruling = self.held(passage, seen, budget, host);
        }
        if ruling == Ruling::Go
            && let Some(is_gap) = self.tracker.acknowledged(seen)
        {
            ruling = self.behind_gap(passage, seen, is_gap, budget, host);
        }
        if ruling == Ruling::Go && seen.is_end {
            ruling = self.look_at_end(passage, seen, host);
        }
        if ruling == Ruling::Go && seen.has_ended {
            ruling = self.look_at_waiting(passage, seen, host);
        }
        if ruling == Ruling::Go {
            ruling = self.end_messages(passage, seen, host);
        }
        ruling
    }

    /// Held segments that the stream has come to.
    pub(crate) fn held(
        &mut self,
        passage: &Passage<'_>,
        seen: Seen,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        if self.tracker.table.get(seen.flow).sides[seen.side].held == 0 {
            return Ruling::Go;
        }
        while let Some(data) = self.tracker.due(seen.flow, seen.side) {
            budget.extend(data.len());
            let shown = Shown { payload: &data, portion: Portion::Held };
            let ruling = self.show(passage, shown, budget, host);
            self.tracker.advance(seen.flow, seen.side, data.len());
            if ruling != Ruling::Go {
                return ruling;
            }
        }
        Ruling::Go
    }

    /// The other side has acknowledged what it might not have taken, or what never came by here: its stream
    /// goes on with what is held.
    pub(crate) fn behind_gap(
        &mut self,
        passage: &Passage<'_>,
        seen: Seen,
        is_gap: bool,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        let view = passage.view;
        let reversed = view.reversed();
        let seen = Seen { side: 1 - seen.side, ..seen };
        if is_gap
            && let Some((session, share)) =
                self.tracker.sessions.get_mut(self.tracker.table.get(seen.flow).session)
        {
            let direction = if seen.side == 0 { Direction::ToServer } else { Direction::ToClient };
            session.gap(direction, share);
        }
        let passage = Passage { view: &reversed, flow: Some(seen), ..*passage };
        self.held(&passage, seen, budget, host)
    }
}
