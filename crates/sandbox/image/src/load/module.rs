//! Checks an untrusted module: its size, its features, its limits and the contract.

use super::contract::{Contracted, EXPORT_PREFIX, EXPORTS, IMPORTS, Signature};
use super::error::ImageError;
use crate::limits;
use crate::names::function_name;
use nf_abi::{GLOBAL_EXPORT_PREFIX, IMPORT_MODULE, MANIFEST_SECTION, exports};
use std::collections::BTreeSet;
use wasmparser::{
    BinaryReaderError, ConstExpr, DataKind, DataSectionReader, ElementItems, ElementKind,
    ElementSectionReader, ExportSectionReader, ExternalKind, FuncToValidate, FuncType,
    FuncValidatorAllocations, FunctionBody, ImportSectionReader, Operator, Parser, Payload, TypeRef,
    TypeSectionReader, ValidPayload, Validator, ValidatorResources,
};
use yaml_document::spelling;

/// What a checked module consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleFacts {
    /// The host calls that it imports, in its own order.
    pub imports: Vec<&'static str>,
    /// Names of its exports, in its own order.
    pub exports: Vec<String>,
    /// Functions that it defines.
    pub functions: u32,
    /// Bytes of all function bodies.
    pub code_bytes: u64,
    /// Bytes of all data segments.
    pub data_bytes: u64,
    /// Globals that it may change.
    pub mutable_globals: u32,
    /// Elements of its table.
    pub table_elements: u64,
    /// Bytes that its memory begins with.
    pub memory_bytes: u64,
}

impl ModuleFacts {
    /// Whether it exports a function of the contract that is not required, [`exports::TIMER`] for instance.
    pub fn exports(&self, name: &str) -> bool {
        self.exports.iter().any(|export| export == name)
    }
}

/// A module that passed, with what its manifest section holds.
pub(crate) struct Checked<'a> {
    pub(crate) facts: ModuleFacts,
    pub(crate) manifest: &'a [u8],
}

/// How each module begins.
const MAGIC: &[u8] = b"\0asm";

pub(crate) fn check(wasm: &[u8]) -> Result<Checked<'_>, ImageError> {
    if wasm.len() > limits::IMAGE_BYTES {
        return Err(ImageError::TooLarge { found: wasm.len(), allowed: limits::IMAGE_BYTES });
    }
    if !wasm.starts_with(MAGIC) {
        let begin = wasm.get(..8).unwrap_or(wasm).escape_ascii();
        let message = format!("it begins with `{begin}`, and WebAssembly with `{}`", MAGIC.escape_ascii());
        return Err(ImageError::Invalid { message, offset: 0 });
    }
    let mut check = Check { wasm, ..Check::default() };
    let mut validator = Validator::new_with_features(limits::FEATURES);
    let mut allocations = FuncValidatorAllocations::default();
    let mut parser = Parser::new(0);
    parser.set_features(limits::FEATURES);
    for payload in parser.parse_all(wasm) {
        let payload = payload.map_err(invalid)?;
        check.count(&payload)?;
        if let ValidPayload::Func(function, body) = validator.payload(&payload).map_err(invalid)? {
            allocations = check.body(function, &body, allocations)?;
        }
        check.section(payload)?;
    }
    check.finish()
}

#[derive(Default)]
struct Check<'a> {
    wasm: &'a [u8],
    facts: ModuleFacts,
    manifest: Option<&'a [u8]>,
    named: bool,
    types: Vec<FuncType>,
    /// Types of all functions, imports first.
    functions: Vec<u32>,
    memories: u64,
    hidden_globals: BTreeSet<u32>,
}

impl<'a> Check<'a> {
    /// Limits on how many there are of anything, before the entries are read.
    fn count(&self, payload: &Payload<'_>) -> Result<(), ImageError> {
        let (what, found, allowed) = match payload {
            Payload::TypeSection(section) => ("types", section.count(), limits::TYPES),
            Payload::ImportSection(section) => ("imports", section.count(), IMPORTS.len() as u32),
            Payload::FunctionSection(section) => ("functions", section.count(), limits::FUNCTIONS),
            Payload::TableSection(section) => ("tables", section.count(), 1),
            Payload::GlobalSection(section) => ("globals", section.count(), limits::GLOBALS),
            Payload::ExportSection(section) => ("exports", section.count(), limits::EXPORTS),
            Payload::ElementSection(section) => {
                ("element segments", section.count(), limits::ELEMENT_SEGMENTS)
            }
            Payload::DataSection(section) => ("data segments", section.count(), limits::DATA_SEGMENTS),
            _ => return Ok(()),
        };
        at_most(what, found.into(), allowed.into())
    }

    fn section(&mut self, payload: Payload<'a>) -> Result<(), ImageError> {
        match payload {
            Payload::TypeSection(section) => self.types(section),
            Payload::ImportSection(section) => self.imports(section),
            Payload::FunctionSection(section) => {
                self.facts.functions = section.count();
                for function in section {
                    self.functions.push(function.map_err(invalid)?);
                }
                at_most("functions, imports included", self.functions.len() as u64, limits::FUNCTIONS.into())
            }
            Payload::TableSection(section) => {
                for table in section {
                    let table = table.map_err(invalid)?.ty;
                    self.facts.table_elements = table.initial;
                    let most = table.maximum.unwrap_or(0).max(table.initial);
                    at_most("table elements", most, limits::TABLE_ELEMENTS)?;
                }
                Ok(())
            }
            Payload::MemorySection(section) => {
                self.memories = section.count().into();
                for memory in section {
                    let memory = memory.map_err(invalid)?;
                    if let Some(pages) = memory.maximum {
                        return Err(ImageError::MemoryMaximum { pages });
                    }
                    // At most 65,536 pages, or it were not valid.
                    self.facts.memory_bytes = memory.initial * limits::PAGE_BYTES;
                }
                Ok(())
            }
            Payload::GlobalSection(section) => {
                for (index, global) in (0..).zip(section) {
                    if global.map_err(invalid)?.ty.mutable {
                        self.facts.mutable_globals += 1;
                        self.hidden_globals.insert(index);
                    }
                }
                Ok(())
            }
            Payload::ExportSection(section) => self.exports(section),
            Payload::StartSection { func, .. } => {
                Err(ImageError::Start { function: function_name(self.wasm, func) })
            }
            Payload::ElementSection(section) => self.elements(section),
            Payload::DataSection(section) => self.data(section),
            Payload::CustomSection(section) => {
                let seen_before = match section.name() {
                    MANIFEST_SECTION => self.manifest.replace(section.data()).is_some(),
                    "name" => std::mem::replace(&mut self.named, true),
                    _ => true,
                };
                if seen_before {
                    return Err(ImageError::CustomSection { name: spelling::shown(section.name()) });
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn types(&mut self, section: TypeSectionReader<'a>) -> Result<(), ImageError> {
        for function in section.into_iter_err_on_gc_types() {
            let function = function.map_err(invalid)?;
            at_most("parameters of one type", function.params().len() as u64, limits::TYPE_VALUES as u64)?;
            at_most("results of one type", function.results().len() as u64, limits::TYPE_VALUES as u64)?;
            self.types.push(function);
        }
        Ok(())
    }

    fn imports(&mut self, section: ImportSectionReader<'a>) -> Result<(), ImageError> {
        for import in section.into_imports() {
            let import = import.map_err(invalid)?;
            let offered =
                IMPORTS.iter().find(|call| import.module == IMPORT_MODULE && import.name == call.name);
            let Some(Contracted { name, signature, .. }) = offered else {
                return Err(ImageError::Import {
                    module: spelling::shown(import.module),
                    name: spelling::shown(import.name),
                    allowed: spelling::listed(IMPORTS.iter().map(|call| call.name)),
                });
            };
            let imported = match import.ty {
                TypeRef::Func(index) => self.types.get(index as usize).map(|function| (index, function)),
                _ => None,
            };
            let Some((index, _)) = imported.filter(|(_, function)| signature_of(function) == *signature)
            else {
                let found = match imported {
                    Some((_, function)) => format!("a function {}", signature_of(function)),
                    None => "something else than a function".to_owned(),
                };
                return Err(ImageError::ImportType { name, found, needed: signature.to_string() });
            };
            if self.facts.imports.contains(name) {
                return Err(ImageError::ImportTwice { name });
            }
            self.facts.imports.push(name);
            self.functions.push(index);
        }
        Ok(())
    }

    fn exports(&mut self, section: ExportSectionReader<'a>) -> Result<(), ImageError> {
        for export in section {
            let export = export.map_err(invalid)?;
            if export.kind == ExternalKind::Global {
                self.hidden_globals.remove(&export.index);
            }
            self.facts.exports.push(export.name.to_owned());
            let contracted = EXPORTS.iter().find(|function| function.name == export.name);
            let needed = if let Some(Contracted { signature, .. }) = contracted {
                let exported = self.function(export.kind, export.index);
                if exported.is_some_and(|function| signature_of(function) == *signature) {
                    continue;
                }
                format!("a function {signature}")
            } else if export.name == exports::MEMORY {
                if export.kind == ExternalKind::Memory {
                    continue;
                }
                "the memory".to_owned()
            } else if let Some(number) = export.name.strip_prefix(GLOBAL_EXPORT_PREFIX) {
                if export.kind == ExternalKind::Global && number == export.index.to_string() {
                    continue;
                }
                "the global of that number".to_owned()
            } else if export.name.starts_with(EXPORT_PREFIX) {
                let names = || EXPORTS.iter().map(|function| function.name);
                return Err(ImageError::UnknownExport {
                    name: spelling::shown(export.name),
                    allowed: spelling::listed(names()),
                    nearest: spelling::nearest(export.name, names()),
                });
            } else {
                continue;
            };
            let found = match self.function(export.kind, export.index) {
                Some(function) => format!("a function {}", signature_of(function)),
                None => match export.kind {
                    ExternalKind::Table => "a table".to_owned(),
                    ExternalKind::Memory => "a memory".to_owned(),
                    _ => format!("global {}", export.index),
                },
            };
            return Err(ImageError::ExportType { name: spelling::shown(export.name), found, needed });
        }
        Ok(())
    }

    fn function(&self, kind: ExternalKind, index: u32) -> Option<&FuncType> {
        let index = (kind == ExternalKind::Func).then_some(index)?;
        self.types.get(*self.functions.get(index as usize)? as usize)
    }

    fn elements(&self, section: ElementSectionReader<'a>) -> Result<(), ImageError> {
        let size = self.facts.table_elements;
        for (index, element) in (0..).zip(section) {
            let element = element.map_err(invalid)?;
            let ElementKind::Active { offset_expr, .. } = element.kind else { continue };
            let count = match element.items {
                ElementItems::Functions(items) => items.count(),
                ElementItems::Expressions(_, items) => items.count(),
            };
            let end = constant(&offset_expr)? + u64::from(count);
            if end > size {
                return Err(ImageError::Segment { kind: "element", index, end, place: "table", size });
            }
        }
        Ok(())
    }

    fn data(&mut self, section: DataSectionReader<'a>) -> Result<(), ImageError> {
        let size = self.facts.memory_bytes;
        for (index, data) in (0..).zip(section) {
            let data = data.map_err(invalid)?;
            let DataKind::Active { offset_expr, .. } = data.kind else { continue };
            let end = constant(&offset_expr)? + data.data.len() as u64;
            if end > size {
                return Err(ImageError::Segment { kind: "data", index, end, place: "memory", size });
            }
            self.facts.data_bytes += data.data.len() as u64;
        }
        Ok(())
    }

    fn body(
        &mut self,
        function: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
        allocations: FuncValidatorAllocations,
    ) -> Result<FuncValidatorAllocations, ImageError> {
        let index = function.index;
        let too_much = |what, found, allowed| ImageError::TooMuch {
            function: function_name(self.wasm, index),
            what,
            found,
            allowed,
        };
        let bad = |error: BinaryReaderError| ImageError::InvalidFunction {
            function: function_name(self.wasm, index),
            message: error.message().to_owned(),
            offset: error.offset(),
        };
        let length = body.as_bytes().len();
        if length > limits::BODY_BYTES {
            return Err(too_much("bytes", length as u64, limits::BODY_BYTES as u64));
        }
        let mut validator = function.into_validator(allocations);
        let mut locals = body.get_locals_reader().map_err(bad)?;
        for _ in 0..locals.get_count() {
            let offset = locals.original_position();
            let (count, value) = locals.read().map_err(bad)?;
            let found = u64::from(validator.len_locals()) + u64::from(count);
            if found > limits::LOCALS.into() {
                return Err(too_much("locals", found, limits::LOCALS.into()));
            }
            validator.define_locals(offset, count, value).map_err(bad)?;
        }
        let mut operators = body.get_operators_reader().map_err(bad)?;
        while !operators.eof() {
            let (operator, offset) = operators.read_with_offset().map_err(bad)?;
            validator.op(offset, &operator).map_err(bad)?;
            let depth = validator.control_stack_height();
            if depth > limits::NESTING {
                return Err(too_much("nested blocks", depth.into(), limits::NESTING.into()));
            }
        }
        operators.finish().map_err(bad)?;
        self.facts.code_bytes += length as u64;
        Ok(validator.into_allocations())
    }

    fn finish(self) -> Result<Checked<'a>, ImageError> {
        if self.memories != 1 {
            return Err(ImageError::Memories { found: self.memories });
        }
        let missing = |name: &str| !self.facts.exports(name);
        if missing(exports::MEMORY) {
            return Err(ImageError::MissingExport { name: exports::MEMORY, needed: "the memory".to_owned() });
        }
        for Contracted { name, signature, required } in &EXPORTS {
            if *required && missing(name) {
                return Err(ImageError::MissingExport { name, needed: format!("a function {signature}") });
            }
        }
        if let Some(index) = self.hidden_globals.first() {
            return Err(ImageError::HiddenGlobal { index: *index });
        }
        let manifest = self.manifest.ok_or(ImageError::NoManifest)?;
        at_most("bytes of manifest", manifest.len() as u64, manifest::MAX_TEXT as u64)?;
        Ok(Checked { facts: self.facts, manifest })
    }
}

fn signature_of(function: &FuncType) -> Signature<'_> {
    Signature { parameters: function.params(), results: function.results() }
}

fn at_most(what: &'static str, found: u64, allowed: u64) -> Result<(), ImageError> {
    if found > allowed {
        return Err(ImageError::TooMany { what, found, allowed });
    }
    Ok(())
}

/// Where an active segment begins. Without imported globals, a valid expression can only be a constant.
fn constant(expression: &ConstExpr<'_>) -> Result<u64, ImageError> {
    match expression.get_operators_reader().read().map_err(invalid)? {
        Operator::I32Const { value } => Ok(u64::from(value as u32)),
        _ => Err(ImageError::Invalid {
            message: "a segment begins at something else than a constant".to_owned(),
            offset: expression.get_binary_reader().original_position(),
        }),
    }
}

fn invalid(error: BinaryReaderError) -> ImageError {
    ImageError::Invalid { message: error.message().to_owned(), offset: error.offset() }
}
