//! From images to programs: what has been compiled, in memory and in the cache on disk.

use crate::catalog::Catalog;
use crate::compile;
use crate::prepare::{PrepareError, failed};
use crate::programs::{Programs, UNUSED_MAX};
use guest_wasm::{CompileCache, Program, Sandbox};
use image::Image;
use offload::Offload;
use packet_memory::Pool;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use telemetry::clock::Nanos;

/// See the module's documentation.
pub struct Workshop {
    sandbox: Sandbox,
    cache: Option<CompileCache>,
    /// By the image's digest.
    programs: Mutex<Programs<Program>>,
    making: Making,
}

/// Digests of images that are being compiled or loaded: one is made once, however many ask for it at the same
/// time.
#[derive(Default)]
struct Making {
    digests: Mutex<BTreeSet<String>>,
    made: Condvar,
}

/// Held while an image is made.
struct Made<'a>(&'a Making, String);

impl Making {
    /// Waits until no other thread makes this image.
    fn take(&self, digest: String) -> Made<'_> {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = |digests: &mut BTreeSet<String>| digests.contains(&digest);
        let mut digests = self.made.wait_while(digests, theirs).unwrap_or_else(PoisonError::into_inner);
        digests.insert(digest.clone());
        drop(digests);
        Made(self, digest)
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        self.0.digests.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
        self.0.made.notify_all();
    }
}

impl Workshop {
    /// The workshop, and what there is to say of it.
    ///
    /// # Errors
    /// Why there can be no sandbox.
    pub(crate) fn open() -> Result<(Workshop, Vec<String>), String> {
        let sandbox = Sandbox::new().map_err(|error| error.to_string())?;
        let (cache, notices) = match CompileCache::open(&cache_directory("compiled")) {
            Ok(cache) => (Some(cache), Vec::new()),
            Err(error) => (None, vec![format!("{error}; images are compiled at every start")]),
        };
        Ok((
            Workshop {
                sandbox,
                cache,
                programs: Mutex::new(Programs::new(UNUSED_MAX)),
                making: Making::default(),
            },
            notices,
        ))
    }

    /// Whether functions of an image are made at once: it has been compiled and loaded.
    ///
    /// # Errors
    /// What the catalog has to say of the image.
    pub fn has(&self, catalog: &Catalog, reference: &str) -> Result<bool, String> {
        Ok(self.known(&catalog.load(reference)?).is_some())
    }

    /// Keeps shells ready for functions to come. Says whether any came since the last call, for the next to
    /// be soon.
    pub fn refill_shells(&self) -> bool {
        // Where none can be made in advance, the next function is told why.
        self.sandbox.refill_shells().unwrap_or(false)
    }

    /// Writes the functions of images that are loaded from now on to perf(1)'s map of this process; says
    /// where.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn write_perf_map(&self) -> Result<String, String> {
        match self.sandbox.write_perf_map() {
            Ok(path) => Ok(format!("functions are named to perf in {}", path.display())),
            Err(error) => Err(format!("--perf-map: no file /tmp/perf-{}.map: {error}", std::process::id())),
        }
    }

    /// Whether the image of this digest has been compiled and loaded.
    pub fn knows(&self, digest: &str) -> bool {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
    }

    /// Compiles an image for a tenant, if that has not been done: when the tenant's share of what is done
    /// beside the workers allows it, and in its account.
    ///
    /// # Errors
    /// [`PrepareError`]: what the compiler has to say, or that the tenant has too much work waiting.
    pub fn compile_for(&self, offload: &Offload, tenant: &str, image: &Image) -> Result<(), PrepareError> {
        // The compiler is a process: the thread that waits for it is not one of the few that guests need.
        offload.run(tenant, || ())?;
        let used = Cell::new(Nanos(0));
        let compiled = offload::waiting(|| self.program_of(image, &used));
        offload.charge(tenant, used.get());
        let name = image.manifest().name.as_str();
        compiled.map(drop).map_err(|reason| failed("image", name)(&reason))
    }

    /// How many images are compiled and loaded, and the bytes of their machine code.
    pub(crate) fn code(&self) -> (usize, u64) {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).size()
    }

    /// How much address space waits for the next functions, in functions.
    pub(crate) fn spare_shells(&self) -> usize {
        self.sandbox.shell_counts().spare
    }

    /// The program of an image if it has been compiled before.
    pub(crate) fn known(&self, image: &Image) -> Option<Arc<Program>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).get(&image.digest().to_string())
    }

    /// The compiled image, compiled at its first use.
    ///
    /// # Errors
    /// What the catalog or the compiler has to say.
    pub(crate) fn program(
        &self,
        catalog: &Catalog,
        reference: &str,
    ) -> Result<(Image, Arc<Program>), String> {
        let image = catalog.load(reference)?;
        let program = self.program_of(&image, &Cell::default())?;
        Ok((image, program))
    }

    /// The program of an image. The processor time of a compiler that was needed is added to `used`.
    fn program_of(&self, image: &Image, used: &Cell<Nanos>) -> Result<Arc<Program>, String> {
        if let Some(program) = self.known(image) {
            return Ok(program);
        }
        let _made = self.making.take(image.digest().to_string());
        if let Some(program) = self.known(image) {
            return Ok(program);
        }
        let artifact = |sandbox: &Sandbox, wasm: &[u8]| match cfg!(test) {
            // A test's program is none that compiles.
            true => sandbox.precompile(wasm),
            false => compile::compile(wasm, used),
        };
        let program = match &self.cache {
            Some(cache) => self.sandbox.compile_cached(cache, image.wasm(), image.into(), artifact),
            None => artifact(&self.sandbox, image.wasm())
                .and_then(|artifact| self.sandbox.load(&artifact, image.into())),
        }
        .map_err(|error| error.to_string())?;
        let (digest, bytes) = (image.digest().to_string(), program.code_bytes());
        let leaving = {
            let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
            programs.insert(digest, program.clone(), bytes)
        };
        // Code is unmapped without the lock.
        drop(leaving);
        Ok(program)
    }
}

/// Pools that nothing uses any more when this is dropped.
pub(crate) struct Unused {
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) workshop: Arc<Workshop>,
}

impl Drop for Unused {
    fn drop(&mut self) {
        // Address space that waits for the next function of a pool keeps the pool.
        self.pools.iter().for_each(|pool| self.workshop.sandbox.forget_pool(pool));
    }
}

/// Where this program keeps what it can have again.
pub fn cache_directory(below: &str) -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    base.join("superfluid").join(below)
}
