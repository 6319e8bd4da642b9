//! What waited for bytes that never came: when its connection ends it is looked at as it is. These are
//! segments behind a gap, and rules about what must not come.

use crate::Dpi;
use crate::conditions::Context;
use crate::detect::{Carrier, Portion, Shown, Stream};
use crate::flow::tracker::Seen;
use crate::flow::{Fate, Flow, Side};
use crate::header::View;
use crate::message::Message;
use crate::metrics::Count;
use crate::rules::Direction;
use crate::ruling::Ruling;
use crate::way::Passage;
use alloc::vec::Vec;
use nf_sdk::Host;

impl Dpi {
    /// A reset has ended a connection. It goes on being followed, because whether the receiver got the reset
    /// is not known, and so what waits still does.
    pub(crate) fn look_at_waiting(&mut self, passage: &Passage<'_>, seen: Seen, host: &mut Host) -> Ruling {
        let flow = *self.tracker.table.get(seen.flow);
        let mut ruling = Ruling::Go;
        for side in 0..2 {
            if ruling == Ruling::Go {
                ruling = self.look_at_side(&flow, side, Some(passage), host);
            }
            self.tracker.table.get_mut(seen.flow).sides[side].is_told = true;
        }
        ruling
    }

    /// One side has sent its last byte: rules that waited for what must not come.
    pub(crate) fn look_at_end(&mut self, passage: &Passage<'_>, seen: Seen, host: &mut Host) -> Ruling {
        let flow = *self.tracker.table.get(seen.flow);
        let number = flow.sides[seen.side].window;
        if self.tracker.windows.get(number).is_none_or(|window| window.pending.is_empty()) {
            return Ruling::Go;
        }
        self.look_at_side(
            &Flow { sides: flow.sides.map(|side| Side { held: 0, ..side }), ..flow },
            seen.side,
            Some(passage),
            host,
        )
    }

    /// Flows that are gone.
    pub(crate) fn look_at_ended(&mut self, host: &mut Host) {
        while let Some(flow) = self.tracker.ended.pop() {
            for side in 0..2 {
                if flow.fate == Fate::Open {
                    self.look_at_side(&flow, side, None, host);
                }
            }
            if flow.fate == Fate::Open {
                for side in 0..2 {
                    self.end_message(&flow, side, None, host);
                }
            }
            self.tracker.release(&flow);
        }
    }

    /// The connection seems to end with the packet, in its direction or as a whole: what there is of messages
    /// may be all there will be.
    pub(crate) fn end_messages(&mut self, passage: &Passage<'_>, seen: Seen, host: &mut Host) -> Ruling {
        let flow = self.tracker.table.get(seen.flow);
        if flow.session == 0 || !self.detector.limits().reads {
            return Ruling::Go;
        }
        let flow = *flow;
        for side in [seen.side, 1 - seen.side] {
            if seen.has_ended || seen.is_end && side == seen.side {
                let ruling = self.end_message(&flow, side, Some(passage), host);
                if ruling != Ruling::Go {
                    return ruling;
                }
            }
        }
        Ruling::Go
    }

    /// What is looked at with one side's stream, `passage` being of the packet that ended it.
    fn passage_of<'v>(
        &self,
        view: &'v View<'v>,
        flow: &Flow,
        side: usize,
        passage: Option<&Passage<'_>>,
    ) -> Passage<'v> {
        Passage {
            view,
            time: passage.map_or(self.now, |passage| passage.time),
            ingress: usize::from(flow.sides[side].from & 1),
            from: flow.sides[side].from,
            flow: passage.and_then(|passage| passage.flow),
            ended: passage.is_none().then(|| self.tracker.id_of(flow)),
            is_established: true,
            is_ignored: false,
            is_loose: false,
        }
    }

    /// What there is of one side's message, `passage` being of the packet that ended it.
    fn end_message(
        &mut self,
        flow: &Flow,
        side: usize,
        passage: Option<&Passage<'_>>,
        host: &mut Host,
    ) -> Ruling {
        let limits = *self.detector.limits();
        let Some((session, share)) = self.tracker.sessions.get_mut(flow.session) else { return Ruling::Go };
        let view = flow.view(side);
        let direction = if side == 0 { Direction::ToServer } else { Direction::ToClient };
        let context = Context {
            view: &view,
            direction: Some(direction),
            is_established: true,
            judges_addresses: false,
            app: session.app(Some(direction)),
        };
        self.detector.begin();
        self.detector.forget();
        let window = self.tracker.windows.get(flow.sides[side].window);
        let end = flow.sides[side].position - window.map_or(0, |window| window.passed);
        let mut budget = self.reserve.budget(0);
        let detector = &mut self.detector;
        let mut sink = |message: &Message<'_>, waiting: &mut Vec<u32>| {
            // Nothing of it came with a payload that was shown now.
            let carrier = Carrier { payload: &[], window, from: u64::MAX, end };
            detector.message(&context, message, waiting, &carrier, &mut budget);
        };
        session.end((direction, passage.is_none()), &limits, share, &mut sink);
        self.reserve.keep(&budget);
        let passage = self.passage_of(&view, flow, side, passage);
        let ruling = self.conclude(&passage, &context, Portion::Held, host);
        self.tally.add(Count::Overloads, u64::from(budget.was_spent()));
        ruling
    }

    /// What one side of a connection has sent and is held, `passage` being of the packet that ended it.
    fn look_at_side(
        &mut self,
        flow: &Flow,
        side: usize,
        passage: Option<&Passage<'_>>,
        host: &mut Host,
    ) -> Ruling {
        let view = flow.view(side);
        let direction = if side == 0 { Direction::ToServer } else { Direction::ToClient };
        let context = Context {
            view: &view,
            direction: Some(direction),
            is_established: true,
            judges_addresses: false,
            app: self.tracker.sessions.get(flow.session).and_then(|session| session.app(Some(direction))),
        };
        let passage = self.passage_of(&view, flow, side, passage);
        let Side { window, position, held, is_told, .. } = flow.sides[side];
        if let Some(window) = self.tracker.windows.get_mut(window).filter(|window| !window.pending.is_empty())
        {
            self.detector.begin();
            let mut budget = self.reserve.budget(window.len());
            let end = position - window.passed;
            self.detector.finish(&context, window, end, &mut budget);
            self.reserve.keep(&budget);
            let ruling = self.conclude(&passage, &context, Portion::Held, host);
            self.tally.add(Count::Overloads, u64::from(budget.was_spent()));
            if ruling != Ruling::Go {
                return ruling;
            }
        }
        if is_told {
            return Ruling::Go;
        }
        // One for all of them: a sender makes thousands of a byte each.
        let mut budget = self.reserve.budget(0);
        let mut ruling = Ruling::Go;
        for (position, data) in self.tracker.reorder.runs(held) {
            self.detector.begin();
            self.tally.add(Count::Gaps, 1);
            budget.extend(data.len());
            let stream = Stream { window: None, position, skip: 0 };
            let shown = Shown { payload: &data, portion: Portion::Held };
            self.detector.detect(&context, shown, Some(stream), &mut budget);
            ruling = self.conclude(&passage, &context, Portion::Held, host);
            if ruling != Ruling::Go {
                break;
            }
        }
        self.reserve.keep(&budget);
        self.tally.add(Count::Overloads, u64::from(budget.was_spent()));
        ruling
    }
}
