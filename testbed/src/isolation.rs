//! A test runs again inside namespaces of its own.

use crate::process::Background;
use rustix::process::{Signal, getuid, set_parent_process_death_signal};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

/// Names the test that is to run inside, in the environment of the child.
const INSIDE: &str = "SUPERFLUID_TESTBED_INSIDE";

/// Longest time for one test.
const LIMIT: Duration = Duration::from_secs(50);

/// Runs `body` as root in namespaces of its own; `test` is the name of the calling test function.
///
/// # Panics
/// When the body fails, or namespaces cannot be made; the message says what would allow them.
pub fn isolated(test: &str, body: impl FnOnce()) {
    if std::env::var(INSIDE).as_deref() == Ok(test) {
        // An interrupted test run takes its children along.
        set_parent_process_death_signal(Some(Signal::KILL)).expect("a valid signal");
        return body();
    }
    let mut command = Command::new("unshare");
    if !getuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let own = std::env::current_exe().expect("the test's own path");
    command
        .args(["--net", "--"])
        .arg(own)
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, test);
    let mut child = Background::start(&mut command).unwrap_or_else(|error| panic!("{error}"));
    let status = child.wait(LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let (stdout, stderr) = child.finish();
    print!("{stdout}");
    eprint!("{stderr}");
    assert!(
        !stderr.starts_with("unshare:"),
        "namespaces cannot be made: an ordinary user needs `sysctl kernel.unprivileged_userns_clone=1` (Debian) or \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu)"
    );
    // What passes because something is missing is to be seen, which output of tests that pass is not.
    for line in stdout.lines().chain(stderr.lines()).filter(|line| line.starts_with("skipped: ")) {
        // Without standard error there is nothing to be seen.
        drop(std::io::stderr().write_all(format!("\n{test} {line}\n").as_bytes()));
    }
    let status = status.unwrap_or_else(|| panic!("`{test}` did not end within {LIMIT:?}"));
    assert!(status.success(), "`{test}` failed inside its namespaces, see above");
    assert!(stdout.contains("1 passed"), "there is no test `{test}` to run inside");
}
