//! Functions of one type with the same body become one. Slots of the table keep their numbers, so that
//! pointers to functions that were different stay different.

use super::CutError;
use super::parts::{Parts, Plan};
use std::collections::HashMap;

pub(super) fn plan(parts: &Parts<'_>) -> Result<Plan, CutError> {
    let mut plan = parts.everything();
    // Callers of what became one may be the same now.
    loop {
        let mut seen = HashMap::new();
        let mut merged = Vec::new();
        for function in 0..parts.count() {
            if plan.functions.get(&function) != Some(&function) {
                continue;
            }
            let Some(body) = parts.body_bytes(function, &plan)? else { continue };
            let first = *seen.entry((parts.type_of(function), body)).or_insert(function);
            if first != function {
                merged.push((function, first));
            }
        }
        if merged.is_empty() {
            return Ok(plan);
        }
        for (function, first) in merged {
            for standing in plan.functions.values_mut().filter(|standing| **standing == function) {
                *standing = first;
            }
        }
    }
}
