//! Compiles a function in C with clang and lld.

use super::tool::{Tool, diagnostics};
use super::{BuildError, Compiled, Language, Optimization, STACK_BYTES, read};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const INSTALL: &str = "apt-get install --no-install-recommends clang-19 lld-19";
const CLANG: Tool = Tool { name: "clang-19", install: INSTALL };
const LINKER: Tool = Tool { name: "wasm-ld-19", install: INSTALL };

/// The contract for functions in C; the header of this program's version, wherever the function lies.
const HEADER: &str = include_str!("../../../../../include/superfluid.h");

const FLAGS: [&str; 10] = [
    "--target=wasm32",
    "-std=c11",
    "-msimd128",
    "-msign-ext",
    "-mnontrapping-fptoint",
    "-mbulk-memory",
    "-ffreestanding",
    "-Wall",
    "-Wextra",
    "-c",
];

pub(super) fn compile(
    directory: &Path,
    target: &Path,
    name: &str,
    optimization: Optimization,
) -> Result<Compiled, BuildError> {
    let folder = directory.join("src");
    let sources = sources(&folder)?;
    if sources.is_empty() {
        let path = directory.to_owned();
        return Err(BuildError::NoSource { path, wanted: "src/*.c", language: Language::C });
    }
    // Two builds at a time must not read each other's halves.
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let build = BUILDS.fetch_add(1, Ordering::Relaxed);
    let work = target.join("c").join(format!("{name}-{}-{build}", std::process::id()));
    let compiled = compile_in(&work, directory, &sources, optimization);
    // What is left behind would be a pity, not an error.
    let _ = std::fs::remove_dir_all(&work);
    compiled
}

/// Compiles and links in two steps: clang, when it links, runs whatever wasm-opt it finds.
fn compile_in(
    work: &Path,
    directory: &Path,
    sources: &[PathBuf],
    optimization: Optimization,
) -> Result<Compiled, BuildError> {
    let file = |path: &Path, source| BuildError::File { path: path.to_owned(), source };
    let include = work.join("include");
    std::fs::create_dir_all(&include).map_err(|source| file(&include, source))?;
    let header = include.join("superfluid.h");
    std::fs::write(&header, HEADER).map_err(|source| file(&header, source))?;

    let mut said = String::new();
    let module = work.join("module.wasm");
    let mut link = Command::new(LINKER.name);
    link.args(["--no-entry", "--stack-first", "--gc-sections", "-O2", "-z"]);
    link.arg(format!("stack-size={STACK_BYTES}")).arg("-o").arg(&module);
    for (number, source) in sources.iter().enumerate() {
        let object = work.join(format!("{number}.o"));
        let mut prefix = OsString::from("-ffile-prefix-map=");
        prefix.push(directory);
        prefix.push("=/source");
        let output = CLANG.run(
            Command::new(CLANG.name)
                .args(FLAGS)
                .arg(format!("-O{}", optimization.level()))
                .arg(prefix)
                .arg("-I")
                .arg(&include)
                .arg(source)
                .arg("-o")
                .arg(&object),
        )?;
        said.push_str(&diagnostics(&output));
        link.arg(object);
    }
    said.push_str(&diagnostics(&LINKER.run(&mut link)?));
    Ok(Compiled { module: read(&module)?, diagnostics: said })
}

/// The C files in a folder, in an order that does not depend on the file system.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let error = |source| BuildError::File { path: folder.to_owned(), source };
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}
