//! Functions that do what a test wants.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Decides by the packet's first byte and the interface that it came by.
pub(super) type Decide = Arc<dyn Fn(u8, u16) -> Action + Send + Sync>;

#[derive(Clone, Copy)]
pub(super) enum Action {
    Give(Verdict),
    Fault,
}

/// How a scripted function behaves.
#[derive(Clone)]
pub(super) struct Manner {
    pub(super) decide: Decide,
    /// Longest time that packets are held.
    pub(super) hold: Nanos,
    /// So often each call with packets is switched out.
    pub(super) suspend: u32,
    /// What a call costs.
    pub(super) burn: Cycles,
    /// And each packet of it.
    pub(super) burn_each: Cycles,
    /// How long a call sleeps.
    pub(super) nap: Duration,
    /// Its timer is due so long after each call.
    pub(super) every: Option<Nanos>,
    /// Its timer sets a deadline that has passed long ago.
    pub(super) overdue: bool,
    /// It gives up what it holds when it is asked for a report.
    pub(super) emit_at_report: bool,
    /// Every other start of it fails, the first one not.
    pub(super) start_fails: bool,
    /// It can be frozen, and what happens meanwhile; without it, it cannot.
    pub(super) freezes: Option<Meanwhile>,
}

/// What happens in the middle of something, once.
pub(super) type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

impl Manner {
    pub(super) fn deciding(decide: impl Fn(u8, u16) -> Action + Send + Sync + 'static) -> Manner {
        Manner {
            decide: Arc::new(decide),
            hold: Nanos::from_millis(1),
            suspend: 0,
            burn: Cycles(0),
            burn_each: Cycles(0),
            nap: Duration::ZERO,
            every: None,
            overdue: false,
            emit_at_report: false,
            start_fails: false,
            freezes: None,
        }
    }

    /// Passes everything to its other interface.
    pub(super) fn wire() -> Manner {
        Manner::deciding(|_, ingress| Action::Give(Verdict::Interface(1 - ingress)))
    }
}

/// What a function was called for, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Process(usize),
    Resume,
    Observe,
    Timer,
    /// It was told of its devices; the first byte of what it reads.
    Devices(u8),
    Report,
    /// It was thawed.
    Thaw,
}

/// What a function saw.
#[derive(Clone, Default)]
pub(super) struct Seen {
    pub(super) bytes: Arc<Mutex<Vec<u8>>>,
    pub(super) calls: Arc<Mutex<Vec<Call>>>,
    /// Guests to come are to be switched out.
    pub(super) preemptible: Arc<std::sync::atomic::AtomicBool>,
    /// No frozen one can be thawed.
    pub(super) no_room: Arc<std::sync::atomic::AtomicBool>,
}

impl Seen {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().expect("not poisoned").clone()
    }
    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("not poisoned").clone()
    }
    pub(super) fn note(&self, call: Call) {
        let mut calls = self.calls.lock().expect("not poisoned");
        // Enough to look at, however long it runs.
        if calls.len() < 10_000 {
            calls.push(call);
        }
    }
}

pub(super) struct Scripted {
    pool: Arc<Pool>,
    manner: Manner,
    kept: Kept,
    pub(super) seen: Seen,
    clock: Clock,
    /// Gives up this slot at the next call.
    emit: Option<u16>,
    /// The verdicts of a call that is switched out, and how often it still will be.
    suspended: Option<(Vec<u32>, u32)>,
}

impl Scripted {
    fn give_up(&mut self) {
        if let Some(mut packet) = self.emit.take().and_then(|slot| self.kept.slots.take(slot)) {
            packet.edit(|record| record.verdict = Verdict::Interface(1).encode());
            self.kept.emitted.push(packet);
        }
    }

    fn next_deadline(&self, now: Moment) -> Option<Nanos> {
        let every = self.manner.every.map(|every| now.nanos.saturating_add(every));
        if self.manner.overdue { Some(Nanos(1)) } else { every }
    }

    fn spend(&self, packets: usize) {
        let burn = self.manner.burn.0 + self.manner.burn_each.0 * packets as u64;
        let least = if self.clock.simulation().is_some() { LEAST.0 } else { 0 };
        pass(&self.clock, Cycles(burn.max(least)));
        if self.manner.nap > Duration::ZERO {
            nap(&self.clock, self.manner.nap);
        }
    }

    fn fingerprint(packets: &[Packet]) -> Vec<u32> {
        packets.iter().map(|packet| packet.record().verdict ^ u32::from(packet.record().ingress)).collect()
    }

    fn decide(&mut self, packets: &mut [Packet]) -> Result<Progress, GuestFault> {
        self.give_up();
        for packet in packets.iter_mut() {
            let byte = self.pool.to_vec(packet)[0];
            match (self.manner.decide)(byte, packet.record().ingress) {
                Action::Give(verdict) => {
                    packet.edit(|record| record.verdict = verdict.encode());
                    if let Verdict::Hold(slot) = verdict {
                        self.emit = Some(slot);
                    }
                }
                Action::Fault => return Err(GuestFault::Trap("scripted".into())),
            }
        }
        Ok(Progress::Done(Answers::of(packets)))
    }

    fn resume(
        &mut self,
        packets: &mut [Packet],
        before: Vec<u32>,
        left: u32,
    ) -> Result<Progress, GuestFault> {
        self.seen.note(Call::Resume);
        self.spend(0);
        assert_eq!(before, Scripted::fingerprint(packets), "the batch is not touched meanwhile");
        if left > 0 {
            self.suspended = Some((before, left - 1));
            return Ok(Progress::Suspended);
        }
        self.decide(packets)
    }

    fn not_in_a_call(&self) {
        assert!(self.suspended.is_none(), "called in the middle of a call");
    }
}

impl Guest for Scripted {
    fn process(&mut self, packets: &mut [Packet], now: Moment) -> Result<Progress, GuestFault> {
        if let Some((before, left)) = self.suspended.take() {
            return self.resume(packets, before, left);
        }
        self.seen.note(Call::Process(packets.len()));
        self.spend(packets.len());
        self.kept.deadline = self.next_deadline(now);
        if self.manner.suspend > 0 {
            self.suspended = Some((Scripted::fingerprint(packets), self.manner.suspend - 1));
            return Ok(Progress::Suspended);
        }
        self.decide(packets)
    }
    fn suspended(&self) -> bool {
        self.suspended.is_some()
    }
    fn observe(&mut self, packets: &[Packet], _now: Moment) -> Result<(), GuestFault> {
        self.not_in_a_call();
        self.seen.note(Call::Observe);
        let mut seen = self.seen.bytes.lock().expect("not poisoned");
        seen.extend(packets.iter().map(|packet| self.pool.to_vec(packet)[0]));
        Ok(())
    }
    fn kept(&self) -> &Kept {
        &self.kept
    }
    fn kept_mut(&mut self) -> &mut Kept {
        pass(&self.clock, LEAST);
        &mut self.kept
    }
    fn timer(&mut self, now: Moment) -> Result<(), GuestFault> {
        self.not_in_a_call();
        if let Some(entries) = self.kept.new_devices.take() {
            self.seen.note(Call::Devices(entries[0]));
            self.kept.ask(guest::Ask { interface: 1, address: [192, 0, 2, entries[0]].into() });
            return Ok(());
        }
        self.seen.note(Call::Timer);
        if self.manner.overdue {
            self.spend(0);
        }
        self.kept.deadline = self.next_deadline(now);
        Ok(())
    }
    fn report(&mut self, _now: Moment) -> Result<Option<String>, GuestFault> {
        self.not_in_a_call();
        self.seen.note(Call::Report);
        pass(&self.clock, LEAST);
        if self.manner.emit_at_report {
            self.give_up();
        }
        Ok(Some("{}".into()))
    }
    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        Ok(None)
    }
    fn import_state(&mut self, _state: Vec<u8>) -> Result<bool, GuestFault> {
        Ok(false)
    }
    fn freeze(self: Box<Self>) -> Result<Box<dyn guest::Frozen>, guest::NotFrozen> {
        let Some(meanwhile) = self.manner.freezes.clone() else {
            return Err(guest::NotFrozen { guest: self, error: guest::SaveError::Unable });
        };
        let happens = meanwhile.lock().expect("not poisoned").take();
        happens.into_iter().for_each(|happens| happens());
        Ok(Box::new(super::freezing::Asleep::new(*self)))
    }
}

#[derive(Clone)]
pub(super) struct Factory {
    /// Starts so far.
    pub(super) starts: Arc<AtomicU32>,
    pub(super) pool: Arc<Pool>,
    pub(super) manner: Manner,
    pub(super) seen: Seen,
    pub(super) clock: Clock,
}

impl GuestFactory for Factory {
    fn set_preemptible(&mut self) {
        self.seen.preemptible.store(true, SeqCst);
    }

    fn work(&self) -> StartWork {
        let factory = self.clone();
        Box::new(move || factory.guest())
    }
}

impl Factory {
    fn guest(&self) -> Started {
        if self.starts.fetch_add(1, SeqCst) % 2 == 1 && self.manner.start_fails {
            return Err("every other start fails".into());
        }
        let mut kept = Kept::new(SlotConfig { quota: 4, longest_hold: self.manner.hold }, 0);
        kept.deadline = (self.manner.overdue || self.manner.every.is_some()).then_some(Nanos(1));
        Ok(Box::new(Scripted {
            pool: self.pool.clone(),
            manner: self.manner.clone(),
            kept,
            seen: self.seen.clone(),
            clock: self.clock,
            emit: None,
            suspended: None,
        }))
    }
}
