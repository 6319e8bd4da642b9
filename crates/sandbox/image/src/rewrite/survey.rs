//! The first reading: everything that the encoder has to know before it begins, and every refusal that can
//! name its place.

use super::{RewriteError, invalid};
use crate::limits;
use crate::names::function_name;
use nf_abi::{GLOBAL_EXPORT_PREFIX, exports};
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::{
    BinaryReaderError, DataKind, ElementItems, ElementKind, ExternalKind, FuncToValidate,
    FuncValidatorAllocations, FunctionBody, Operator, Parser, Payload, TypeRef, ValidPayload, Validator,
    ValidatorResources,
};

/// What a module consists of, as far as the encoder needs it.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) types: u32,
    pub(super) imported_functions: u32,
    pub(super) defined_functions: u32,
    pub(super) copies: bool,
    pub(super) fills: bool,
    pub(super) memory_exported: bool,
    /// Mutable globals without an export, by index.
    pub(super) hidden_globals: Vec<u32>,
}

pub(super) fn survey(wasm: &[u8]) -> Result<Survey, RewriteError> {
    let mut survey = Survey::default();
    let mut validator = Validator::new_with_features(limits::TOOLCHAIN_FEATURES);
    let mut allocations = FuncValidatorAllocations::default();
    let (mut memories, mut mutable_globals, mut exported) = (0, BTreeSet::new(), BTreeMap::new());
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(invalid)?;
        let validated = validator.payload(&payload).map_err(invalid)?;
        if let ValidPayload::Func(function, body) = validated {
            allocations = survey_body(wasm, &mut survey, function, &body, allocations)?;
        }
        match payload {
            Payload::TypeSection(section) => survey.types = section.count(),
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(invalid)?;
                    let kind = match import.ty {
                        TypeRef::Func(_) | TypeRef::FuncExact(_) => {
                            survey.imported_functions += 1;
                            continue;
                        }
                        TypeRef::Memory(_) => "memory",
                        TypeRef::Table(_) => "table",
                        TypeRef::Global(_) => "global",
                        TypeRef::Tag(_) => "tag",
                    };
                    let (module, name) = (import.module.to_owned(), import.name.to_owned());
                    return Err(RewriteError::Import { kind, module, name });
                }
            }
            Payload::FunctionSection(section) => survey.defined_functions = section.count(),
            Payload::MemorySection(section) => memories = section.count(),
            Payload::GlobalSection(section) => {
                for (index, global) in (0..).zip(section) {
                    if global.map_err(invalid)?.ty.mutable {
                        mutable_globals.insert(index);
                    }
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(invalid)?;
                    exported.insert(export.name.to_owned(), (export.kind, export.index));
                }
            }
            Payload::StartSection { func, .. } => {
                return Err(RewriteError::Start { function: function_name(wasm, func) });
            }
            Payload::ElementSection(section) => {
                for (index, element) in (0..).zip(section) {
                    survey_elements(index, element.map_err(invalid)?)?;
                }
            }
            Payload::DataSection(section) => {
                for (index, data) in (0..).zip(section) {
                    if !matches!(data.map_err(invalid)?.kind, DataKind::Active { .. }) {
                        return Err(RewriteError::Segment { kind: "data", index });
                    }
                }
            }
            _ => {}
        }
    }
    if memories != 1 {
        return Err(RewriteError::Memories { found: memories });
    }
    match exported.get(exports::MEMORY) {
        Some((ExternalKind::Memory, _)) => survey.memory_exported = true,
        Some(_) => return Err(reserved(exports::MEMORY.to_owned(), "the memory".to_owned())),
        None => {}
    }
    for export in exported.values() {
        if let (ExternalKind::Global, index) = export {
            mutable_globals.remove(index);
        }
    }
    for index in mutable_globals {
        let name = format!("{GLOBAL_EXPORT_PREFIX}{index}");
        if exported.contains_key(&name) {
            return Err(reserved(name, format!("global {index}")));
        }
        survey.hidden_globals.push(index);
    }
    Ok(survey)
}

fn reserved(name: String, needed: String) -> RewriteError {
    RewriteError::Reserved { name, needed }
}

fn survey_elements(index: u32, element: wasmparser::Element<'_>) -> Result<(), RewriteError> {
    match element.kind {
        ElementKind::Active { table_index: None | Some(0), .. } => {}
        ElementKind::Active { .. } => {
            return Err(RewriteError::Elements { index, reason: "is for another table" });
        }
        ElementKind::Passive | ElementKind::Declared => {
            return Err(RewriteError::Segment { kind: "element", index });
        }
    }
    if let ElementItems::Expressions(_, items) = element.items {
        for item in items {
            if constant_function(&item.map_err(invalid)?).map_err(invalid)?.is_none() {
                return Err(RewriteError::Elements { index, reason: "holds something else than functions" });
            }
        }
    }
    Ok(())
}

/// The function that a constant expression names, if that is what it does.
pub(super) fn constant_function(
    expression: &wasmparser::ConstExpr<'_>,
) -> Result<Option<u32>, BinaryReaderError> {
    let mut operators = expression.get_operators_reader();
    let first = operators.read()?;
    let second = operators.read()?;
    Ok(match (first, second) {
        (Operator::RefFunc { function_index }, Operator::End) => Some(function_index),
        _ => None,
    })
}

fn survey_body(
    wasm: &[u8],
    survey: &mut Survey,
    function: FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'_>,
    allocations: FuncValidatorAllocations,
) -> Result<FuncValidatorAllocations, RewriteError> {
    let index = function.index;
    let mut validator = function.into_validator(allocations);
    validator.validate(body).map_err(|error| RewriteError::InvalidFunction {
        function: function_name(wasm, index),
        message: error.message().to_owned(),
        offset: error.offset(),
    })?;
    for operator in body.get_operators_reader().map_err(invalid)? {
        let instruction = match operator.map_err(invalid)? {
            Operator::MemoryCopy { .. } => {
                survey.copies = true;
                continue;
            }
            Operator::MemoryFill { .. } => {
                survey.fills = true;
                continue;
            }
            Operator::MemoryInit { .. } => "memory.init",
            Operator::DataDrop { .. } => "data.drop",
            Operator::TableCopy { .. } => "table.copy",
            Operator::TableInit { .. } => "table.init",
            Operator::TableFill { .. } => "table.fill",
            Operator::ElemDrop { .. } => "elem.drop",
            Operator::TableGet { .. } => "table.get",
            Operator::TableSet { .. } => "table.set",
            Operator::TableGrow { .. } => "table.grow",
            Operator::TableSize { .. } => "table.size",
            Operator::RefNull { .. } => "ref.null",
            Operator::RefIsNull => "ref.is_null",
            Operator::RefFunc { .. } => "ref.func",
            _ => continue,
        };
        return Err(RewriteError::Instruction { function: function_name(wasm, index), instruction });
    }
    Ok(validator.into_allocations())
}
