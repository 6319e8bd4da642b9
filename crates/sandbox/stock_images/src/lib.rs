//! The images that the program brings along, so that `image: firewall` needs no file.
//!
//! The build script builds each folder below `functions/` as `superfluid image build` would, and embeds the
//! outcome, compressed (RFC 1951): all of them are 3.1 MB, and 1.2 MB so. One is inflated when it is first
//! asked for, once in a process.
//!
//! Limits: building needs the compilers of the functions, see `scripts/setup`.

#![forbid(unsafe_code)]

use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::sync::OnceLock;

include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// An image as it was embedded.
struct Stock {
    name: &'static str,
    /// Its bytes when it is inflated.
    length: usize,
    compressed: &'static [u8],
    image: OnceLock<Vec<u8>>,
}

impl Stock {
    const fn new(name: &'static str, length: usize, compressed: &'static [u8]) -> Stock {
        Stock { name, length, compressed, image: OnceLock::new() }
    }

    fn image(&self) -> &[u8] {
        self.image.get_or_init(|| {
            let image = decompress_to_vec_with_limit(self.compressed, self.length);
            image.unwrap_or_else(|error| unreachable!("{}: what was embedded is broken: {error}", self.name))
        })
    }
}

/// The stock image of this name.
pub fn stock(name: &str) -> Option<&'static [u8]> {
    IMAGES.iter().find(|stock| stock.name == name).map(Stock::image)
}

/// The names of all stock images, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    IMAGES.iter().map(|stock| stock.name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_image_loads_and_has_the_name_of_its_folder() {
        let mut count = 0;
        for name in super::names() {
            let image = image::Image::load(super::stock(name).expect("listed")).expect("sound");
            assert_eq!(image.manifest().name.as_str(), name);
            count += 1;
        }
        assert!(count >= 3);
        assert_eq!(super::stock("no-such"), None);
    }
}
