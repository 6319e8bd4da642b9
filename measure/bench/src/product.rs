//! Where the program is that is measured.

use crate::BenchError;
use std::path::PathBuf;

/// `superfluid`, which lies beside this program.
///
/// # Errors
/// It does not lie there.
pub(crate) fn superfluid() -> Result<PathBuf, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::setup)?;
    let program = own.with_file_name("superfluid");
    if program.is_file() {
        return Ok(program);
    }
    Err(BenchError::Setup(format!(
        "{}: there is no such program; it is looked for beside this one",
        program.display()
    )))
}
