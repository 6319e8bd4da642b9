//! The contract of `nf_abi` as types: what an image may import and what it exports.

use nf_abi::{exports, imports};
use std::fmt;
use wasmparser::ValType::{self, I32, I64};

/// A function of the contract.
pub(crate) struct Contracted {
    pub(crate) name: &'static str,
    pub(crate) signature: Signature<'static>,
    pub(crate) required: bool,
}

/// Parameters and results, shown as `(i32, i64) -> i32`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature<'a> {
    pub(crate) parameters: &'a [ValType],
    pub(crate) results: &'a [ValType],
}

const fn function(
    name: &'static str,
    parameters: &'static [ValType],
    results: &'static [ValType],
) -> Contracted {
    Contracted { name, signature: Signature { parameters, results }, required: false }
}

const fn required(function: Contracted) -> Contracted {
    Contracted { required: true, ..function }
}

/// All host calls. An image imports those that it uses.
pub(crate) const IMPORTS: [Contracted; 6] = [
    function(imports::READ, &[I32, I32, I32, I32], &[I32]),
    function(imports::WRITE, &[I32, I32, I32], &[I32]),
    function(imports::COUNTER_ADD, &[I32, I64], &[I32]),
    function(imports::PACKET_NEW, &[I32, I32, I32], &[I32]),
    function(imports::PACKET_EMIT, &[I32, I32, I32, I32, I64], &[I32]),
    function(imports::TIMER_SET, &[I64], &[I32]),
];

/// All functions that the host calls.
pub(crate) const EXPORTS: [Contracted; 10] = [
    required(function(exports::BATCH, &[], &[I32])),
    required(function(exports::INIT, &[], &[I32])),
    required(function(exports::PROCESS, &[I32, I64], &[])),
    function(exports::TIMER, &[I64], &[]),
    function(exports::FINISH, &[I64], &[I32]),
    function(exports::DEVICES, &[I64], &[]),
    function(exports::CHANGE, &[I64], &[I32]),
    function(exports::REPORT, &[I64], &[]),
    function(exports::EXPORT_STATE, &[], &[I32]),
    function(exports::IMPORT_STATE, &[], &[I32]),
];

/// What the names of the host's own exports begin with; no function's own export may.
pub(crate) const EXPORT_PREFIX: &str = "sf_";

impl fmt::Display for Signature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        values(f, self.parameters)?;
        match self.results {
            [] => Ok(()),
            [one] => write!(f, " -> {one}"),
            several => {
                f.write_str(" -> ")?;
                values(f, several)
            }
        }
    }
}

fn values(f: &mut fmt::Formatter<'_>, values: &[ValType]) -> fmt::Result {
    f.write_str("(")?;
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{value}")?;
    }
    f.write_str(")")
}
