//! The way of a batch.

use crate::header::{Class, Common, Header, KEY4, parse};
use crate::judge::Judge;
use crate::rule_set::Rules;
use crate::state;
use crate::tally::{Reason, Tally};
use crate::tracker::{Ahead, COMMON, SWEEP_PER_BATCH, Tracker, usual, usual_elsewhere};
use alloc::boxed::Box;
use core::net::IpAddr;
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::ticks::Ticks;
use nf_sdk::usual::onward;
use nf_sdk::{Batch, Host, MAX_BATCH, Nanos, Packet, PacketTime, StateReader, StateWriter, Verdict};

/// How often the table is swept when no packets come.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(250);
/// Most groups of a table that the timer sweeps at a time.
const SWEEP_PER_TIMER: usize = 1 << 15;

/// What is kept of the packets of a batch.
struct Window {
    /// Each is reached by an address of its own: the fields of one are then at fixed distances from it, which
    /// the sandbox's loads and stores include, while distances in an array are added one by one.
    ahead: [Box<Ahead<[u32; KEY4]>>; MAX_BATCH],
    /// The slots that probably have the keys.
    slots: [u32; MAX_BATCH],
}

/// A filter between interface 0, inside, and interface 1, outside, that counts `N` fates of packets.
pub struct Filter<R: Rules, const N: usize> {
    /// Rules, fragments, and what passes without either.
    pub judge: Judge<R>,
    /// Connections; `None`: rules alone decide.
    pub tracker: Option<Tracker>,
    /// Counts.
    pub tally: Tally<N>,
    time: PacketTime,
    ticks: Ticks,
    timer_is_set: bool,
    window: Box<Window>,
    /// What the look-ahead reads comes here: loads without a use of their result are left out by compilers.
    touched: u32,
}

impl<R: Rules, const N: usize> Filter<R, N> {
    /// A filter that has seen nothing.
    pub fn new(judge: Judge<R>, tracker: Option<Tracker>) -> Filter<R, N> {
        Filter {
            judge,
            tracker,
            tally: Tally::default(),
            time: PacketTime::default(),
            ticks: Ticks::default(),
            timer_is_set: false,
            window: Box::new(Window {
                ahead: core::array::from_fn(|_| Box::default()),
                slots: [0; MAX_BATCH],
            }),
            touched: 0,
        }
    }

    /// Moves time on: that of the packets' reception, and the same in ticks.
    #[inline(always)]
    fn advance(&mut self, batch: &Batch<'_>, now: Nanos) -> (Nanos, u32) {
        self.time.see(batch.newest());
        self.time.seen(now);
        let time = self.time.latest();
        let tick = self.ticks.at(time);
        self.judge.now = tick;
        (time, tick)
    }

    /// Rules alone decide.
    #[inline(always)]
    pub fn process_stateless(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        self.advance(batch, now);
        let Filter { judge, tally, .. } = self;
        let (mut accepted, mut denied) = (0, 0);
        let (packets, host) = batch.split();
        for mut packet in packets {
            let ingress = u32::from(packet.ingress() & 1);
            let onward = onward(ingress);
            let verdict = match Common::new(packet.bytes(), &judge.least) {
                Some(common) => {
                    let accept = judge.rules.decide4(&common.view(ingress));
                    accepted += u32::from(accept);
                    denied += u32::from(!accept);
                    if accept { onward } else { Verdict::Drop(Reason::Denied as u16).encode() }
                }
                None => {
                    let judgement = judge.any(packet.bytes(), packet.record().snapped(), ingress);
                    if judgement.is_err() && judge.fragments.hold(&mut packet, host, judge.now) {
                        continue;
                    }
                    tally.judge(judgement, onward)
                }
            };
            packet.verdict_encoded(verdict);
        }
        tally.add(accepted, denied);
        tally.no_longer_waiting(judge.fragments.waiting.give_up_decided(batch.host()));
        self.set_timer(batch.host(), now);
        self.tally.flush(batch.host());
    }

    /// Packets go by their flows. One for which `may_be_usual` is false, by its bytes and its interface, is
    /// shown to `unusual`, as is every one that is not the usual packet of a known flow.
    #[inline(always)]
    pub fn process<E: Into<u16>>(
        &mut self,
        batch: &mut Batch<'_>,
        now: Nanos,
        may_be_usual: impl Fn(&[u8], u32) -> bool,
        unusual: impl FnMut(&mut Judge<R>, &mut Tracker, &Header, &[u8]) -> Result<(), E>,
    ) {
        let (time, tick) = self.advance(batch, now);
        let Filter { judge, tracker: Some(tracker), tally, window, .. } = self else { return };
        tracker.advance(time, tick, SWEEP_PER_BATCH);
        self.touched ^= look_up(tracker, judge, batch, window, may_be_usual);
        track(tracker, judge, tally, batch, window, unusual);
        tally.no_longer_waiting(judge.fragments.waiting.give_up_decided(batch.host()));
        tally.flush_turnover(tracker.turnover(), batch.host());
        self.set_timer(batch.host(), now);
        self.tally.flush(batch.host());
    }

    /// Sweeps when no packets come, and drops fragments that have waited for too long.
    pub fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.timer_is_set = false;
        let time = self.time.at(now);
        let tick = self.ticks.at(time);
        if let Some(tracker) = &mut self.tracker {
            tracker.advance(time, tick, SWEEP_PER_TIMER);
            self.tally.flush_turnover(tracker.turnover(), host);
        }
        self.give_up(host, tick, false);
        self.set_timer(host, now);
    }

    /// The program stops: fragments that wait for their first one are dropped.
    pub fn finish(&mut self, host: &mut Host) {
        self.give_up(host, self.judge.now, true);
    }

    fn give_up(&mut self, host: &mut Host, tick: u32, all: bool) {
        self.tally.no_longer_waiting(self.judge.fragments.waiting.give_up_expired(host, tick, all));
        self.tally.flush(host);
    }

    #[inline(always)]
    fn set_timer(&mut self, host: &mut Host, now: Nanos) {
        let has_flows = self.tracker.as_ref().is_some_and(|tracker| tracker.flows() > 0);
        if !self.timer_is_set && (has_flows || self.judge.fragments.waiting.count() > 0) {
            self.timer_is_set = true;
            host.timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
    }

    /// Writes every live flow; false when the host takes no more.
    pub fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        // Without tracking there is nothing to know, and nothing is lost.
        self.tracker.as_ref().is_none_or(|tracker| state::export(tracker, out))
    }

    /// Takes over flows, with `recheck` those alone whose opening packet the rules accept. False, and there
    /// are none, when an entry is not what [`Filter::export_state`] writes.
    pub fn import_state(&mut self, recheck: bool, entries: &mut StateReader<'_>) -> bool {
        let rules = recheck.then_some(&self.judge.rules);
        match &mut self.tracker {
            Some(tracker) => state::import(tracker, rules, entries),
            None => state::pass_over(entries),
        }
    }

    /// Ends the flows whose opening packet the rules do not accept any more, of those whose outside end
    /// `concerns`.
    pub fn end_denied(&mut self, concerns: impl Fn(IpAddr) -> bool) {
        if let Some(tracker) = &mut self.tracker {
            state::end_denied(tracker, &self.judge.rules, concerns);
        }
    }
}

/// Reads all packets, then finds out where their flows probably are and has those places fetched into the
/// cache.
#[inline(always)]
fn look_up<R: Rules>(
    tracker: &Tracker,
    judge: &Judge<R>,
    batch: &mut Batch<'_>,
    window: &mut Window,
    may_be_usual: impl Fn(&[u8], u32) -> bool,
) -> u32 {
    let count = batch.len();
    for (packet, ahead) in batch.packets().zip(&mut window.ahead) {
        let ingress = u32::from(packet.ingress() & 1);
        let ahead = &mut **ahead;
        ahead.ingress = ingress;
        let common = Common::new(packet.bytes(), &judge.least);
        if let Some(common) = common.filter(|_| may_be_usual(packet.bytes(), ingress)) {
            // What was stored word by word is dear to read as a whole: the hash is made of what is at hand.
            let key = common.key(ingress);
            ahead.hash = tracker.v4.hash(&key);
            ahead.key = key;
            let (flags, end, ack) = common.progress();
            (ahead.flags, ahead.end, ahead.ack) = (u32::from(flags) | COMMON, end, ack);
        } else {
            ahead.flags = 0;
            look_up_other(tracker, &judge.tunnels, &packet, ingress, ahead);
        }
    }
    for (ahead, slot) in window.ahead.iter().zip(&mut window.slots).take(count) {
        *slot = tracker.v4.probable(ahead.hash);
    }
    let mut touched = 0;
    // A loop of its own, and short: the processor then has all of the batch's reads on their way at a time.
    for eight in window.slots.chunks_exact(8).take(count.div_ceil(8)) {
        touched = eight.iter().fold(touched, |touched, slot| touched ^ tracker.v4.touch(*slot));
    }
    touched
}

/// Reads a packet that is not common.
#[inline(never)]
fn look_up_other(
    tracker: &Tracker,
    tunnels: &Tunnels,
    packet: &Packet<'_>,
    ingress: u32,
    ahead: &mut Ahead<[u32; KEY4]>,
) {
    let header = &mut ahead.header;
    parse(packet.bytes(), packet.record().snapped(), ingress, tunnels, header);
    if header.class == Class::Flow6 {
        header.hash6 = tracker.v6.hash(&header.key);
        header.slot6 = tracker.v6.probable(header.hash6);
        ahead.end = tracker.v6.touch(header.slot6);
    }
}

/// Each packet goes by its flow's state.
#[inline(always)]
fn track<R: Rules, E: Into<u16>, const N: usize>(
    tracker: &mut Tracker,
    judge: &mut Judge<R>,
    tally: &mut Tally<N>,
    batch: &mut Batch<'_>,
    window: &mut Window,
    mut unusual: impl FnMut(&mut Judge<R>, &mut Tracker, &Header, &[u8]) -> Result<(), E>,
) {
    let mut accepted = 0;
    let (packets, host) = batch.split();
    for ((mut packet, ahead), slot) in packets.zip(&mut window.ahead).zip(&window.slots) {
        let ahead = &mut **ahead;
        // `usual` asks for the ACK flag or what stands for it, which a packet that is not common does not
        // have.
        let is_usual = usual(&mut tracker.v4, &tracker.terms, ahead, *slot)
            || ahead.flags != 0 && usual_elsewhere(&mut tracker.v4, &tracker.terms, ahead);
        let verdict = if is_usual {
            accepted += 1;
            onward(ahead.ingress)
        } else {
            if ahead.flags != 0 {
                // A common packet is there as a whole.
                parse(packet.bytes(), 0, ahead.ingress, &judge.tunnels, &mut ahead.header);
            }
            judge.note(&ahead.header);
            let judgement = unusual(judge, tracker, &ahead.header, packet.bytes());
            if judgement.is_err() && judge.fragments.hold(&mut packet, host, judge.now) {
                continue;
            }
            tally.judge(judgement, onward(ahead.ingress))
        };
        packet.verdict_encoded(verdict);
    }
    tally.add(accepted, 0);
}
