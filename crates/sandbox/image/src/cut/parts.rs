//! A rewritten module taken apart, and put together again with other numbers.

use super::CutError;
use std::borrow::Cow;
use std::collections::BTreeMap;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{
    CodeSection, ConstExpr, CustomSection, DataSection, ElementSection, Elements, Encode, ExportSection,
    FunctionSection, GlobalSection, ImportSection, MemorySection, Module, NameMap, NameSection, TableSection,
    TypeSection,
};
use wasmparser::{
    DataKind, ElementItems, ElementKind, Export, ExternalKind, FuncType, FunctionBody, Global, Import,
    KnownCustom, MemoryType, Name, Operator, Parser, Payload, TableType, TypeRef,
};

/// What a module consists of. Only what the rewriting pass lets through: one memory, at most one table,
/// active segments at constant places, imports that are functions.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) types: Vec<FuncType>,
    /// With the number of each one's type.
    pub(super) imports: Vec<(Import<'a>, u32)>,
    /// Types of the functions that the module defines; their bodies, in the same order.
    pub(super) functions: Vec<u32>,
    pub(super) bodies: Vec<FunctionBody<'a>>,
    pub(super) table: Option<TableType>,
    pub(super) memory: Option<MemoryType>,
    pub(super) globals: Vec<Global<'a>>,
    pub(super) exports: Vec<Export<'a>>,
    /// What each slot of the table holds at the start, where something does.
    pub(super) slots: BTreeMap<u64, u32>,
    /// Data segments: where, and what.
    pub(super) data: Vec<(u32, Cow<'a, [u8]>)>,
    pub(super) names: BTreeMap<u32, &'a str>,
    /// Custom sections other than names.
    pub(super) custom: Vec<(&'a str, &'a [u8])>,
}

/// Which things stay, and under which number. What is missing goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// By a function's old number, imports first: the old number of the function that stands for it; itself,
    /// mostly.
    pub(super) functions: BTreeMap<u32, u32>,
    /// Old numbers of globals.
    pub(super) globals: Vec<u32>,
    /// Exports, by their place in the section.
    pub(super) exports: Vec<usize>,
    /// Slots of the table.
    pub(super) slots: Vec<u64>,
    /// Whether there is a table, and how many slots it has.
    pub(super) table: Option<u64>,
}

impl<'a> Parts<'a> {
    pub(super) fn read(wasm: &'a [u8]) -> Result<Parts<'a>, CutError> {
        let mut parts = Parts::default();
        for payload in Parser::new(0).parse_all(wasm) {
            parts.section(payload?)?;
        }
        if parts.memory.is_none() {
            return Err(CutError::Unsupported("a module without a memory"));
        }
        Ok(parts)
    }

    fn section(&mut self, payload: Payload<'a>) -> Result<(), CutError> {
        match payload {
            Payload::TypeSection(section) => {
                for function in section.into_iter_err_on_gc_types() {
                    self.types.push(function?);
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    let TypeRef::Func(index) = import.ty else {
                        return Err(CutError::Unsupported("an import that is no function"));
                    };
                    self.imports.push((import, index));
                }
            }
            Payload::FunctionSection(section) => {
                for function in section {
                    self.functions.push(function?);
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    if self.table.replace(table?.ty).is_some() {
                        return Err(CutError::Unsupported("a second table"));
                    }
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    if self.memory.replace(memory?).is_some() {
                        return Err(CutError::Unsupported("a second memory"));
                    }
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    self.globals.push(global?);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    self.exports.push(export?);
                }
            }
            Payload::StartSection { .. } => return Err(CutError::Unsupported("a start function")),
            Payload::ElementSection(section) => {
                for element in section {
                    self.element(element?)?;
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::DataSection(section) => {
                for data in section {
                    let data = data?;
                    let DataKind::Active { offset_expr, .. } = data.kind else {
                        return Err(CutError::Unsupported("a data segment that is not active"));
                    };
                    self.data.push((constant(&offset_expr)?, data.data.into()));
                }
            }
            Payload::CustomSection(section) => match section.as_known() {
                KnownCustom::Name(names) => {
                    for name in names {
                        let Name::Function(functions) = name? else { continue };
                        for naming in functions {
                            let naming = naming?;
                            self.names.insert(naming.index, naming.name);
                        }
                    }
                }
                _ => self.custom.push((section.name(), section.data())),
            },
            _ => {}
        }
        Ok(())
    }

    /// Later segments write over earlier ones, as they do at the start of an instance.
    fn element(&mut self, element: wasmparser::Element<'_>) -> Result<(), CutError> {
        let ElementKind::Active { table_index: None | Some(0), offset_expr } = element.kind else {
            return Err(CutError::Unsupported("an element segment that is not active"));
        };
        let ElementItems::Functions(items) = element.items else {
            return Err(CutError::Unsupported("an element segment of expressions"));
        };
        let first = u64::from(constant(&offset_expr)?);
        for (slot, function) in (first..).zip(items) {
            self.slots.insert(slot, function?);
        }
        Ok(())
    }

    /// How many functions there are, imports included.
    pub(super) fn count(&self) -> u32 {
        (self.imports.len() + self.functions.len()) as u32
    }

    /// The type of a function.
    pub(super) fn type_of(&self, function: u32) -> Option<&FuncType> {
        let imported = self.imports.get(function as usize).map(|(_, index)| *index);
        let index =
            imported.or_else(|| self.functions.get(function as usize - self.imports.len()).copied())?;
        self.types.get(index as usize)
    }

    /// The body of a function that the module defines.
    pub(super) fn body(&self, function: u32) -> Option<&FunctionBody<'a>> {
        self.bodies.get((function as usize).checked_sub(self.imports.len())?)
    }

    /// The plan by which everything stays.
    pub(super) fn everything(&self) -> Plan {
        Plan {
            functions: (0..self.count()).map(|function| (function, function)).collect(),
            globals: (0..self.globals.len() as u32).collect(),
            exports: (0..self.exports.len()).collect(),
            slots: self.slots.keys().copied().collect(),
            table: self.table.map(|table| table.initial),
        }
    }

    /// The module that has what the plan says. Types that nothing uses are left out, and equal ones are one.
    pub(super) fn write(&self, plan: &Plan) -> Result<Vec<u8>, CutError> {
        let mut numbers = Numbers::new(self, plan);
        let mut module = Module::new();
        let (mut imports, mut functions) = (ImportSection::new(), FunctionSection::new());
        let (mut code, mut names) = (CodeSection::new(), NameMap::new());
        for function in (0..self.count()).filter(|function| plan.functions.get(function) == Some(function)) {
            let kind = self.type_of(function).ok_or(CutError::Unsupported("a function without a type"))?;
            let kind = numbers.number_of(kind);
            match self.body(function) {
                Some(body) => {
                    functions.function(kind);
                    numbers.parse_function_body(&mut code, body.clone())?;
                }
                None => {
                    let (import, _) = &self.imports[function as usize];
                    imports.import(import.module, import.name, wasm_encoder::EntityType::Function(kind));
                }
            }
            if let (Some(name), Some(number)) = (self.names.get(&function), numbers.functions.get(&function))
            {
                names.append(*number, name);
            }
        }
        let types = numbers.types()?;
        if !types.is_empty() {
            module.section(&types);
        }
        if !imports.is_empty() {
            module.section(&imports);
        }
        module.section(&functions);
        if let (Some(table), Some(slots)) = (self.table, plan.table) {
            let mut section = TableSection::new();
            let maximum = table.maximum.map(|maximum| if maximum == table.initial { slots } else { maximum });
            section.table(wasm_encoder::TableType { minimum: slots, maximum, ..numbers.table_type(table)? });
            module.section(&section);
        }
        let mut memories = MemorySection::new();
        if let Some(memory) = self.memory {
            memories.memory(numbers.memory_type(memory)?);
        }
        module.section(&memories);
        let mut globals = GlobalSection::new();
        for global in &plan.globals {
            let global = self.globals[*global as usize].clone();
            numbers.parse_global(&mut globals, global)?;
        }
        if !globals.is_empty() {
            module.section(&globals);
        }
        module.section(&self.exports(plan, &mut numbers)?);
        let elements = self.elements(plan, &mut numbers)?;
        if !elements.is_empty() {
            module.section(&elements);
        }
        module.section(&code);
        let mut data = DataSection::new();
        for (at, bytes) in &self.data {
            data.active(0, &ConstExpr::i32_const(*at as i32), bytes.iter().copied());
        }
        if !data.is_empty() {
            module.section(&data);
        }
        if !names.is_empty() {
            let mut section = NameSection::new();
            section.functions(&names);
            module.section(&section);
        }
        for (name, data) in &self.custom {
            module.section(&CustomSection { name: (*name).into(), data: (*data).into() });
        }
        Ok(module.finish())
    }

    /// A mutable global is exported under its number, which may be another one now.
    fn exports(&self, plan: &Plan, numbers: &mut Numbers<'_>) -> Result<ExportSection, CutError> {
        let mut section = ExportSection::new();
        for export in plan.exports.iter().map(|export| &self.exports[*export]) {
            let index = numbers.external_index(export.kind, export.index)?;
            let numbered = export.name.starts_with(nf_abi::GLOBAL_EXPORT_PREFIX);
            let name = match export.kind {
                ExternalKind::Global if numbered => format!("{}{index}", nf_abi::GLOBAL_EXPORT_PREFIX).into(),
                _ => Cow::Borrowed(export.name),
            };
            section.export(&name, numbers.export_kind(export.kind)?, index);
        }
        Ok(section)
    }

    /// Slots that follow each other share a segment.
    fn elements(&self, plan: &Plan, numbers: &mut Numbers<'_>) -> Result<ElementSection, CutError> {
        let mut section = ElementSection::new();
        let mut slots = plan.slots.iter().copied().peekable();
        while let Some(first) = slots.next() {
            let (mut last, mut functions) = (first, vec![numbers.function_index(self.slots[&first])?]);
            while let Some(slot) = slots.next_if_eq(&(last + 1)) {
                functions.push(numbers.function_index(self.slots[&slot])?);
                last = slot;
            }
            section.active(None, &ConstExpr::i32_const(first as i32), Elements::Functions(functions.into()));
        }
        Ok(section)
    }

    /// The bytes of a function's body, were these its callees.
    pub(super) fn body_bytes(&self, function: u32, plan: &Plan) -> Result<Option<Vec<u8>>, CutError> {
        let Some(body) = self.body(function) else { return Ok(None) };
        let (mut code, mut bytes) = (CodeSection::new(), Vec::new());
        // Only sameness counts, so that old numbers do; but a type has to have the same number in every body.
        let mut numbers = Numbers::new(self, plan);
        numbers.functions = plan.functions.clone();
        self.types.iter().for_each(|kind| {
            numbers.number_of(kind);
        });
        numbers.parse_function_body(&mut code, body.clone())?;
        code.encode(&mut bytes);
        Ok(Some(bytes))
    }
}

/// Where a segment begins.
fn constant(expression: &wasmparser::ConstExpr<'_>) -> Result<u32, CutError> {
    match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(value as u32),
        _ => Err(CutError::Unsupported("a segment that begins at something else than a constant")),
    }
}

/// Something that does not stay is asked for: the plan is wrong.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("something that is used is missing")]
pub(super) struct Missing;

/// Gives old things their new numbers.
struct Numbers<'p> {
    all_types: &'p [FuncType],
    /// Types that are used, in the order of their first use.
    used_types: Vec<FuncType>,
    functions: BTreeMap<u32, u32>,
    globals: BTreeMap<u32, u32>,
}

impl<'p> Numbers<'p> {
    fn new(parts: &'p Parts<'_>, plan: &Plan) -> Numbers<'p> {
        let stay = plan.functions.iter().filter(|(old, standing)| old == standing);
        let fresh: BTreeMap<u32, u32> = stay.map(|(old, _)| *old).zip(0..).collect();
        let functions = plan.functions.iter();
        let functions = functions.filter_map(|(old, standing)| Some((*old, *fresh.get(standing)?))).collect();
        let globals = plan.globals.iter().copied().zip(0..).collect();
        Numbers { all_types: &parts.types, used_types: Vec::new(), functions, globals }
    }

    fn number_of(&mut self, kind: &FuncType) -> u32 {
        if let Some(number) = self.used_types.iter().position(|used| used == kind) {
            return number as u32;
        }
        self.used_types.push(kind.clone());
        self.used_types.len() as u32 - 1
    }

    fn types(&mut self) -> Result<TypeSection, CutError> {
        let mut section = TypeSection::new();
        for kind in std::mem::take(&mut self.used_types) {
            section.ty().func_type(&self.func_type(kind)?);
        }
        Ok(section)
    }
}

impl Reencode for Numbers<'_> {
    type Error = Missing;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Missing>> {
        self.functions.get(&function).copied().ok_or(Error::UserError(Missing))
    }

    fn global_index(&mut self, global: u32) -> Result<u32, Error<Missing>> {
        self.globals.get(&global).copied().ok_or(Error::UserError(Missing))
    }

    fn type_index(&mut self, index: u32) -> Result<u32, Error<Missing>> {
        let kind = self.all_types.get(index as usize).ok_or(Error::UserError(Missing))?;
        Ok(self.number_of(&kind.clone()))
    }
}
