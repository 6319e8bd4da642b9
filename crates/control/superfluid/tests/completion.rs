//! Bash completes names of objects that the daemon has.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::json;
use std::process::Command;
use support::commands::search_path;
use support::daemon::{Options, SOCKET};

#[test]
fn bash_completes_names_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Options::new(folder.path()).shared_cache().start();
    for name in ["front", "frame", "back"] {
        daemon.put(&format!("/v1/functions/{name}"), json!({"image": "forwarder"}));
    }
    daemon.put("/v1/tenants/from", json!({}));
    let completed = |words: &[&str], socket: &str| {
        let script = "source <(superfluid completions bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); \
                      _superfluid_or_names superfluid \"${!#}\" \"\"; printf '%s ' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["-c", script, "bash", "superfluid"])
            .args(words)
            .current_dir(folder.path())
            .env("PATH", search_path())
            .env("SUPERFLUID_SOCKET", socket)
            .output()
            .expect("bash");
        let mut found: Vec<_> =
            String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect();
        found.sort();
        found
    };
    let socket = daemon.path(SOCKET).display().to_string();
    for words in [
        &["get", "functions", "fr"][..],
        &["describe", "fn", "fr"],
        &["delete", "function", "back", "fr"],
        &["function", "pause", "fr"],
        &["upgrade", "fr"],
    ] {
        assert_eq!(completed(words, &socket), ["frame", "front"], "{words:?}");
    }
    assert_eq!(completed(&["get", "tenants", "f"], &socket), ["from"]);
    assert_eq!(completed(&["get", "nothing", "f"], &socket), [""; 0]);
    assert_eq!(completed(&["get", "functions", "fr"], "/nowhere"), [""; 0]);
    // Commands and options as before.
    assert!(completed(&["desc"], &socket).contains(&"describe".to_owned()));
    assert!(completed(&["get", "functions", "--outp"], &socket).contains(&"--output".to_owned()));
}
