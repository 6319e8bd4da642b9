//! Images to send about.

use image::{Image, Names, assemble};

/// A small image; another one for each number.
pub fn image(number: u32) -> Image {
    let module = format!(
        r#"(module (memory (export "memory") 1) (func (export "sf_batch") (result i32) (i32.const 64))
        (func (export "sf_init") (result i32) (i32.const 0)) (func (export "sf_process") (param i32 i64))
        (data (i32.const 1024) "{number}"))"#
    );
    let manifest = "name: echo\nversion: 1.2.3\nabi: 1\nsummary: Does nothing.\nlanguage: c\naccess: read\n\
                    interfaces: [wire]\nmemory_limit: 128KiB\n";
    assemble(&wat::parse_str(module).expect("a module"), manifest, Names::Dropped).expect("an image").0
}
