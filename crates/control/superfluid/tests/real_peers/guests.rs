//! All kinds of guests in one chain, as `make guests` has them: see `testbed/guests.sh`.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The status with which the script says that programs are missing.
const MISSING: i32 = 3;

#[test]
#[ignore = "make peers"]
fn all_kinds_of_guests_carry_traffic_in_one_chain() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testbed/guests.sh");
    let output = Command::new(script)
        .args(["--json", env!("CARGO_BIN_EXE_superfluid")])
        .env("EDGE_SECONDS", "2")
        .output()
        .expect("the script starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(MISSING) {
        eprintln!("skipped: {errors}");
        return;
    }
    let shown = String::from_utf8_lossy(&output.stdout);
    let told: Value = serde_json::from_str(shown.trim()).unwrap_or_else(|_| panic!("{shown}\n{errors}"));
    assert_eq!(told["passed"], true, "{told}\n{errors}");
    let steps: Vec<&str> =
        told["steps"].as_array().expect("steps").iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(steps, ["ping", "curl", "iperf3 client to server", "iperf3 server to client"]);
    // Each kind of guest had its part in it.
    for guest in ["forward:out", "pmd:out", "machine:out", "watch:in"] {
        let delivered = &told["account"]["ports"][guest]["packets"]["delivered"];
        assert!(delivered.as_u64() > Some(1000), "{guest}: {delivered}");
    }
    // And is in the account, with what it got of the processor.
    for guest in ["forward", "pmd", "machine", "watch"] {
        let own = &told["account"]["containers"][guest];
        let got = |key: &str| own[key].as_u64().unwrap_or(0);
        assert!(own["state"] == "running" && got("packets") > 1000, "{guest}: {own}");
        assert!(got("processes_cycles") > 0 && got("memory") > 0, "{guest}: {own}");
    }
}
