//! The Debian packages and the OCI image of the program under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    output
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is made.
pub struct Made {
    pub package: PathBuf,
    pub development: PathBuf,
    pub image: PathBuf,
}

/// Makes all, of the program without its symbols, as a release has it.
pub fn packaged(folder: &Path) -> Made {
    let program = folder.join("program/superfluid");
    fs::create_dir(folder.join("program")).expect("a folder");
    run(Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_superfluid")));
    let here = std::env::current_exe().expect("this test");
    for library in ["libsuperfluid_native.so", "libsuperfluid_native.a"] {
        let built = here.parent().expect("a folder").join(library);
        fs::copy(&built, folder.join("program").join(library))
            .unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    }
    let script = Path::new(ROOT).join("scripts/package");
    let made = run(Command::new(script)
        .args([&program, &folder.join("made")])
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "1"));
    let made: Vec<_> = text(&made.stdout).lines().map(PathBuf::from).collect();
    let [package, development, image] = made.try_into().expect("two packages and an image");
    Made { package, development, image }
}
