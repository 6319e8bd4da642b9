//! What the host keeps for an instance.

use crate::host_calls;
use crate::program::{Linked, Program, ProgramFacts};
use crate::settings::InstanceSettings;
use guest::{Events, Kept, LogLine, SlotConfig, pack, unpack};
use nf_abi::{RANDOM, change, stream};
use packet_memory::{Packet, Pool};
use snapshot::{HostState as SavedState, Line, PacketState, SavedPacket};
use std::borrow::Cow;
use std::sync::Arc;
use telemetry::clock::Nanos;
use wasmtime::{Memory, Store, TypedFunc, WasmParams, WasmResults};

/// What the host keeps for an instance; host calls work on it.
pub(crate) struct GuestState {
    pub(crate) facts: ProgramFacts,
    pub(crate) pool: Arc<Pool>,
    pub(crate) memory: Option<Memory>,
    /// Bytes of it that are populated at the start, see [`InstanceSettings::resident`].
    pub(crate) resident: Option<u64>,
    pub(crate) config: Vec<u8>,
    pub(crate) import: Option<Vec<u8>>,
    pub(crate) export: Option<Vec<u8>>,
    pub(crate) report: Option<Vec<u8>>,
    /// What the engine works on, too.
    pub(crate) kept: Kept,
    /// Most lines of its log between two collections, and how many found no room.
    pub(crate) most_lines: usize,
    pub(crate) lines_lost: u64,
    /// Most packets that it has, see [`Kept::packets`].
    pub(crate) quota: usize,
    /// What it reads of the devices behind its interfaces.
    pub(crate) devices: Arc<[u8]>,
    /// Its random bytes; `None`: the system had none.
    random: Option<[u8; RANDOM]>,
}

/// Bytes that nothing else has or can guess.
fn drawn() -> Option<[u8; RANDOM]> {
    let mut bytes = [0; RANDOM];
    getrandom::getrandom(&mut bytes).ok().map(|()| bytes)
}

impl GuestState {
    /// Of an instance that has not begun yet.
    pub(crate) fn new(facts: &ProgramFacts, pool: &Arc<Pool>, settings: InstanceSettings) -> GuestState {
        let least = settings.memory.map_or(facts.memory_limit, |most| most.min(facts.memory_limit));
        GuestState {
            facts: ProgramFacts { memory_limit: least, ..facts.clone() },
            pool: pool.clone(),
            memory: None,
            resident: settings.resident,
            config: settings.config,
            import: None,
            export: None,
            report: None,
            kept: Kept::new(settings.slots, usize::from(facts.counters)),
            most_lines: settings.log_lines,
            lines_lost: 0,
            quota: settings.slots.quota as usize,
            devices: Arc::default(),
            random: settings.random.or_else(drawn),
        }
    }

    /// Of no instance: stands where the state of one is to be.
    pub(crate) fn empty(facts: &ProgramFacts, pool: &Arc<Pool>) -> GuestState {
        let settings =
            InstanceSettings { config: Vec::new(), random: Some([0; RANDOM]), ..InstanceSettings::default() };
        GuestState::new(facts, pool, settings)
    }

    /// Bytes that it takes beside itself, without packets.
    pub(crate) fn footprint(&self) -> usize {
        let text = |text: &String| text.capacity() + size_of::<String>();
        self.facts.name.capacity()
            + self.config.capacity()
            + self.kept.counters.capacity() * size_of::<u64>()
            + self.kept.log.iter().map(|line| text(&line.text) + size_of::<u64>()).sum::<usize>()
            + self.kept.events.lines.iter().map(text).sum::<usize>()
            + self.kept.emitted.capacity() * size_of::<Packet>()
    }

    /// What a snapshot says of it, but for the packets.
    pub(crate) fn save(&self, batch: u32) -> SavedState {
        let line = |line: &LogLine| Line { severity: line.severity, text: line.text.clone() };
        SavedState {
            batch,
            now: self.kept.now.0,
            deadline: self.kept.deadline.map(|deadline| deadline.0),
            generated: self.kept.generated,
            counters: self.kept.counters.clone(),
            log: self.kept.log.iter().map(line).collect(),
            lines_lost: self.lines_lost,
            events: self.kept.events.lines.clone(),
            events_lost: self.kept.events.lost,
        }
    }

    /// Copies of the packets that are held.
    pub(crate) fn save_packets(&self) -> Vec<SavedPacket> {
        let held = |(slot, packet, due): (u16, &Packet, Nanos)| {
            pack(&self.pool, packet, PacketState::Held { slot, due: due.0 })
        };
        self.kept.slots.iter().map(held).collect()
    }

    /// Makes it what a snapshot says, but for the packets. Texts are made harmless as if the guest wrote them
    /// now. What the saved instance had generated does not count: it is entered where it happened, and here
    /// each packet that is restored.
    pub(crate) fn restore(&mut self, saved: &SavedState) {
        let harmless = |text: &String| host_calls::line(text.as_bytes());
        let line = |line: &Line| LogLine { severity: line.severity, text: harmless(&line.text) };
        self.kept.now = Nanos(saved.now);
        self.kept.deadline = saved.deadline.map(Nanos);
        self.kept.generated = 0;
        self.kept.counters.clone_from(&saved.counters);
        self.kept.log = saved.log.iter().map(line).collect();
        self.lines_lost = saved.lines_lost;
        self.kept.events =
            Events { lines: saved.events.iter().map(harmless).collect(), lost: saved.events_lost };
        self.kept.event_bytes = self.kept.events.lines.iter().map(String::len).sum();
    }

    /// Takes held packets over, and counts them as generated: no port of this host has received them. Says of
    /// the first that cannot be kept, why. None is held longer than one that comes at `now`.
    pub(crate) fn restore_packets(
        &mut self,
        packets: &[SavedPacket],
        now: Nanos,
    ) -> Result<(), (u16, String)> {
        let latest = now.saturating_add(self.kept.slots.longest_hold());
        for packet in packets {
            let PacketState::Held { slot, due } = packet.state else { continue };
            let (ingress, interfaces) = (packet.record().ingress, self.facts.interfaces);
            if ingress >= interfaces {
                return Err((slot, format!("it came in by interface {ingress} of {interfaces}")));
            }
            let made = unpack(&self.pool, packet).map_err(|error| (slot, error.to_string()))?;
            if let Err((made, refusal)) = self.kept.slots.keep_until(slot, made, Nanos(due).min(latest)) {
                self.pool.free(made);
                return Err((
                    slot,
                    format!("{refusal}: {} of {} are kept", self.kept.slots.len(), self.quota),
                ));
            }
            self.kept.generated += 1;
        }
        Ok(())
    }

    /// Sets other bounds on the packets that it keeps.
    pub(crate) fn set_slots(&mut self, slots: SlotConfig) {
        self.kept.slots.set_config(slots);
        self.quota = slots.quota as usize;
    }

    /// Puts what is new of its devices in its place; whether there was something.
    pub(crate) fn renew_devices(&mut self) -> bool {
        self.kept.new_devices.take().map(|entries| self.devices = entries).is_some()
    }

    /// What it answers to the file that it was to take.
    pub(crate) fn answer(&mut self, answer: i32) {
        let Some(offer) = self.kept.change.take_if(|_| answer != change::MORE) else { return };
        match answer {
            change::TAKEN => offer.take(&mut self.config),
            _ => offer.refuse(),
        }
    }

    /// What a stream has now, and from where on that is read; `None`: no such stream, or not at this time.
    pub(crate) fn input(&self, which: u32, offset: u32) -> Option<(Cow<'_, [u8]>, u32)> {
        Some(match which {
            stream::CONFIG => (Cow::Borrowed(&self.config), offset),
            stream::STATE => (Cow::Borrowed(self.import.as_deref()?), offset),
            stream::DEVICES => (Cow::Borrowed(&self.devices), offset),
            stream::CHANGE => (Cow::Borrowed(self.kept.change.as_ref()?.lines()), offset),
            stream::RANDOM => (Cow::Borrowed(self.random.as_ref()?), offset),
            stream::SLOTS => (Cow::Owned(self.slot(offset).to_vec()), 0),
            _ => return None,
        })
    }

    /// Where the packet in a slot is: an entry of `nf_abi::stream::SLOTS`.
    pub(crate) fn slot(&self, number: u32) -> [u8; 8] {
        let packet = u16::try_from(number).ok().and_then(|slot| self.kept.slots.get(slot));
        let (address, length) = packet.map_or((0, 0), |it| (it.buffer() + it.offset(), it.length()));
        (u64::from(address) | u64::from(length) << 32).to_le_bytes()
    }
}

impl Drop for GuestState {
    fn drop(&mut self) {
        let mut left = Vec::new();
        self.kept.surrender(&mut left);
        self.pool.free_batch(left);
    }
}

/// How a store has its host's state: in itself, or lent by a guest that can be switched out.
pub(crate) trait HostState: Send + Sized + 'static {
    /// Whether its calls can be switched out.
    const IS_PREEMPTIBLE: bool;

    fn state(&self) -> &GuestState;
    fn state_mut(&mut self) -> &mut GuestState;

    /// The program, linked for stores of this kind.
    fn linked(program: &Program) -> &Linked<Self>;

    /// Calls a function and comes back when it has ended.
    fn call<P: WasmParams + Sync, R: WasmResults + Sync>(
        store: &mut Store<Self>,
        function: &TypedFunc<P, R>,
        params: P,
    ) -> wasmtime::Result<R>;
}

impl HostState for GuestState {
    const IS_PREEMPTIBLE: bool = false;

    #[inline]
    fn state(&self) -> &GuestState {
        self
    }

    #[inline]
    fn state_mut(&mut self) -> &mut GuestState {
        self
    }

    fn linked(program: &Program) -> &Linked<GuestState> {
        &program.plain
    }

    #[inline]
    fn call<P: WasmParams + Sync, R: WasmResults + Sync>(
        store: &mut Store<GuestState>,
        function: &TypedFunc<P, R>,
        params: P,
    ) -> wasmtime::Result<R> {
        function.call(store, params)
    }
}
