//! Images to a registry and back, as the user of the program does it.

#[path = "../../registry/tests/support/debian.rs"]
mod debian;

use debian::Registry;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn superfluid(registry: &Registry, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_superfluid"))
        .args(arguments)
        .env("XDG_CACHE_HOME", registry.folder.path())
        .env("DOCKER_CONFIG", registry.folder.path())
        .env_remove("REGISTRY_AUTH_FILE")
        .output()
        .expect("the program starts")
}

/// What a command that ends well prints.
fn done(registry: &Registry, arguments: &[&str]) -> String {
    let output = superfluid(registry, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn an_image_is_pushed_listed_and_pulled() {
    let registry = Registry::start("", "");
    let host = registry.host.clone();
    let reference = format!("{host}/edge/forwarder:1.0.0");
    assert_eq!(done(&registry, &["image", "ls", "-o", "json"]).trim(), "[]");

    // Without being told, nothing is said in the clear.
    let output = superfluid(&registry, &["image", "push", "forwarder", &reference]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("listed as insecure") && error.trim_end().lines().count() == 1, "{error}");

    let pushed = done(&registry, &["image", "push", "forwarder", &reference, "--insecure", &host]);
    let pinned = pushed.lines().next().expect("the reference").to_owned();
    assert!(pinned.starts_with(&format!("{reference}@sha256:")), "{pushed}");
    let file = registry.folder.path().join("pulled.wasm");
    let path = file.display().to_string();
    let pulled = done(&registry, &["image", "pull", &reference, "--insecure", &host, "-o", &path]);
    assert!(pulled.starts_with(&pinned) && pulled.contains("fetched"), "{pulled}");
    let inspected = done(&registry, &["image", "inspect", &path]);
    assert_eq!(inspected, done(&registry, &["image", "inspect", "forwarder"]));

    let listed: Value = serde_json::from_str(&done(&registry, &["image", "ls", "-o", "json"])).expect("JSON");
    assert_eq!(listed[0]["reference"], reference.as_str());
    let digest = listed[0]["digest"].as_str().expect("a digest");
    assert!(pinned.ends_with(digest));
    assert!(listed[0]["bytes"].as_u64() > Some(fs::metadata(&file).expect("written").len()));
    assert!(done(&registry, &["image", "ls", "-o", "wide"]).contains(digest));
    assert!(done(&registry, &["image", "ls", "-o", "yaml"]).starts_with("- reference: "));

    // With the digest nobody is asked, here: nobody could be, without TLS.
    let again = done(&registry, &["image", "pull", &pinned]);
    assert!(again.starts_with(&pinned) && again.contains("there already"), "{again}");
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let registry = Registry::start("", "");
    let host = registry.host.clone();
    let none = format!("{host}/edge/none:1");
    for (arguments, status, wanted) in [
        (
            vec!["image", "pull", none.as_str(), "--insecure", host.as_str()],
            1,
            "answered 404: MANIFEST_UNKNOWN",
        ),
        (vec!["image", "push", "./none.wasm", none.as_str()], 2, "none.wasm"),
        (vec!["image", "pull", none.as_str(), "--ca-file", "none.pem"], 2, "none.pem: No such file"),
        (vec!["image", "pull", none.as_str(), "--auth-file", "none.json"], 2, "none.json: No such file"),
    ] {
        let output = superfluid(&registry, &arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(error.contains(wanted) && error.trim_end().lines().count() == 1, "{error}");
    }
    let output = superfluid(&registry, &["image", "pull", "forwarder"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("it does not begin with a host"), "{error}");
}
