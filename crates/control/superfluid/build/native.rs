//! What a new function in Rust is given to be a process as well: the sources of `nf_native` and of what it is
//! made of beside the SDK, as far as that is of this project, with manifests that name one another by path
//! and crates of the registry by version; and the lock file of its process, with this workspace's versions.

use super::sdk::{self, Files};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Its crates of this project, without those of the SDK.
const CRATES: [&str; 14] = [
    "encapsulation",
    "guest",
    "local_file",
    "manifest",
    "native_abi",
    "native_ring",
    "nf_native",
    "packet_memory",
    "printable",
    "schema",
    "snapshot",
    "superfluid_native",
    "telemetry",
    "yaml_document",
];

/// Writes `native.rs`: `NATIVE`, the list of paths and texts in JSON, deflated, and its length before;
/// `NATIVE_LOCKED`, the entries of a lock file without those of the function and of its process.
pub fn write(root: &Path, out: &Path, sdk: &Files) {
    let metadata = sdk::metadata(root, &out.join("native"), "nf_native", "crates/sandbox/nf_native");
    let mut files = Files::new();
    for name in CRATES {
        let package = sdk::named(&metadata, name);
        let folder = sdk::folder(package);
        println!("cargo::rerun-if-changed={}", folder.join("Cargo.toml").display());
        println!("cargo::rerun-if-changed={}", folder.join("src").display());
        files.push((format!("{name}/Cargo.toml"), manifest(package)));
        let mut sources = Vec::new();
        super::gather(&folder.join("src"), &mut sources);
        let is_test = |path: &PathBuf| {
            path.strip_prefix(&folder)
                .expect("below its folder")
                .iter()
                .any(|it| it == "tests" || it == "tests.rs")
        };
        sources.retain(|path| !is_test(path));
        sources.sort();
        for source in sources {
            let path = source.strip_prefix(&folder).expect("below its folder").display();
            files.push((format!("{name}/{path}"), sdk::text(&source)));
        }
    }
    files.push((String::from("LICENSE"), sdk::text(&root.join("LICENSE"))));
    let locked: String = lock(root, &out.join("process"), sdk, &files)
        .iter()
        .map(|entry| format!("    {entry:?},\n"))
        .collect();
    let packed = sdk::pack(&files, &out.join("native.deflate"));
    let code = format!("static NATIVE: {packed};\nstatic NATIVE_LOCKED: &[&str] = &[\n{locked}];\n");
    std::fs::write(out.join("native.rs"), code).expect("OUT_DIR is writable");
}

/// A crate's manifest as new functions are given it.
fn manifest(package: &Value) -> String {
    let text = |value: &Value, key: &str| value[key].as_str().expect("cargo says it").to_owned();
    let (name, version) = (text(package, "name"), text(package, "version"));
    let (edition, licence) = (text(package, "edition"), text(package, "license"));
    let mut manifest = format!(
        "[package]\nname = {name:?}\nversion = {version:?}\nedition = {edition:?}\nlicense = {licence:?}\n\
         publish = false\n"
    );
    let kinds = sdk::list(&package["targets"]).into_iter().flat_map(|target| sdk::list(&target["kind"]));
    // What that one does is for the shared library, which is not made of what is brought along.
    assert!(
        name == "superfluid_native" || kinds.into_iter().all(|kind| kind != "custom-build"),
        "{name} has code that runs when it is built"
    );
    for dependency in sdk::list(&package["dependencies"]).into_iter().filter(|it| it["kind"].is_null()) {
        let other = text(&dependency, "name");
        assert!(
            dependency["rename"].is_null()
                && dependency["target"].is_null()
                && dependency["optional"] == false,
            "{name} needs {other} in a way that is not foreseen here"
        );
        let _ = write!(manifest, "\n[dependencies.{other}]\n");
        if CRATES.contains(&other.as_str()) {
            let _ = writeln!(manifest, "path = \"../{other}\"");
        } else if sdk::CRATES.contains(&other.as_str()) {
            let _ = writeln!(manifest, "path = \"../../../sdk/{other}\"");
        } else {
            assert!(!dependency["source"].is_null(), "{name} needs {other}, which is not brought along");
            let features = sdk::list(&dependency["features"]);
            let _ = writeln!(
                manifest,
                "version = {:?}\ndefault-features = {}\nfeatures = {}",
                text(&dependency, "req"),
                dependency["uses_default_features"],
                Value::from(features)
            );
        }
    }
    manifest + "\n[lints.rust]\nunsafe_code = \"deny\"\n"
}

/// The entries of the lock file, as cargo writes it for the folder of a function that is called `probe`.
fn lock(root: &Path, probe: &Path, sdk: &Files, native: &Files) -> Vec<String> {
    let put = |path: String, text: &str| {
        let path = probe.join(path);
        std::fs::create_dir_all(path.parent().expect("in a folder")).expect("OUT_DIR is writable");
        std::fs::write(path, text).expect("OUT_DIR is writable");
    };
    let templates = root.join("crates/control/superfluid/templates");
    for (template, place) in [("rust", ""), ("native_rust", "native/")] {
        let template = templates.join(template).join("Cargo.toml");
        println!("cargo::rerun-if-changed={}", template.display());
        put(format!("{place}Cargo.toml"), &sdk::text(&template).replace("NAME", "probe"));
    }
    put(String::from("src/lib.rs"), "");
    put(String::from("native/src/main.rs"), "fn main() {}\n");
    for (folder, files) in [("sdk", sdk), ("native/sdk", native)] {
        files.iter().for_each(|(path, text)| put(format!("{folder}/{path}"), text));
    }
    put(String::from("native/Cargo.lock"), &sdk::text(&root.join("Cargo.lock")));
    sdk::ask_cargo(root, &probe.join("native/Cargo.toml"), &["x86_64-unknown-linux-gnu"]);
    let lock = sdk::text(&probe.join("native/Cargo.lock"));
    let mut entries = lock.split("\n[[package]]\n");
    let head = entries.next().expect("a head");
    assert!(head.contains("\nversion = 4\n"), "cargo writes lock files of another version: {head}");
    let others = entries.filter(|entry| !entry.starts_with("name = \"probe"));
    others.map(|entry| format!("[[package]]\n{}\n", entry.trim_end())).collect()
}
