//! The engine's configuration: which instructions a guest may use, and how its memory lies.

use crate::compile_cache::CompileCache;
use crate::guest_memory::ShellMemoryCreator;
use crate::host_calls;
use crate::lent_state::LentState;
use crate::perf_map::PerfMap;
use crate::program::{CompileError, Program, ProgramFacts};
use crate::shell::{GUARD, RESERVATION, ShellCounts, Shells};
use crate::state::{GuestState, HostState};
use image::Safepoints;
use packet_memory::Pool;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use wasmtime::{Config, Engine, Linker, OptLevel, WasmFeatures};

/// Most bytes of the native stack that a guest's calls may take.
const GUEST_STACK: usize = 256 << 10;

/// Bytes of the stack that each preemptible instance has of its own, as long as it lives: the guest's part,
/// and as much for host calls, signal handlers and the engine. Only pages that were touched take memory: 8
/// KiB for a function that calls little. Behind it lies a guard page, and both are mappings beside the three
/// of the shell.
pub const FIBRE_STACK: usize = 2 * GUEST_STACK;

/// Most functions of a trap's backtrace.
const TRACE: usize = 16;

/// What a guest may use, the same as `image::limits::FEATURES`; every other proposal is off, known ones and
/// those to come. Bulk memory is off although toolchains emit it: inside the engine it is a call into host
/// code, where a fault in a read-only window would be the host's. Image build lowers it to loops.
const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::FLOATS);

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine cannot be configured on this processor: {0}")]
pub struct SandboxError(String);

/// What all guests of a process share: the compiler, the host calls, the shells. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) plain: Arc<Variant<GuestState>>,
    pub(crate) preemptible: Arc<Variant<LentState>>,
    pub(crate) shells: Arc<Shells>,
    /// Stacks of preemptible instances now.
    pub(crate) fibres: Arc<AtomicUsize>,
    /// Where programs that are loaded are told perf(1).
    pub(crate) perf_map: Arc<OnceLock<PerfMap>>,
}

/// What plain or preemptible instances share: an engine, by whose settings code is compiled, and the host
/// calls.
pub(crate) struct Variant<T: 'static> {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<T>,
}

impl<T: HostState> Variant<T> {
    fn new(config: &Config) -> Result<Arc<Variant<T>>, SandboxError> {
        let failed = |error: wasmtime::Error| SandboxError(format!("{error:#}"));
        let engine = Engine::new(config).map_err(failed)?;
        let mut linker = Linker::new(&engine);
        host_calls::define(&mut linker).map_err(failed)?;
        Ok(Arc::new(Variant { engine, linker }))
    }
}

impl Sandbox {
    /// Configures the engine. The first call in a process also installs the handlers by which guests' faults
    /// are told from the host's.
    ///
    /// # Errors
    /// [`SandboxError`] when the processor lacks what compiled code needs.
    pub fn new() -> Result<Sandbox, SandboxError> {
        let shells = Arc::new(Shells::default());
        Ok(Sandbox {
            plain: Variant::new(&configuration(shells.clone(), Safepoints::Polls))?,
            preemptible: Variant::new(&configuration(shells.clone(), Safepoints::Epochs))?,
            shells,
            fibres: Arc::default(),
            perf_map: Arc::default(),
        })
    }

    /// Writes the functions of all programs that are loaded from now on to `/tmp/perf-PID.map`, for perf(1)
    /// to name them; the file. Those of images that keep their names have them. A second call changes
    /// nothing.
    ///
    /// # Errors
    /// The file is another user's, or cannot be written.
    pub fn write_perf_map(&self) -> io::Result<PathBuf> {
        let (map, path) = PerfMap::create(Path::new("/tmp"))?;
        // The first one goes on.
        let _ = self.perf_map.set(map);
        Ok(path)
    }

    /// Compiles a module here and now. The module must have been checked by the image loader: this takes time
    /// and memory in proportion to its size, which the loader bounds.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn compile(&self, wasm: &[u8], facts: ProgramFacts) -> Result<Arc<Program>, CompileError> {
        Program::from_artifact(self, &self.precompile(wasm)?, facts)
    }

    /// The machine code for a module, to be kept in a [`CompileCache`] or handed over by a compiling process.
    ///
    /// # Errors
    /// [`CompileError::Refused`] when the module is invalid or uses what is switched off.
    pub fn precompile(&self, wasm: &[u8]) -> Result<Artifact, CompileError> {
        let refused = |error: wasmtime::Error| CompileError::Refused(format!("{error:#}"));
        let with = |kind| {
            let wasm = image::with_safepoints(wasm, kind);
            wasm.map_err(|error| CompileError::Refused(error.to_string()))
        };
        // First by the settings that know nothing of what polls are made of, which it may not have either.
        let preemptible = self.preemptible.engine.precompile_module(&with(Safepoints::Epochs)?);
        let preemptible = preemptible.map_err(refused)?;
        let plain = self.plain.engine.precompile_module(&with(Safepoints::Polls)?).map_err(refused)?;
        Ok(Artifact::of(&plain, &preemptible))
    }

    /// Makes a program of machine code.
    ///
    /// # Errors
    /// [`CompileError`] when it is for another version or processor, or asks for what the host does not
    /// offer.
    pub fn load(&self, artifact: &Artifact, facts: ProgramFacts) -> Result<Arc<Program>, CompileError> {
        Program::from_artifact(self, artifact, facts)
    }

    /// Takes the program from the cache, else compiles it and stores it there.
    ///
    /// # Errors
    /// [`CompileError`]; what is wrong with the cache alone is no error, the cache is then passed by.
    pub fn compile_cached(
        &self,
        cache: &CompileCache,
        wasm: &[u8],
        facts: ProgramFacts,
        compile: impl FnOnce(&Sandbox, &[u8]) -> Result<Artifact, CompileError>,
    ) -> Result<Arc<Program>, CompileError> {
        if let Some(artifact) = cache.load(self, wasm)
            && let Ok(program) = Program::from_artifact(self, &artifact, facts.clone())
        {
            return Ok(program);
        }
        let artifact = compile(self, wasm)?;
        let program = Program::from_artifact(self, &artifact, facts)?;
        // A cache that cannot be written costs time at the next start and nothing else.
        let _ = cache.store(self, wasm, &artifact);
        Ok(program)
    }

    /// Makes shells where instances are made, as many as the rate asks for, and gives those up that are not
    /// taken any more. Says whether any were taken since the last call. It is called every few milliseconds
    /// by a thread that no other waits for.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn refill_shells(&self) -> std::io::Result<bool> {
        self.shells.refill()
    }

    /// Gives up the spare shells of a pool, so that its memory can go.
    pub fn forget_pool(&self, pool: &Arc<Pool>) {
        self.shells.forget(pool);
    }

    /// How many shells wait for use.
    pub fn shell_counts(&self) -> ShellCounts {
        self.shells.counts()
    }

    /// How many preemptible instances there are; each has [`FIBRE_STACK`] bytes of address space for its
    /// stack.
    pub fn fibres(&self) -> usize {
        self.fibres.load(Relaxed)
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("shells", &self.shells.counts()).finish_non_exhaustive()
    }
}

/// Machine code made by this process's own compiler, or by a process that it started. Nothing else can make
/// one.
///
/// It is that of plain instances, behind its length in eight bytes, and that of preemptible ones.
pub struct Artifact(pub(crate) Vec<u8>);

impl Artifact {
    fn of(plain: &[u8], preemptible: &[u8]) -> Artifact {
        Artifact([&(plain.len() as u64).to_le_bytes(), plain, preemptible].concat())
    }

    /// The code of plain instances, and that of preemptible ones; `None` when it is not whole.
    pub(crate) fn parts(&self) -> Option<(&[u8], &[u8])> {
        let (length, code) = self.0.split_first_chunk()?;
        code.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
    }

    /// Machine code that a process started by this one has made.
    ///
    /// # Safety
    /// The bytes are what [`Sandbox::precompile`] returned in a process that runs this same program and in
    /// whose name no other process could speak.
    #[allow(unsafe_code)] // Nothing is done with the bytes here; the promise is the caller's.
    pub unsafe fn from_own_compiler(bytes: Vec<u8>) -> Artifact {
        Artifact(bytes)
    }

    /// The bytes, to be handed to the process that asked for them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn configuration(shells: Arc<Shells>, safepoints: Safepoints) -> Config {
    let mut config = Config::new();
    config.wasm_features(WasmFeatures::all(), false).wasm_features(FEATURES, true);
    if safepoints == Safepoints::Polls {
        config.wasm_features(WasmFeatures::THREADS, true);
    }
    // How its memory lies: reserved in full, so that compiled code needs no bounds checks.
    config
        .with_host_memory(Arc::new(ShellMemoryCreator(shells)))
        .memory_reservation(RESERVATION as u64)
        .memory_guard_size(GUARD as u64)
        .memory_may_move(false)
        .guard_before_linear_memory(false)
        .memory_init_cow(false)
        .signals_based_traps(true);
    // How it is stopped.
    config
        .epoch_interruption(safepoints == Safepoints::Epochs)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBRE_STACK);
    // How it is compiled. Backtraces name functions and no lines: address maps would make code larger. Their
    // frames are found by frame pointers; unwind tables would serve debuggers alone.
    config
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_backtrace_max_frames(NonZeroUsize::new(TRACE))
        .native_unwind_info(false);
    config
}
