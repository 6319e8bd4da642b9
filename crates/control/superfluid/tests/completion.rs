//! Shells complete names of objects that the daemon has.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::json;
use std::process::Command;
use support::commands::search_path;
use support::daemon::{Options, SOCKET};

/// What a shell offers for the last of the words behind `superfluid`, in order.
fn completed(shell: &str, words: &[&str], socket: &str) -> Vec<String> {
    let mut command = Command::new(shell);
    match shell {
        "bash" => command.args([
            "-c",
            "source <(superfluid completions bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); \
             _superfluid_or_names superfluid \"${!#}\" \"\"; printf '%s\\n' \"${COMPREPLY[@]}\"",
            "bash",
            "superfluid",
        ]),
        // What adds matches works in the line editor alone; what it is given is told here instead.
        "zsh" => command.args([
            "-f",
            "-c",
            "compdef() { : }; compadd() { print -rl -- ${(P)@[-1]} }; _arguments() { print generated }; \
             source <(superfluid completions zsh); words=(\"$@\"); CURRENT=$#; _superfluid | grep \"^${@[-1]}\\|generated\"",
            "zsh",
            "superfluid",
        ]),
        _ => command.args([
            "--no-config",
            "-c",
            "superfluid completions fish | source; complete -C \"superfluid $argv\" | string split -f 1 \\t",
        ]),
    };
    let output = command
        .args(words)
        .env("PATH", search_path())
        .env("SUPERFLUID_SOCKET", socket)
        .output()
        .unwrap_or_else(|error| panic!("{shell}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    found.sort();
    found
}

#[test]
fn shells_complete_names_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Options::new(folder.path()).shared_cache().start();
    for name in ["front", "frame", "back"] {
        daemon.put(&format!("/v1/functions/{name}"), json!({"image": "forwarder"}));
    }
    daemon.put("/v1/tenants/from", json!({}));
    daemon.put("/v1/devices/bridge", json!({"mode": "rootless"}));
    let socket = daemon.path(SOCKET).display().to_string();
    for shell in ["bash", "zsh", "fish"] {
        let completed = |words: &[&str]| completed(shell, words, &socket);
        for words in [
            &["get", "functions", "fr"][..],
            &["describe", "fn", "fr"],
            &["delete", "function", "back", "fr"],
            &["function", "pause", "fr"],
            &["upgrade", "fr"],
        ] {
            assert_eq!(completed(words), ["frame", "front"], "{shell}: {words:?}");
        }
        assert_eq!(completed(&["get", "tenants", "f"]), ["from"], "{shell}");
        assert_eq!(completed(&["neighbours", "br"]), ["bridge"], "{shell}");
        for words in
            [&["get", "nothing", "f"][..], &["function", "create", "fr"], &["upgrade", "front", "fr"]]
        {
            let found = completed(words);
            assert!(!found.contains(&"front".to_owned()), "{shell}: {words:?}: {found:?}");
        }
        assert_eq!(self::completed(shell, &["get", "functions", "fr"], "/nowhere"), [""; 0], "{shell}");
    }
    // Commands and options as before.
    for (shell, command, option) in [
        ("bash", "describe", "--output"),
        ("fish", "describe", "--output"),
        ("zsh", "generated", "generated"),
    ] {
        assert!(completed(shell, &["desc"], &socket).contains(&command.to_owned()), "{shell}");
        let options = completed(shell, &["get", "functions", "--outp"], &socket);
        assert!(options.iter().any(|found| found.starts_with(option)), "{shell}: {options:?}");
    }
}
