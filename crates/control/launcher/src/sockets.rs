//! Folders of guests' sockets: one for each guest that has interfaces of that kind.
//!
//! The parent is root's, so that names and what is bound into a guest are the launcher's. The folder of a
//! guest is its client's to make sockets in, and the guest's to look up alone: it is bound read-only. Its
//! group is the first of the tenant's range, which tells the client whose processes may be at a socket's
//! other end: the client is in no such group and cannot give it to a folder.
//!
//! A folder stays while there is something in it: sockets of a client that goes on listening while its guest
//! is started anew. The next launcher removes those of guests that it does not know.

use crate::Refusal;
use crate::images::passable;
use crate::request::{Interface, InterfaceKind};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a start waits for sockets that are not there yet; a guest that finds none can try again.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// The folders of all guests.
#[derive(Debug)]
pub(crate) struct Sockets {
    folder: PathBuf,
}

/// Interfaces that are sockets.
fn sockets(interfaces: &[Interface]) -> impl Iterator<Item = &Interface> {
    interfaces.iter().filter(|interface| interface.kind == InterfaceKind::Socket)
}

impl Sockets {
    pub(crate) fn open(folder: &Path) -> io::Result<Sockets> {
        passable(folder)?;
        Ok(Sockets { folder: folder.to_owned() })
    }

    /// Makes the folder of a guest, if it has interfaces that are sockets, for the client of this user.
    pub(crate) fn make(
        &self,
        name: &str,
        interfaces: &[Interface],
        client: u32,
        uids: u32,
    ) -> Result<Option<PathBuf>, Refusal> {
        if sockets(interfaces).next().is_none() {
            return Ok(None);
        }
        let folder = self.folder.join(name);
        let made = || -> io::Result<()> {
            match fs::create_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::open(&folder, flags, Mode::empty())?;
            rustix::fs::fchown(&opened, Some(Uid::from_raw(client)), Some(Gid::from_raw(uids)))?;
            Ok(rustix::fs::fchmod(&opened, Mode::from_bits_truncate(0o755))?)
        };
        made().map_err(Refusal::of("the folder of its sockets"))?;
        Ok(Some(folder))
    }

    /// Waits until all sockets are there, or not any longer.
    pub(crate) fn wait(&self, name: &str, interfaces: &[Interface]) {
        let folder = self.folder.join(name);
        let is_there = |interface: &Interface| {
            let found = fs::symlink_metadata(folder.join(format!("{}.sock", interface.name)));
            found.is_ok_and(|found| found.file_type().is_socket())
        };
        let begin = Instant::now();
        while !sockets(interfaces).all(is_there) && begin.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
        }
    }

    /// A guest is gone: so is its folder, unless something is in it.
    pub(crate) fn leave(&self, name: &str) {
        let _ = fs::remove_dir(self.folder.join(name));
    }

    /// Removes the folders of guests that are not known, with all that is in them.
    pub(crate) fn retain(&self, known: &[String]) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if !known.iter().any(|name| entry.file_name() == name.as_str()) {
                // No link is followed, whatever the client has made there, and however deep. What cannot be
                // removed keeps no launcher from its start.
                if let Err(error) =
                    take(&entry.path()).and_then(|()| container_image::remove_folder(&entry.path()))
                {
                    console::error()
                        .line(&format!("superfluid launcher: {}: {error}", entry.path().display()));
                }
            }
        }
        Ok(())
    }
}

/// A folder becomes this process's: its client makes nothing more in it.
fn take(folder: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    rustix::fs::fchown(&opened, Some(rustix::process::geteuid()), None)?;
    Ok(rustix::fs::fchmod(&opened, Mode::from_bits_truncate(0o700))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixListener;

    fn interface(kind: InterfaceKind) -> Interface {
        Interface::new("in", kind)
    }

    #[test]
    fn a_guests_folder_is_its_clients_to_write_and_its_tenants_by_group() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: there is no root, whose right it is to give files away");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let sockets = Sockets::open(folder.path()).expect("it opens");
        let socket = [interface(InterfaceKind::Socket)];
        assert_eq!(sockets.make("a", &[interface(InterfaceKind::Veth)], 998, 1_000_000), Ok(None));
        let made = sockets.make("a", &socket, 998, 1_000_000).expect("made").expect("a folder");
        let found = fs::metadata(&made).expect("it is there");
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (998, 1_000_000, 0o755));
        let _listener = UnixListener::bind(made.join("in.sock")).expect("bound");
        sockets.wait("a", &socket);
        // A start anew finds its client's sockets.
        sockets.leave("a");
        assert_eq!(sockets.make("a", &socket, 997, 1_065_536), Ok(Some(made.clone())));
        assert_eq!(fs::metadata(&made).expect("it is there").gid(), 1_065_536);
        sockets.retain(&["a".to_owned()]).expect("read");
        assert!(made.join("in.sock").exists());
        // Whatever a client leaves there, nothing behind it is touched.
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("kept"), "x").expect("written");
        std::os::unix::fs::symlink(outside.path(), made.join("way")).expect("linked");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut deepest = rustix::fs::open(&made, flags, Mode::empty()).expect("a folder");
        for _ in 0..3000 {
            rustix::fs::mkdirat(&deepest, "deep", Mode::RWXU).expect("made");
            deepest = rustix::fs::openat(&deepest, "deep", flags, Mode::empty()).expect("a folder");
        }
        drop(deepest);
        sockets.retain(&[]).expect("removed");
        assert!(!made.exists() && outside.path().join("kept").exists());
        sockets.make("b", &socket, 998, 1_000_000).expect("made");
        sockets.leave("b");
        assert!(!folder.path().join("b").exists());
    }

    #[test]
    fn a_name_that_is_a_link_already_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let sockets = Sockets::open(folder.path()).expect("it opens");
        std::os::unix::fs::symlink("/", folder.path().join("a")).expect("linked");
        let refused = sockets.make("a", &[interface(InterfaceKind::Socket)], 0, 0).expect_err("a link");
        assert!(refused.to_string().contains("the folder of its sockets"), "{refused}");
    }
}
