//! Runs a compiler.

use super::BuildError;
use std::io::ErrorKind;
use std::process::{Command, Output};

/// A tool, and how one gets it.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) install: &'static str,
}

impl Tool {
    pub(super) fn missing(&self) -> BuildError {
        BuildError::MissingTool { tool: self.name, install: self.install }
    }

    /// Runs it to its end; a failure comes with all that it said.
    pub(super) fn run(&self, command: &mut Command) -> Result<Output, BuildError> {
        let output = command.output().map_err(|source| match source.kind() {
            ErrorKind::NotFound => self.missing(),
            _ => BuildError::File { path: command.get_program().into(), source },
        })?;
        if !output.status.success() {
            let diagnostics = diagnostics(&output);
            return Err(BuildError::Compiler { tool: self.name, status: output.status, diagnostics });
        }
        Ok(output)
    }
}

pub(super) fn diagnostics(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}
