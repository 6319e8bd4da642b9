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

/// The interfaces segment, as Debian has them, and no buffer takes a segment whole.
#[test]
fn tcp_passes_the_edge_with_the_default_buffers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().expect("a folder");
    let edge = std::fs::read_to_string(root.join("examples/edge.yaml")).expect("the example");
    let (before, rest) = edge.split_once("tenants:").expect("a section");
    let (pool, after) = rest.split_once("ports:").expect("the next section");
    assert!(pool.contains("buffer_size: 64KiB"), "{pool}");
    let file = folder.path().join("edge.yaml");
    std::fs::write(&file, format!("{before}ports:{after}")).expect("written");
    std::fs::copy(root.join("examples/edge.rules"), folder.path().join("edge.rules")).expect("copied");
    let output = Command::new(root.join("testbed/edge.sh"))
        .arg(env!("CARGO_BIN_EXE_superfluid"))
        .arg(&file)
        .env("EDGE_SECONDS", "1")
        .output()
        .expect("the script starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}\n{errors}");
    for what in
        ["checksums equal", "iperf3 client to server", "iperf3 server to client", "the account balances"]
    {
        assert!(shown.contains(what), "`{what}` is missing:\n{shown}\n{errors}");
    }
    assert!(!shown.contains("too-long"), "{shown}");
}
