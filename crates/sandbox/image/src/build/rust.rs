//! Compiles a function in Rust with cargo.

use super::tool::{Tool, diagnostics};
use super::{BuildError, Compiled, Language, Optimization, STACK_BYTES, read};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
const CARGO: Tool = Tool { name: "cargo", install: "curl https://sh.rustup.rs -sSf | sh" };
const RUSTC: Tool = Tool { name: "rustc", install: "curl https://sh.rustup.rs -sSf | sh" };
const STANDARD_LIBRARY: Tool = Tool {
    name: "Rust's library for wasm32-unknown-unknown",
    install: "rustup target add wasm32-unknown-unknown",
};

/// What cargo's own settings in the environment begin with; everything else that begins with `CARGO` was set
/// by a cargo that is running, for a build script or a test, and would mislead another.
const KEPT: [&str; 6] =
    ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_", "CARGO_TERM_"];

/// More of what a running cargo, or its user, sets for the host's own code.
const DROPPED: [&str; 14] = [
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTC",
    "RUSTDOC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_LINKER",
    "MAKEFLAGS",
    "MFLAGS",
    "OUT_DIR",
    "TARGET",
    "HOST",
    "PROFILE",
    "OPT_LEVEL",
];

const PROFILE: [(&str, &str); 7] = [
    ("CARGO_PROFILE_RELEASE_LTO", "fat"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "none"),
    ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "false"),
    ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false"),
    // Names stay for the rewriting pass's messages; it drops them itself.
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
];

pub(super) fn compile(
    directory: &Path,
    target: &Path,
    optimization: Optimization,
) -> Result<Compiled, BuildError> {
    let package = directory.join("Cargo.toml");
    if !package.is_file() {
        let path = directory.to_owned();
        return Err(BuildError::NoSource { path, wanted: "Cargo.toml", language: Language::Rust });
    }
    // As cargo will name it: without `..` and links.
    let package = package.canonicalize().map_err(|source| BuildError::File { path: package, source })?;
    let library = RUSTC.run(clean(&mut Command::new("rustc")).args([
        "--print",
        "target-libdir",
        "--target",
        TARGET,
    ]))?;
    if !Path::new(String::from_utf8_lossy(&library.stdout).trim()).is_dir() {
        return Err(STANDARD_LIBRARY.missing());
    }
    let root = workspace_root(&package)?;

    let mut command = Command::new(CARGO.name);
    clean(&mut command)
        .args(["rustc", "--quiet", "--release", "--lib", "--crate-type", "cdylib", "--target", TARGET])
        .args(["--message-format", "json-render-diagnostics", "--manifest-path"])
        .arg(&package)
        .envs(PROFILE)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", optimization.level())
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags(&root));
    if root.join("Cargo.lock").is_file() {
        command.arg("--locked");
    }
    let output = CARGO.run(&mut command)?;
    let module = module_of(&output.stdout, &package).ok_or(BuildError::NoModule { path: package })?;
    Ok(Compiled { module: read(&module)?, diagnostics: diagnostics(&output) })
}

/// The environment without what belongs to a cargo that runs us.
fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let foreign = text.starts_with("CARGO") && !KEPT.iter().any(|kept| text.starts_with(kept));
        if foreign || DROPPED.contains(&text.as_ref()) {
            command.env_remove(&name);
        }
    }
    command
}

fn workspace_root(package: &Path) -> Result<PathBuf, BuildError> {
    let output = CARGO.run(
        clean(&mut Command::new(CARGO.name))
            .args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"])
            .arg(package),
    )?;
    let manifest = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(manifest.parent().map(Path::to_owned).unwrap_or_default())
}

/// Flags in cargo's own encoding. Paths of the machine that builds are kept out of the image, so that the
/// same sources give the same digest wherever they lie.
fn flags(root: &Path) -> OsString {
    let mut flags =
        OsString::from("-Ctarget-feature=+simd128,+relaxed-simd,+sign-ext,+nontrapping-fptoint,+bulk-memory");
    let mut add = |flag: &str, path: Option<(&Path, &str)>| {
        flags.push("\u{1f}");
        flags.push(flag);
        if let Some((from, to)) = path {
            flags.push(from);
            flags.push(to);
        }
    };
    add(&format!("-Clink-arg=-zstack-size={STACK_BYTES}"), None);
    add("-Clink-arg=--stack-first", None);
    add("--remap-path-prefix=", Some((root, "=/source")));
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    if let Some(home) = home {
        add("--remap-path-prefix=", Some((&home, "=/cargo")));
    }
    flags
}

/// The module among the artefacts that cargo names, one JSON object a line.
fn module_of(messages: &[u8], package: &Path) -> Option<PathBuf> {
    let mut found = None;
    for line in messages.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
        let ours = message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == package);
        if message["reason"] == "compiler-artifact" && ours {
            let files = message["filenames"].as_array().into_iter().flatten();
            let modules = files.filter_map(|file| file.as_str()).filter(|file| file.ends_with(".wasm"));
            found = modules.map(PathBuf::from).next_back().or(found);
        }
    }
    found
}
