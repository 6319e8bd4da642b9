//! What was probably meant where the command line is wrong: files that come after `-f`, and words that other
//! programs have for what this one calls otherwise.

use crate::remote::kinds;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command (none: the program itself), a word that is none of its commands, and what does that here.
const ELSEWHERE: [(&str, &[&str], &str); 25] = [
    ("", &["logs", "log"], "superfluid function logs NAME"),
    ("", &["alerts"], "superfluid function events NAME"),
    ("", &["report"], "superfluid function report NAME"),
    ("", &["status"], "superfluid health, superfluid get all"),
    ("", &["ls", "list", "ps"], "superfluid get functions, superfluid get all"),
    ("", &["show"], "superfluid describe KIND NAME"),
    ("", &["stats", "metrics", "counters"], "superfluid top, superfluid account"),
    ("", &["drops", "losses"], "superfluid account"),
    ("", &["tcpdump", "dump"], "superfluid capture PLACE"),
    ("", &["create", "add"], "superfluid function create NAME, superfluid apply -f FILE"),
    ("", &["set", "update"], "superfluid edit KIND NAME, superfluid apply -f FILE"),
    ("", &["rm", "remove"], "superfluid delete KIND NAME"),
    ("", &["pause"], "superfluid function pause NAME"),
    ("", &["stop"], "superfluid function pause NAME, and a daemon ends by SIGTERM"),
    ("", &["resume"], "superfluid function resume NAME"),
    ("", &["start"], "superfluid daemon, superfluid function resume NAME"),
    ("", &["restart"], "superfluid function restart NAME"),
    ("", &["save"], "superfluid snapshot save FUNCTION NAME"),
    ("", &["build"], "superfluid image build FOLDER"),
    ("", &["inspect"], "superfluid describe KIND NAME, superfluid image inspect IMAGE"),
    ("", &["push", "pull"], "superfluid image push IMAGE REFERENCE, superfluid image pull REFERENCE"),
    ("", &["init"], "superfluid new NAME"),
    ("", &["validate", "lint", "test"], "superfluid check FILE"),
    ("", &["login"], "superfluid registry login HOST"),
    ("", &["version"], "superfluid --version"),
];

/// The same below commands that have commands of their own.
const BELOW: [(&str, &[&str], &str); 13] = [
    ("function", &["delete", "rm", "remove"], "superfluid delete function NAME"),
    ("function", &["ls", "list", "get"], "superfluid get functions"),
    ("function", &["describe", "show", "inspect"], "superfluid describe function NAME"),
    ("function", &["upgrade", "update"], "superfluid upgrade NAME --image IMAGE"),
    ("function", &["edit"], "superfluid edit function NAME"),
    ("function", &["stop"], "superfluid function pause NAME"),
    ("function", &["start"], "superfluid function resume NAME"),
    ("snapshot", &["delete", "remove"], "superfluid snapshot rm NAME"),
    ("snapshot", &["create"], "superfluid snapshot save FUNCTION NAME"),
    ("snapshot", &["list", "get"], "superfluid snapshot ls"),
    ("token", &["rm", "remove", "revoke"], "superfluid token delete NAME"),
    ("token", &["list", "get"], "superfluid token ls"),
    ("image", &["list", "get"], "superfluid get images, superfluid image ls"),
];

/// Adds to an error of the command line what was probably meant. Where that is known, what clap takes for
/// similar (`restore` for `stop`) is left out of the error.
pub(crate) fn hint(error: &mut clap::Error, words: &[String]) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::UnknownArgument => of_a_file(error, words)?,
        ErrorKind::InvalidSubcommand => of_a_word(error, words)?,
        _ => return None,
    };
    error.remove(ContextKind::SuggestedSubcommand);
    Some(format!("  tip: {hint}"))
}

/// Commands that take files take them behind -f.
fn of_a_file(error: &clap::Error, words: &[String]) -> Option<String> {
    let command = words.get(1).filter(|command| matches!(command.as_str(), "apply" | "diff"))?;
    let found = text(error, ContextKind::InvalidArg)?;
    let file = !found.starts_with('-') || found == "-";
    file.then(|| format!("a file comes after -f: superfluid {command} -f {found}"))
}

fn of_a_word(error: &clap::Error, words: &[String]) -> Option<String> {
    let found = text(error, ContextKind::InvalidSubcommand)?;
    let below = words.get(1).map(String::as_str).filter(|word| *word != found).unwrap_or_default();
    let known = ELSEWHERE.iter().chain(&BELOW);
    let here = known.into_iter().find(|(command, theirs, _)| *command == below && theirs.contains(&found));
    match here {
        Some((_, _, ours)) => Some(format!("here it is {ours}")),
        None if below.is_empty() && kinds::is_one(found) => {
            Some(format!("a kind comes after a command: superfluid get {found}"))
        }
        None => None,
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CommandLine;
    use clap::{Command, CommandFactory};

    /// The hint at a wrong command line, and what is printed above it.
    fn hinted(line: &str) -> (Option<String>, String) {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let mut error = CommandLine::command().try_get_matches_from(&words).expect_err(line);
        let hint = hint(&mut error, &words);
        (hint, error.to_string())
    }

    #[test]
    fn a_file_without_its_option_is_hinted_at() {
        let tip = "  tip: a file comes after -f: superfluid apply -f edge.yaml";
        assert_eq!(hinted("superfluid apply edge.yaml").0.as_deref(), Some(tip));
        assert_eq!(hinted("superfluid apply --prune edge.yaml").0.as_deref(), Some(tip));
        assert_eq!(hinted("superfluid diff edge.yaml").0, Some(tip.replace("apply", "diff")));
        for line in ["superfluid apply --fiel edge.yaml", "superfluid apply", "superfluid run a b"] {
            assert_eq!(hinted(line).0, None, "{line}");
        }
    }

    #[test]
    fn words_of_other_programs_are_answered_with_the_commands_that_there_are() {
        let command = CommandLine::command();
        for (below, theirs, ours) in ELSEWHERE.iter().chain(&BELOW) {
            for word in *theirs {
                let line = format!("superfluid {below} {word} x").replace("  ", " ");
                assert_eq!(hinted(&line).0, Some(format!("  tip: here it is {ours}")), "{line}");
            }
            for line in ours.split(", ").filter(|line| line.starts_with("superfluid ")) {
                let mut at: &Command = &command;
                for word in line.split(' ').skip(1).take_while(|word| *word == word.to_lowercase()) {
                    match at.find_subcommand(word) {
                        Some(found) => at = found,
                        // A kind, or an option of the command.
                        None => assert!(!at.has_subcommands() || word.starts_with("--"), "{line}: {word}"),
                    }
                }
            }
        }
        let (hint, told) = hinted("superfluid stop");
        assert!(hint.is_some() && !told.contains("restore"), "{told}");
        assert_eq!(
            hinted("superfluid ports").0.as_deref(),
            Some("  tip: a kind comes after a command: superfluid get ports")
        );
        let (hint, told) = hinted("superfluid aply");
        assert!(hint.is_none() && told.contains("'apply'"), "{told}");
    }
}
