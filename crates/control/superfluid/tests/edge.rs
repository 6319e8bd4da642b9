//! What `make run` does, with real hosts and real traffic: see `testbed/edge.sh`. Runs in namespaces of its
//! own, as root or in a user namespace.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

#[test]
fn ping_http_and_iperf3_pass_the_edge() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testbed/edge.sh");
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
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

#[test]
fn as_json_what_was_asked_and_the_account_are_one_object() {
    let output = Command::new(Path::new(ROOT).join("testbed/edge.sh"))
        .args(["--json", env!("CARGO_BIN_EXE_superfluid")])
        .env("EDGE_SECONDS", "1")
        .output()
        .expect("the script starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    let object: Value = serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"));
    assert_eq!(object["passed"], true, "{shown}");
    let steps = object["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), 4, "{shown}");
    assert!(steps.iter().all(|step| step["ok"] == true), "{shown}");
    assert_eq!(
        (&object["account"]["event"], &object["account"]["balanced"]),
        (&"final".into(), &true.into())
    );
    assert!(object["account"]["functions"]["edge_firewall"]["packets"].as_u64() > Some(20), "{shown}");
}

/// A folder for PATH: programs of this machine, and some that are made up.
fn programs(names: &[&str], made: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names {
        let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output().expect("a shell");
        let found = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        assert!(found.starts_with('/'), "{name}: {found}");
        symlink(found, folder.path().join(name)).expect("a link");
    }
    for (name, script) in made {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("changed");
    }
    folder
}

fn with(path: &Path, script: &str, arguments: &[&str]) -> Output {
    // As a user without rights: as root, setup would install.
    Command::new("/usr/bin/unshare")
        .args(["--user", "/bin/bash"])
        .arg(Path::new(ROOT).join(script))
        .args(arguments)
        .env("PATH", path)
        .env("HOME", path)
        .env_remove("CARGO_HOME")
        .output()
        .expect("unshare")
}

/// Debian's package python3-minimal: a program that has no HTTP server.
const MINIMAL: (&str, &str) = ("python3", "case \"$*\" in *http.server*) exit 1 ;; esac");

#[test]
fn what_a_run_needs_is_found_missing_before_anything_is_built() {
    let tools = ["ip", "ping", "curl", "iperf3", "unshare", "nsenter", "setsid", "setpriv", "awk", "mount"];
    let folder = programs(&tools, &[MINIMAL]);
    let output = with(folder.path(), "testbed/edge.sh", &["--check"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), said.contains("missing") && said.contains("python3")),
        (Some(3), true),
        "{said}"
    );

    let made = [
        MINIMAL,
        ("cargo", ""),
        ("rustup", ""),
        ("clang-19", ""),
        ("wasm-ld-19", ""),
        ("ethtool", ""),
        ("cc", ""),
    ];
    let tools = [&tools[..], &["dirname", "sort"]].concat();
    let folder = programs(&tools, &made);
    let output = with(folder.path(), "scripts/setup", &["run"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("missing: python3; as root: apt-get install "), "{said}");

    // Without Rust that is what is told, and nothing else is looked for.
    fs::remove_file(folder.path().join("rustup")).expect("removed");
    let output = with(folder.path(), "scripts/setup", &["run"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("missing: Rust with rustup. Debian 12 has no package of it"), "{said}");

    // `make run` looks before it builds.
    let plan = Command::new("make").args(["--dry-run", "run"]).current_dir(ROOT).output().expect("make");
    let plan = String::from_utf8_lossy(&plan.stdout);
    let at = |what: &str| plan.find(what).unwrap_or_else(|| panic!("{what}: {plan}"));
    assert!(at("setup run") < at("edge.sh --check") && at("edge.sh --check") < at("scripts/build"), "{plan}");
}

/// What `scripts/build release` asks of Cargo, by the lines of its calls, with a compiler of this version.
fn release_build(compiler: &str) -> (Vec<String>, String) {
    let cargo = "echo \"$@\"; case \"$*\" in *\"--bin superfluid\") exit 9 ;; esac";
    let rustc = format!("echo 'rustc {compiler} (0 1970-01-01)'");
    let tools = ["dirname", "cut", "realpath", "sha256sum", "gzip"];
    let folder = programs(&tools, &[("cargo", cargo), ("rustc", &rustc)]);
    let target = folder.path().join("target");
    fs::create_dir_all(target.join("release")).expect("a folder");
    let output = Command::new("/bin/bash")
        .arg(Path::new(ROOT).join("scripts/build"))
        .arg("release")
        .env("PATH", folder.path())
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(9), "{said}");
    (String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect(), said)
}

#[test]
fn a_released_build_has_the_program_that_superfluid_bench_starts() {
    let (asked, said) = release_build("0.0.0");
    assert_eq!(
        said,
        "build: packaging/profile/0.0.0.profdata.gz is missing; scripts/profile writes it; \
         without it changes take longer\n"
    );
    let [benches, program] = &asked[..] else { panic!("{asked:?}") };
    assert!(
        benches.ends_with("--bin superfluid-bench") && program.ends_with("--bin superfluid"),
        "{asked:?}"
    );
    assert!(asked.iter().all(|call| !call.contains("profile-use")), "{asked:?}");
}

/// The profile is of the compiler that `rust-toolchain.toml` names, and the program alone is optimized by it.
#[test]
fn a_released_program_is_optimized_by_a_profile_of_the_same_compiler() {
    let toolchain = fs::read_to_string(Path::new(ROOT).join("rust-toolchain.toml")).expect("there");
    let version =
        toolchain.split("channel = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("one");
    let (asked, said) = release_build(version);
    assert_eq!(said, "");
    let used = asked.iter().map(|call| call.contains("-Cprofile-use=")).collect::<Vec<_>>();
    assert_eq!(used, [false, true], "{asked:?}");
}
