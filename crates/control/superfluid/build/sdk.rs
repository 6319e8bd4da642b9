//! The SDK as new functions are given it: the sources of its crates and of those that they are made of, with
//! manifests that name one another by path and no registry, in one compressed list.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its crates, and those of the registry that they are made of. What one of them needs elsewhere, on
/// platforms that no function is built for, is left out.
pub const CRATES: [&str; 8] =
    ["bytemuck", "cfg-if", "dlmalloc", "nf_abi", "nf_sdk", "packet", "safe_arch", "wide"];
/// What functions are built for: the sandbox, and natively, for their tests.
const PLATFORMS: [&str; 2] = ["wasm32-unknown-unknown", "x86_64-unknown-linux-gnu"];

/// Paths and texts.
pub type Files = Vec<(String, String)>;

/// Writes `sdk.rs`: `SDK`, the list of paths and texts in JSON, deflated, and its length before; `LOCKED`,
/// the crates' entries of a lock file by name. Returns the list.
pub fn write(root: &Path, out: &Path) -> Files {
    let metadata = metadata(root, &out.join("sdk"), "nf_sdk", "crates/sandbox/nf_sdk");
    let (mut files, mut locked) = (Files::new(), String::new());
    for name in CRATES {
        let Package { manifest, lock, folder, is_ours } = package(&metadata, name);
        println!("cargo::rerun-if-changed={}", folder.join("Cargo.toml").display());
        println!("cargo::rerun-if-changed={}", folder.join("src").display());
        files.push((format!("{name}/Cargo.toml"), manifest));
        let mut sources = Vec::new();
        super::gather(&folder.join("src"), &mut sources);
        if !is_ours {
            sources.push(shortest_licence(&folder));
        }
        sources.sort();
        for source in sources {
            let path = source.strip_prefix(&folder).expect("below its folder").display();
            files.push((format!("{name}/{path}"), text(&source)));
        }
        let _ = writeln!(locked, "    ({name:?}, {lock:?}),");
    }
    files.push((String::from("LICENSE"), text(&root.join("LICENSE"))));
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
    let packed = pack(&files, &out.join("sdk.deflate"));
    let code = format!("static SDK: {packed};\nstatic LOCKED: &[(&str, &str)] = &[\n{locked}];\n");
    std::fs::write(out.join("sdk.rs"), code).expect("OUT_DIR is writable");
    files
}

/// Compresses a list of files into one; a `(&[u8], usize)` of it and of its length before, as code.
pub fn pack(files: &Files, to: &Path) -> String {
    let list = serde_json::to_vec(files).expect("texts");
    std::fs::write(to, miniz_oxide::deflate::compress_to_vec(&list, 10)).expect("OUT_DIR is writable");
    format!("(&[u8], usize) = (include_bytes!({:?}), {})", to.display().to_string(), list.len())
}

/// What cargo knows of a crate of this workspace alone: a package that depends on nothing else, with this
/// workspace's versions.
pub fn metadata(root: &Path, probe: &Path, name: &str, folder: &str) -> Value {
    std::fs::create_dir_all(probe).expect("OUT_DIR is writable");
    let path = root.join(folder).display().to_string();
    let manifest = format!(
        "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n\
         [dependencies]\n{name} = {{ path = {path:?} }}\n\n[workspace]\n"
    );
    std::fs::write(probe.join("Cargo.toml"), manifest).expect("OUT_DIR is writable");
    std::fs::write(probe.join("lib.rs"), "").expect("OUT_DIR is writable");
    std::fs::copy(root.join("Cargo.lock"), probe.join("Cargo.lock")).expect("the workspace's lock file");
    ask_cargo(root, &probe.join("Cargo.toml"), &PLATFORMS)
}

/// What cargo says of a manifest, whose lock file it completes.
pub fn ask_cargo(root: &Path, manifest: &Path, platforms: &[&str]) -> Value {
    let cargo = std::env::var_os("CARGO").expect("cargo sets CARGO");
    // What this build has fetched is enough, unless the sandbox's own crates were not among it.
    let asked = [["--offline"].as_slice(), &[]].map(|more| {
        let mut command = Command::new(&cargo);
        command.current_dir(root).args(["metadata", "--quiet", "--format-version", "1", "--manifest-path"]);
        command.arg(manifest).args(more);
        for platform in platforms {
            command.args(["--filter-platform", platform]);
        }
        command
    });
    let mut said = String::new();
    for mut command in asked {
        let output = command.output().expect("cargo starts");
        if output.status.success() {
            return serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("cargo metadata: {said}");
}

pub fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// The one package of a name.
pub fn named<'a>(metadata: &'a Value, name: &str) -> &'a Value {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let of_name: Vec<&Value> = packages.filter(|package| package["name"] == name).collect();
    let [package] = of_name.as_slice() else { panic!("{} crates named {name}", of_name.len()) };
    package
}

/// Where a package lies.
pub fn folder(package: &Value) -> PathBuf {
    let manifest = package["manifest_path"].as_str().expect("cargo says it");
    PathBuf::from(manifest).parent().expect("in a folder").to_owned()
}

/// A crate as new functions are given it.
struct Package {
    manifest: String,
    /// Its entry of a lock file.
    lock: String,
    folder: PathBuf,
    is_ours: bool,
}

fn package(metadata: &Value, name: &str) -> Package {
    let package = named(metadata, name);
    let nodes = list(&metadata["resolve"]["nodes"]);
    let node = nodes.iter().find(|node| node["id"] == package["id"]);
    let node = node.unwrap_or_else(|| panic!("{name} is not among what the SDK is made of"));
    let kinds: Vec<Value> =
        list(&package["targets"]).into_iter().flat_map(|target| list(&target["kind"])).collect();
    assert!(
        !kinds.iter().any(|kind| *kind == "custom-build" || *kind == "proc-macro"),
        "{name} has code that runs when it is built"
    );
    let is_ours = package["source"].is_null();
    let text = |key: &str| package[key].as_str().unwrap_or_else(|| panic!("{name} says no {key}"));
    let (version, edition, licence) = (text("version"), text("edition"), text("license"));

    let mut manifest = format!(
        "[package]\nname = {name:?}\nversion = {version:?}\nedition = {edition:?}\nlicense = {licence:?}\n\
         publish = false\n"
    );
    let mut needed = Vec::new();
    let mut tables = String::new();
    for dependency in list(&package["dependencies"]) {
        let other = dependency["name"].as_str().expect("a name").to_owned();
        let (is_normal, is_optional) = (dependency["kind"].is_null(), dependency["optional"] == true);
        let platform = dependency["target"].as_str();
        if !is_normal || !CRATES.contains(&other.as_str()) {
            let is_left_out = !is_normal || is_optional || platform.is_some();
            assert!(is_left_out, "{name} needs {other}, which the SDK does not bring along");
            continue;
        }
        assert!(dependency["rename"].is_null(), "{name} has another name for {other}");
        let table = platform.map_or(String::new(), |platform| format!("target.'{platform}'."));
        let optional = if is_optional { "optional = true\n" } else { "" };
        let _ = write!(tables, "\n[{table}dependencies.{other}]\npath = \"../{other}\"\n{optional}");
        needed.push(other);
    }
    needed.sort();
    needed.dedup();
    manifest += &features(package, node, &needed);
    manifest += &tables;
    if !is_ours {
        // As cargo has it with crates of registries.
        manifest += "\n[lints.rust]\nwarnings = \"allow\"\n";
    }

    let mut lock = format!("[[package]]\nname = {name:?}\nversion = {version:?}\n");
    if !needed.is_empty() {
        let names: String = needed.iter().map(|other| format!(" {other:?},\n")).collect();
        lock += &format!("dependencies = [\n{names}]\n");
    }
    Package { manifest, lock, folder: folder(package), is_ours }
}

/// The features that are on here are on there, without those who use the crate having to name them.
fn features(package: &Value, node: &Value, needed: &[String]) -> String {
    let names = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let on: Vec<String> = names(&node["features"]).into_iter().filter(|name| name != "default").collect();
    if on.is_empty() {
        return String::new();
    }
    let is_there = |part: &String| {
        on.contains(part) || part.strip_prefix("dep:").is_some_and(|name| needed.contains(&name.to_owned()))
    };
    let mut text = format!("\n[features]\ndefault = {on:?}\n");
    for name in &on {
        let parts: Vec<String> = names(&package["features"][name]).into_iter().filter(is_there).collect();
        let _ = writeln!(text, "{name} = {parts:?}");
    }
    text
}

/// One licence that a crate may be had under has to go with its sources.
fn shortest_licence(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_licence = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().to_uppercase().starts_with("LICENSE"))
    };
    let licences = paths.filter(is_licence);
    let shortest = licences
        .min_by_key(|path| (std::fs::metadata(path).map_or(u64::MAX, |file| file.len()), path.clone()));
    shortest.unwrap_or_else(|| panic!("{}: no licence", folder.display()))
}

pub fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
