//! What completes commands in a shell: made of the definition of the command line, and for bash, zsh and fish
//! with names of objects, as the daemon of $SUPERFLUID_SOCKET has them. Names are compared and not expanded,
//! so that a name is never more than a name.

use crate::Outcome;
use crate::cli::{CommandLine, CompletionsOptions};
use crate::manual::print;
use clap::CommandFactory;
use clap_complete::Shell;

const NAMES_FOR_BASH: &str = include_str!("completions/names.bash");
const NAMES_FOR_ZSH: &str = include_str!("completions/names.zsh");
const NAMES_FOR_FISH: &str = include_str!("completions/names.fish");

/// The end of the script for zsh: what is called when the script is loaded.
const LOADED_BY_ZSH: &str = "if [ \"$funcstack[1]\" = \"_superfluid\" ]; then";

pub(crate) fn completions(options: &CompletionsOptions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut CommandLine::command(), "superfluid", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = match options.shell {
        Shell::Bash => script + NAMES_FOR_BASH,
        Shell::Zsh => for_zsh(&script),
        Shell::Fish => script + NAMES_FOR_FISH,
        _ => script,
    };
    print(script.as_bytes())
}

/// What was generated is called by the function that knows names, which takes its name.
fn for_zsh(script: &str) -> String {
    let script = script.replace("\n_superfluid() {\n", "\n_superfluid_generated() {\n");
    script.replace(LOADED_BY_ZSH, &format!("{NAMES_FOR_ZSH}{LOADED_BY_ZSH}"))
}
