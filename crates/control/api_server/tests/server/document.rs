//! The commands in `docs/api.md` are run, and what the document shows is what they print.

use crate::Running;
use std::process::Command;

#[test]
fn the_commands_in_the_document_do_what_it_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/api.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let server = Running::new();
    let mut run = 0;
    for block in text.split("\n```console\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default();
        for example in block.split("$ ").filter(|example| !example.trim().is_empty()) {
            // A command goes on over lines that end with a backslash; what follows is what it prints.
            let mut end = 0;
            for line in example.split_inclusive('\n') {
                end += line.len();
                if !line.ends_with("\\\n") {
                    break;
                }
            }
            let (command, shown) = example.split_at(end);
            let command =
                command.replace("/run/superfluid/superfluid.sock", &server.socket().display().to_string());
            let output = Command::new("bash")
                .args(["-euo", "pipefail", "-c", &command])
                .current_dir(server.folder.path())
                .output()
                .expect("bash");
            let printed = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}\n{printed}{errors}");
            assert_eq!(printed.trim_end(), shown.trim_end(), "{command}\n{errors}");
            run += 1;
        }
    }
    assert!(run >= 10, "the document has examples: {run}");
    for of in api::ProblemType::ALL {
        assert!(
            text.contains(&format!("`{}` | {} |", of.uri(), of.status())),
            "{} is in the document",
            of.uri()
        );
    }
}
