//! A function whose image is in a file that changes, and the folder in which the daemon keeps what it was
//! applied with.

use image::{Image, Names, assemble};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// The function.
pub const FUNCTION: &str = "img";
/// The file.
pub const FILE: &str = "echo.wasm";
/// How many images there are.
pub const NUMBERS: u64 = 3;

/// A function that does nothing; another one for each number.
fn image(number: u8) -> Image {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // Types, functions, one page of memory, exports, code, and a byte of data.
    module.extend(
        b"\x01\x0a\x02\x60\x00\x01\x7f\x60\x02\x7f\x7e\x00\x03\x04\x03\x00\x00\x01\x05\x03\x01\x00\x01",
    );
    module.extend(
        b"\x07\x2c\x04\x06memory\x02\x00\x08sf_batch\x00\x00\x07sf_init\x00\x01\x0asf_process\x00\x02",
    );
    module.extend(b"\x0a\x0f\x03\x05\x00\x41\xc0\x00\x0b\x04\x00\x41\x00\x0b\x02\x00\x0b");
    module.extend(b"\x0b\x08\x01\x00\x41\x80\x08\x0b\x01");
    module.push(number);
    let manifest = "name: echo\nversion: 1.2.3\nabi: 1\nsummary: Does nothing.\nlanguage: c\naccess: read\n\
                    interfaces: [wire]\nmemory_limit: 128KiB\n";
    assemble(&module, manifest, Names::Dropped).expect("an image").0
}

/// The digest that the function's status has with an image.
pub fn digest(number: u8) -> String {
    format!("sha256:{}", image(number).digest())
}

/// The function as the model has it: what it runs, whatever names it.
pub fn shown(digest: &str) -> Value {
    json!({ "digest": digest })
}

/// Puts an image in the file's place.
pub fn write(folder: &Path, number: u8) {
    let next = folder.join(format!("{FILE}.new"));
    fs::write(&next, image(number).wasm()).expect("written");
    fs::rename(next, folder.join(FILE)).expect("in its place");
}

/// Every image that is kept is whole.
pub fn kept(state: &Path) {
    let blobs = state.join("images/blobs/sha256");
    for entry in fs::read_dir(&blobs).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = fs::read(entry.path()).expect("it is there");
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, name, "{} bytes", bytes.len());
    }
}
