//! Programs of the host, run to their end.

use crate::BuildError;
use std::io::ErrorKind;
use std::process::{Command, Output, Stdio};

/// So much of what a program said is told.
const TOLD: usize = 600;

/// Runs it, and gives what it printed.
pub(crate) fn run(command: &mut Command, package: &'static str) -> Result<Vec<u8>, BuildError> {
    let output = output(command, package)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    // Compilers say on standard output what they do, and on the other one what is wrong.
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    Err(BuildError::Command { command: shown(command), told: told(said, &output) })
}

/// Runs it, however it ends.
pub(crate) fn output(command: &mut Command, package: &'static str) -> Result<Output, BuildError> {
    // Its messages are read, here and by people.
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let program = command.get_program().to_string_lossy().into_owned();
            BuildError::Missing { program, package }
        }
        _ => BuildError::Command { command: shown(command), told: error.to_string() },
    })
}

/// Its name and what it is to do, without what else it is told.
fn shown(command: &Command) -> String {
    let name = command.get_program().to_string_lossy();
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.filter(|word| !word.starts_with('-') && !word.contains("::")).collect();
    printable::harmless(&format!("{name} {}", words.join(" ")), 200)
}

/// The last lines that say something.
fn told(said: &[u8], output: &Output) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut chosen: Vec<&str> = lines.iter().copied().filter(|line| is_error(line)).collect();
    if chosen.is_empty() {
        chosen = lines;
    }
    let last = chosen.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ");
    if last.is_empty() {
        return format!("it ended with {}", output.status);
    }
    printable::harmless(&last, TOLD)
}

fn is_error(line: &str) -> bool {
    line.starts_with("E: ") || line.contains("error:") || line.contains("No space left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_is_told_and_one_that_is_not_there_is_named() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; echo noise >&2; echo 'x.c:1: error: no such thing' >&2; exit 2"]);
        let error = run(&mut command, "dash").expect_err("it fails").to_string();
        assert!(error.ends_with("x.c:1: error: no such thing"), "{error}");
        let error = run(Command::new("sh").args(["-c", "exit 3"]), "dash").expect_err("it fails").to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        let error = run(&mut Command::new("no-such-program"), "nothing").expect_err("it is not there");
        assert!(error.is_missing() && error.to_string().contains("Debian: nothing"), "{error}");
        assert_eq!(run(Command::new("sh").args(["-c", "echo yes"]), "dash").expect("it runs"), b"yes\n");
    }
}
