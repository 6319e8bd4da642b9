//! Builds the stock images, and compresses them.

use image::{BuildOptions, Names, build_directory};
use miniz_oxide::deflate::compress_to_vec;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = here.join("../../..");
    // What functions are made of, beside their own folders.
    for part in [
        "crates/formats/nf_abi/src",
        "crates/sandbox/nf_sdk/src",
        "crates/sandbox/packet_filter/src",
        "crates/formats/packet/src",
        "include",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    let folder = root.join("functions");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("the folder of functions")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| folder.join(name).join("function.yaml").is_file())
        .collect();
    names.sort();

    let options = BuildOptions { target_directory: out.join("functions"), names: Names::Dropped };
    let mut list = format!("static IMAGES: [Stock; {}] = [\n", names.len());
    for name in names {
        let directory = folder.join(&name);
        for part in ["function.yaml", "Cargo.toml", "src"] {
            println!("cargo::rerun-if-changed={}", directory.join(part).display());
        }
        let (image, _) = match build_directory(&directory, &options) {
            Ok(built) => built,
            Err(error) => {
                for line in error.to_string().lines() {
                    println!("cargo::error={name}: {line}");
                }
                return;
            }
        };
        let file = out.join(format!("{name}.deflate"));
        std::fs::write(&file, compress_to_vec(image.wasm(), 10)).expect("OUT_DIR is writable");
        let file = file.display().to_string();
        list += &format!("    Stock::new({name:?}, {}, include_bytes!({file:?})),\n", image.wasm().len());
    }
    list += "];\n";
    std::fs::write(out.join("images.rs"), list).expect("OUT_DIR is writable");
}
