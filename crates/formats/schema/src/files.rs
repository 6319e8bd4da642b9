//! Where the contents of files come from that a configuration names.

/// Reads the files that a configuration names.
pub trait Files {
    /// What is in the file at `path`, as it stands in the configuration; at most `most` bytes.
    ///
    /// # Errors
    /// Why it cannot be had, in words for the operator: it is not there, it is larger.
    fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, String>;
}

/// Where no files are allowed: in defaults, and in the settings of ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str, _most: u64) -> Result<Vec<u8>, String> {
        Err("files are not read here".to_owned())
    }
}
