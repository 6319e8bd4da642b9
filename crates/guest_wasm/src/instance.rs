// UNSAFETY: the batch of records lies in the guest's private memory and is written and read through a raw pointer.
// Miri runs no compiled code; `tests/sandbox` does.
#![allow(unsafe_code)]
//! A running instance: a program in a shell, with its state on the host's side.

use crate::guest_memory::{MemoryRequest, with_request};
use crate::program::{Program, ProgramFacts};
use crate::watchdog;
use clock::{Cycles, Moment, Nanos};
use guest::{BAD_VERDICT, Events, Guest, GuestFault, LogLine, Progress, SlotConfig, SlotTable};
use nf_abi::{MAX_BATCH, PacketRecord, exports};
use packet_memory::{Packet, Pool};
use std::ptr::NonNull;
use std::sync::Arc;
use wasmtime::{
    AsContextMut, Instance, Memory, Store, Trap, TypedFunc, UpdateDeadline, WasmParams, WasmResults,
};

/// What an instance is given beside its program.
#[derive(Clone, Debug)]
pub struct InstanceSettings {
    /// The checked configuration in CBOR.
    pub config: Vec<u8>,
    /// Bounds on packets it keeps.
    pub slots: SlotConfig,
    /// Longest time of one call with packets.
    pub max_call: Nanos,
    /// Longest time of `sf_init` and of handing state over.
    pub max_control_call: Nanos,
}

impl Default for InstanceSettings {
    fn default() -> InstanceSettings {
        InstanceSettings {
            config: vec![0xa0], // An empty map.
            slots: SlotConfig { quota: 64, longest_hold: Nanos::from_millis(1000) },
            max_call: Nanos::from_millis(10),
            max_control_call: Nanos::from_millis(5000),
        }
    }
}

/// Why an instance was not made.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// No memory, no address space, no mapping.
    #[error("{name}: no memory for an instance: {reason}")]
    Memory {
        /// The function.
        name: String,
        /// What was refused.
        reason: String,
    },
    /// The image does not keep the contract.
    #[error("{name}: {reason}")]
    Contract {
        /// The function.
        name: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// It trapped or ran too long while it started.
    #[error("{name}: starting it {fault}{}", LogSuffix(.log))]
    Fault {
        /// The function.
        name: String,
        /// How it ended.
        fault: GuestFault,
        /// What it logged before.
        log: Vec<LogLine>,
    },
    /// It refused its configuration.
    #[error("{name}: sf_init answered {code}{}", LogSuffix(.log))]
    Refused {
        /// The function.
        name: String,
        /// The function's own error number.
        code: i32,
        /// What it logged before.
        log: Vec<LogLine>,
    },
}

struct LogSuffix<'a>(&'a [LogLine]);

impl std::fmt::Display for LogSuffix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "; it says: {}", line.text))
    }
}

/// What the host keeps for an instance; host calls work on it.
pub(crate) struct GuestState {
    pub(crate) facts: ProgramFacts,
    pub(crate) pool: Arc<Pool>,
    pub(crate) memory: Option<Memory>,
    pub(crate) config: Vec<u8>,
    pub(crate) import: Option<Vec<u8>>,
    pub(crate) export: Option<Vec<u8>>,
    pub(crate) report: Option<Vec<u8>>,
    pub(crate) log: Vec<LogLine>,
    pub(crate) lines_lost: u64,
    pub(crate) events: Events,
    pub(crate) event_bytes: usize,
    pub(crate) counters: Vec<u64>,
    pub(crate) slots: SlotTable,
    pub(crate) quota: usize,
    pub(crate) emitted: Vec<Packet>,
    pub(crate) generated: u64,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) now: Nanos,
}

impl GuestState {
    /// Packets that count against the quota: kept ones, and those given up in the current call.
    pub(crate) fn kept(&self) -> usize {
        self.slots.len() + self.emitted.len()
    }
}

/// The records in the guest's memory.
struct BatchArea(NonNull<PacketRecord>);

// SAFETY: it points into the memory of the store beside it, is used only by methods that borrow that store
// exclusively, and moves together with it.
unsafe impl Send for BatchArea {}

/// A function running in a sandbox.
pub struct WasmGuest {
    store: Store<GuestState>,
    batch: BatchArea,
    process: TypedFunc<(u32, u64), ()>,
    instance: Instance,
    max_call: Cycles,
    max_control_call: Cycles,
    limits: (Nanos, Nanos),
    program: Arc<Program>,
}

impl WasmGuest {
    /// Makes an instance and starts it.
    ///
    /// # Errors
    /// [`InstanceError`]; everything taken is given back.
    pub fn new(
        program: &Arc<Program>,
        pool: &Arc<Pool>,
        settings: InstanceSettings,
    ) -> Result<WasmGuest, InstanceError> {
        let facts = program.facts();
        let state = GuestState {
            pool: pool.clone(),
            memory: None,
            config: settings.config,
            import: None,
            export: None,
            report: None,
            log: Vec::new(),
            lines_lost: 0,
            events: Events::default(),
            event_bytes: 0,
            counters: vec![0; usize::from(facts.counters)],
            slots: SlotTable::new(settings.slots),
            quota: settings.slots.quota as usize,
            emitted: Vec::new(),
            generated: 0,
            deadline: None,
            now: Nanos(0),
            facts: facts.clone(),
        };
        let engine = &program.sandbox.engine;
        let clock = watchdog::clock();
        let max_control_call = clock.cycles(settings.max_control_call);
        let mut store = Store::new(engine, state);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|_| {
            // The epoch is the process's; whether it was advanced for this call only the worker's clock can tell.
            Ok(if watchdog::overdue() { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
        });

        let contract = |reason: String| InstanceError::Contract { name: facts.name.clone(), reason };
        let request = MemoryRequest { pool: pool.clone(), access: facts.access, limit: facts.memory_limit };
        // A start function runs here, so this is a call like any other.
        let instance = {
            let _call = watchdog::begin(engine, Cycles::now(), max_control_call);
            with_request(request, || program.instance_pre.instantiate(&mut store))
        };
        let instance = instance.map_err(|error| match error.downcast_ref::<Trap>() {
            Some(_) => InstanceError::Fault {
                name: facts.name.clone(),
                fault: fault(&error, settings.max_control_call),
                log: std::mem::take(&mut store.data_mut().log),
            },
            None => InstanceError::Memory { name: facts.name.clone(), reason: format!("{error:#}") },
        })?;
        let memory = instance
            .get_memory(&mut store, exports::MEMORY)
            .ok_or_else(|| contract(format!("the image exports no `{}`", exports::MEMORY)))?;
        store.data_mut().memory = Some(memory);

        let missing = |name: &str, error: wasmtime::Error| contract(format!("export `{name}`: {error:#}"));
        let process = instance
            .get_typed_func::<(u32, u64), ()>(&mut store, exports::PROCESS)
            .map_err(|error| missing(exports::PROCESS, error))?;
        let init = instance
            .get_typed_func::<(), i32>(&mut store, exports::INIT)
            .map_err(|error| missing(exports::INIT, error))?;
        let batch = instance
            .get_typed_func::<(), u32>(&mut store, exports::BATCH)
            .map_err(|error| missing(exports::BATCH, error))?;

        let mut guest = WasmGuest {
            batch: BatchArea(NonNull::dangling()),
            process,
            instance,
            max_call: clock.cycles(settings.max_call),
            max_control_call,
            limits: (settings.max_call, settings.max_control_call),
            program: program.clone(),
            store,
        };
        let fault = |guest: &mut WasmGuest, fault| InstanceError::Fault {
            name: facts.name.clone(),
            fault,
            log: std::mem::take(&mut guest.store.data_mut().log),
        };
        let now = clock.moment();
        let address = guest.control(&batch, (), now).map_err(|error| fault(&mut guest, error))?;
        guest.batch = guest.locate_batch(memory, address).map_err(contract)?;
        match guest.control(&init, (), now) {
            Ok(0) => Ok(guest),
            Ok(code) => Err(InstanceError::Refused {
                name: facts.name.clone(),
                code,
                log: std::mem::take(&mut guest.store.data_mut().log),
            }),
            Err(error) => Err(fault(&mut guest, error)),
        }
    }

    /// Bytes of private memory now.
    pub fn private_bytes(&self) -> usize {
        self.store.data().memory.map_or(0, |memory| memory.data_size(&self.store))
    }

    /// Log lines that found no room.
    pub fn log_lines_lost(&self) -> u64 {
        self.store.data().lines_lost
    }

    fn locate_batch(&self, memory: Memory, address: u32) -> Result<BatchArea, String> {
        let bytes = MAX_BATCH * size_of::<PacketRecord>();
        let end = (address as usize).saturating_add(bytes);
        let size = memory.data_size(&self.store);
        if !(address as usize).is_multiple_of(align_of::<PacketRecord>()) || end > size {
            return Err(format!(
                "`{}` answered {address:#x}; allowed: a multiple of 64 with {bytes} bytes inside the {size} bytes \
                 of private memory",
                exports::BATCH
            ));
        }
        // SAFETY: inside the memory, which neither moves nor shrinks while the store lives.
        let area = unsafe { memory.data_ptr(&self.store).add(address as usize) }.cast();
        NonNull::new(area).map(BatchArea).ok_or_else(|| "the memory is at address zero".to_owned())
    }

    /// Calls with packets in the records: the time is the short one.
    #[inline]
    fn call_batch(&mut self, count: usize, now: Moment) -> Result<(), GuestFault> {
        self.store.data_mut().now = now.nanos;
        let result = {
            let _call = watchdog::begin(&self.program.sandbox.engine, now.cycles, self.max_call);
            self.process.call(&mut self.store, (count as u32, now.nanos.0))
        };
        result.map_err(|error| fault(&error, self.limits.0))
    }

    fn control<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        params: P,
        now: Moment,
    ) -> Result<R, GuestFault> {
        self.store.data_mut().now = now.nanos;
        let result = {
            let _call = watchdog::begin(&self.program.sandbox.engine, Cycles::now(), self.max_control_call);
            function.call(self.store.as_context_mut(), params)
        };
        result.map_err(|error| fault(&error, self.limits.1))
    }

    fn optional<P: WasmParams, R: WasmResults>(&mut self, name: &str) -> Option<TypedFunc<P, R>> {
        self.instance.get_typed_func(&mut self.store, name).ok()
    }
}

fn fault(error: &wasmtime::Error, limit: Nanos) -> GuestFault {
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => GuestFault::TimedOut { limit },
        Some(trap) => GuestFault::Trap(trap.to_string().trim_start_matches("wasm trap: ").to_owned()),
        None => GuestFault::Trap(format!("{error:#}")),
    }
}

impl Guest for WasmGuest {
    #[inline]
    fn process(&mut self, packets: &mut [Packet], now: Moment) -> Result<Progress, GuestFault> {
        let count = packets.len();
        assert!(count <= MAX_BATCH, "a batch has at most {MAX_BATCH} packets");
        let batch = self.batch.0;
        for (n, packet) in packets.iter().enumerate() {
            // SAFETY: `n` is less than MAX_BATCH, and the area has that many records; no guest runs now.
            unsafe {
                // The whole line at once, then the one field that differs.
                batch.add(n).write(*packet.record());
                (&raw mut (*batch.add(n).as_ptr()).verdict).write(0);
            }
        }
        self.call_batch(count, now)?;

        let state = self.store.data();
        let (facts, buffer_size) = (&state.facts, state.pool.buffer_size());
        // Verdicts mostly repeat, so the last one that was checked is not checked again.
        let mut allowed = nf_abi::Verdict::None.encode();
        for (n, packet) in packets.iter_mut().enumerate() {
            // SAFETY: as above. Each field is read once, here; what the guest does to it later has no effect.
            let answer = unsafe { batch.add(n).read() };
            let mut verdict = answer.verdict;
            if verdict != allowed {
                if facts.allows(verdict) {
                    allowed = verdict;
                } else {
                    verdict = BAD_VERDICT;
                }
            }
            if (answer.offset, answer.length) != (packet.offset(), packet.length())
                && !(facts.allows_extent(answer.offset, answer.length, buffer_size)
                    && packet.set_extent(answer.offset, answer.length, buffer_size))
            {
                verdict = BAD_VERDICT;
            }
            packet.edit(|record| (record.verdict, record.mark) = (verdict, answer.mark));
        }
        Ok(Progress::Done)
    }

    fn observe(&mut self, packets: &[Packet], now: Moment) -> Result<(), GuestFault> {
        assert!(packets.len() <= MAX_BATCH, "a batch has at most {MAX_BATCH} packets");
        for (n, packet) in packets.iter().enumerate() {
            let record = PacketRecord { verdict: 0, ..*packet.record() };
            // SAFETY: as in `process`.
            unsafe { self.batch.0.add(n).write(record) };
        }
        self.call_batch(packets.len(), now)
    }

    fn deadline(&self) -> Option<Nanos> {
        self.store.data().deadline
    }

    fn timer(&mut self, now: Moment) -> Result<(), GuestFault> {
        self.store.data_mut().deadline = None;
        let Some(timer) = self.optional::<u64, ()>(exports::TIMER) else { return Ok(()) };
        self.store.data_mut().now = now.nanos;
        let result = {
            let _call = watchdog::begin(&self.program.sandbox.engine, now.cycles, self.max_call);
            timer.call(&mut self.store, now.nanos.0)
        };
        result.map_err(|error| fault(&error, self.limits.0))
    }

    #[inline]
    fn take_emitted(&mut self) -> &mut Vec<Packet> {
        &mut self.store.data_mut().emitted
    }

    fn slots(&mut self) -> &mut SlotTable {
        &mut self.store.data_mut().slots
    }

    fn take_generated(&mut self) -> u64 {
        std::mem::take(&mut self.store.data_mut().generated)
    }

    fn surrender(&mut self, out: &mut Vec<Packet>) {
        let state = self.store.data_mut();
        out.append(&mut state.emitted);
        state.slots.surrender(out);
    }

    fn counters(&self) -> &[u64] {
        &self.store.data().counters
    }

    fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.store.data_mut().log)
    }

    fn take_events(&mut self) -> Events {
        let state = self.store.data_mut();
        state.event_bytes = 0;
        std::mem::take(&mut state.events)
    }

    fn report(&mut self, now: Moment) -> Result<Option<String>, GuestFault> {
        let Some(report) = self.optional::<u64, ()>(exports::REPORT) else { return Ok(None) };
        self.store.data_mut().report = Some(Vec::new());
        let called = self.control(&report, now.nanos.0, now);
        let text = self.store.data_mut().report.take().unwrap_or_default();
        called?;
        match String::from_utf8(text) {
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(GuestFault::Contract("the report is not UTF-8".to_owned())),
        }
    }

    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        let Some(export) = self.optional::<(), i32>(exports::EXPORT_STATE) else { return Ok(None) };
        self.store.data_mut().export = Some(Vec::new());
        let called = self.control(&export, (), watchdog::clock().moment());
        let bytes = self.store.data_mut().export.take().unwrap_or_default();
        Ok((called? == 0).then_some(bytes))
    }

    fn import_state(&mut self, state: &[u8]) -> Result<bool, GuestFault> {
        let Some(import) = self.optional::<(), i32>(exports::IMPORT_STATE) else { return Ok(false) };
        self.store.data_mut().import = Some(state.to_vec());
        let called = self.control(&import, (), watchdog::clock().moment());
        self.store.data_mut().import = None;
        Ok(called? == 0)
    }
}

impl Drop for WasmGuest {
    fn drop(&mut self) {
        let state = self.store.data_mut();
        let mut left = std::mem::take(&mut state.emitted);
        state.slots.surrender(&mut left);
        state.pool.free_batch(left);
    }
}

impl std::fmt::Debug for WasmGuest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmGuest").field("facts", &self.store.data().facts).finish_non_exhaustive()
    }
}
