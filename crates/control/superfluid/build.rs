//! Lists the sources that a new function is given: the SDK, as it is in this version.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let crates = here.join("../..");
    let mut list = String::from("static SDK: &[(&str, &str)] = &[\n");
    for (group, part) in [("formats", "nf_abi/src"), ("formats", "packet/src"), ("sandbox", "nf_sdk/src")] {
        let group = crates.join(group);
        println!("cargo::rerun-if-changed={}", group.join(part).display());
        let mut files = Vec::new();
        gather(&group.join(part), &mut files);
        files.sort();
        for file in files {
            let path = file.canonicalize().expect("it was just found");
            let name = file.strip_prefix(&group).expect("below its group").display().to_string();
            let _ = writeln!(list, "    ({name:?}, include_str!({:?})),", path.display().to_string());
        }
    }
    list += "];\n";
    std::fs::write(out.join("sdk.rs"), list).expect("OUT_DIR is writable");
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            gather(&path, files);
        } else {
            files.push(path);
        }
    }
}
