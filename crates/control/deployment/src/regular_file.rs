//! Files that an operator names, read without waiting for anything: regular ones alone, and bounded.

use std::io::Read;
use std::path::Path;

/// Bytes that are compared at a time.
const PART: usize = 64 << 10;

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// What the system says, that it is no regular file, or that it is larger.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    local_file::read(path, most).map_err(|error| error.to_string())
}

/// Whether something else is in a file than this. However long the file is, no more of it is read than that,
/// and a part of it at a time.
///
/// # Errors
/// What the system says, or that it is no regular file.
pub(crate) fn differs(path: &Path, was: &[u8]) -> Result<bool, String> {
    let mut file = local_file::open(path).map_err(|error| error.to_string())?;
    let (mut rest, mut part) = (was, vec![0; PART]);
    loop {
        let read = match file.read(&mut part) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.map_err(|error| error.to_string())?,
        };
        match rest.strip_prefix(&part[..read]) {
            None => return Ok(true),
            Some(left) if read == 0 => return Ok(!left.is_empty()),
            Some(left) => rest = left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_is_compared_with_what_was_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART] {
            let was: Vec<u8> = (0..length).map(|n| n as u8).collect();
            std::fs::write(&file, &was).expect("written");
            assert_eq!(differs(&file, &was), Ok(false), "{length}");
            let longer = [&was[..], b"x"].concat();
            assert_eq!(differs(&file, &longer), Ok(true), "{length}: it is shorter");
            std::fs::write(&file, &longer).expect("written");
            assert_eq!(differs(&file, &was), Ok(true), "{length}: it is longer");
            let mut other = longer.clone();
            other[length] = b'y';
            assert_eq!(differs(&file, &other), Ok(true), "{length}: its last byte is another");
        }
        // One that has grown without an end is read no further than what it is compared with.
        File::options().write(true).open(&file).and_then(|file| file.set_len(1 << 40)).expect("a long file");
        assert_eq!(differs(&file, b"12345"), Ok(true));
        assert!(differs(Path::new("/dev/zero"), b"").expect_err("no file").starts_with("found a device"));
        assert!(differs(&folder.path().join("d"), b"").expect_err("absent").contains("No such file"));
    }
}
