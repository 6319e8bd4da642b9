//! What a shell and `man` are told of the command line: completions and manual pages, made of its definition.

use crate::Outcome;
use crate::cli::{CommandLine, CompletionsOptions, ManOptions};
use clap::{Command, CommandFactory};
use std::io::Write;
use std::path::Path;

/// Behind what is made of the command line: names of objects, as the daemon of $SUPERFLUID_SOCKET has them. They are compared, and not
/// expanded, so that a name is never more than a name.
const NAMES_FOR_BASH: &str = r#"
_superfluid_names() { # KIND CURRENT
    local name
    COMPREPLY=()
    while IFS= read -r name; do
        [[ $name == "$2"* ]] && COMPREPLY+=("$name")
    done < <(timeout 1 superfluid names "$1" 2>/dev/null)
}

_superfluid_or_names() {
    local current=${COMP_WORDS[COMP_CWORD]} kind=
    if ((COMP_CWORD >= 2)) && [[ $current != -* && ${COMP_WORDS[COMP_CWORD - 1]} != -* ]]; then
        case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
        get\ * | describe\ * | edit\ * | delete\ *) ((COMP_CWORD >= 3)) && kind=${COMP_WORDS[2]} ;;
        function\ create) ;;
        function\ *) ((COMP_CWORD >= 3)) && kind=functions ;;
        snapshot\ save) ((COMP_CWORD >= 3)) && kind=functions ;;
        snapshot\ restore | snapshot\ rm | snapshot\ adopt) ((COMP_CWORD >= 3)) && kind=snapshots ;;
        upgrade\ *) ((COMP_CWORD == 2)) && kind=functions ;;
        esac
    fi
    if [[ -n $kind ]]; then
        _superfluid_names "$kind" "$current"
    else
        _superfluid "$@"
    fi
}

complete -F _superfluid_or_names -o bashdefault -o default superfluid
"#;

pub(crate) fn completions(options: &CompletionsOptions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut CommandLine::command(), "superfluid", &mut script);
    if options.shell == clap_complete::Shell::Bash {
        script.extend(NAMES_FOR_BASH.as_bytes());
    }
    print(&script)
}

pub(crate) fn man(options: &ManOptions) -> Outcome {
    let pages = match pages() {
        Ok(pages) => pages,
        Err(error) => {
            eprintln!("man: {error}");
            return Outcome::Failed;
        }
    };
    match &options.output {
        None => print(&pages[0].1),
        Some(folder) => match save(folder, &pages) {
            Ok(()) => Outcome::Done,
            Err(error) => {
                eprintln!("man: {error}");
                Outcome::Failed
            }
        },
    }
}

fn print(bytes: &[u8]) -> Outcome {
    match std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()) {
        Ok(()) => Outcome::Done,
        // A reader that has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Outcome::Done,
        Err(error) => {
            eprintln!("standard output: {error}");
            Outcome::Failed
        }
    }
}

/// A page for the program, and one for each command.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = CommandLine::command();
    command.build();
    let mut pages = Vec::new();
    gather(&command, "superfluid", &mut pages)?;
    Ok(pages)
}

fn gather(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut page = Vec::new();
    // As `man` names pages: superfluid-image-build(1).
    let renamed = command.clone().name(name.to_owned()).bin_name(name.replace('-', " "));
    clap_mangen::Man::new(renamed).render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    for below in command.get_subcommands() {
        if !below.is_hide_set() && below.get_name() != "help" {
            gather(below, &format!("{name}-{}", below.get_name()), pages)?;
        }
    }
    Ok(())
}

fn save(folder: &Path, pages: &[(String, Vec<u8>)]) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, page) in pages {
        let path = folder.join(name);
        std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
