//! The second reading: the module written anew, section by section.

use super::survey::{Survey, constant_function};
use super::{Lowered, Names, RewriteError, Rewritten, bulk, invalid};
use nf_abi::{GLOBAL_EXPORT_PREFIX, exports};
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    CodeSection, DataSection, ElementSection, Elements, ExportKind, ExportSection, FunctionSection,
    GlobalSection, ImportSection, Instruction, MemorySection, MemoryType, Module, RawSection, TableSection,
    TypeSection, ValType,
};
use wasmparser::{ElementItems, ElementKind, Operator, Parser, Payload};

/// Index of the section that holds the custom ones (WebAssembly core specification, section 5.5.2).
const CUSTOM: u8 = 0;

#[derive(Default)]
struct Sections<'a> {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    code: CodeSection,
    data: DataSection,
    names: Option<&'a [u8]>,
}

pub(super) fn encode(wasm: &[u8], survey: &Survey, names: Names) -> Result<Rewritten, RewriteError> {
    let mut sections = Sections::default();
    let mut lowering = Lowering::new(survey);
    for payload in Parser::new(0).parse_all(wasm) {
        lowering.section(&mut sections, payload.map_err(invalid)?, wasm, names)?;
    }
    if !survey.memory_exported {
        sections.exports.export(exports::MEMORY, ExportKind::Memory, 0);
    }
    for index in &survey.hidden_globals {
        sections.exports.export(&format!("{GLOBAL_EXPORT_PREFIX}{index}"), ExportKind::Global, *index);
        lowering.lowered.exported_globals += 1;
    }
    if survey.copies || survey.fills {
        sections.types.ty().function([ValType::I32; 3], []);
    }
    for (used, body) in [(survey.copies, bulk::memory_copy as fn() -> _), (survey.fills, bulk::memory_fill)] {
        if used {
            sections.functions.function(survey.types);
            sections.code.function(&body());
        }
    }
    Ok(Rewritten { wasm: sections.finish(), lowered: lowering.lowered })
}

impl Sections<'_> {
    fn finish(self) -> Vec<u8> {
        let mut module = Module::new();
        macro_rules! sections {
            ($($field:ident)*) => { $( if !self.$field.is_empty() { module.section(&self.$field); } )* };
        }
        sections!(types imports functions tables memories globals exports elements code data);
        if let Some(data) = self.names {
            module.section(&RawSection { id: CUSTOM, data });
        }
        module.finish()
    }
}

struct Lowering {
    copy: u32,
    fill: u32,
    lowered: Lowered,
}

impl Reencode for Lowering {
    type Error = Infallible;

    fn instruction<'a>(&mut self, operator: Operator<'a>) -> Result<Instruction<'a>, Error<Infallible>> {
        Ok(match operator {
            Operator::MemoryCopy { .. } => {
                self.lowered.memory_copies += 1;
                Instruction::Call(self.copy)
            }
            Operator::MemoryFill { .. } => {
                self.lowered.memory_fills += 1;
                Instruction::Call(self.fill)
            }
            Operator::TypedSelect { .. } => {
                self.lowered.typed_selects += 1;
                Instruction::Select
            }
            other => utils::instruction(self, other)?,
        })
    }
}

impl Lowering {
    fn new(survey: &Survey) -> Lowering {
        let copy = survey.imported_functions + survey.defined_functions;
        Lowering { copy, fill: copy + u32::from(survey.copies), lowered: Lowered::default() }
    }

    fn section<'a>(
        &mut self,
        sections: &mut Sections<'a>,
        payload: Payload<'a>,
        wasm: &'a [u8],
        names: Names,
    ) -> Result<(), RewriteError> {
        match payload {
            Payload::TypeSection(section) => self.parse_type_section(&mut sections.types, section),
            Payload::ImportSection(section) => self.parse_import_section(&mut sections.imports, section),
            Payload::FunctionSection(section) => {
                self.parse_function_section(&mut sections.functions, section)
            }
            Payload::TableSection(section) => self.parse_table_section(&mut sections.tables, section),
            Payload::GlobalSection(section) => self.parse_global_section(&mut sections.globals, section),
            Payload::ExportSection(section) => self.parse_export_section(&mut sections.exports, section),
            Payload::CodeSectionEntry(body) => self.parse_function_body(&mut sections.code, body),
            Payload::DataSection(section) => self.parse_data_section(&mut sections.data, section),
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = MemoryType {
                        maximum: None,
                        ..self.memory_type(memory.map_err(invalid)?).map_err(unsupported)?
                    };
                    sections.memories.memory(memory);
                }
                Ok(())
            }
            Payload::ElementSection(section) => {
                for element in section {
                    self.element(&mut sections.elements, element.map_err(invalid)?)?;
                }
                Ok(())
            }
            Payload::CustomSection(section) => {
                if section.name() == "name" && names == Names::Kept {
                    sections.names = wasm.get(section.range());
                } else {
                    self.lowered.dropped_sections += 1;
                }
                Ok(())
            }
            _ => Ok(()),
        }
        .map_err(unsupported)
    }

    /// The survey has let only functions for table 0 through; they are written in the oldest of the
    /// encodings.
    fn element(
        &mut self,
        to: &mut ElementSection,
        element: wasmparser::Element<'_>,
    ) -> Result<(), RewriteError> {
        let ElementKind::Active { offset_expr, .. } = element.kind else { return Ok(()) };
        let mut functions = Vec::new();
        match element.items {
            ElementItems::Functions(items) => {
                for item in items {
                    functions.push(item.map_err(invalid)?);
                }
            }
            ElementItems::Expressions(_, items) => {
                for item in items {
                    functions.extend(constant_function(&item.map_err(invalid)?).map_err(invalid)?);
                }
            }
        }
        let offset = self.const_expr(offset_expr).map_err(unsupported)?;
        to.active(None, &offset, Elements::Functions(functions.into()));
        Ok(())
    }
}

fn unsupported(error: Error<Infallible>) -> RewriteError {
    RewriteError::Unsupported { message: error.to_string() }
}
