//! Whose processes may be at the other end.

use crate::own_uid;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Users of one tenant's guests, and the least number that one of them has.
pub const GUEST_USERS: u32 = 65_536;

/// Whose processes may connect at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// This user's.
    One(u32),
    /// Those of a guest's tenant: the [`GUEST_USERS`] from the number of the group on that the socket's
    /// folder has. The launcher, which is root, gives folders such groups; the user who makes sockets in
    /// them is in none of these, and cannot.
    OfFolder,
}

impl Users {
    /// The user that this process runs as.
    pub fn own() -> Users {
        Users::One(own_uid())
    }

    /// Whether a user's process may be at the other end of a socket at this path.
    ///
    /// # Errors
    /// Who it is, and who may.
    pub fn admit(self, path: &str, uid: u32) -> Result<(), String> {
        let first = match self {
            Users::One(user) if user == uid => return Ok(()),
            Users::One(user) => return Err(format!("found: user {uid}; allowed: user {user}")),
            Users::OfFolder => first_of(path)?,
        };
        if is_within(first, uid) {
            return Ok(());
        }
        let last = first.saturating_add(GUEST_USERS - 1);
        Err(format!("found: user {uid}; allowed: users {first} to {last}, which are the guest's tenant's"))
    }
}

fn is_within(first: u32, uid: u32) -> bool {
    first >= GUEST_USERS && uid.checked_sub(first).is_some_and(|number| number < GUEST_USERS)
}

/// The first user of the guest that a socket's folder is for.
fn first_of(path: &str) -> Result<u32, String> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
    let found = std::fs::symlink_metadata(folder).map_err(|error| format!("the socket's folder: {error}"))?;
    Ok(found.gid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_users_are_a_range_of_their_own() {
        assert!(is_within(100_000, 100_000) && is_within(100_000, 165_535));
        assert!(!is_within(100_000, 99_999) && !is_within(100_000, 165_536) && !is_within(100_000, 0));
        // A folder that the launcher has not made is for none.
        assert!(!is_within(0, 0) && !is_within(65_535, 65_536));
        assert!(is_within(u32::MAX - 1, u32::MAX), "no overflow");
    }

    #[test]
    fn who_is_refused_is_told_who_may() {
        assert_eq!(Users::One(7).admit("/a", 7), Ok(()));
        assert_eq!(Users::One(7).admit("/a", 0), Err("found: user 0; allowed: user 7".to_owned()));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock").display().to_string();
        let refused = Users::OfFolder.admit(&path, own_uid()).expect_err("it is no guest's folder");
        assert!(refused.contains("found: user") && refused.contains("allowed"), "{refused}");
        assert!(Users::OfFolder.admit("/there/is/none", 0).is_err());
    }
}
