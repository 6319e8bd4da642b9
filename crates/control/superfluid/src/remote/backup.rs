//! `superfluid backup`: all that a daemon keeps, in one file.

use super::failure::{Done, Failure, print};
use super::numbers::bytes;
use super::options::BackupOptions;
use crate::Outcome;
use crate::output::Format;
use crate::output_file;
use crate::progress::Progress;
use client::Client;
use std::fs::File;
use std::io::{BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use store::backup::About;

/// The file appears when it is whole and was read again; until then it has another name.
pub(crate) fn backup(options: &BackupOptions) -> Done {
    let path = &options.output;
    let refused = |error| Failure::new(format_args!("{}: {error}", path.display()), Outcome::BadInput);
    let place = output_file::place(path).map_err(refused)?;
    let folder = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let wrong = format!("{}: there is no such folder; allowed: one that is there", folder.display());
        return Err(Failure::new(wrong, Outcome::Failed));
    }
    let part = output_file::part(&place);
    let client = options.connection.client()?;
    let progress = Progress::begin(&format!("backing up to {}", path.display()), Format::Table);
    let written = fetch(&client, &part).and_then(|about| {
        let failed = |error| failed(path, error);
        std::fs::rename(&part, &place).map_err(failed)?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(about)
    });
    drop(progress);
    if written.is_err() {
        // If it cannot be removed, its name says what it is.
        let _ = std::fs::remove_file(&part);
    }
    let About { files, bytes: size, revision, .. } = written?;
    let size = bytes(size as f64);
    print(&format!("{}: {files} files, {size}, revision {revision}\n", path.display()))
}

fn failed(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(format_args!("{}: {error}", path.display()), Outcome::Failed)
}

/// Writes what the daemon sends into a file, and reads that again; it is on disk then.
fn fetch(client: &Client, part: &PathBuf) -> Result<About, Failure> {
    let failed = |error| failed(part, error);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(part)
        .map_err(failed)?;
    let mut archive = client.back_up()?;
    let mut bytes = vec![0; 128 << 10];
    loop {
        let read = archive.read(&mut bytes)?;
        if read == 0 {
            break;
        }
        file.write_all(&bytes[..read]).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    drop(file);
    let again = BufReader::with_capacity(128 << 10, File::open(part).map_err(failed)?);
    store::backup::check(again).map_err(|error| {
        Failure::new(format_args!("what the daemon sent: {error}; its log says more"), Outcome::Failed)
    })
}
