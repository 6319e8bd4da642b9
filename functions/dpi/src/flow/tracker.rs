//! Flows, windows and held segments together, and their ends.

use super::table::FlowTable;
use super::tcp::{self, Manner, Place};
use super::windows::Windows;
use super::{Flow, Side, Stage, key};
use crate::header::flag::SYN;
use crate::header::{Tcp, View};
use crate::message::{Session, Sessions};
use crate::settings::Settings;
use alloc::vec::Vec;
use nf_sdk::keyed_hash::KeyedHash;
use nf_sdk::reorder::{Holder, Reorder, Segment};
use nf_sdk::{Nanos, Secret};
use packet::protocol;

/// In how many sweeps the whole table is swept.
const SWEEPS: usize = 32;
/// How often a direction is looked for, with each sweep, that holds segments in vain.
const VICTIMS: usize = 64;
/// Idle time of a connection that both ends have ended. Whether a reset arrived is not known.
const CLOSED_TIMEOUT: Nanos = Nanos::from_secs(10);
/// The number of a flow is not made yet.
const UNMADE: u64 = 1 << 63;
/// Stands for the time before the first batch has told it.
const UNKNOWN: Nanos = Nanos(u64::MAX / 2);

/// How often something happened to flows and streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Flows that began.
    pub opened: u64,
    /// Flows that ended by time, or with their connection.
    pub expired: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Streams whose last bytes made room for others'.
    pub windows_evicted: u64,
    /// Segments that came too early and are held.
    pub held: u64,
    /// Segments that came too early and could not be held, or were held in vain.
    pub held_lost: u64,
    /// Places where a stream goes on without bytes that never came.
    pub gaps: u64,
    /// Segments with nothing new.
    pub repeated: u64,
    /// Segments that their receiver ignores.
    pub ignored: u64,
    /// Segments that say something else than others for the same bytes.
    pub conflicts: u64,
}

/// What a packet is to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of the flow.
    pub flow: u32,
    /// 0 from the client, 1 from the server.
    pub side: usize,
    /// What its payload is to a stream.
    pub place: Place,
    /// How many of its bytes lie before where the stream is.
    pub skip: usize,
    /// Number in the stream of the first of the others.
    pub at: u64,
    /// How many of its bytes the receiver certainly takes.
    pub sure: usize,
    /// A reset has ended the connection with it.
    pub has_ended: bool,
    /// It is its side's end.
    pub is_end: bool,
    /// Both sides had agreed before it, or with it where there is no handshake.
    pub was_established: bool,
    /// The receiver ignores it as far as can be told.
    pub is_doubtful: bool,
}

/// All that is known of flows.
pub struct Tracker {
    /// Flows by key.
    pub table: FlowTable,
    /// Last bytes of streams.
    pub windows: Windows,
    /// Segments that came too early.
    pub reorder: Reorder,
    /// Messages of applications, and bits of flows.
    pub sessions: Sessions,
    /// How often something happened.
    pub turnover: Turnover,
    /// Flows that are gone, with segments that were held in vain: to be looked at and given back.
    pub ended: Vec<Flow>,
    manner: Manner,
    /// Connections are told apart from what others send in their name by the interface that it comes by.
    tells_sides: bool,
    /// Interfaces that packets came by, a bit each.
    interfaces: u32,
    timeouts: [Nanos; 3],
    /// Tells clients apart for whom memory is taken.
    sources: KeyedHash<1>,
    /// Makes the numbers that alerts tell.
    secret: Secret,
    /// Some packet has announced an urgent byte.
    has_urgent: bool,
    has_begun: bool,
}

impl Tracker {
    /// Takes memory; `None` when there is not as much. `window`: bytes that are kept of a stream. `secret`
    /// keys the tables.
    pub fn new(settings: &Settings, window: usize, secret: &Secret) -> Option<Tracker> {
        let held = settings.stream_memory / 4;
        Some(Tracker {
            table: FlowTable::new(settings.max_flows, secret.seed("flows"))?,
            windows: Windows::new(window, settings.stream_memory - held),
            reorder: Reorder::new(settings.reorder_limit, held, settings.overlap),
            ended: Vec::new(),
            sessions: Sessions::new(settings.message_memory),
            turnover: Turnover::default(),
            manner: Manner { pick_up: settings.pick_up, is_between: false },
            tells_sides: settings.tells_sides,
            interfaces: 0,
            timeouts: [settings.opening_timeout, settings.established_timeout, settings.other_timeout],
            sources: KeyedHash::new(secret.seed("sources")),
            secret: *secret,
            has_urgent: false,
            has_begun: false,
        })
    }

    /// Packets come: what the time is, is known from now on.
    #[inline]
    pub fn begin(&mut self, now: Nanos) {
        if !self.has_begun {
            self.has_begun = true;
            // Flows from elsewhere were taken over at a time that was not known.
            self.table.for_each(|flow| flow.last = Nanos(now.0.saturating_sub(UNKNOWN.since(flow.last).0)));
        }
    }

    /// The time, as far as it is known.
    pub fn time(&self, now: Nanos) -> Nanos {
        if self.has_begun { now } else { UNKNOWN }
    }

    /// How long a flow may be idle.
    fn timeout(timeouts: &[Nanos; 3], flow: &Flow) -> Nanos {
        match (flow.protocol() == protocol::TCP, flow.stage) {
            (true, Stage::Established) => timeouts[1],
            (true, Stage::Closed) if flow.sides.iter().all(|side| side.is_finished) => CLOSED_TIMEOUT,
            (true, _) => timeouts[0],
            _ => timeouts[2],
        }
    }

    /// Finds a packet's flow, or makes it, and takes the packet's segment. `from`: the interface.
    pub fn packet(&mut self, view: &View<'_>, from: u16, now: Nanos) -> Seen {
        let (key, is_second) = key(view);
        self.interfaces |= 1 << from.min(31);
        // Where all packets come by one interface, as from a mirror port, it tells nothing.
        self.manner.is_between = self.tells_sides && !self.interfaces.is_power_of_two();
        let hash = self.table.hash(&key);
        let number = match self.table.find(&key, hash) {
            Some(number) => {
                let flow = self.table.get(number);
                if FlowTable::is_over(flow, now, Tracker::timeout(&self.timeouts, flow)) {
                    let flow = *flow;
                    self.end(flow);
                    self.turnover.expired += 1;
                    self.turnover.opened += 1;
                    *self.table.get_mut(number) = Tracker::fresh(flow.key, is_second, now);
                }
                number
            }
            None => {
                let (number, evicted) = self.table.insert(Tracker::fresh(key, is_second, now), hash);
                self.turnover.opened += 1;
                if let Some(flow) = evicted {
                    self.end(flow);
                    self.turnover.evicted += 1;
                }
                number
            }
        };
        let flow = self.table.get_mut(number);
        flow.last = now;
        if view.protocol != protocol::TCP {
            let side = usize::from(flow.client_is_second != is_second);
            (flow.sides[side].is_seen, flow.sides[side].from) = (true, from);
            let was_established = flow.is_established();
            return Seen {
                flow: number,
                side,
                place: Place::None,
                skip: 0,
                at: 0,
                sure: 0,
                has_ended: false,
                is_end: false,
                was_established,
                is_doubtful: false,
            };
        }
        let was_established = flow.stage >= Stage::Established;
        // Only a SYN begins a connection in the place of another one.
        let before = if view.tcp.flags & SYN != 0 { Some(*flow) } else { None };
        let segment = tcp::Segment { is_second, from, tcp: view.tcp, length: view.payload.len() };
        let step = tcp::step(flow, segment, self.manner);
        let side = &mut flow.sides[step.side];
        side.is_seen |= step.place != Place::Ignored;
        if !side.is_pinned {
            side.from = from;
        }
        if step.has_begun
            && let Some(before) = before
        {
            flow.session = 0;
            for side in &mut flow.sides {
                (side.window, side.held) = (0, 0);
            }
            self.end(before);
        }
        match step.place {
            Place::Old => self.turnover.repeated += 1,
            Place::Ignored => self.turnover.ignored += 1,
            Place::None | Place::Next { .. } | Place::Ahead => {}
        }
        let tcp::Step { side, place, skip, at, sure, was_reset: has_ended, is_end, is_doubtful, .. } = step;
        Seen { flow: number, side, place, skip, at, sure, has_ended, is_end, was_established, is_doubtful }
    }

    /// Whether what became of a flow concerns a packet of it.
    pub fn concerns(&self, seen: Seen, from: u16) -> bool {
        !self.manner.is_between || self.table.get(seen.flow).bars(seen.side, from)
    }

    fn fresh(key: super::Key, is_second: bool, now: Nanos) -> Flow {
        Flow { key, id: now.0 | UNMADE, client_is_second: is_second, last: now, ..Flow::default() }
    }

    /// A flow's number for alerts: what JSON's readers take for a whole number without loss, another one for
    /// a flow that comes again, and none that tells anything of the tables' secrets.
    pub fn id_of(&self, flow: &Flow) -> u64 {
        if flow.id & UNMADE == 0 {
            return flow.id;
        }
        let [a, b, c, d, e, f] = flow.key;
        self.secret.number(&[a, b, c, d, e, f, flow.id]) >> 11 | 1
    }

    /// The same of a flow in the table, which keeps it.
    pub fn id(&mut self, flow: u32) -> u64 {
        let id = self.id_of(self.table.get(flow));
        self.table.get_mut(flow).id = id;
        id
    }

    /// Gives back what a flow holds, at once when no segment and no rule waits.
    fn end(&mut self, flow: Flow) {
        let waits = |side: &Side| {
            side.held != 0 || self.windows.get(side.window).is_some_and(|window| !window.pending.is_empty())
        };
        let is_reading = self.sessions.get(flow.session).is_some_and(Session::is_reading);
        if is_reading || flow.sides.iter().any(waits) {
            self.ended.push(flow);
        } else {
            self.release(&flow);
        }
    }

    /// Gives back what a flow holds.
    pub fn release(&mut self, flow: &Flow) {
        self.sessions.give_back(flow.session);
        for side in &flow.sides {
            self.windows.give_back(side.window);
            let mut held = side.held;
            self.turnover.held_lost += self.reorder.give_back(&mut held) as u64;
        }
    }

    /// Sees to it that the stream has a window, if there can be one; false when it had one with bytes, which
    /// were forgotten for another stream's.
    #[inline]
    pub fn keep_window(&mut self, flow: u32, side: usize, now: Nanos) -> bool {
        let number = self.table.get(flow).sides[side].window;
        if number == 0 {
            return self.take_window(flow, side, now);
        }
        self.windows.touch(number, now);
        true
    }

    #[inline(never)]
    fn take_window(&mut self, flow: u32, side: usize, now: Nanos) -> bool {
        let source = self.source(flow);
        let Some((number, robbed)) = self.windows.take((flow, side), source, now) else { return true };
        if let Some(robbed) = robbed {
            let (flow, side) = robbed.owner;
            let side = &mut self.table.get_mut(flow).sides[side];
            (side.window, side.is_robbed) = (0, robbed.had_bytes);
            self.turnover.windows_evicted += 1;
        }
        let side = &mut self.table.get_mut(flow).sides[side];
        side.window = number;
        !core::mem::take(&mut side.is_robbed)
    }

    /// Tells the flow's client apart from others, as far as memory is shared out by it.
    fn source(&self, flow: u32) -> u8 {
        self.sources.of(&[self.table.get(flow).client()]) as u8
    }

    /// Notes the urgent byte that a segment announces: as Linux has it, there is one at a time, the last that
    /// was announced, and an announcement may come before the byte.
    #[cold]
    pub fn announce(&mut self, seen: Seen, tcp: Tcp, now: Nanos) {
        let Side { next, position, .. } = self.table.get(seen.flow).sides[seen.side];
        let place = tcp.seq.wrapping_add(u32::from(tcp.urgent.saturating_sub(1)));
        let Ok(ahead) = u64::try_from(place.wrapping_sub(next) as i32) else { return };
        self.keep_window(seen.flow, seen.side, now);
        let number = self.table.get(seen.flow).sides[seen.side].window;
        if let Some(window) = self.windows.get_mut(number) {
            self.has_urgent = true;
            window.urgent = window.urgent.max(Some(position + ahead));
        }
    }

    /// Where the urgent byte is among the next `length` bytes of a stream, if it is: then it is announced no
    /// longer.
    #[inline]
    pub fn take_urgent(&mut self, flow: u32, side: usize, length: usize) -> Option<usize> {
        if !self.has_urgent {
            return None;
        }
        let Side { window, position, .. } = self.table.get(flow).sides[side];
        let urgent = &mut self.windows.get_mut(window)?.urgent;
        let ahead = usize::try_from(urgent.as_ref()?.checked_sub(position)?).ok()?;
        if ahead >= length {
            return None;
        }
        *urgent = None;
        Some(ahead)
    }

    /// The urgent byte of a stream is passed.
    pub fn pass_urgent(&mut self, flow: u32, side: usize) {
        let number = self.table.get(flow).sides[side].window;
        if let Some(window) = self.windows.get_mut(number) {
            window.passed += 1;
        }
    }

    /// The flow's session, taken if it has none; 0 when there can be none.
    pub fn session(&mut self, flow: u32) -> u32 {
        let session = self.table.get(flow).session;
        if session != 0 {
            return session;
        }
        let source = self.source(flow);
        let session = self.sessions.take(source).unwrap_or(0);
        self.table.get_mut(flow).session = session;
        session
    }

    /// Keeps the new bytes of a segment until what is missing before them has come, or until the receiver
    /// acknowledges those that it may not take; false when there is no room for the first of them.
    pub fn hold(&mut self, seen: Seen, view: &View<'_>, now: Nanos) -> bool {
        let holder = Holder { flow: seen.flow, side: seen.side, source: self.source(seen.flow), last: now };
        let (sure, doubtful) = view.payload.split_at(seen.sure.max(seen.skip).min(view.payload.len()));
        let sure = sure.get(seen.skip..).unwrap_or_default();
        let first = self.hold_part(seen, Segment { at: seen.at, data: sure, is_doubtful: false }, holder);
        let at = seen.at + sure.len() as u64;
        let second = self.hold_part(seen, Segment { at, data: doubtful, is_doubtful: true }, holder);
        if self.reorder.is_short() {
            self.give_up_held(now);
        }
        first.or(second).unwrap_or(true)
    }

    /// Whether a part is kept; `None` when there is nothing of it.
    fn hold_part(&mut self, seen: Seen, segment: Segment<'_>, holder: Holder) -> Option<bool> {
        if segment.data.is_empty() {
            return None;
        }
        let side = &mut self.table.get_mut(seen.flow).sides[seen.side];
        let Some(inserted) = self.reorder.hold(&mut side.held, side.position, segment, holder) else {
            self.turnover.held_lost += 1;
            return Some(false);
        };
        side.is_told = false;
        self.turnover.held += u64::from(seen.place == Place::Ahead);
        self.turnover.conflicts += u64::from(inserted.differs);
        Some(true)
    }

    /// Has a direction give up what it holds that is not waited for any longer: it goes with
    /// [`Tracker::ended`], to be looked at as it is.
    fn give_up_held(&mut self, now: Nanos) {
        let Some((number, Holder { flow, side, .. })) = self.reorder.victim(now) else { return };
        let flow = self.table.get_mut(flow);
        if flow.sides[side].held != number {
            // Of a flow that is gone, and is looked at anyway.
            return;
        }
        let mut gone = Flow { session: 0, ..*flow };
        for side in &mut gone.sides {
            (side.window, side.held) = (0, 0);
        }
        gone.sides[side].held = core::mem::take(&mut flow.sides[side].held);
        self.ended.push(gone);
    }

    /// Whether bytes come again that are not acknowledged, and say something else than those that came first,
    /// as far as these are still known.
    pub fn differs(&mut self, seen: Seen, payload: &[u8]) -> bool {
        let side = &self.table.get(seen.flow).sides[seen.side];
        let unacknowledged =
            usize::try_from(side.position.saturating_sub(side.acknowledged())).unwrap_or(usize::MAX);
        let from = seen.skip.saturating_sub(unacknowledged);
        let again = payload.get(from..seen.skip.min(payload.len())).unwrap_or_default();
        let window = side.window;
        let differs =
            self.windows.get_mut(window).is_some_and(|window| window.differs(seen.skip - from, again));
        self.turnover.conflicts += u64::from(differs);
        differs
    }

    /// Whether segments of a stream are held.
    pub fn is_holding(&self, flow: u32, side: usize) -> bool {
        self.table.get(flow).sides[side].held != 0
    }

    /// Moves a stream on over so many bytes.
    pub fn advance(&mut self, flow: u32, side: usize, bytes: usize) {
        let side = &mut self.table.get_mut(flow).sides[side];
        side.next = side.next.wrapping_add(bytes as u32);
        side.position += bytes as u64;
    }

    /// The next held segment of a stream that goes on where the stream is; only what is new of it.
    pub fn due(&mut self, flow: u32, side: usize) -> Option<Vec<u8>> {
        let side = &mut self.table.get_mut(flow).sides[side];
        let acknowledged = side.acknowledged();
        while let Some((at, mut data)) = self.reorder.due(side.held, side.position, acknowledged) {
            let skip = usize::try_from(side.position - at).unwrap_or(usize::MAX);
            if skip < data.len() {
                data.drain(..skip);
                return Some(data);
            }
        }
        self.reorder.tidy(&mut side.held);
        None
    }

    /// What the other side acknowledges has arrived, whether it came by here or not: a stream that waits for
    /// it goes on, behind the gap if there is one. `None` when there is nothing to go on with, else whether
    /// there is a gap.
    pub fn acknowledged(&mut self, seen: Seen) -> Option<bool> {
        let flow = self.table.get_mut(seen.flow);
        let side = &mut flow.sides[1 - seen.side];
        if flow.stage < Stage::Established || seen.place == Place::Ignored {
            return None;
        }
        let acknowledged = side.acknowledged();
        // Without anything that is held, what was acknowledged is known as far as that alone.
        let first = match self.reorder.first(side.held) {
            Some(first) => first,
            None if side.is_finished => return None,
            None if acknowledged > side.position => acknowledged,
            None => return None,
        };
        // Behind what is held, an acknowledgement tells nothing.
        if acknowledged < first {
            return None;
        }
        let gap = first.saturating_sub(side.position);
        if gap > 0 {
            side.next = side.next.wrapping_add(gap as u32);
            side.position = first;
            self.turnover.gaps += 1;
            if let Some(window) = self.windows.get_mut(side.window) {
                window.clear();
            }
        }
        Some(gap > 0)
    }

    /// Takes out flows whose time is over, of a part of the table.
    pub fn sweep(&mut self, now: Nanos) {
        let groups = self.table.groups().div_ceil(SWEEPS);
        let timeouts = self.timeouts;
        let mut ended = Vec::new();
        let is_over = |flow: &Flow| FlowTable::is_over(flow, now, Tracker::timeout(&timeouts, flow));
        self.table.sweep(groups, is_over, |flow| ended.push(flow));
        self.turnover.expired += ended.len() as u64;
        for flow in ended {
            self.end(flow);
        }
        for _ in 0..VICTIMS {
            self.give_up_held(now);
        }
    }

    /// Takes out every flow.
    pub fn clear(&mut self) {
        let mut all = core::mem::take(&mut self.ended);
        self.table.sweep(self.table.groups(), |_| true, |flow| all.push(flow));
        for flow in &all {
            self.release(flow);
        }
    }

    /// Puts in a flow from elsewhere; false when it is there.
    pub fn put(&mut self, flow: Flow) -> bool {
        let hash = self.table.hash(&flow.key);
        if self.table.find(&flow.key, hash).is_some() {
            return false;
        }
        if let (_, Some(evicted)) = self.table.insert(flow, hash) {
            self.end(evicted);
            self.turnover.evicted += 1;
        }
        true
    }
}
