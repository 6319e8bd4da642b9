// UNSAFETY: the batch of records lies in the guest's private memory and is written and read through a raw
// pointer. Miri runs no compiled code; `tests/sandbox` does.
#![allow(unsafe_code)]
//! A program in a shell: what both kinds of instances are made of.

use crate::error::{InstanceError, fault};
use crate::guest_memory::{LentShell, MemoryRequest, with_request};
use crate::program::Program;
use crate::settings::InstanceSettings;
use crate::shared_memory::SharedMemory;
use crate::state::HostState;
use crate::watchdog::{self, Reach, Terms};
use guest::{Answers, BAD_VERDICT, GuestFault, to_other_version};
use nf_abi::{MAX_BATCH, OTHER_VERSION, PacketRecord, exports};
use packet_memory::{Packet, Pool};
use std::ptr::NonNull;
use std::sync::Arc;
use telemetry::clock::{Cycles, Moment, Nanos};
use wasmtime::{Instance, Memory, Store, Trap, TypedFunc, UpdateDeadline, WasmParams, WasmResults};

/// The records in the guest's memory.
struct BatchArea(NonNull<PacketRecord>);

// SAFETY: it points into the memory of the store beside it, is used only by methods that borrow that store
// exclusively, and moves together with it.
unsafe impl Send for BatchArea {}

/// Memory of this size and above counts as reserved: it is populated when an instance starts. Below, it
/// faults at most 512 times in all.
const RESERVED_FROM: usize = 2 << 20;

/// What the store of an instance that can be switched out asks when the epoch was advanced: whether that was
/// for its own call only the worker's clock can tell.
fn on_epoch() -> UpdateDeadline {
    match watchdog::ending() {
        watchdog::GOES_ON => UpdateDeadline::Continue(1),
        watchdog::SLICE_OVER => UpdateDeadline::Yield(1),
        _ => UpdateDeadline::Interrupt,
    }
}

/// A running program, its functions and their limits.
pub(crate) struct Body<T: HostState> {
    pub(crate) store: Store<T>,
    batch: BatchArea,
    /// Guest address of the records.
    pub(crate) batch_address: u32,
    pub(crate) process: TypedFunc<(u32, u64), ()>,
    pub(crate) instance: Instance,
    /// Address space of its memory.
    pub(crate) shell: Option<LentShell>,
    /// What its memory was when it was made, as long as it did not write; for a clone.
    pub(crate) shared: Option<Arc<SharedMemory>>,
    /// The terms of calls with packets, and of any other.
    pub(crate) calls: Terms,
    pub(crate) control_calls: Terms,
    pub(crate) limits: (Nanos, Nanos),
    pub(crate) program: Arc<Program>,
}

impl<T: HostState> Body<T> {
    /// Makes an instance and starts it. `host` is its state, made of the same settings.
    pub(crate) fn start(
        program: &Arc<Program>,
        pool: &Arc<Pool>,
        host: T,
        limits: (Nanos, Nanos),
    ) -> Result<Body<T>, InstanceError> {
        let mut body = Body::open(program, pool, host, limits)?;
        let name = &program.facts().name;
        let contract = |reason: String| InstanceError::Contract { name: name.clone(), reason };
        let missing = |name: &str, error: wasmtime::Error| contract(format!("export `{name}`: {error:#}"));
        let init = body
            .instance
            .get_typed_func::<(), i32>(&mut body.store, exports::INIT)
            .map_err(|error| missing(exports::INIT, error))?;
        let batch = body
            .instance
            .get_typed_func::<(), u32>(&mut body.store, exports::BATCH)
            .map_err(|error| missing(exports::BATCH, error))?;
        let fault = |body: &mut Body<T>, fault| InstanceError::Fault {
            name: name.clone(),
            fault,
            log: std::mem::take(&mut body.store.data_mut().state_mut().kept.log),
        };
        let now = watchdog::clock().moment();
        let address = body.control(&batch, (), now).map_err(|error| fault(&mut body, error))?;
        body.put_batch(address).map_err(contract)?;
        match body.control(&init, (), now) {
            Ok(0) => {
                let size = body.private_bytes();
                body.populate(size);
                Ok(body)
            }
            Ok(code) => Err(InstanceError::Refused {
                name: name.clone(),
                code,
                log: std::mem::take(&mut body.store.data_mut().state_mut().kept.log),
            }),
            Err(error) => Err(fault(&mut body, error)),
        }
    }

    /// Makes an instance of which nothing has run but what instantiation runs. It has no records yet.
    pub(crate) fn open(
        program: &Arc<Program>,
        pool: &Arc<Pool>,
        host: T,
        limits: (Nanos, Nanos),
    ) -> Result<Body<T>, InstanceError> {
        let facts = program.facts();
        let linked = T::linked(program);
        let engine = linked.pre.module().engine();
        let reach = Arc::new(Reach::new(engine, linked.code(), linked.poll_address));
        let [calls, control_calls] =
            [limits.0, limits.1].map(|limit| Terms::new(&reach, watchdog::clock().cycles(limit)));
        let mut store = Store::new(engine, host);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|_| Ok(on_epoch()));

        let contract = |reason: String| InstanceError::Contract { name: facts.name.clone(), reason };
        // The instance's own, which may be less than the manifest's.
        let limit = store.data().state().facts.memory_limit;
        let request = MemoryRequest { pool: pool.clone(), access: facts.access, limit, reach: reach.clone() };
        // A start function runs here, so this is a call like any other.
        let (instance, shell) = {
            let call = watchdog::begin(&control_calls, Cycles::now());
            let (instance, shell) = with_request(request, || linked.pre.instantiate(&mut store));
            let ended = match call.end() {
                true => Ok(ended_late(&reach, shell.as_ref(), instance, limits.1)),
                false => instance.map(Ok),
            };
            (ended, shell)
        };
        let faulted = |fault, store: &mut Store<T>| InstanceError::Fault {
            name: facts.name.clone(),
            fault,
            log: std::mem::take(&mut store.data_mut().state_mut().kept.log),
        };
        let instance = match instance {
            Ok(ended) => ended.map_err(|fault| faulted(fault, &mut store))?,
            Err(error) if error.is::<Trap>() => return Err(faulted(fault(&error, limits.1), &mut store)),
            Err(error) => {
                let reason = format!("{error:#}");
                return Err(InstanceError::Memory { name: facts.name.clone(), reason });
            }
        };
        let memory = instance
            .get_memory(&mut store, exports::MEMORY)
            .ok_or_else(|| contract(format!("the image exports no `{}`", exports::MEMORY)))?;
        store.data_mut().state_mut().memory = Some(memory);

        let missing = |name: &str, error: wasmtime::Error| contract(format!("export `{name}`: {error:#}"));
        let process = instance
            .get_typed_func::<(u32, u64), ()>(&mut store, exports::PROCESS)
            .map_err(|error| missing(exports::PROCESS, error))?;
        // Instantiation writes to the memory at any time.
        if !T::IS_PREEMPTIBLE {
            reach.end_in_host_calls();
        }
        Ok(Body {
            batch: BatchArea(NonNull::dangling()),
            batch_address: 0,
            process,
            instance,
            shell,
            shared: None,
            calls,
            control_calls,
            limits,
            program: program.clone(),
            store,
        })
    }

    /// Bytes of private memory now.
    pub(crate) fn private_bytes(&self) -> usize {
        self.store.data().state().memory.map_or(0, |memory| memory.data_size(&self.store))
    }

    /// Populates the memory that an instance of this size reserves at its start, so that its first calls do
    /// not wait for the kernel: as much as its settings say, or all of it where that is so much that faults
    /// would be felt. Fewer pages than that are left to be touched: most functions have a few and never use
    /// all.
    pub(crate) fn populate(&mut self, size: usize) {
        let state = self.store.data().state();
        let bytes = match state.resident {
            Some(bytes) => bytes.min(state.facts.memory_limit),
            None if size >= RESERVED_FROM => size as u64,
            None => return,
        };
        if let Some(shell) = &self.shell {
            shell.with(|shell| shell.populate(usize::try_from(bytes).unwrap_or(usize::MAX)));
        }
    }

    /// Where its private memory lies in this process.
    pub(crate) fn private_place(&self) -> usize {
        self.store.data().state().memory.map_or(0, |memory| memory.data_ptr(&self.store) as usize)
    }

    /// Says where the records lie.
    pub(crate) fn put_batch(&mut self, address: u32) -> Result<(), String> {
        let memory = self.store.data().state().memory.ok_or("an instance without memory")?;
        self.batch = self.locate_batch(memory, address)?;
        self.batch_address = address;
        Ok(())
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

    /// Writes the packets' records where the guest reads them.
    #[inline(always)]
    pub(crate) fn show(&mut self, packets: &[Packet]) {
        assert!(packets.len() <= MAX_BATCH, "a batch has at most {MAX_BATCH} packets");
        let batch = self.batch.0;
        for (n, packet) in packets.iter().enumerate() {
            // SAFETY: `n` is less than MAX_BATCH, and the area has that many records; no guest runs now.
            unsafe {
                // The whole line at once, then the fields that differ: the pool's number is the host's.
                batch.add(n).write(*packet.record());
                (&raw mut (*batch.add(n).as_ptr()).verdict).write(0);
                (&raw mut (*batch.add(n).as_ptr()).reserved2).write(0);
            }
        }
    }

    /// Reads the guest's answers into the packets' records. Nearly always all packets get one verdict and
    /// keep their extents, which one pass without a branch finds out; any other batch is looked at packet by
    /// packet.
    #[inline(always)]
    pub(crate) fn take_over(&mut self, packets: &mut [Packet]) -> Answers {
        assert!(packets.len() <= MAX_BATCH, "a batch has at most {MAX_BATCH} packets");
        let batch = self.batch.0;
        // SAFETY: the area has at least one record; no guest runs until the next call.
        let verdict = unsafe { batch.read() }.verdict;
        // Offset and length as one number: their sums stay apart, as a batch has less than 4 GiB of both.
        let extent = |offset: u32, length: u32| u64::from(offset) | u64::from(length) << 32;
        let (mut differ, mut extents) = (0, 0);
        for (n, packet) in packets.iter_mut().enumerate() {
            // SAFETY: `n` is less than MAX_BATCH, and the area has that many records.
            let answer = unsafe { batch.add(n).read() };
            let before = extent(packet.offset(), packet.length());
            extents += before;
            differ |= u64::from(answer.verdict ^ verdict) | (extent(answer.offset, answer.length) ^ before);
            packet.edit(|record| (record.verdict, record.mark) = (verdict, answer.mark));
        }
        let state = self.store.data().state();
        if differ == 0
            && let Some(verdict) = state.facts.allowed(verdict)
        {
            let (interface, has_left_over) = (verdict.interface(), state.kept.has_left_over);
            return Answers { interface, bytes: extents >> 32, has_left_over };
        }
        self.take_over_each(packets)
    }

    /// The same, one by one: what a function answers it may not becomes [`BAD_VERDICT`].
    #[inline(never)]
    fn take_over_each(&mut self, packets: &mut [Packet]) -> Answers {
        let state = self.store.data().state();
        let (facts, buffer_size) = (&state.facts, state.pool.buffer_size());
        for (n, packet) in packets.iter_mut().enumerate() {
            // SAFETY: as above; no guest has run since, so what is read is what was read there.
            let answer = unsafe { self.batch.0.add(n).read() };
            let may_change = facts.allows_extent(answer.offset, answer.length, buffer_size);
            let extent_holds = (answer.offset, answer.length) == (packet.offset(), packet.length())
                || may_change && packet.move_extent(answer.offset, answer.length, buffer_size);
            let (verdict, is_other) = (answer.verdict & !OTHER_VERSION, answer.verdict & OTHER_VERSION != 0);
            let holds = extent_holds && facts.allowed(verdict).is_some();
            packet.edit(|record| {
                let is_cut = !is_other || may_change && to_other_version(record);
                record.verdict = if holds && is_cut { verdict } else { BAD_VERDICT };
            });
        }
        Answers::of(packets)
    }

    /// Calls with packets in the records: the time is the short one.
    #[inline(always)]
    pub(crate) fn call_batch(&mut self, count: usize, now: Moment) -> Result<(), GuestFault> {
        self.store.data_mut().state_mut().kept.now = now.nanos;
        let call = watchdog::begin(&self.calls, now.cycles);
        let result = T::call(&mut self.store, &self.process, (count as u32, now.nanos.0));
        self.ended(call.end(), result, self.limits.0)
    }

    /// The outcome of a call that has ended and may have taken `limit`. Its time is up when it is `overdue`:
    /// its memory may be inaccessible then, and is made accessible again.
    #[inline]
    pub(crate) fn ended<R>(
        &self,
        overdue: bool,
        result: wasmtime::Result<R>,
        limit: Nanos,
    ) -> Result<R, GuestFault> {
        if overdue {
            return ended_late(self.calls.reach(), self.shell.as_ref(), result, limit);
        }
        result.map_err(|error| fault(&error, limit))
    }

    pub(crate) fn observe(&mut self, packets: &[Packet], now: Moment) -> Result<(), GuestFault> {
        self.show(packets);
        self.call_batch(packets.len(), now)
    }

    fn control<P: WasmParams + Sync, R: WasmResults + Sync>(
        &mut self,
        function: &TypedFunc<P, R>,
        params: P,
        now: Moment,
    ) -> Result<R, GuestFault> {
        self.store.data_mut().state_mut().kept.now = now.nanos;
        let call = watchdog::begin(&self.control_calls, Cycles::now());
        let result = T::call(&mut self.store, function, params);
        self.ended(call.end(), result, self.limits.1)
    }

    fn optional<P: WasmParams, R: WasmResults>(&mut self, name: &str) -> Option<TypedFunc<P, R>> {
        self.instance.get_typed_func(&mut self.store, name).ok()
    }

    /// Tells the function what is new of its devices, has it go on with a changed file, and calls its timer
    /// when that is due, or there was neither.
    pub(crate) fn timer(&mut self, now: Moment) -> Result<(), GuestFault> {
        let has_devices = self.store.data_mut().state_mut().renew_devices();
        if has_devices {
            self.call_at::<()>(exports::DEVICES, now)?;
        }
        let has_change = self.store.data().state().kept.change.is_some();
        if has_change {
            let answer = self.call_at(exports::CHANGE, now)?.unwrap_or(nf_abi::change::REFUSED);
            self.store.data_mut().state_mut().answer(answer);
        }
        let kept = &mut self.store.data_mut().state_mut().kept;
        if (has_devices || has_change) && kept.deadline.is_none_or(|deadline| deadline > now.nanos) {
            return Ok(());
        }
        kept.deadline = None;
        self.call_at::<()>(exports::TIMER, now).map(drop)
    }

    pub(crate) fn finish(&mut self, now: Moment) -> Result<bool, GuestFault> {
        Ok(self.call_at::<i32>(exports::FINISH, now)?.is_some_and(|answer| answer != 0))
    }

    /// Calls an optional function that takes the time; `None`: there is none.
    fn call_at<R: WasmResults + Sync>(&mut self, name: &str, now: Moment) -> Result<Option<R>, GuestFault> {
        let Some(function) = self.optional::<u64, R>(name) else { return Ok(None) };
        self.store.data_mut().state_mut().kept.now = now.nanos;
        let call = watchdog::begin(&self.calls, Cycles::now());
        let result = T::call(&mut self.store, &function, now.nanos.0);
        self.ended(call.end(), result, self.limits.0).map(Some)
    }

    pub(crate) fn report(&mut self, now: Moment) -> Result<Option<String>, GuestFault> {
        self.store.data_mut().state_mut().report = Some(Vec::new());
        // It is asked for while packets wait: it has the time of any other call.
        let called = self.call_at::<()>(exports::REPORT, now);
        let text = self.store.data_mut().state_mut().report.take().unwrap_or_default();
        called?;
        match String::from_utf8(text) {
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(GuestFault::Contract("the report is not UTF-8".to_owned())),
        }
    }

    pub(crate) fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        let Some(export) = self.optional::<(), i32>(exports::EXPORT_STATE) else { return Ok(None) };
        self.store.data_mut().state_mut().export = Some(Vec::new());
        let called = self.control(&export, (), watchdog::clock().moment());
        let bytes = self.store.data_mut().state_mut().export.take().unwrap_or_default();
        Ok((called? == 0).then_some(bytes))
    }

    pub(crate) fn import_state(&mut self, state: Vec<u8>) -> Result<bool, GuestFault> {
        let Some(import) = self.optional::<(), i32>(exports::IMPORT_STATE) else { return Ok(false) };
        self.store.data_mut().state_mut().import = Some(state);
        let called = self.control(&import, (), watchdog::clock().moment());
        self.store.data_mut().state_mut().import = None;
        Ok(called? == 0)
    }
}

/// The outcome of a call whose time was up.
#[cold]
fn ended_late<R>(
    reach: &Reach,
    shell: Option<&LentShell>,
    result: wasmtime::Result<R>,
    limit: Nanos,
) -> Result<R, GuestFault> {
    let (limit, barred) = (watchdog::exceeded(limit), reach.take_barred());
    let accessible = !barred || shell.and_then(|shell| shell.with(|shell| shell.reopen())) == Some(true);
    match result {
        Ok(answer) if accessible => Ok(answer),
        Err(error) if !barred => Err(fault(&error, limit)),
        _ => Err(GuestFault::TimedOut { limit }),
    }
}

/// The longest time of a call with packets, and of any other.
pub(crate) fn limits(settings: &InstanceSettings) -> (Nanos, Nanos) {
    (settings.max_call, settings.max_control_call)
}
