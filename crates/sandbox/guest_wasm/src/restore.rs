//! Instances made of what was saved. A snapshot is believed as little as a guest: it says what a guest's
//! memory and globals are, which the sandbox bounds anyway, and everything else of it is checked here.

use crate::body::{Body, limits};
use crate::error::{InstanceError, RestoreError};
use crate::instance::WasmGuest;
use crate::preemptible::PreemptibleGuest;
use crate::program::Program;
use crate::save::to_wasm;
use crate::settings::{InstanceSettings, Slice};
use crate::shared_memory::SharedMemory;
use crate::state::{GuestState, HostState};
use crate::touched::touched;
use crate::watchdog;
use guest::Guest;
use image_digest::shown;
use nf_abi::ABI_VERSION;
use packet_memory::Pool;
use snapshot::{Global, Identity, Memory, PAGE, Saved, Value};
use std::sync::Arc;
use telemetry::clock::Nanos;
use wasmtime::{Memory as LinearMemory, Val};

/// Makes an instance of what was saved, of the kind that the settings ask for, and without running any of its
/// code. It goes on where the saved one was: its memory, globals, counters, deadline, log and events, and the
/// packets that it held, copied into the pool. Packets that waited for the saved instance
/// ([`snapshot::PacketState::Queued`]) and tallies are for the caller.
///
/// A held packet lies in another buffer than before: an instance that remembers addresses of held packets'
/// bytes, rather than their slots, reads other bytes of its own tenant there.
///
/// # Errors
/// [`RestoreError`]; everything taken is given back.
pub fn restore(
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    settings: InstanceSettings,
    saved: &Saved<'_>,
) -> Result<Box<dyn Guest>, RestoreError> {
    restored(program, pool, settings, saved, Source::Copied(&saved.memory))
}

/// The same, with memory that it shares with others until it writes. `memory` is that of the snapshot.
///
/// # Errors
/// [`RestoreError`]; everything taken is given back.
pub fn restore_sharing(
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    settings: InstanceSettings,
    saved: &Saved<'_>,
    memory: &Arc<SharedMemory>,
) -> Result<Box<dyn Guest>, RestoreError> {
    restored(program, pool, settings, saved, Source::Shared(memory))
}

fn restored(
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    settings: InstanceSettings,
    saved: &Saved<'_>,
    memory: Source<'_>,
) -> Result<Box<dyn Guest>, RestoreError> {
    let values = check(program, saved)?;
    let pace = Pace::new(&settings);
    let mut state = state(program, pool, settings, &saved.identity)?;
    state.restore(&saved.host);
    let name = || program.facts().name.clone();
    let packet = |(slot, reason)| RestoreError::Packet { name: name(), slot, reason };
    state.restore_packets(&saved.packets, watchdog::clock().now()).map_err(packet)?;
    let content = Content { size: saved.memory.size(), memory, values: &values, batch: saved.host.batch };
    revive(program, pace, &content, &mut state)
}

/// How fast an instance has to be.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) limits: (Nanos, Nanos),
    pub(crate) slice: Option<Slice>,
}

impl Pace {
    pub(crate) fn new(settings: &InstanceSettings) -> Pace {
        Pace { limits: limits(settings), slice: settings.preemptible }
    }
}

/// What an instance's memory and globals are to be.
pub(crate) struct Content<'a> {
    pub(crate) memory: Source<'a>,
    /// Bytes of memory.
    pub(crate) size: u64,
    /// Of the program's mutable globals, in their order; each of its global's type.
    pub(crate) values: &'a [Val],
    /// Where the records lie.
    pub(crate) batch: u32,
}

/// Where memory comes from.
pub(crate) enum Source<'a> {
    Copied(&'a Memory<'a>),
    Shared(&'a Arc<SharedMemory>),
}

/// Whether a snapshot is one of this program; its globals' values.
pub(crate) fn check(program: &Program, saved: &Saved<'_>) -> Result<Vec<Val>, RestoreError> {
    let facts = program.facts();
    let (name, identity) = (|| facts.name.clone(), &saved.identity);
    if identity.image != facts.image {
        return Err(RestoreError::Image {
            name: name(),
            saved: identity.name.clone(),
            found: shown(&identity.image),
            needed: shown(&facts.image),
        });
    }
    if identity.abi != ABI_VERSION {
        return Err(RestoreError::Abi { name: name(), found: identity.abi, needed: ABI_VERSION });
    }
    let content = |reason: String| RestoreError::Content { name: name(), reason };
    saved.check().map_err(|error| content(error.to_string()))?;
    let (size, most) = (saved.memory.size(), facts.memory_limit);
    if size > most {
        return Err(content(format!("{size} bytes of memory were saved; the manifest allows {most}")));
    }
    let (found, needed) = (saved.host.counters.len(), usize::from(facts.counters));
    if found != needed {
        return Err(content(format!("{found} counters were saved; the manifest names {needed}")));
    }
    let names = || saved.globals.iter().map(|global| &global.name);
    if !names().eq(program.plain.globals.iter().map(|global| &global.name)) {
        let (found, needed) = (saved.globals.len(), program.plain.globals.len());
        return Err(content(format!(
            "{found} mutable globals were saved; the image has {needed}, or other ones"
        )));
    }
    let typed = |(Global { name, value }, global): (&Global, &crate::program::MutableGlobal)| {
        to_wasm(*value, &global.kind).ok_or_else(|| {
            content(format!("global `{name}` was saved as {}; it is of type {}", kind(*value), global.kind))
        })
    };
    saved.globals.iter().zip(&program.plain.globals).map(typed).collect()
}

fn kind(value: Value) -> &'static str {
    match value {
        Value::I32(_) => "i32",
        Value::I64(_) => "i64",
        Value::F32(_) => "f32",
        Value::F64(_) => "f64",
        Value::V128(_) => "v128",
    }
}

/// The host's state of an instance with the configuration that was saved.
pub(crate) fn state(
    program: &Program,
    pool: &Arc<Pool>,
    settings: InstanceSettings,
    saved: &Identity,
) -> Result<GuestState, RestoreError> {
    let (found, needed) = (&saved.config, &settings.config);
    if found != needed {
        let name = program.facts().name.clone();
        return Err(RestoreError::Config { name, found: found.len(), needed: needed.len() });
    }
    Ok(GuestState::new(program.facts(), pool, settings))
}

/// Makes a guest of memory, globals and the host's state, which stays where it is unless that succeeds.
pub(crate) fn revive(
    program: &Arc<Program>,
    pace: Pace,
    content: &Content<'_>,
    state: &mut GuestState,
) -> Result<Box<dyn Guest>, RestoreError> {
    let facts = program.facts();
    let pool = state.pool.clone();
    let mut empty = GuestState::empty(facts, &pool);
    empty.facts.memory_limit = state.facts.memory_limit;
    match pace.slice {
        None => {
            let mut body = Body::of(program, &pool, empty, pace, content)?;
            body.adopt(state);
            Ok(Box::new(WasmGuest(body)))
        }
        Some(slice) => {
            let guest = PreemptibleGuest::around(program, empty, slice, |lent| {
                let mut body = Body::of(program, &pool, lent, pace, content)?;
                body.adopt(state);
                Ok::<_, RestoreError>(body)
            })?;
            Ok(Box::new(guest))
        }
    }
}

impl<T: HostState> Body<T> {
    /// An instance with this content. `host` is replaced by [`Body::adopt`].
    fn of(
        program: &Arc<Program>,
        pool: &Arc<Pool>,
        host: T,
        pace: Pace,
        content: &Content<'_>,
    ) -> Result<Body<T>, RestoreError> {
        let mut body = Body::open(program, pool, host, pace.limits)?;
        let name = || program.facts().name.clone();
        let wrong = |reason: String| RestoreError::Content { name: name(), reason };
        let no_memory =
            |reason: String| RestoreError::Instance(InstanceError::Memory { name: name(), reason });
        let Some(memory) = body.store.data().state().memory else {
            return Err(wrong("an instance without memory".to_owned()));
        };
        let (size, begins) = (content.size, memory.data_size(&body.store) as u64);
        if size < begins {
            return Err(wrong(format!("{size} bytes of memory were saved; the image begins with {begins}")));
        }
        // Before it grows: grown memory may be made of huge pages, and there would be more of it to look at.
        // What will be mapped away need not be zeroed.
        body.zero(memory, if let Source::Shared(shared) = &content.memory { shared.bytes() } else { 0 });
        let pages = (size - begins) / snapshot::limits::MEMORY_UNIT;
        memory.grow(&mut body.store, pages).map_err(|error| no_memory(format!("{error:#}")))?;
        match &content.memory {
            Source::Copied(saved) => {
                // What was saved is written in one go, on huge pages; what its calls touch later is not.
                let shell = body.shell.clone();
                let advise = |huge| shell.as_ref().and_then(|shell| shell.with(|it| it.advise_huge(huge)));
                advise(true);
                saved.write_to(memory.data_mut(&mut body.store));
                advise(false);
            }
            Source::Shared(shared) => {
                let mapped =
                    body.shell.as_ref().and_then(|shell| shell.with(|shell| shell.map_shared(shared)));
                match mapped {
                    Some(Ok(())) => body.shared = Some(Arc::clone(shared)),
                    Some(Err(error)) => return Err(no_memory(error.to_string())),
                    None => return Err(no_memory("its shell has gone".to_owned())),
                }
            }
        }
        body.set_globals(content.values).map_err(|name| wrong(format!("global `{name}` cannot be set")))?;
        body.put_batch(content.batch).map_err(wrong)?;
        Ok(body)
    }

    /// Sets the mutable globals, in their order; `Err`: the name of one that cannot be set.
    pub(crate) fn set_globals(&mut self, values: &[Val]) -> Result<(), String> {
        let program = self.program.clone();
        for (global, value) in T::linked(&program).globals.iter().zip(values) {
            let found = self.instance.get_module_export(&mut self.store, &global.export);
            let set = found.and_then(wasmtime::Extern::into_global).map(|it| it.set(&mut self.store, *value));
            if !matches!(set, Some(Ok(()))) {
                return Err(global.name.clone());
            }
        }
        Ok(())
    }

    /// Takes the host's state of the saved instance over, and leaves its own.
    fn adopt(&mut self, state: &mut GuestState) {
        let mine = self.store.data_mut().state_mut();
        state.memory = mine.memory.take();
        std::mem::swap(mine, state);
    }

    /// Zeroes what instantiation wrote, from `start` on: data of the image that the saved instance may have
    /// cleared.
    pub(crate) fn zero(&mut self, memory: LinearMemory, start: usize) {
        let bytes = memory.data_mut(&mut self.store).get_mut(start..).unwrap_or_default();
        let mut ranges = Vec::new();
        touched(bytes.as_ptr() as usize, bytes.len(), &mut ranges);
        for range in ranges {
            for page in bytes.get_mut(range).unwrap_or_default().as_chunks_mut::<PAGE>().0 {
                // Pages of a shell that was used before are there and zero: they are read, and not made
                // dirty.
                if page.as_chunks::<8>().0.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word)) != 0 {
                    page.fill(0);
                }
            }
        }
    }
}

mod image_digest {
    /// A digest in hexadecimal.
    pub(super) fn shown(digest: &[u8; 32]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
