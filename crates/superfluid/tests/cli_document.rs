//! The commands in `docs/cli.md` are run against a daemon that runs functions, and what the document shows is what they print.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon that ends with the test.
struct Daemon(Child);

impl Daemon {
    fn start(folder: &Path) -> Daemon {
        let log = std::fs::File::create(folder.join("log")).expect("a file");
        let child = Command::new(env!("CARGO_BIN_EXE_superfluid"))
            .args(["daemon", "--socket", "socket", "--state", "state"])
            .current_dir(folder)
            .env("XDG_CACHE_HOME", folder.join("cache"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let daemon = Daemon(child);
        let began = Instant::now();
        while UnixStream::connect(folder.join("socket")).is_err() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(30), "it does not listen: {log}");
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn the_commands_in_the_document_do_what_it_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let folder = tempfile::tempdir().expect("a folder");
    let _daemon = Daemon::start(folder.path());
    let program = Path::new(env!("CARGO_BIN_EXE_superfluid")).parent().expect("a folder");
    let search = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
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
                .env("PATH", &search)
                .env("SUPERFLUID_SOCKET", folder.path().join("socket"))
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
