//! `superfluid restore`: a daemon's state of a backup. No daemon is asked.
//!
//! 1. All is unpacked beside the folder that is to be, checked, opened as a store once, and written to disk.
//! 2. Then it takes the folder's place, in one step. Until then there is nothing in it, and whatever fails
//!    leaves nothing.

use crate::Outcome;
use crate::cli::RestoreOptions;
use crate::manual::print;
use crate::output::Format;
use crate::progress::Progress;
use std::fs::{DirBuilder, File};
use std::io::{BufReader, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use store::Store;
use store::backup::About;

/// Carries the command out.
pub(crate) fn restore(options: &RestoreOptions) -> Outcome {
    let progress = Progress::begin(&format!("restoring {}", options.file.display()), Format::Table);
    let restored = restored(&options.file, &options.state);
    drop(progress);
    match restored {
        Ok((about, objects)) => {
            let text = format!(
                "{}: {objects} objects of revision {}, {} files, as they were at {}\n",
                options.state.display(),
                about.revision,
                about.files,
                client::harmless(&about.created, 40)
            );
            print(text.as_bytes())
        }
        Err(trouble) => {
            console::error().line(&format!("superfluid restore: {trouble}"));
            Outcome::BadInput
        }
    }
}

fn restored(file: &Path, state: &Path) -> Result<(About, u64), String> {
    let told = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    let archive = local_file::open_given(file).map_err(told(file))?;
    // A link to the folder stays one.
    let state = match state.canonicalize() {
        Ok(state) => state,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::path::absolute(state).map_err(told(state))?
        }
        Err(error) => return Err(told(state)(error)),
    };
    let owner = empty(&state)?;
    let (Some(parent), Some(name)) = (state.parent(), state.file_name()) else {
        return Err(format!("{}: allowed: a folder below another one", state.display()));
    };
    let stage = Stage(parent.join(format!(".{}.{}.part", name.to_string_lossy(), std::process::id())));
    DirBuilder::new().mode(0o700).create(&stage.0).map_err(told(&stage.0))?;
    let about = store::backup::unpack(BufReader::with_capacity(128 << 10, archive), &stage.0)
        .map_err(|error| format!("{}: {error}; nothing was restored", file.display()))?;
    let store = stage.0.join("store");
    if !store.join("store.db").is_file() {
        return Err(format!("{}: there is no store in it; nothing was restored", file.display()));
    }
    let opened =
        Store::open(&store).map_err(|error| format!("{}: {error}; nothing was restored", file.display()))?;
    let objects = opened.standing().objects;
    drop(opened);
    if let Some((user, group)) = owner {
        give(&stage.0, user, group)?;
    }
    File::open(&stage.0).and_then(|stage| stage.sync_all()).map_err(told(&stage.0))?;
    std::fs::rename(&stage.0, &state).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::ResourceBusy | ErrorKind::CrossesDevices => {
                "; a folder that is a mount point cannot be replaced: restore into a folder in it"
            }
            _ => "",
        };
        format!("{}: {error}{why}; nothing was restored", state.display())
    })?;
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(told(parent))?;
    Ok((about, objects))
}

/// Whose the folder is, if there is one; anything in it is refused.
fn empty(state: &Path) -> Result<Option<(u32, u32)>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", state.display());
    let entries = match std::fs::read_dir(state) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(failed)?,
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if let Some(name) = names.first() {
        return Err(format!(
            "{}: found {name:?} in it; allowed: an empty folder, or one that does not exist; nothing was restored",
            state.display()
        ));
    }
    let found = std::fs::metadata(state).map_err(failed)?;
    let own = std::fs::metadata("/proc/self").map_err(failed)?;
    Ok(((found.uid(), found.gid()) != (own.uid(), own.gid())).then_some((found.uid(), found.gid())))
}

/// Gives a folder and all in it to a user.
fn give(path: &Path, user: u32, group: u32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(failed)? {
            give(&entry.map_err(failed)?.path(), user, group)?;
        }
    }
    chown(path, Some(user), Some(group)).map_err(failed)
}

/// A folder that goes unless it took its place.
struct Stage(PathBuf);

impl Drop for Stage {
    fn drop(&mut self) {
        // It has another name by then, if all went well.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
