//! Snapshots, each in a file of its own: a line of JSON that says what it is, and the function as `snapshot` writes it.

use super::controller::lock;
use super::logs::now;
use api::Snapshot;
use serde_json::Value;
use snapshot::Saved;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Longest first line.
const LINE_MAX: u64 = 4 << 20;
/// Largest snapshot that is read.
const FILE_MAX: u64 = 1 << 30;
/// How the files' names end.
const ENDING: &str = "snapshot";

/// The folder of snapshots.
pub(crate) struct Folder {
    path: PathBuf,
    /// By snapshot, the function that it is of, and its bytes; by function, the bytes of all of them.
    sizes: Mutex<Sizes>,
}

#[derive(Default)]
struct Sizes {
    snapshots: HashMap<String, (String, u64)>,
    functions: HashMap<String, u64>,
}

impl Sizes {
    fn forget(&mut self, name: &str) {
        let Some((function, bytes)) = self.snapshots.remove(name) else { return };
        if let Some(sum) = self.functions.get_mut(&function) {
            *sum = sum.saturating_sub(bytes);
            if *sum == 0 {
                self.functions.remove(&function);
            }
        }
    }

    fn note(&mut self, told: &Snapshot) {
        self.forget(&told.name);
        *self.functions.entry(told.function.clone()).or_default() += told.bytes;
        self.snapshots.insert(told.name.clone(), (told.function.clone(), told.bytes));
    }
}

impl Folder {
    /// Opens the folder; what was being written when the daemon ended is removed.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(path: PathBuf) -> Result<Folder, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
        let mut sizes = Sizes::default();
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if entry.extension().is_some_and(|ending| ending == "part") {
                std::fs::remove_file(&entry).map_err(failed)?;
                continue;
            }
            match first_line(&entry) {
                Ok((told, _)) => sizes.note(&told),
                Err(error) => {
                    let path = entry.display();
                    let what = format!("{path}: no snapshot that can be read, and left as it is");
                    console::error().line(&format!("{what}: {error}"));
                }
            }
        }
        Ok(Folder { path, sizes: Mutex::new(sizes) })
    }

    /// Bytes of all snapshots of a function.
    pub(crate) fn bytes_of(&self, function: &str) -> u64 {
        lock(&self.sizes).functions.get(function).copied().unwrap_or(0)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{ENDING}"))
    }

    /// Writes one; it is on disk when this returns.
    ///
    /// # Errors
    /// What the system says; no file of that name is changed then.
    pub(crate) fn write(
        &self,
        name: &str,
        function: &str,
        spec: &Value,
        saved: &Saved<'_>,
    ) -> Result<Snapshot, String> {
        let encoded = saved.encode().map_err(|error| error.to_string())?;
        let image: String = saved.identity.image.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut told = Snapshot {
            name: name.to_owned(),
            function: function.to_owned(),
            image: format!("sha256:{image}"),
            saved: now(),
            bytes: 0,
            spec: spec.clone(),
        };
        let line = |told: &Snapshot| serde_json::to_string(told).map_err(|error| error.to_string());
        told.bytes = (encoded.len() + line(&told)?.len() + 1) as u64;
        let path = self.file(name);
        let part = path.with_extension("part");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let written = (|| {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
            file.write_all(serde_json::to_string(&told)?.as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(&encoded)?;
            file.sync_all()?;
            std::fs::rename(&part, &path)?;
            File::open(&self.path)?.sync_all()
        })();
        if written.is_err() {
            // What is left of it is removed at the next start, if it cannot be now.
            let _ = std::fs::remove_file(&part);
        }
        written.map_err(failed)?;
        lock(&self.sizes).note(&told);
        Ok(told)
    }

    /// What one is.
    pub(crate) fn read(&self, name: &str) -> Option<Snapshot> {
        first_line(&self.file(name)).ok().map(|(told, _)| told)
    }

    /// One as a whole.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn load(&self, name: &str) -> Result<(Snapshot, Saved<'static>), String> {
        let path = self.file(name);
        let failed = |error: String| format!("{}: {error}", path.display());
        let (told, mut rest) = first_line(&path).map_err(failed)?;
        let mut encoded = Vec::new();
        rest.by_ref()
            .take(FILE_MAX + 1)
            .read_to_end(&mut encoded)
            .map_err(|error| failed(error.to_string()))?;
        if encoded.len() as u64 > FILE_MAX {
            return Err(failed(format!("larger than {FILE_MAX} bytes, the largest that is read")));
        }
        let saved = Saved::decode(&encoded).map_err(|error| failed(error.to_string()))?;
        Ok((told, saved.into_owned()))
    }

    /// All of them, in the order of their names.
    pub(crate) fn list(&self) -> Vec<Snapshot> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        let mut all: Vec<Snapshot> = files
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
            .filter_map(|path| first_line(&path).ok().map(|(told, _)| told))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Removes one; says whether it was there.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, String> {
        let path = self.file(name);
        match std::fs::remove_file(&path) {
            Ok(()) => {
                lock(&self.sizes).forget(name);
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }
}

/// What stands before the function itself, and a reader of the rest.
fn first_line(path: &Path) -> Result<(Snapshot, BufReader<File>), String> {
    let mut file = BufReader::new(File::open(path).map_err(|error| error.to_string())?);
    let mut line = Vec::new();
    file.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
    let told = serde_json::from_slice(&line).map_err(|error| format!("its first line: {error}"))?;
    Ok((told, file))
}
