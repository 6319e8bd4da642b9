//! The images that the program brings along, so that `image: firewall` needs no file.
//!
//! The build script builds each folder below `functions/` as `superfluid image build` would, and embeds the
//! outcome.
//!
//! Limits: building needs the compilers of the functions, see `scripts/setup`.

#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// The stock image of this name.
pub fn stock(name: &str) -> Option<&'static [u8]> {
    IMAGES.iter().find(|(stock, _)| *stock == name).map(|(_, bytes)| *bytes)
}

/// The names of all stock images, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    IMAGES.iter().map(|(name, _)| *name)
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
