//! Any file as an image: refused in one of its own words, or a module in which nothing is left to lower.

use image::{Image, Names, assemble, inspect, rewrite_counted};

const MANIFEST: &str = "{name: any, version: 1.0.0, abi: 1, summary: s, language: c, access: write, \
                        interfaces: [wire], memory_limit: 2GiB}";

pub fn run(data: &[u8]) {
    match Image::load(data) {
        Ok(image) => {
            let rewritten = rewrite_counted(image.wasm(), Names::Kept).expect("an image is a fit module");
            let lowered = rewritten.lowered;
            assert_eq!((lowered.memory_copies, lowered.memory_fills, lowered.exported_globals), (0, 0, 0));
            assert!(inspect(&image).chars().all(|c| c == '\n' || !c.is_control()));
        }
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
    // The same bytes with a manifest that is right, so that a module is not refused for that alone.
    if let Ok((image, _)) = assemble(data, MANIFEST, Names::Dropped) {
        assert_eq!(Image::load(image.wasm()).expect("it was loaded before").digest(), image.digest());
    }
}
