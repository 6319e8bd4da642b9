//! Calls a function with batches, as the engine does, without a sandbox.
// UNSAFETY: packet bytes are reached by address, as in the sandbox. `run` keeps the addresses right itself;
// `process` and `hold` take their caller's word.
#![allow(unsafe_code)]

use crate::batch::Batch;
use crate::entry;
use crate::host::Host;
use crate::native::{MemoryHost, Told};
use crate::state::{StateReader, StateWriter};
use crate::window::Window;
use crate::{Change, Error, MAX_BATCH, Nanos, NetworkFunction, PacketRecord, RANDOM, Verdict};
use alloc::string::String;
use alloc::vec::Vec;
use nf_abi::{DeviceEntry, WINDOW_BASE};

/// Room in front of a test packet, in bytes.
const HEADROOM: usize = 128;

/// A packet as a test gives it.
#[derive(Clone, Debug, Default)]
pub struct TestPacket {
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// What the host says about it; extent and buffer are filled in, and the time of reception where it is 0.
    pub record: PacketRecord,
}

impl TestPacket {
    /// A packet that came in by this interface.
    pub fn new(bytes: Vec<u8>, ingress: u16) -> TestPacket {
        TestPacket { bytes, record: PacketRecord { ingress, ..PacketRecord::default() } }
    }
}

/// What became of a test packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict; `None` when it is no verdict's wire form.
    pub verdict: Option<Verdict>,
    /// Its bytes afterwards; `None` when the function gave back an extent outside the buffer.
    pub bytes: Option<Vec<u8>>,
    /// Its mark afterwards.
    pub mark: u64,
    /// Its segments are those of the other version of IP from now on.
    pub other_version: bool,
}

/// Where the bytes of a held packet are that its caller keeps. Only [`Runner::hold`] makes one.
#[derive(Debug)]
pub(crate) struct Extent {
    first: *mut u8,
    length: usize,
}

// SAFETY: its maker promised that the bytes are this function's alone, on whichever thread it is.
unsafe impl Send for Extent {}

impl Extent {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: readable, and this function's alone, as long as the packet is held: `hold`'s caller
        // promised that. The slice borrows the one value that leads there.
        unsafe { core::slice::from_raw_parts_mut(self.first, self.length) }
    }
}

/// A function, running natively.
pub struct Runner<F> {
    function: F,
    host: Host,
}

impl<F: NetworkFunction> Runner<F> {
    /// Makes the function from its configuration in CBOR, for a test: with the same random bytes each time,
    /// so that all comes out the same.
    ///
    /// # Errors
    /// What [`NetworkFunction::new`] answers.
    pub fn new(config: &[u8]) -> Result<Runner<F>, Error> {
        Runner::with_random(config, [0x5a; RANDOM])
    }

    /// The same with these random bytes. For packets of others they have to be drawn for each start.
    ///
    /// # Errors
    /// What [`NetworkFunction::new`] answers.
    pub fn with_random(config: &[u8], random: [u8; RANDOM]) -> Result<Runner<F>, Error> {
        let mut host = Host::in_memory();
        (host.backend_mut().config, host.backend_mut().random) = (config.to_vec(), random);
        Ok(Runner { function: entry::make(&mut host)?, host })
    }

    /// Shows the function one batch, as `sf_process` does.
    ///
    /// # Panics
    /// With more than [`MAX_BATCH`] records.
    ///
    /// # Safety
    /// `window` is where guest address [`nf_abi::WINDOW_BASE`] lies; every record's extent, `length` bytes
    /// from `offset` bytes behind `buffer`, lies in memory that is readable (writable, when the function
    /// writes), that no other code uses during the call, and that no other record's extent overlaps.
    #[inline(always)]
    pub unsafe fn process(&mut self, window: *mut u8, records: &mut [PacketRecord], now: Nanos) {
        assert!(records.len() <= MAX_BATCH, "{} records", records.len());
        self.function.process(&mut Batch::new(records, Window::at(window), &mut self.host), now);
        if self.host.end_batch(records) {
            self.keep(records);
        }
    }

    /// Notes which slots are filled from now on.
    #[cold]
    fn keep(&mut self, records: &[PacketRecord]) {
        for record in records {
            if let Some(Verdict::Hold(slot)) = Verdict::decode(Verdict::split(record.verdict).0) {
                self.host.backend_mut().keep(slot, None);
            }
        }
    }

    /// Notes where the bytes of a packet are that the function held in the last batch, so that it finds them
    /// by [`Host::held`].
    ///
    /// # Panics
    /// When the record's verdict is no hold.
    ///
    /// # Safety
    /// As of [`Runner::process`], for the one record, and until the function gives the packet up or
    /// [`Runner::take_back`] takes it.
    pub unsafe fn hold(&mut self, window: *mut u8, record: &PacketRecord) {
        let Some(Verdict::Hold(slot)) = Verdict::decode(Verdict::split(record.verdict).0) else {
            panic!("{:#x} is no hold", record.verdict)
        };
        let first = Window::at(window).first_byte(record);
        self.host.backend_mut().keep_elsewhere(slot, Extent { first, length: record.length as usize });
    }

    /// Takes a held packet back, as the host does after the longest hold; whether the slot had one.
    pub fn take_back(&mut self, slot: u16) -> bool {
        self.host.backend_mut().take_back(slot)
    }

    /// Shows the function packets, [`MAX_BATCH`] at a time.
    pub fn run(&mut self, packets: &[TestPacket], now: Nanos) -> Vec<Outcome> {
        self.run_batches(packets, now, |timestamp| if timestamp == 0 { now.0 } else { timestamp })
    }

    /// The same with packets whose times of reception are what they say, 0 too: captures may begin with it.
    pub fn run_stamped(&mut self, packets: &[TestPacket], now: Nanos) -> Vec<Outcome> {
        self.run_batches(packets, now, |timestamp| timestamp)
    }

    fn run_batches(
        &mut self,
        packets: &[TestPacket],
        now: Nanos,
        stamp: impl Fn(u64) -> u64,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(packets.len());
        for batch in packets.chunks(MAX_BATCH) {
            self.run_batch(batch, now, &stamp, &mut outcomes);
        }
        outcomes
    }

    /// Shows the function one frame that came in by this interface; its verdict.
    ///
    /// # Panics
    /// When the verdict is none's wire form.
    pub fn verdict_of(&mut self, frame: Vec<u8>, ingress: u16, now: Nanos) -> Verdict {
        let outcomes = self.run(&[TestPacket::new(frame, ingress)], now);
        match outcomes.as_slice() {
            [Outcome { verdict: Some(verdict), .. }] => *verdict,
            other => panic!("{other:?}: one verdict is wanted"),
        }
    }

    fn run_batch(
        &mut self,
        packets: &[TestPacket],
        now: Nanos,
        stamp: &dyn Fn(u64) -> u64,
        outcomes: &mut Vec<Outcome>,
    ) {
        let mut window = Vec::new();
        let mut records = Vec::with_capacity(packets.len());
        let mut ends = Vec::with_capacity(packets.len());
        for packet in packets {
            let buffer = window.len();
            window.resize(buffer + HEADROOM, 0);
            window.extend_from_slice(&packet.bytes);
            ends.push(window.len());
            records.push(PacketRecord {
                verdict: 0,
                offset: HEADROOM as u32,
                length: packet.bytes.len() as u32,
                buffer: WINDOW_BASE + buffer as u32,
                timestamp: stamp(packet.record.timestamp),
                ..packet.record
            });
        }
        // SAFETY: the extents are those of disjoint parts of `window`, which is borrowed exclusively here.
        unsafe { self.process(window.as_mut_ptr(), &mut records, now) };
        for (record, end) in records.iter().zip(ends) {
            let start = (record.buffer - WINDOW_BASE) as usize + record.offset as usize;
            let bytes = start.checked_add(record.length as usize).filter(|last| *last <= end);
            let (verdict, other_version) = Verdict::split(record.verdict);
            let verdict = Verdict::decode(verdict);
            if let (Some(Verdict::Hold(slot)), Some(last)) = (verdict, bytes) {
                self.host.backend_mut().keep(slot, window.get(start..last));
            }
            outcomes.push(Outcome {
                verdict,
                bytes: bytes.and_then(|last| window.get(start..last)).map(<[u8]>::to_vec),
                mark: record.mark,
                other_version,
            });
        }
    }

    /// Runs the function's timer.
    pub fn timer(&mut self, now: Nanos) {
        self.host.timer_cancel();
        self.function.timer(&mut self.host, now);
    }

    /// Runs the function's timer if its deadline has passed.
    pub fn timer_if_due(&mut self, now: Nanos) {
        if self.host().deadline().is_some_and(|deadline| deadline <= now) {
            self.timer(now);
        }
    }

    /// Lets time pass up to a point, with the timers that are due, each at its deadline.
    pub fn timers_until(&mut self, end: Nanos) {
        while let Some(deadline) = self.host().deadline().filter(|deadline| *deadline <= end) {
            self.timer(deadline);
        }
    }

    /// Tells the function what is known of its devices from now on.
    pub fn set_devices(&mut self, entries: &[DeviceEntry], now: Nanos) {
        self.host.backend_mut().devices = entries.iter().flat_map(|entry| entry.encode()).collect();
        self.function.devices(&mut self.host, now);
    }

    /// Offers the function a changed file of its configuration, by its key: lines that went and came, each
    /// with `-` or `+` in front. [`Runner::change`] has it take them.
    pub fn offer(&mut self, key: &str, lines: &str) {
        self.host.backend_mut().change = [key, "\n", lines].concat().into_bytes();
    }

    /// Has the function take a part of what was offered.
    pub fn change(&mut self, now: Nanos) -> Change {
        self.function.change(&mut self.host, now)
    }

    /// Takes back every packet that is held, as the host does after the
    /// longest hold; how many there were.
    pub fn expire_held(&mut self) -> usize {
        self.host.backend_mut().expire_held()
    }

    /// Has the function give out what it still has to; whether there is more.
    pub fn finish(&mut self, now: Nanos) -> bool {
        self.function.finish(&mut self.host, now)
    }

    /// The function's report, one JSON value.
    pub fn report(&self, now: Nanos) -> Option<String> {
        let mut out = String::new();
        self.function.report(&mut out, now).then_some(out)
    }

    /// The function's tables as a stream of entries.
    pub fn export_state(&mut self) -> Option<Vec<u8>> {
        self.host.backend_mut().state_out.clear();
        let mut out = StateWriter::new(&mut self.host);
        let offered = self.function.export_state(&mut out);
        let complete = out.finish();
        (offered && complete).then(|| core::mem::take(&mut self.host.backend_mut().state_out))
    }

    /// Hands it the tables of another instance.
    pub fn import_state(&mut self, state: &[u8]) -> bool {
        self.host.backend_mut().state_in = state.to_vec();
        let mut entries = StateReader::new(&mut self.host);
        let taken = self.function.import_state(&mut entries);
        self.host.backend_mut().state_in.clear();
        taken
    }

    /// Whether the host refuses packets of the function's own, as it does beyond the quota.
    pub fn refuse_packets(&mut self, refuse: bool) {
        self.host.backend_mut().refuses_packets = refuse;
    }

    /// Bounds the packets of the function's own, those that it has given up since [`Runner::take_told`]
    /// included, and the bytes that one may have. Of addresses it may ask for [`nf_abi::MAX_ASKS`] from then
    /// on until it is asked what it has told.
    pub fn bound_packets(&mut self, most: usize, longest: usize) {
        self.host.backend_mut().own_most = Some((most, longest));
    }

    /// What the function has told and given up since this was last asked.
    pub fn take_told(&mut self) -> Told {
        self.host.backend_mut().take_told()
    }

    /// What the function asked of its host.
    pub fn host(&self) -> &MemoryHost {
        self.host.backend()
    }

    /// The function itself.
    pub fn function(&self) -> &F {
        &self.function
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::native::Emitted;
    use alloc::vec;
    use proptest::prelude::*;

    /// Keeps its secret.
    struct Keyed(crate::Secret);

    impl NetworkFunction for Keyed {
        fn new(config: &Config) -> Result<Self, Error> {
            Ok(Keyed(config.secret()?))
        }

        fn process(&mut self, _: &mut Batch<'_>, _: Nanos) {}
    }

    #[test]
    fn the_secret_is_that_of_the_bytes_that_the_host_drew() {
        let seed = |runner: Runner<Keyed>| runner.function().0.seed("flows");
        let with = |byte: u8| seed(Runner::with_random(&[], [byte; RANDOM]).expect("random bytes"));
        assert_eq!(seed(Runner::new(&[]).expect("random bytes")), seed(Runner::new(&[]).expect("the same")));
        assert_ne!(with(1), with(2));
        // What was made of a configuration alone has none, rather than one that is known.
        let config = Config::from_cbor(vec![]).expect("an empty map");
        assert_eq!(Keyed::new(&config).err().map(|error| error.number()), Some(4));
    }

    /// Keeps every second packet until the timer, answers with one of its own, and carries a table.
    struct Keeper {
        held: Vec<crate::Slot>,
        table: Vec<(Vec<u8>, Vec<u8>)>,
    }

    impl NetworkFunction for Keeper {
        fn new(_: &Config) -> Result<Self, Error> {
            Ok(Keeper { held: vec![], table: vec![] })
        }

        fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
            let count = batch.len();
            let (packets, host) = batch.split();
            assert_eq!(packets.len(), count);
            for (index, mut packet) in packets.enumerate() {
                if index % 2 == 0 {
                    let slot = host.slot().expect("few are held");
                    packet.hold(&slot);
                    self.held.push(slot);
                } else {
                    assert!(packet.adjust_head(-4) && packet.adjust_head(5));
                    let shorter = packet.len() - 1;
                    assert!(packet.trim(shorter) && !packet.trim(shorter + 1) && !packet.adjust_head(-500));
                    packet.bytes_mut()[0] = 7;
                    packet.set_mark(9);
                    packet.verdict(Verdict::Service(3));
                }
            }
            host.timer_set(now.saturating_add(Nanos(5)));
        }

        fn timer(&mut self, host: &mut Host, _: Nanos) {
            for slot in self.held.drain(..) {
                host.emit(slot, Verdict::Interface(1), 1).expect("held");
            }
            let own = host.packet_new(b"own").expect("a slot");
            assert_eq!(host.emit(own, Verdict::Hold(1), 0), Err(crate::HostRefusal::Verdict));
        }

        fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
            self.table.iter().all(|(key, value)| out.entry(key, value))
        }

        fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
            while let Some((key, value)) = entries.next() {
                self.table.push((key.to_vec(), value.to_vec()));
            }
            !entries.is_broken()
        }
    }

    /// Holds every packet until one that begins with 255, with which all of them go.
    struct Gate {
        held: Vec<crate::Slot>,
    }

    impl NetworkFunction for Gate {
        fn new(_: &Config) -> Result<Self, Error> {
            Ok(Gate { held: vec![] })
        }

        fn process(&mut self, batch: &mut Batch<'_>, _: Nanos) {
            let (packets, host) = batch.split();
            for mut packet in packets {
                let slot = host.slot().expect("few are held");
                packet.hold(&slot);
                self.held.push(slot);
                if packet.bytes()[0] == 255 {
                    for slot in self.held.drain(..) {
                        host.emit(slot, Verdict::Interface(1), 5).expect("held");
                    }
                }
            }
        }
    }

    #[test]
    fn packets_are_held_and_given_up_in_one_call() {
        let mut runner = Runner::<Gate>::new(&[]).expect("no configuration");
        let packets = |first: &[u8]| -> Vec<TestPacket> {
            first.iter().map(|first| TestPacket::new(vec![*first, 9], 0)).collect()
        };
        let out = runner.run(&packets(&[1, 2]), Nanos(1));
        let verdicts = |out: &[Outcome]| -> Vec<_> { out.iter().map(|one| one.verdict).collect() };
        assert_eq!(verdicts(&out), [Some(Verdict::Hold(0)), Some(Verdict::Hold(1))]);
        let out = runner.run(&packets(&[3, 4, 255, 5]), Nanos(2));
        // The slots of those that were in theirs are free at once.
        let [gone, held] = [Some(Verdict::Interface(1)), Some(Verdict::Hold(1))];
        assert_eq!(verdicts(&out), [gone, gone, gone, held]);
        assert!(out[..3].iter().all(|one| one.mark == 5));
        let emitted: Vec<_> = runner.host().emitted().iter().map(|one| one.slot).collect();
        assert_eq!((emitted, runner.host().held()), (vec![0, 1], 1));
        // No slot is lost.
        runner.run(&packets(&[255]), Nanos(3));
        assert_eq!((runner.host().emitted().len(), runner.host().held()), (3, 0));
        let out = runner.run(&packets(&[0; 6]), Nanos(4));
        let mut slots: Vec<_> = out.iter().map(|one| one.verdict.expect("a verdict").encode()).collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..6).map(|slot| Verdict::Hold(slot).encode()).collect::<Vec<_>>());
    }

    /// Holds every packet, and gives it up by the timer with what it had for its first byte as its mark.
    struct Pocket {
        held: Vec<crate::Slot>,
        own: Option<crate::Slot>,
    }

    impl NetworkFunction for Pocket {
        fn new(_: &Config) -> Result<Self, Error> {
            Ok(Pocket { held: vec![], own: None })
        }

        fn process(&mut self, batch: &mut Batch<'_>, _: Nanos) {
            let (packets, host) = batch.split();
            for mut packet in packets {
                let slot = host.slot().expect("few are held");
                packet.hold(&slot);
                self.held.push(slot);
            }
            self.own = self.own.take().or_else(|| host.packet_new(b"own").ok());
        }

        fn timer(&mut self, host: &mut Host, _: Nanos) {
            for slot in self.held.drain(..) {
                let Some(bytes) = host.held(&slot) else {
                    host.release(slot);
                    continue;
                };
                bytes[1] += 1;
                let mark = u64::from(bytes[0]);
                host.emit(slot, Verdict::Interface(1), mark).expect("held");
            }
        }
    }

    #[test]
    fn packets_that_their_caller_keeps_are_found_while_they_are_held() {
        let mut runner = Runner::<Pocket>::new(&[]).expect("no configuration");
        let mut window = vec![0u8; 256];
        let record = |at: u32| PacketRecord {
            buffer: WINDOW_BASE + 128 * at,
            offset: 8,
            length: 2,
            ..PacketRecord::default()
        };
        window[8..10].copy_from_slice(&[7, 1]);
        window[136..138].copy_from_slice(&[9, 1]);
        let mut records = [record(0), record(1)];
        runner.bound_packets(0, 1_500);
        let at = window.as_mut_ptr();
        // SAFETY: the extents are disjoint parts of `window`, which is not touched until they are given up.
        unsafe {
            runner.process(at, &mut records, Nanos(1));
            records.iter().for_each(|record| runner.hold(at, record));
        }
        assert_eq!((runner.host().held(), runner.host().own()), (2, 0), "none of its own is allowed");
        assert!(runner.take_back(1) && !runner.take_back(1));
        runner.timer(Nanos(2));
        let told = runner.take_told();
        let expected =
            Emitted { slot: 0, verdict: Verdict::Interface(1), extent: None, mark: 7, bytes: None };
        assert_eq!(told.emitted, [expected]);
        assert_eq!(runner.take_told(), Told::default(), "it is told once");
        assert_eq!((&window[8..10], &window[136..138]), (&[7, 2][..], &[9, 1][..]));
    }

    #[test]
    fn packets_are_held_changed_and_made() {
        let mut runner = Runner::<Keeper>::new(&[]).expect("no configuration");
        let out = runner
            .run(&[TestPacket::new(vec![1, 2, 3, 4], 0), TestPacket::new(vec![1, 2, 3, 4], 0)], Nanos(1));
        assert_eq!(out[0].verdict, Some(Verdict::Hold(0)));
        let (verdict, bytes) = (Some(Verdict::Service(3)), Some(vec![7, 3]));
        assert_eq!(out[1], Outcome { verdict, bytes, mark: 9, other_version: false });
        assert_eq!(runner.host().deadline(), Some(Nanos(6)));
        runner.timer(Nanos(6));
        assert_eq!(runner.host().deadline(), None);
        let emitted = runner.host().emitted();
        assert_eq!((emitted.len(), emitted[0].slot, emitted[0].verdict), (1, 0, Verdict::Interface(1)));
        // The slot is free again.
        let out = runner.run(&[TestPacket::new(vec![1], 0)], Nanos(7));
        assert_eq!(out[0].verdict, Some(Verdict::Hold(0)));
    }

    proptest! {
        #[test]
        fn state_travels(sizes in prop::collection::vec((0usize..40, 0usize..9000), 0..40), cut in 1usize..50) {
            let mut from = Runner::<Keeper>::new(&[]).expect("no configuration");
            from.function.table = sizes.iter().map(|(k, v)| (vec![1; *k], vec![2; *v])).collect();
            let state = from.export_state().expect("offered");
            let mut to = Runner::<Keeper>::new(&[]).expect("no configuration");
            prop_assert!(to.import_state(&state));
            prop_assert_eq!(&to.function.table, &from.function.table);
            // Cut short anywhere but between entries, it is refused.
            if let Some((key, value)) = sizes.last() && cut < 8 + key + value {
                prop_assert!(!to.import_state(&state[..state.len() - cut]));
            }
        }

        #[test]
        fn a_beginning_of_an_entry_is_refused(state in prop::collection::vec(any::<u8>(), 1..8)) {
            let mut to = Runner::<Keeper>::new(&[]).expect("no configuration");
            prop_assert!(!to.import_state(&state));
        }

        #[test]
        fn any_state_is_refused_or_taken(state in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut to = Runner::<Keeper>::new(&[]).expect("no configuration");
            to.import_state(&state);
        }
    }
}
