//! What the host keeps for an instance.

use crate::program::{Program, ProgramFacts};
use crate::settings::InstanceSettings;
use clock::Nanos;
use guest::{Events, LogLine, SlotTable};
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use wasmtime::{InstancePre, Memory, Store, TypedFunc, WasmParams, WasmResults};

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
    /// Of an instance that has not begun yet.
    pub(crate) fn new(facts: &ProgramFacts, pool: &Arc<Pool>, settings: InstanceSettings) -> GuestState {
        GuestState {
            facts: facts.clone(),
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
        }
    }

    /// Packets that count against the quota: kept ones, and those given up in the current call.
    pub(crate) fn kept(&self) -> usize {
        self.slots.len() + self.emitted.len()
    }

    /// Takes every packet out.
    pub(crate) fn surrender(&mut self, out: &mut Vec<Packet>) {
        out.append(&mut self.emitted);
        self.slots.surrender(out);
    }

    pub(crate) fn take_events(&mut self) -> Events {
        self.event_bytes = 0;
        std::mem::take(&mut self.events)
    }
}
impl Drop for GuestState {
    fn drop(&mut self) {
        let mut left = Vec::new();
        self.surrender(&mut left);
        self.pool.free_batch(left);
    }
}

/// How a store has its host's state: in itself, or lent by a guest that can be switched out.
pub(crate) trait HostState: Send + Sized + 'static {
    fn state(&self) -> &GuestState;
    fn state_mut(&mut self) -> &mut GuestState;

    /// The program, linked for stores of this kind.
    fn linked(program: &Program) -> &InstancePre<Self>;

    /// Calls a function and comes back when it has ended.
    fn call<P: WasmParams + Sync, R: WasmResults + Sync>(
        store: &mut Store<Self>,
        function: &TypedFunc<P, R>,
        params: P,
    ) -> wasmtime::Result<R>;
}

impl HostState for GuestState {
    #[inline]
    fn state(&self) -> &GuestState {
        self
    }

    #[inline]
    fn state_mut(&mut self) -> &mut GuestState {
        self
    }

    fn linked(program: &Program) -> &InstancePre<GuestState> {
        &program.instance_pre
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
