//! What stays in the folder and what is evicted.

use super::ImagesError;
use super::files::Folder;
use super::index::Index;
use crate::{Digest, MAX_DOCUMENT, Manifest};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::time::SystemTime;

/// What the folder holds and what needs it.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Manifests that are named, with all that belongs to each, the layer last; and single images that are
    /// pinned.
    artifacts: BTreeMap<Digest, Vec<(Digest, u64)>>,
    /// Everything, with sizes.
    blobs: BTreeMap<Digest, u64>,
    /// Files that are no content.
    others: Vec<PathBuf>,
}

impl Content {
    /// Looks at everything. What is named and is no manifest is a single image.
    pub(super) fn survey(folder: &Folder, index: &Index) -> Result<Content, ImagesError> {
        let (blobs, others) = folder.blobs()?;
        let mut content = Content { blobs, others, ..Content::default() };
        let named: BTreeSet<Digest> =
            index.entries().map(|(_, digest, _)| digest).chain(pins(folder)?).collect();
        for digest in named {
            // No manifest is as large: it is an image, and need not be read for this.
            if let Some(size) = content.blobs.get(&digest).copied().filter(|size| *size > MAX_DOCUMENT) {
                content.artifacts.insert(digest, vec![(digest, size)]);
                continue;
            }
            let text = match folder.blob(digest) {
                Ok(Some(text)) => text,
                Ok(None) | Err(ImagesError::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            let Ok(manifest) = Manifest::parse(&text) else {
                content.artifacts.insert(digest, vec![(digest, text.len() as u64)]);
                continue;
            };
            let parts = [
                (digest, text.len() as u64),
                (manifest.config.digest, manifest.config.size),
                (manifest.layer.digest, manifest.layer.size),
            ];
            // A part that is not there is fetched again with the rest.
            if parts.iter().all(|(part, _)| content.blobs.contains_key(part)) {
                content.artifacts.insert(digest, parts.to_vec());
            }
        }
        Ok(content)
    }

    pub(super) fn has(&self, digest: Digest) -> bool {
        self.artifacts.contains_key(&digest)
    }

    /// Bytes of an artifact.
    pub(super) fn bytes_of(&self, digest: Digest) -> Option<u64> {
        self.artifacts.get(&digest).map(|parts| parts.iter().map(|(_, size)| size).sum())
    }

    /// The image of an artifact.
    pub(super) fn image_of(&self, digest: Digest) -> Option<Digest> {
        self.artifacts.get(&digest)?.last().map(|(part, _)| *part)
    }

    /// Removes what is not named.
    pub(super) fn sweep(&self, folder: &Folder) -> Result<(), ImagesError> {
        let needed: BTreeSet<&Digest> = self.artifacts.values().flatten().map(|(part, _)| part).collect();
        for digest in self.blobs.keys().filter(|digest| !needed.contains(digest)) {
            folder.remove(&folder.blob_path(*digest))?;
        }
        self.others.iter().try_for_each(|path| folder.remove(path))
    }

    /// Bytes of all that these artifacts consist of, what they share counted once.
    pub(super) fn bytes(&self, keep: impl Fn(Digest) -> bool) -> u64 {
        let kept = self.artifacts.iter().filter(|(digest, _)| keep(**digest));
        let parts: BTreeMap<Digest, u64> = kept.flat_map(|(_, parts)| parts).copied().collect();
        parts.values().sum()
    }
}

/// What is pinned, by any owner.
pub(super) fn pins(folder: &Folder) -> Result<BTreeSet<Digest>, ImagesError> {
    let mut pins = BTreeSet::new();
    for (path, _) in folder.list("pins")? {
        let mut text = String::new();
        let read = local_file::open(&path).and_then(|mut file| file.read_to_string(&mut text));
        read.map_err(ImagesError::file(&path))?;
        pins.extend(text.lines().filter_map(|line| line.parse::<Digest>().ok()));
    }
    Ok(pins)
}

/// What the folder may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes.
    pub(super) limit: u64,
    /// Bytes of what may not leave, with what is to come.
    pub(super) most: u64,
    /// Artifacts without a pin, however small they are: to make room each is looked at.
    pub(super) spare: usize,
}

/// Lets go what has to, so that an artifact with these parts can come in.
pub(super) fn make_room(
    folder: &Folder,
    index: &mut Index,
    new: Digest,
    parts: &[(Digest, u64)],
    Room { limit, most, spare }: Room,
) -> Result<(), ImagesError> {
    let mut content = Content::survey(folder, index)?;
    let pins = pins(folder)?;
    let wanted: u64 = parts.iter().map(|(_, size)| size).sum();
    content.artifacts.insert(new, parts.to_vec());
    let stays = |digest: Digest| digest == new || pins.contains(&digest);
    if content.bytes(stays) > most {
        let pinned = content.bytes(|digest| digest != new && pins.contains(&digest));
        return Err(ImagesError::Full { path: folder.path().to_owned(), wanted, pinned, limit: most });
    }
    let mut leaving: Vec<(SystemTime, Digest)> = Vec::new();
    for digest in content.artifacts.keys().copied().filter(|digest| !stays(*digest)) {
        leaving.push((folder.used(digest)?.unwrap_or(SystemTime::UNIX_EPOCH), digest));
    }
    leaving.sort();
    let mut gone = BTreeSet::new();
    let left = leaving.len();
    for (n, (_, digest)) in leaving.into_iter().enumerate() {
        if left - n <= spare && content.bytes(|digest| !gone.contains(&digest)) <= limit {
            break;
        }
        gone.insert(digest);
    }
    // The index first: content that is not named goes when the folder is opened, names without content must
    // not be.
    if index.retain(|digest| !gone.contains(&digest)) {
        index.write(folder)?;
    }
    content.artifacts.retain(|digest, _| !gone.contains(digest));
    content.sweep(folder)
}
