//! The commands of the program in groups, so that a beginner finds the way.

use clap::Command;

/// A heading, and the commands below it.
type Group = (&'static str, &'static [&'static str]);

const GROUPS: [Group; 6] = [
    ("Run a file", &["run", "check"]),
    (
        "What a daemon is to run",
        &[
            "daemon", "apply", "diff", "edit", "delete", "function", "upgrade", "snapshot", "token",
            "registry", "launcher",
        ],
    ),
    ("Back up and restore", &["backup", "restore"]),
    (
        "What runs, and what happens",
        &[
            "get",
            "describe",
            "neighbours",
            "top",
            "graph",
            "page",
            "events",
            "trace",
            "capture",
            "memory",
            "account",
            "health",
        ],
    ),
    ("Make functions and images", &["new", "image", "vm"]),
    ("More", &["bench", "completions", "man", "help"]),
];

/// The command with its commands in groups.
pub(crate) fn grouped(mut command: Command) -> Command {
    // Makes `help` one of them.
    command.build();
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let mut lines = String::new();
        for name in names {
            if let Some(below) = command.find_subcommand(name) {
                let about = below.get_about().map(ToString::to_string).unwrap_or_default();
                lines.push_str(&format!("  {name:<12}{about}\n"));
            }
        }
        if !lines.is_empty() {
            text.push_str(&format!("{heading}:\n{lines}\n"));
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CommandLine;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = CommandLine::command();
        command.build();
        let visible = command.get_subcommands().filter(|below| !below.is_hide_set());
        for name in visible.map(Command::get_name) {
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "{name}");
        }
        let help = grouped(CommandLine::command()).render_help().to_string();
        assert!(help.contains("What runs, and what happens:\n  get         List objects"), "{help}");
        assert!(help.contains("Usage: superfluid <COMMAND>") && help.contains("--version"), "{help}");
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "they do not fit an ordinary terminal: {wide:#?}");
    }
}
