//! The UNIX socket's file: made with the right owner and permissions, and never taken from a daemon that is
//! alive.

use crate::error::BindError;
use crate::settings::Socket;
use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, Uid};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// What `sun_path` holds, less the zero at its end (unix(7)).
const PATH_MAX: usize = 107;

/// The socket's file; it goes when this is dropped, if it is still the same.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Held as long as the daemon lives, so that two that start at once do not both find the path free.
    _lock: File,
}

/// A path on which no process answers, and that no other daemon takes meanwhile.
#[derive(Debug)]
pub(crate) struct Claim {
    socket: Socket,
    lock: File,
}

/// Finds out that no other process has the socket.
pub(crate) fn claim(socket: &Socket) -> Result<Claim, BindError> {
    let path = &socket.path;
    let found = path.as_os_str().as_bytes().len();
    if socket.mode > 0o777 {
        return Err(BindError::Mode(socket.mode));
    }
    // The unfinished socket has `.new/s` behind its name.
    if found + 6 > PATH_MAX {
        return Err(BindError::TooLong { path: path.clone(), found, allowed: PATH_MAX - 6 });
    }
    let file = |what| move |source| BindError::File { path: path.clone(), what, source };
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = local_file::open_with(&beside(path, "lock"), &mut options)
        .map_err(file("cannot make the lock file beside the socket"))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(BindError::InUse(path.clone())),
        Err(error) => return Err(file("cannot lock the file beside the socket")(error.into())),
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(file("cannot look at the socket")(error)),
        Ok(there) if !there.file_type().is_socket() => return Err(BindError::NotASocket(path.clone())),
        // Another program than this one may be there, which knows nothing of the lock.
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(_) => return Err(BindError::InUse(path.clone())),
            Err(error) => return Err(file("cannot find out which process has the socket")(error)),
        },
    }
    Ok(Claim { socket: socket.clone(), lock })
}

impl Claim {
    /// Makes the socket and listens on it.
    pub fn bind(self) -> Result<(UnixListener, SocketFile), BindError> {
        let Claim { socket, lock } = self;
        let path = &socket.path;
        let file = |what| move |source| BindError::File { path: path.clone(), what, source };
        // It comes into being in a folder that no other user may enter, and gets its name when it is as it
        // should be: no user can connect that may not. rename(2) replaces a stale one.
        let folder = beside(path, "new");
        let unfinished = folder.join("s");
        clear(&folder, &unfinished)
            .map_err(file("cannot remove what an earlier start left beside the socket"))?;
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(file("cannot make a folder beside the socket"))?;
        let made =
            UnixListener::bind(&unfinished).map_err(file("cannot make the socket")).and_then(|listener| {
                finish(&socket, &unfinished)?;
                listener.set_nonblocking(true).map_err(file("cannot use the socket"))?;
                let made =
                    std::fs::symlink_metadata(&unfinished).map_err(file("cannot look at the socket"))?;
                std::fs::rename(&unfinished, path).map_err(file("cannot name the socket"))?;
                Ok((
                    listener,
                    SocketFile { path: path.clone(), device: made.dev(), inode: made.ino(), _lock: lock },
                ))
            });
        let _ = clear(&folder, &unfinished);
        made
    }
}

/// Removes the folder in which the socket comes into being.
fn clear(folder: &Path, unfinished: &Path) -> std::io::Result<()> {
    for removed in [std::fs::remove_file(unfinished), std::fs::remove_dir(folder)] {
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn finish(socket: &Socket, unfinished: &Path) -> Result<(), BindError> {
    let error = |what| {
        move |errno: rustix::io::Errno| BindError::File {
            path: socket.path.clone(),
            what,
            source: errno.into(),
        }
    };
    // Closed first, opened last: a user that may not connect never can.
    let chmod = |mode| rustix::fs::chmod(unfinished, Mode::from_bits_truncate(mode));
    chmod(0).map_err(error("cannot set the socket's permissions"))?;
    if socket.owner.is_some() || socket.group.is_some() {
        let (owner, group) = (socket.owner.map(Uid::from_raw), socket.group.map(Gid::from_raw));
        rustix::fs::chownat(rustix::fs::CWD, unfinished, owner, group, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(error("cannot give the socket to its owner and group"))?;
    }
    chmod(socket.mode).map_err(error("cannot set the socket's permissions"))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|there| there.dev() == self.device && there.ino() == self.inode);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
