//! Which reference means which manifest: `index.json` of an OCI image layout.

use super::files::Folder;
use super::{ImagesError, absent};
use crate::{Digest, MANIFEST_TYPE};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime};

const FILE: &str = "index.json";

/// Largest index that is read, in bytes: some 60,000 references.
const MAX_INDEX: u64 = 32 << 20;

/// Under which annotation the image specification keeps a reference.
const NAME: &str = "org.opencontainers.image.ref.name";

/// Under which this program keeps since when it means that.
const STORED: &str = "superfluid.stored";

/// The index, by reference.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    digest: Digest,
    size: u64,
    stored: SystemTime,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: u8,
    media_type: String,
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: Digest,
    size: u64,
    annotations: BTreeMap<String, String>,
}

impl Index {
    /// The index; an empty one where there is none.
    pub(super) fn read(folder: &Folder) -> Result<Index, ImagesError> {
        let path = folder.path().join(FILE);
        let Some(file) = absent(local_file::open(&path)).map_err(ImagesError::file(&path))? else {
            return Ok(Index::default());
        };
        let mut bytes = Vec::new();
        file.take(MAX_INDEX + 1).read_to_end(&mut bytes).map_err(ImagesError::file(&path))?;
        let wrong = |reason: String| ImagesError::Index { path: path.clone(), reason };
        if bytes.len() as u64 > MAX_INDEX {
            return Err(wrong(format!("it has more than {MAX_INDEX} bytes")));
        }
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(crate::harmless(&error.to_string(), 160)))?;
        let mut entries = BTreeMap::new();
        for Descriptor { digest, size, mut annotations, .. } in document.manifests {
            let name = annotations.remove(NAME).ok_or_else(|| wrong(format!("{digest} has no {NAME}")))?;
            let stored = annotations.get(STORED).and_then(|text| humantime::parse_rfc3339(text).ok());
            let stored = stored.ok_or_else(|| wrong(format!("{digest} has no {STORED} with a time")))?;
            entries.insert(name, Entry { digest, size, stored });
        }
        Ok(Index { entries })
    }

    pub(super) fn write(&self, folder: &Folder) -> Result<(), ImagesError> {
        let manifests = self
            .entries
            .iter()
            .map(|(name, entry)| Descriptor {
                media_type: MANIFEST_TYPE.to_owned(),
                digest: entry.digest,
                size: entry.size,
                annotations: BTreeMap::from([
                    (NAME.to_owned(), name.clone()),
                    (STORED.to_owned(), humantime::format_rfc3339_millis(entry.stored).to_string()),
                ]),
            })
            .collect();
        let media_type = "application/vnd.oci.image.index.v1+json".to_owned();
        let document = Document { schema_version: 2, media_type, manifests };
        let text = serde_json::to_vec_pretty(&document)
            .unwrap_or_else(|error| unreachable!("strings and numbers can be written as JSON: {error}"));
        folder.put(Path::new(FILE), &text)
    }

    pub(super) fn find(&self, name: &str) -> Option<Digest> {
        self.entries.get(name).map(|entry| entry.digest)
    }

    /// Lets a name mean this manifest. What it meant before stays, under its digest.
    pub(super) fn set(&mut self, name: &str, digest: Digest, size: u64, stored: SystemTime) {
        // The notation ends with the year 9999; a clock that is wrong by so much must not break the index.
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        let stored = stored.clamp(SystemTime::UNIX_EPOCH, end);
        let before = self.entries.insert(name.to_owned(), Entry { digest, size, stored });
        if let (Some(before), Some((repository, _tag))) = (before, name.rsplit_once(':'))
            && before.digest != digest
        {
            self.entries.insert(format!("{repository}@{}", before.digest), before);
        }
    }

    pub(super) fn forget(&mut self, name: &str) -> bool {
        self.entries.remove(name).is_some()
    }

    /// Keeps the entries of these manifests; whether any went.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(Digest) -> bool) -> bool {
        let before = self.entries.len();
        self.entries.retain(|_, entry| keep(entry.digest));
        self.entries.len() != before
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, Digest, SystemTime)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.digest, entry.stored))
    }
}
