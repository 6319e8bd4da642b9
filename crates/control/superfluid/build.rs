//! Packs the sources that a new function is given, and compresses what the page consists of, if it has been
//! built.

#[path = "build/native.rs"]
mod native;
#[path = "build/sdk.rs"]
mod sdk;

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Content types of the page's files, by their endings.
const TYPES: [(&str, &str); 11] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = here.join("../../..").canonicalize().expect("the workspace");
    let files = sdk::write(&root, &out);
    native::write(&root, &out, &files);
    page(&here.join("../../../page/dist"), &out);
}

/// The page as a list of compressed files.
fn page(dist: &Path, out: &Path) {
    // It is there in every checkout: Cargo would run this again and again for a folder that is not.
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        gather(dist, &mut files);
        files.retain(|file| file.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')));
        files.sort();
    }
    let mut list = String::from("pub(crate) static FILES: &[PageFile] = &[\n");
    for (number, file) in files.iter().enumerate() {
        println!("cargo::rerun-if-changed={}", file.display());
        let path = file.strip_prefix(dist).expect("below its folder").display().to_string();
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let known = TYPES.iter().find(|(known, _)| *known == ending);
        let (_, content_type) =
            known.unwrap_or_else(|| panic!("page/dist/{path}: its ending has no content type"));
        let bytes = std::fs::read(file).expect("a file of the page");
        let digest: String = Sha256::digest(&bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let packed = out.join(format!("page{number}.gz"));
        std::fs::write(&packed, gzip(&bytes)).expect("OUT_DIR is writable");
        let tag = format!("\"{digest}\"");
        let packed = packed.display().to_string();
        let _ = writeln!(
            list,
            "    PageFile {{ path: {path:?}, content_type: {content_type:?}, gzip: include_bytes!({packed:?}), tag: {tag:?} }},"
        );
    }
    list += "];\n";
    std::fs::write(out.join("page.rs"), list).expect("OUT_DIR is writable");
}

/// A member of RFC 1952, without a name and a time, so that the same file is the same bytes.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];
    packed.extend(miniz_oxide::deflate::compress_to_vec(bytes, 10));
    packed.extend(crc32fast::hash(bytes).to_le_bytes());
    packed.extend((bytes.len() as u32).to_le_bytes());
    packed
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
