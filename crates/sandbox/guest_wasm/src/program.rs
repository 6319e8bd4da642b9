// UNSAFETY: compiled code is loaded here; it comes from this process's own compiler or from its private
// cache. Miri runs no compiled code; `tests/sandbox` does.
#![allow(unsafe_code)]
//! A compiled image, ready to be instantiated.

use crate::lent_state::LentState;
use crate::sandbox::{Artifact, Sandbox, Variant};
use crate::shell::Access;
use crate::state::GuestState;
use image::Image;
use nf_abi::{Verdict, exports};
use std::ops::Range;
use std::sync::Arc;
use wasmtime::{ExternType, InstancePre, Module, ModuleExport, Mutability, ValType};

/// What the host must know of an image beside its code; from the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFacts {
    /// The function's name.
    pub name: String,
    /// SHA-256 of the image: what a snapshot must name to be restored into this program.
    pub image: [u8; 32],
    /// Instances of programs with the same one can go on with each other's memory.
    pub layout: [u8; 32],
    /// What its instances may do with packets.
    pub access: Access,
    /// Most bytes of private memory.
    pub memory_limit: u64,
    /// How many interfaces an instance has.
    pub interfaces: u16,
    /// How many drop reasons of its own it has.
    pub drop_reasons: u16,
    /// How many counters it has.
    pub counters: u16,
}

impl From<&Image> for ProgramFacts {
    fn from(image: &Image) -> ProgramFacts {
        let manifest = image.manifest();
        ProgramFacts {
            name: manifest.name.as_str().to_owned(),
            image: *image.digest().as_bytes(),
            layout: image.layout(),
            access: match manifest.access {
                manifest::Access::Read => Access::Read,
                manifest::Access::Write => Access::Write,
            },
            memory_limit: manifest.memory_limit,
            interfaces: manifest.interfaces.len() as u16,
            drop_reasons: manifest.drop_reasons.len() as u16,
            counters: manifest.counters.len() as u16,
        }
    }
}

impl ProgramFacts {
    /// The verdict, if a guest of this program may give it: it decodes, and what it names exists.
    #[inline]
    pub(crate) fn allowed(&self, verdict: u32) -> Option<Verdict> {
        Verdict::decode(verdict).filter(|verdict| match verdict {
            Verdict::Interface(k) => *k < self.interfaces,
            Verdict::Drop(reason) => *reason < self.drop_reasons.max(1),
            _ => true,
        })
    }

    /// Whether a guest of this program may move a packet's beginning and end to there.
    pub(crate) fn allows_extent(&self, offset: u32, length: u32, buffer_size: u32) -> bool {
        self.access == Access::Write
            && length > 0
            && u64::from(offset) + u64::from(length) <= u64::from(buffer_size)
    }
}

/// Why a module did not become a program.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler refused it.
    #[error("the module cannot be compiled: {0}")]
    Refused(String),
    /// The code could not be loaded.
    #[error("the compiled code cannot be loaded: {0}")]
    Load(String),
    /// The module asks for what the host does not offer.
    #[error("the module does not fit this host: {0}")]
    Link(String),
    /// The compiling process failed or took too long.
    #[error("compiling failed: {0}")]
    Process(String),
}

/// Compiled code of an image.
pub struct Program {
    pub(crate) sandbox: Sandbox,
    pub(crate) plain: Linked<GuestState>,
    /// The same for stores whose calls can be switched out.
    pub(crate) preemptible: Linked<LentState>,
    facts: ProgramFacts,
}

/// Its code for instances of one variant.
pub(crate) struct Linked<T: 'static> {
    pub(crate) pre: InstancePre<T>,
    /// The mutable globals, in the order of their names: the same ones for each variant. Image build exports
    /// them all.
    pub(crate) globals: Vec<MutableGlobal>,
    /// The guest address that its polls read, if it has memory.
    pub(crate) poll_address: usize,
}

impl<T> Linked<T> {
    fn new(variant: &Variant<T>, code: &[u8]) -> Result<Linked<T>, CompileError> {
        // SAFETY: an `Artifact`, of which this is a part, is what `precompile` of this process or of a
        // process it started returned, or what the cache verified to be unchanged since (private directory,
        // owner, digest). Wasmtime checks by itself that its version, settings and the processor's features
        // are the same.
        let module = unsafe { Module::deserialize(&variant.engine, code) }
            .map_err(|error| CompileError::Load(format!("{error:#}")))?;
        let pre = variant.linker.instantiate_pre(&module);
        let pre = pre.map_err(|error| CompileError::Link(format!("{error:#}")))?;
        let memory = module.get_export(exports::MEMORY);
        let pages = memory.and_then(|memory| memory.memory().map(|memory| memory.minimum()));
        let poll_address = image::poll_address(pages.unwrap_or(0)).unwrap_or(0) as usize;
        Ok(Linked { pre, globals: mutable_globals(&module), poll_address })
    }

    /// Addresses of its machine code.
    pub(crate) fn code(&self) -> Range<usize> {
        let text = self.pre.module().text().as_ptr_range();
        text.start as usize..text.end as usize
    }

    /// Bytes of its machine code, with what belongs to it.
    fn code_bytes(&self) -> u64 {
        let image = self.pre.module().image_range();
        (image.end as usize - image.start as usize) as u64
    }
}

/// A mutable global of a program.
pub(crate) struct MutableGlobal {
    pub(crate) name: String,
    pub(crate) export: ModuleExport,
    pub(crate) kind: ValType,
}

impl Program {
    /// Whether its instances offer to hand their state over: what they hand over is asked of each.
    pub fn hands_over(&self) -> bool {
        let module = self.plain.pre.module();
        module.get_export(exports::EXPORT_STATE).is_some()
            && module.get_export(exports::IMPORT_STATE).is_some()
    }

    /// Bytes of its machine code, with what belongs to it.
    pub fn code_bytes(&self) -> u64 {
        self.plain.code_bytes() + self.preemptible.code_bytes()
    }

    pub(crate) fn from_artifact(
        sandbox: &Sandbox,
        artifact: &Artifact,
        facts: ProgramFacts,
    ) -> Result<Arc<Program>, CompileError> {
        let cut = || CompileError::Load("it is not whole".to_owned());
        let (plain, preemptible) = artifact.parts().ok_or_else(cut)?;
        let plain = Linked::new(&sandbox.plain, plain)?;
        let preemptible = Linked::new(&sandbox.preemptible, preemptible)?;
        if let Some(map) = sandbox.perf_map.get() {
            map.add(&facts.name, plain.pre.module());
            map.add(&facts.name, preemptible.pre.module());
        }
        Ok(Arc::new(Program { sandbox: sandbox.clone(), plain, preemptible, facts }))
    }

    /// What the manifest says.
    pub fn facts(&self) -> &ProgramFacts {
        &self.facts
    }
}

fn mutable_globals(module: &Module) -> Vec<MutableGlobal> {
    let mut globals: Vec<MutableGlobal> = module
        .exports()
        .filter_map(|export| match export.ty() {
            ExternType::Global(global) if global.mutability() == Mutability::Var => Some(MutableGlobal {
                name: export.name().to_owned(),
                export: module.get_export_index(export.name())?,
                kind: global.content().clone(),
            }),
            _ => None,
        })
        .collect();
    globals.sort_by(|a, b| a.name.cmp(&b.name));
    globals
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("facts", &self.facts).finish_non_exhaustive()
    }
}
