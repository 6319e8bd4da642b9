//! The function: each packet goes to the totals and to the flow table.

use crate::config::Settings;
use crate::exporter::Exporter;
use crate::flow_id::FlowId;
use crate::flow_table::{FlowTable, NONE};
use crate::sighting;
use crate::totals::Totals;
use crate::tracks::{Origin, Tracks};
use crate::{report, state};
use alloc::string::String;
use nf_sdk::{
    Batch, Config, Error, Host, MAX_BATCH, Nanos, NetworkFunction, PacketTime, Severity, StateReader,
    StateWriter, Verdict,
};

/// A packet on its way to the flow table.
#[derive(Clone, Copy, Default)]
struct Pending {
    flow: FlowId,
    hash: u64,
    bytes: u64,
    /// The entry that seems to be the flow's; [`NONE`] when that is not known, or there is none.
    likely: u32,
    /// Only with a collector: when it came, in milliseconds, and how.
    ms: u64,
    origin: Origin,
}

/// Verdicts by the interface that a packet came in by: from one side to the other, and none for what comes
/// back from the collector's.
const ONWARD: [u32; 3] =
    [Verdict::Interface(1).encode(), Verdict::Interface(0).encode(), Verdict::Drop(0).encode()];

const MILLISECOND: u64 = 1_000_000;

/// Flows from which on a table does not fit into the caches next to the processor: looking ahead pays.
const LARGE: usize = 4096;

/// An instance of the function.
pub struct Monitor {
    settings: Settings,
    totals: Totals,
    table: FlowTable,
    timer_set: bool,
    time: PacketTime,
    /// When the next line is logged.
    next_line: Option<Nanos>,
    exporter: Option<Exporter>,
    pending: [Pending; MAX_BATCH],
    /// What the look-ahead reads comes here: loads without a use of their result are left out by compilers.
    touched: u32,
}

impl Monitor {
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn table(&self) -> &FlowTable {
        &self.table
    }

    pub(crate) fn exporter(&self) -> Option<&Exporter> {
        self.exporter.as_ref()
    }

    /// Adds what another instance saw.
    pub(crate) fn merge(&mut self, other: &state::State) {
        self.totals.merge(&other.totals);
        self.table.merge(&other.flows, other.floor);
    }
}

impl NetworkFunction for Monitor {
    fn new(config: &Config) -> Result<Monitor, Error> {
        let settings = Settings::read(config)?;
        let mut table = FlowTable::new(settings.flows, config.secret()?.seed("flows"))
            .ok_or_else(|| Error::refused(&["not enough memory for the table of flows"]))?;
        if settings.ipfix.is_some() {
            table.track();
        }
        Ok(Monitor {
            totals: Totals::new(),
            table,
            timer_set: false,
            time: PacketTime::default(),
            next_line: None,
            exporter: settings.ipfix.map(Exporter::new),
            pending: [Pending::default(); MAX_BATCH],
            touched: 0,
            settings,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        if let Some(first) = batch.packets().next() {
            self.time.see(first.timestamp());
            self.totals.at(self.time.latest());
        }
        let mut sooner = false;
        if self.exporter.is_none() {
            self.count::<false>(batch);
        } else {
            sooner = self.count::<true>(batch);
        }
        self.time.seen(now);
        self.totals.at(self.time.latest());
        if !self.timer_set && self.settings.interval.is_some() {
            self.first_line(batch.host());
        }
        if sooner {
            self.set_timer(batch.host());
        }
    }

    fn finish(&mut self, host: &mut Host, now: Nanos) -> bool {
        let now = self.time.at(now);
        self.exporter.as_mut().is_some_and(|exporter| exporter.finish(&mut self.table, host, now))
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        let now = self.time.at(now);
        if let Some(interval) = self.settings.interval
            && self.next_line.is_none_or(|line| line <= now)
        {
            host.log(Severity::Info, &report::line(self));
            self.next_line = Some(now.saturating_add(interval));
        }
        if let Some(exporter) = &mut self.exporter
            && exporter.deadline.is_none_or(|deadline| deadline <= now)
        {
            exporter.work(&mut self.table, host, now);
        }
        self.set_timer(host);
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        report::write(self, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::write(self, out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        match state::State::read(entries) {
            Some(state) => {
                self.merge(&state);
                true
            }
            None => false,
        }
    }
}

impl Monitor {
    /// Looks at each packet and counts it. `EXPORT`: and keeps track of what is to be exported; whether the
    /// exporter has to be called sooner than was said.
    #[inline(always)]
    fn count<const EXPORT: bool>(&mut self, batch: &mut Batch<'_>) -> bool {
        // First everything that needs the packet, then everything that needs the table: so the misses of one
        // packet in the processor's caches overlap with those of the next.
        let mut waiting = 0;
        for mut packet in batch.packets() {
            let bytes = packet.original_len() as u64;
            self.time.see(packet.timestamp());
            let now = self.time.latest();
            if packet.record().snapped() > 0 {
                self.totals.count_snapped(bytes);
            }
            let seen = sighting::look(&packet, self.settings.bidirectional, &self.settings.tunnels);
            packet.verdict_encoded(ONWARD[usize::from(packet.ingress().min(2))]);
            self.totals.count(&seen, bytes);
            if seen.deeper {
                let origin = Origin { interface: packet.ingress(), vlan: packet.vlan() & 0xfff, extra: 0 };
                self.count_inside(packet.bytes(), bytes, EXPORT.then_some((now, origin)));
            }
            if let Some(flow) = seen.flow
                && let Some(place) = self.pending.get_mut(waiting)
            {
                place.flow = flow;
                place.hash = self.table.hash(&flow);
                place.likely = NONE;
                place.bytes = bytes;
                if EXPORT {
                    let (interface, vlan) = (packet.ingress(), packet.vlan() & 0xfff);
                    place.ms = now.0 / MILLISECOND;
                    place.origin = Origin { interface, vlan, extra: sighting::extra(packet.bytes()) };
                }
                waiting += 1;
            }
        }
        if self.table.flows().len() >= LARGE {
            self.fetch(waiting);
        }
        let mut sooner = false;
        for Pending { flow, hash, likely, bytes, ms, origin } in self.pending.iter().take(waiting) {
            if !EXPORT {
                self.table.count(flow, *hash, *likely, *bytes);
                continue;
            }
            let Some(exporter) = &mut self.exporter else { continue };
            let time = Nanos(*ms * MILLISECOND);
            exporter.catch_up(&mut self.table, batch.host(), time);
            if let Some((tracks, _)) = self.table.tracked() {
                tracks.now = tracks.now.max(*ms);
            }
            self.table.count_tracked(flow, (*hash, *likely), *bytes, *ms, *origin);
            sooner |= exporter.wake(time, self.table.tracks().map_or(0, Tracks::waiting));
        }
        if EXPORT && let Some(exporter) = &mut self.exporter {
            // Also for flows in tunnels, which are counted above.
            sooner |= exporter.wake(self.time.latest(), self.table.tracks().map_or(0, Tracks::waiting));
        }
        sooner
    }

    /// Counts the packets inside of one. `export`: when it came and how, with a collector.
    #[cold]
    fn count_inside(&mut self, frame: &[u8], bytes: u64, export: Option<(Nanos, Origin)>) {
        let Monitor { settings, totals, table, .. } = self;
        if let (Some((now, _)), Some((tracks, _))) = (export, table.tracked()) {
            tracks.now = tracks.now.max(now.0 / MILLISECOND);
        }
        let is_whole = sighting::look_inside(frame, settings.bidirectional, &settings.tunnels, |inside| {
            totals.count_inside(inside.tunnel, bytes);
            if let Some(flow) = inside.flow {
                let track = export
                    .map(|(now, origin)| (now.0 / MILLISECOND, Origin { extra: inside.extra, ..origin }));
                table.count_inside(&flow, inside.path, bytes, track);
            }
        });
        if !is_whole {
            totals.count_malformed(bytes);
        }
    }

    /// Has what the first so many waiting packets need of the table fetched into the cache. Loops of their
    /// own, and short: the processor then has all of the batch's reads on their way at a time.
    #[inline(always)]
    fn fetch(&mut self, waiting: usize) {
        let Monitor { pending, table, .. } = self;
        let pending = pending.get_mut(..waiting).unwrap_or_default();
        let mut touched =
            pending.iter().fold(self.touched, |touched, place| touched ^ table.touch_group(place.hash));
        let mut needed = [NONE; MAX_BATCH];
        for (place, needed) in pending.iter_mut().zip(&mut needed) {
            (place.likely, *needed) = table.likely(place.hash);
        }
        touched = needed.iter().take(waiting).fold(touched, |touched, entry| touched ^ table.touch(*entry));
        self.touched = touched;
    }

    fn set_timer(&self, host: &mut Host) {
        let export = self.exporter.as_ref().and_then(|exporter| exporter.deadline);
        if let Some(deadline) = self.next_line.into_iter().chain(export).min() {
            host.timer_set(self.time.host_time(deadline));
        }
    }

    /// The first line comes an interval after the first packet.
    #[cold]
    fn first_line(&mut self, host: &mut Host) {
        self.timer_set = true;
        self.next_line = self.settings.interval.map(|interval| self.time.latest().saturating_add(interval));
        self.set_timer(host);
    }
}
