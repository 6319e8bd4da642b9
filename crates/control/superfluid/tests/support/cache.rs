//! Where programs under test keep what they compile.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A folder that the tests of one file share, in the build's: what they compile is compiled once. It is empty
/// at first, for what other runs have left there is not what is tested.
pub fn compiled() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let name = concat!(env!("CARGO_CRATE_NAME"), "-cache");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // There is none the first time.
        let _ = std::fs::remove_dir_all(&folder);
        folder
    });
    &FOLDER
}
