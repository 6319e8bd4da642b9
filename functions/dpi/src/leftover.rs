//! What waited for bytes that never came: when its connection ends it is looked at as it is. These are segments
//! behind a gap, and rules about what must not come.

use crate::budget::Budget;
use crate::detect::{Context, Portion, Stream};
use crate::flow::tracker::Seen;
use crate::flow::{Fate, Flow, Side};
use crate::metrics::Count;
use crate::rules::Direction;
use crate::{Dpi, Passage, Ruling};
use nf_sdk::Host;

impl Dpi {
    /// A reset has ended a connection. It goes on being followed, because whether the receiver got the reset is
    /// not known, and so what waits still does.
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
            self.tracker.release(&flow);
        }
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
        };
        let passage = Passage {
            view: &view,
            time: passage.map_or(self.now, |passage| passage.time),
            ingress: usize::from(flow.sides[side].from & 1),
            flow: passage.and_then(|passage| passage.flow),
            ended: passage.is_none().then_some(flow.id),
            is_established: true,
            is_ignored: false,
        };
        let Side { window, position, held, is_told, .. } = flow.sides[side];
        if let Some(window) = self.tracker.windows.get_mut(window).filter(|window| !window.pending.is_empty())
        {
            self.detector.begin();
            let mut budget = Budget::new(window.len());
            let matched = self.detector.finish(&context, window, position, &mut budget);
            self.matched.clear();
            self.matched.extend_from_slice(matched);
            let ruling = self.rule(&passage, &context, Portion::Held, host);
            self.tally.add(Count::Overloads, u64::from(budget.was_spent()));
            if ruling != Ruling::Go {
                return ruling;
            }
        }
        if is_told {
            return Ruling::Go;
        }
        for (position, data) in self.tracker.reorder.runs(held) {
            self.detector.begin();
            self.tally.add(Count::Gaps, 1);
            let mut budget = Budget::new(data.len());
            let stream = Stream { window: None, position, skip: 0 };
            let matched = self.detector.detect(&context, &data, Portion::Held, Some(stream), &mut budget);
            self.matched.clear();
            self.matched.extend_from_slice(matched);
            let ruling = self.rule(&passage, &context, Portion::Held, host);
            self.tally.add(Count::Overloads, u64::from(budget.was_spent()));
            if ruling != Ruling::Go {
                return ruling;
            }
        }
        Ruling::Go
    }
}
