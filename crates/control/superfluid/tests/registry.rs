//! Images to a registry and back, as the user of the program does it.

#[path = "../../registry/tests/support/debian.rs"]
mod debian;
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use debian::Registry;
use std::fs;
use support::commands::{Commands, text};

/// Commands that keep everything with the registry.
fn commands(registry: &Registry) -> Commands {
    let folder = registry.folder.path();
    Commands::new(folder).variable("XDG_CACHE_HOME", folder).variable("DOCKER_CONFIG", folder)
}

#[test]
fn an_image_is_pushed_listed_and_pulled() {
    let registry = Registry::start("", "");
    let host = registry.host.clone();
    let commands = commands(&registry);
    let reference = format!("{host}/edge/forwarder:1.0.0");
    assert_eq!(commands.done("image ls -o json").trim(), "[]");

    // Without being told, nothing is said in the clear.
    let output = commands.run(&format!("image push forwarder {reference}"));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("listed as insecure") && error.trim_end().lines().count() == 1, "{error}");

    let pushed = commands.done(&format!("image push forwarder {reference} --insecure {host}"));
    let pinned = pushed.lines().next().expect("the reference").to_owned();
    assert!(pinned.starts_with(&format!("{reference}@sha256:")), "{pushed}");
    let file = commands.path("pulled.wasm");
    let path = file.display();
    let pulled = commands.done(&format!("image pull {reference} --insecure {host} -o {path}"));
    assert!(pulled.starts_with(&pinned) && pulled.contains("fetched"), "{pulled}");
    let inspected = commands.done(&format!("image inspect {path}"));
    assert_eq!(inspected, commands.done("image inspect forwarder"));

    let listed = commands.json("image ls");
    assert_eq!(listed[0]["reference"], reference.as_str());
    let digest = listed[0]["digest"].as_str().expect("a digest");
    assert!(pinned.ends_with(digest));
    assert!(listed[0]["bytes"].as_u64() > Some(fs::metadata(&file).expect("written").len()));
    assert!(commands.done("image ls -o wide").contains(digest));
    assert!(commands.done("image ls -o yaml").starts_with("- reference: "));

    // With the digest no registry is asked, here: none could be, without TLS.
    let again = commands.done(&format!("image pull {pinned}"));
    assert!(again.starts_with(&pinned) && again.contains("there already"), "{again}");
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let registry = Registry::start("", "");
    let host = registry.host.clone();
    let commands = commands(&registry);
    let none = format!("{host}/edge/none:1");
    for (arguments, status, wanted) in [
        (format!("pull {none} --insecure {host}"), 1, "answered 404: MANIFEST_UNKNOWN"),
        (format!("push ./none.wasm {none}"), 2, "none.wasm"),
        (format!("pull {none} --ca-file none.pem"), 2, "none.pem: No such file"),
        (format!("pull {none} --auth-file none.json"), 2, "none.json: No such file"),
    ] {
        let output = commands.run(&format!("image {arguments}"));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(error.contains(wanted) && error.trim_end().lines().count() == 1, "{error}");
    }
    let output = commands.run("image pull forwarder");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("it does not begin with a host"), "{error}");
}
