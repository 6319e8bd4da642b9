//! What `make run` does, with real hosts and real traffic: see `testbed/edge.sh`. Runs in namespaces of its own, as root
//! or in a user namespace.

use std::path::Path;
use std::process::Command;

#[test]
fn ping_http_and_iperf3_pass_the_edge() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/edge.sh");
    let output = Command::new(script)
        .arg(env!("CARGO_BIN_EXE_superfluid"))
        .env("EDGE_SECONDS", "1")
        .output()
        .expect("the script starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}\n{errors}");
    for what in ["10 of 10 answered", "checksums equal", "iperf3 client to server", "the account balances"] {
        assert!(shown.contains(what), "`{what}` is missing:\n{shown}\n{errors}");
    }
}
