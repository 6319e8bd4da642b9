//! What no export leads to goes: functions, globals, host calls, the table and its slots, types.

use super::CutError;
use super::parts::{Parts, Plan};
use std::collections::BTreeSet;
use wasmparser::{ExternalKind, FuncType, Operator};

/// Exports beside those that the contract has, for the host has no use for them.
pub(super) fn without_foreign_exports(parts: &Parts<'_>) -> Plan {
    let mut plan = parts.everything();
    plan.exports.retain(|export| parts.exports[*export].name.starts_with("sf_") || is_memory(parts, *export));
    plan
}

fn is_memory(parts: &Parts<'_>, export: usize) -> bool {
    parts.exports[export].name == nf_abi::exports::MEMORY
}

/// A mutable global's export is no reason to keep the global: image build made it, for snapshots.
fn is_root(parts: &Parts<'_>, export: usize) -> bool {
    !parts.exports[export].name.starts_with(nf_abi::GLOBAL_EXPORT_PREFIX)
}

/// What has been reached.
#[derive(Default)]
struct Reached {
    functions: BTreeSet<u32>,
    /// Reached, and not looked into yet.
    fresh: Vec<u32>,
    globals: BTreeSet<u32>,
    /// Types of indirect calls: they reach the slots that hold functions of the same type, and no others. A
    /// call through another slot traps, and does so when the slot is empty as well.
    called: Vec<FuncType>,
    /// The table itself can be seen from outside.
    whole_table: bool,
}

pub(super) fn plan(parts: &Parts<'_>) -> Result<Plan, CutError> {
    let mut reached = Reached::default();
    for export in (0..parts.exports.len()).filter(|export| is_root(parts, *export)) {
        let export = &parts.exports[export];
        match export.kind {
            ExternalKind::Func => reached.function(export.index),
            ExternalKind::Global => {
                reached.globals.insert(export.index);
            }
            ExternalKind::Table => reached.whole_table = true,
            _ => {}
        }
    }
    loop {
        while let Some(function) = reached.fresh.pop() {
            reached.look_into(parts, function)?;
        }
        for function in parts.slots.values() {
            if reached.by_call(parts, *function) {
                reached.function(*function);
            }
        }
        if reached.fresh.is_empty() {
            break;
        }
    }
    let slots: Vec<u64> = parts
        .slots
        .iter()
        .filter(|(_, function)| reached.by_call(parts, **function))
        .map(|(slot, _)| *slot)
        .collect();
    let table = parts.table.map(|table| table.initial);
    let table = if reached.whole_table {
        table
    } else {
        // A call beyond the table's end traps as one through an empty slot does.
        table.filter(|_| !reached.called.is_empty()).map(|_| slots.last().map_or(0, |last| last + 1))
    };
    let exports = (0..parts.exports.len()).filter(|export| {
        let export = &parts.exports[*export];
        export.kind != ExternalKind::Global || reached.globals.contains(&export.index)
    });
    Ok(Plan {
        exports: exports.collect(),
        functions: reached.functions.iter().map(|function| (*function, *function)).collect(),
        globals: reached.globals.into_iter().collect(),
        slots,
        table,
    })
}

impl Reached {
    fn function(&mut self, function: u32) {
        if self.functions.insert(function) {
            self.fresh.push(function);
        }
    }

    fn by_call(&self, parts: &Parts<'_>, function: u32) -> bool {
        self.whole_table || parts.type_of(function).is_some_and(|kind| self.called.contains(kind))
    }

    fn look_into(&mut self, parts: &Parts<'_>, function: u32) -> Result<(), CutError> {
        let Some(body) = parts.body(function) else { return Ok(()) };
        for operator in body.get_operators_reader()? {
            match operator? {
                Operator::Call { function_index } | Operator::RefFunc { function_index } => {
                    self.function(function_index);
                }
                Operator::GlobalGet { global_index } | Operator::GlobalSet { global_index } => {
                    self.globals.insert(global_index);
                }
                Operator::CallIndirect { type_index, .. } => {
                    let kind = parts.types.get(type_index as usize);
                    let kind = kind.ok_or(CutError::Unsupported("an indirect call of no type"))?;
                    if !self.called.contains(kind) {
                        self.called.push(kind.clone());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
