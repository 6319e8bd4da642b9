//! The commands in `docs/cli.md` are run against a daemon that runs functions, and what the document shows is
//! what they print.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use std::process::Command;
use support::commands::search_path;
use support::daemon::{Options, SOCKET};

#[test]
fn the_commands_in_the_document_do_what_it_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/cli.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Options::new(folder.path()).start();
    let mut run = 0;
    for block in text.split("\n```console\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default();
        // A `$ ` at the beginning of a line is the prompt; `$ ` elsewhere is not.
        for example in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, shown) = example.split_once('\n').unwrap_or((example, ""));
            // A pipe may end early or with what `diff` says; what is printed counts.
            let output = Command::new("bash")
                .args(["-eu", "-c", command])
                .current_dir(folder.path())
                .env("PATH", search_path())
                .env("SUPERFLUID_SOCKET", daemon.path(SOCKET))
                .output()
                .expect("bash");
            let printed = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}\n{printed}{errors}");
            assert_eq!(printed.trim_end(), shown.trim_end(), "{command}\n{errors}");
            run += 1;
        }
    }
    assert!(run >= 15, "the document has examples: {run}");
}
