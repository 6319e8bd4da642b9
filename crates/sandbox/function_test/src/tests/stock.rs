//! Every function of this project has a test of its image, and passes it after all cuts.

use crate::{ImageTest, Judge};
use image::Image;
use image::cut::{Pass, Trial};
use std::path::Path;

#[test]
fn every_stock_image_passes_its_own_test_before_and_after_all_cuts() {
    let functions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../functions");
    let mut count = 0;
    for name in stock_images::names() {
        let built = Image::load(stock_images::stock(name).expect("listed")).expect("sound");
        let test = ImageTest::open(&functions.join(name), built.manifest())
            .unwrap_or_else(|error| panic!("{error}"))
            .unwrap_or_else(|| panic!("{name} has no test of its image"));
        let mut judge = Judge::new(test).expect("a sandbox");
        judge.passes(&built).unwrap_or_else(|why| panic!("{name}, as it was built: {why}"));
        let mut image = built.clone();
        for pass in Pass::ALL {
            let cut = match pass.apply(&image) {
                Ok(cut) => cut,
                Err(error) => panic!("{name}: {pass:?}: {error}"),
            };
            judge.passes(&cut).unwrap_or_else(|why| panic!("{name}, {pass:?}: {why}"));
            judge.same(&built, &cut).unwrap_or_else(|why| panic!("{name}, {pass:?}: {why}"));
            image = cut;
        }
        assert!(image.wasm().len() < built.wasm().len(), "{name}: nothing was cut");
        count += 1;
    }
    assert!(count >= 5);
}
