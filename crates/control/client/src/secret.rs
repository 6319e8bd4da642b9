//! The secret of a token: read from a file that only this user can read, and never shown.

use crate::SettingsError;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// More than a token and its line end is none.
const LARGEST: u64 = 4096;

/// A token's secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret that is at hand; `None` when it has not the form of one.
    pub fn new(text: &str) -> Option<Secret> {
        api::is_secret(text).then(|| Secret(text.to_owned()))
    }

    /// The one in a file, which holds nothing else, and which its owner alone may read and write.
    ///
    /// # Errors
    /// The file cannot be read, others may look into it, or there is something else in it; what, is not told.
    pub fn read(path: &Path) -> Result<Secret, SettingsError> {
        let failed = |source| SettingsError::File { path: path.to_owned(), source };
        let file = local_file::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        let mode = data.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SettingsError::Open { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        let read = file.take(LARGEST).read_to_string(&mut text);
        let secret = read.ok().and_then(|_| Secret::new(text.trim()));
        secret.ok_or_else(|| SettingsError::NoToken { path: path.to_owned() })
    }

    /// As the daemon wants to be shown it.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_with_a_token_is_read_if_it_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let secret = format!("sft_{}", "0a".repeat(32));
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("writes");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("sets");
            Secret::read(&path)
        };
        let read = write(&format!("{secret}\n"), 0o600).expect("is one");
        assert_eq!(read.header(), format!("Bearer {secret}"));
        assert!(!format!("{read:?}").contains("0a0a"));
        assert!(write(&secret, 0o400).is_ok());
        for mode in [0o640, 0o604, 0o620, 0o601] {
            let told = write(&secret, mode).expect_err("is open").to_string();
            assert!(told.contains(&format!("mode {mode:o}")) && told.contains("allowed: 600"), "{told}");
        }
        for wrong in ["", "sft_12", &format!("{secret} {secret}"), &"x".repeat(9000)] {
            let told = write(wrong, 0o600).expect_err("is none").to_string();
            assert!(told.contains("no token in it") && !told.contains("sft_12"), "{told}");
        }
        assert!(Secret::read(folder.path()).is_err(), "a folder");
        assert!(Secret::read(&folder.path().join("none")).is_err());
    }
}
