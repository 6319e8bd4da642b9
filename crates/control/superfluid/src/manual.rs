//! Manual pages of the command line, made of its definition.

use crate::Outcome;
use crate::cli::{CommandLine, ManOptions};
use clap::{Command, CommandFactory};
use std::io::Write;
use std::path::Path;

pub(crate) fn man(options: &ManOptions) -> Outcome {
    let pages = match pages() {
        Ok(pages) => pages,
        Err(error) => {
            console::error().line(&format!("man: {error}"));
            return Outcome::Failed;
        }
    };
    match &options.output {
        None => print(&pages[0].1),
        Some(folder) => match save(folder, &pages) {
            Ok(paths) => print(paths.as_bytes()),
            Err(error) => {
                console::error().line(&format!("man: {error}"));
                Outcome::Failed
            }
        },
    }
}

/// Writes to standard output, and says on standard error why not. A reader that has seen enough is no
/// failure.
pub(crate) fn print(bytes: &[u8]) -> Outcome {
    match std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()) {
        Ok(()) => Outcome::Done,
        // A reader that has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Outcome::Done,
        Err(error) => {
            console::error().line(&format!("standard output: {error}"));
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

/// Writes the pages; their paths, a line each.
fn save(folder: &Path, pages: &[(String, Vec<u8>)]) -> Result<String, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = String::new();
    for (name, page) in pages {
        let path = folder.join(name);
        std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
        paths.push_str(&format!("{}\n", path.display()));
    }
    Ok(paths)
}
